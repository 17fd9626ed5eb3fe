from __future__ import annotations

import json
import re
import time
import unicodedata
from functools import cache
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import pytest
import tokenizers
from hypothesis import example, given
from hypothesis import strategies as st

from bidibeam.data.tokenization import SPECIAL_TOKENS, Tokenizer, find_splitter, load_tokenizers
from bidibeam.data.words import detokenize, detokenize_plain, split
from bidibeam.errors import RunError, SettingsError

TEXTS = ["Don't you know it's Bob's tea?", "I can't say. I don't know!", "you know"]
WORDS = Tokenizer.train(TEXTS, kind="word", vocabulary_size=100)
PIECES = Tokenizer.train(TEXTS, kind="bpe", vocabulary_size=300)
CHARACTERS = Tokenizer.train(TEXTS, kind="char", vocabulary_size=100)
CASED = Tokenizer.train([*TEXTS, "AH0 B AW1 T"], kind="word", vocabulary_size=100, cased=True)
BOTH = pytest.mark.parametrize("tokenizer", [WORDS, PIECES], ids=["word", "bpe"])

ORDINARY = ["the", "do", "n't", "'s", "'re", "i", "tea", ",", ".", "?", "!", '"', "'", "(", ")", "-", "--"]
ORDINARY += ["...", "$", "5", "10,000", "u.s.", "o'clock", "goin'", "'em", ":)", "/", "é", "你", "。", "%"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't! I can't, won't.", "do n't ! i ca n't , wo n't ."),
        ("it's they're I'd we'll I've I'm", "it 's they 're i 'd we 'll i 've i 'm"),
        ("y'all're at O'Neill's o'clock", "y'all 're at o'neill 's o'clock"),
        ("get 'em goin' 'round", "get 'em goin' ' round"),
        ("well-known -- or — not - ever", "well - known -- or -- not -- ever"),
        ("wait... . . . what…", "wait ... what ..."),
        ("$10,000.50 at 7:30, 50%", "$ 10,000.50 at 7:30 , 50 %"),
        ("the U.S. at 5 a.m.", "the u.s. at 5 a.m."),
        ("\u201cquoted\u201d \u2018it\u2019 ``so''", '" quoted " \' it \' " so "'),
        ("nice :) ;-) ok:(", "nice :) ;-) ok : ("),
        ("</s> <pad>", "< / s > < pad >"),
        ("a\u00a0b\u200bc\x00d\te\u00adf", "a bc d ef"),
        ("Ça va, ÉTÉ? E\u0301", "ça va , été ? é"),
        ("Привет, мир! नमस्ते", "привет , мир ! नमस्ते"),
        ("你好\uff0c世界\u3002", "你 好 \uff0c 世 界 \u3002"),
        ("", ""),
    ],
)
def test_words(text: str, words: str) -> None:
    assert WORDS.words(text) == PIECES.words(text) == split(text) == words.split()


@pytest.mark.parametrize(
    "text",
    [
        "don't you know it's bob's tea?",
        'he said "no", then "yes".',
        "it's 'fine' (really) -- well-known, and/or $5 at 50%...",
        "the boys' tea",
        "goin' home, y'all! :)",
        "你好\uff0c世界\u3002",
        "привет, мир!",
    ],
)
def test_text_reads_naturally(text: str) -> None:
    assert WORDS.text(WORDS.words(text)) == text


@given(st.text())
@example("a- -b")
@example(".\u2026")
@example("- :)")
@example("-- - --")
@example(".  .")
@example("'goin'")
@example("=\u0338 u.s. .")
@example("\u2018\u2018 a \u2019\u2019 \u1fef")
def test_words_of_any_text_survive_writing_and_reading(text: str) -> None:
    words = WORDS.words(text)

    assert WORDS.words(WORDS.text(words)) == words


@given(st.lists(st.sampled_from(ORDINARY), max_size=12))
def test_ordinary_words_survive_in_any_order(words: list[str]) -> None:
    runs = list(pairwise(words))
    if any({one, other} <= {".", "...", "u.s."} or {one, other} <= {"-", "--"} for one, other in runs):
        return  # runs of full stops read as one ellipsis, runs of hyphens as a dash

    assert WORDS.words(WORDS.text(words)) == words


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z", "M"])))
def test_pieces_give_back_what_they_were_made_from(text: str) -> None:
    normal = PIECES.text(PIECES.tokens(PIECES.encode(text)))

    assert PIECES.text(PIECES.tokens(PIECES.encode(normal))) == normal
    if text.isascii() and not any(mark in text for mark in ("`", "''", "--", "..")):
        assert normal == text


@BOTH
@pytest.mark.parametrize("literal", SPECIAL_TOKENS)
def test_special_tokens_cannot_be_written(tokenizer: Tokenizer, literal: str) -> None:
    trained = Tokenizer.train([literal * 3] * 50, kind=tokenizer.kind, vocabulary_size=400)

    assert {0, 2, 3}.isdisjoint(tokenizer.encode(f"a {literal}{literal} b"))
    assert {0, 1, 2, 3}.isdisjoint(trained.encode(f"{literal}{literal}"))


def test_the_commonest_words_are_kept_and_ties_go_by_the_alphabet() -> None:
    tokenizer = Tokenizer.train(["b a c b", "d a"], kind="word", vocabulary_size=7)

    assert tokenizer.tokens(range(7)) == [*SPECIAL_TOKENS, "a", "b", "c"]
    assert tokenizer.encode("A b d c") == [4, 5, 1, 6]


@BOTH
def test_the_order_of_texts_does_not_matter_and_saved_and_loaded_it_is_the_same(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"kind": tokenizer.kind, "vocabulary_size": 280}
    one, other = (Tokenizer.train(texts, **options) for texts in (TEXTS * 3, TEXTS[::-1] * 3))
    one.save(tmp_path / "tokenizer.json")
    loaded = Tokenizer.load(tmp_path / "tokenizer.json")

    assert one.to_json() == other.to_json() == loaded.to_json()
    assert loaded.kind == tokenizer.kind
    texts = [*TEXTS, "", "never seen ☃ before"]
    assert loaded.encode_batch(texts) == [one.encode(text) for text in texts]


@BOTH
@pytest.mark.parametrize(
    ("text", "words"),
    [("a" * 1_000_000, 1), ("know " * 17_843, 17_843), ("half \ud83d pair", 3), ("n'" * 100_000, 2)],
)
def test_odd_texts_are_counted_in_full_and_quickly(tokenizer: Tokenizer, text: str, words: int) -> None:
    started = time.perf_counter()

    assert tokenizer.encode(text)
    assert time.perf_counter() - started < 10
    assert tokenizer.kind == "bpe" or len(tokenizer.encode(text)) == words


PLAIN = st.sampled_from(["in", "goin", "u", "s", "a", "m", "n", "t", "em", "do", "ca", "it", "ll", "nt"])
MARKS = st.sampled_from(["n't", "'s", "'m", "'d", "'ll", "'re", "'ve", ".", ",", "!", "?", "...", "--"])


@given(st.lists(PLAIN | PLAIN | MARKS, max_size=9))
@example(["u", ".", "s", "."])
@example(["well", "...", "i", "do", "n't", ".", "--"])
@example([".", "."])
def test_plain_words_are_joined_without_trying_whether_they_come_apart_again(words: list[str]) -> None:
    plain = detokenize_plain(words)

    assert plain is None or (plain == detokenize(words) and split(plain) == words)


def test_what_is_too_long_for_a_word_is_not_learnt_from() -> None:
    """It would take an hour: merging pieces of one word takes time by the square of its length."""
    texts = ["red cat", "red dog", "x" * 1000]

    learnt = Tokenizer.train([*texts, "ab" * 1_000_000], kind="bpe", vocabulary_size=270)

    assert learnt.to_json() == Tokenizer.train(texts, kind="bpe", vocabulary_size=270).to_json()
    assert "xx" in learnt.tokens(range(learnt.vocabulary_size))


ALPHABET = "aAbBzZ .,'!-éßİ\u0130\u0301\u200b\u2019你ก\u0e33"
LETTERS = {
    cased: Tokenizer.train([ALPHABET, ALPHABET.lower()], kind="char", vocabulary_size=100, cased=cased)
    for cased in (True, False)
}


@pytest.mark.parametrize("cased", [True, False])
@given(st.text(st.sampled_from(ALPHABET)))
def test_characters_give_back_what_they_were_made_from(cased: bool, text: str) -> None:
    tokenizer, normal = LETTERS[cased], unicodedata.normalize("NFC", text)
    known = {*tokenizer.tokens(range(tokenizer.vocabulary_size))}

    tokens = tokenizer.tokens(tokenizer.encode(text))

    assert tokenizer.is_cased == cased
    if cased:
        assert tokens == [each if each in known else "<unk>" for each in normal]
    if "<unk>" not in tokens:
        assert tokenizer.text(tokens) == (normal if cased else "".join(tokens))
        assert tokenizer.tokens(tokenizer.encode(tokenizer.text(tokens))) == tokens


def test_characters_are_known_with_spaces_and_without_quotes_being_changed() -> None:
    tokenizer = Tokenizer.train(["a b\u2019", "B"], kind="char", vocabulary_size=100)

    assert tokenizer.tokens(range(4, tokenizer.vocabulary_size)) == ["b", " ", "a", "\u2019"]
    assert tokenizer.tokens(tokenizer.encode(" \u2019B\tx")) == [" ", "\u2019", "b", " ", "<unk>"]


@pytest.mark.parametrize("phones", ["AH B AW T", "AH0 B AW1 T", "T . UW - B", "N 'S N't"])
def test_phones_survive_writing_and_reading(phones: str) -> None:
    tokenizer = Tokenizer.train([phones], kind="word", vocabulary_size=100, cased=True)

    tokens = tokenizer.tokens(tokenizer.encode(phones))

    assert "<unk>" not in tokens
    assert tokenizer.words(tokenizer.text(tokens)) == tokens
    if phones.replace(" ", "").isalnum():
        assert (tokens, tokenizer.text(tokens)) == (phones.split(), phones)


@given(st.text())
@example("I'M U.S. a- -B")
def test_cased_words_of_any_text_survive_and_differ_in_case_alone(text: str) -> None:
    words = CASED.words(text)

    assert CASED.words(CASED.text(words)) == words
    if text.isascii() and "'" not in text and ":" not in text and "=" not in text and ";" not in text:
        assert [word.lower() for word in words] == split(text)  # what is lower-case may be a clitic or smile


KINDS = ("char", "word", "bpe")


@pytest.mark.parametrize(("source", "target"), [*permutations(KINDS, 2)])
@given(text=st.text(st.sampled_from(ALPHABET + "<>target 45")))
def test_ids_of_sources_lie_behind_those_of_targets_and_stand_for_the_same_tokens(
    source: Any, target: Any, text: str
) -> None:
    alone, targets, sources = two_sides(source, target)

    ids = sources.encode(text)

    unknown = {sources.unknown_id}
    assert {*ids} - unknown <= {*range(targets.vocabulary_size, sources.vocabulary_size)}
    assert {*targets.encode(text)} <= {*range(targets.vocabulary_size)}
    assert sources.tokens(ids) == alone.tokens(alone.encode(text))
    assert sources.text(sources.tokens(ids)) == alone.text(alone.tokens(alone.encode(text)))


@cache
def two_sides(source: Any, target: Any) -> tuple[Tokenizer, Tokenizer, Tokenizer]:
    """A tokenizer by itself, one of targets, and the first behind the second."""
    options: dict[str, Any] = {"vocabulary_size": 270, "cased": True}
    texts = [ALPHABET, *TEXTS]
    targets = Tokenizer.train(texts[1:], kind=target, **options)
    alone, sources = (Tokenizer.train(texts, kind=source, **options, targets=it) for it in (None, targets))
    return alone, targets, sources


@pytest.mark.parametrize(("source", "target"), [*permutations(KINDS, 2)])
def test_two_ranges_are_saved_and_loaded_and_must_belong_together(
    source: Any, target: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    alone, targets, sources = two_sides(source, target)
    files = tmp_path / "tokenizer.json", tmp_path / "source_tokenizer.json"
    for tokenizer, file in zip((targets, sources), files, strict=True):
        tokenizer.save(file)

    loaded = load_tokenizers(*files)

    assert [each.to_json() for each in loaded] == [targets.to_json(), sources.to_json()]
    assert [each.kind for each in loaded] == [target, source]
    assert [each.first_id for each in loaded] == [4, targets.vocabulary_size]
    assert len(sources.own_ids) == alone.vocabulary_size <= 270
    assert alone.own_ids == [*range(alone.vocabulary_size)]
    assert sources.tokens(sources.own_ids) == alone.tokens(alone.own_ids)
    assert capfd.readouterr() == ("", "")  # the library says so where a vocabulary has holes
    alone.save(files[1])
    with pytest.raises(
        RunError, match=r"source_tokenizer\.json has ids for sources from 4 on, and .* has \d+ t"
    ):
        load_tokenizers(*files)


def test_replies_of_other_models_are_split_as_their_tokenizers_do() -> None:
    def splits(tokenizer: Tokenizer) -> list[str]:
        return find_splitter(tokenizers.Tokenizer.from_str(tokenizer.to_json()))("No, U")

    custom = tokenizers.Tokenizer(tokenizers.models.WordLevel({}, "<unk>"))
    custom.pre_tokenizer = tokenizers.pre_tokenizers.PreTokenizer.custom(object())

    assert splits(CHARACTERS) == list("No, U")
    assert splits(CASED) == ["No", ",", "U"]
    assert splits(WORDS) == splits(PIECES) == ["no", ",", "u"]
    assert find_splitter(None)("No") == find_splitter(custom)("No") == ["no"]


def test_an_id_outside_the_vocabulary_is_refused() -> None:
    with pytest.raises(IndexError, match=r"^The id 1000 is outside the vocabulary of \d+ tokens\.$"):
        WORDS.tokens([4, 1000])


FOREIGN = json.loads(WORDS.to_json())
FOREIGN["model"]["vocab"] = {"[PAD]": 0, "<unk>": 1, "a": 2, "b": 3}


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        (None, "tokenizer.json is missing. Restore it from a copy"),
        ("{", "tokenizer.json is damaged ("),
        ("{}", "tokenizer.json is damaged ("),
        ('{"model": {"type": "WordLevel"}}', "Restore it from a copy, or"),
        ("\xff", "tokenizer.json is damaged ("),
        (json.dumps(FOREIGN), "is not a tokenizer of bidibeam's: its model is WordLevel and its"),
    ],
)
def test_missing_damaged_and_foreign_files_are_refused(
    text: str | None, fragment: str, tmp_path: Path
) -> None:
    if text is not None:
        (tmp_path / "tokenizer.json").write_text(text, encoding="latin-1")

    with pytest.raises(RunError, match=re.escape(fragment)):
        Tokenizer.load(tmp_path / "tokenizer.json")


@pytest.mark.parametrize(
    ("kind", "size", "message"),
    [
        ("letter", 10, r"^tokenizer must be one of char, word, bpe, not 'letter'\.$"),
        ("char", 4, r"^vocabulary_size must be between 5, for the tokenizer 'char', and .*, not 4\.$"),
        (
            "word",
            4,
            r"^vocabulary_size must be between 5, for the tokenizer 'word', and 10,000,000, not 4\.$",
        ),
        ("bpe", 259, r"^vocabulary_size must be between 260, for the tokenizer 'bpe', and .*, not 259\.$"),
    ],
)
def test_settings_that_cannot_be(kind: Any, size: int, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        Tokenizer.train([], kind=kind, vocabulary_size=size)
