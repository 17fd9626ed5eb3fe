from __future__ import annotations

from bidibeam.data.conversations import Conversation, Pair, Utterance, tidy, turn_pairs, utterance_pairs


def conversation(*said: tuple[str, str]) -> Conversation:
    return Conversation("c", tuple(Utterance(speaker, text) for speaker, text in said))


def test_turns_join_what_a_speaker_says_in_a_row() -> None:
    said = conversation(("ann", "Hello."), ("ann", "Tea?"), ("bob", "Please."), ("ann", "Here."))

    pairs = list(turn_pairs(said))

    assert pairs == [Pair("c", 0, "Hello. Tea?", "Please."), Pair("c", 1, "Please.", "Here.")]


def test_utterances_pair_whoever_speaks() -> None:
    said = conversation(("ann", "Hello."), ("ann", "Tea?"), ("bob", "Please."))

    pairs = list(utterance_pairs(said))

    assert [(pair.source, pair.response) for pair in pairs] == [("Hello.", "Tea?"), ("Tea?", "Please.")]


def test_an_empty_utterance_stays_as_an_empty_side() -> None:
    said = conversation(("ann", "Hello."), ("bob", "  "), ("ann", "Bob?"))

    assert [(pair.source, pair.response) for pair in turn_pairs(said)] == [("Hello.", ""), ("", "Bob?")]


def test_one_turn_gives_no_pair() -> None:
    assert list(turn_pairs(conversation(("ann", "Hello."), ("ann", "Anyone?")))) == []


def test_tidy_leaves_single_spaces_and_text_that_can_be_written() -> None:
    assert tidy([" a\u00a0b\n", "\tc\x85"]) == "a b c"
    assert tidy(["half \ud83d pair"]) == "half ? pair"
