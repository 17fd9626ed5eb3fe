"""A run as a model: hypotheses in reading order whichever way they were written, one per text."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from bidibeam.api import load_decoder, load_run
from bidibeam.data.tokenization import Tokenizer
from bidibeam.decoding.rescoring import score_by_other
from bidibeam.errors import InputError, RunError, SettingsError
from bidibeam.hypotheses import Beams, Direction, NBest
from bidibeam.models.checkpoint import ModelConfig
from bidibeam.models.run import RunModel as Run
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.bidis import BidiS
from tests.unit.search.tables import TableScorer

VBS = {Direction.REGULAR: "vbs", Direction.REVERSE: "reverse-vbs"}


@pytest.fixture(scope="module")
def run(toy_run: Path) -> Run:
    return load_run(toy_run)


@pytest.mark.parametrize("direction", list(Direction))
def test_both_directions_answer_in_reading_order(run: Run, direction: Direction) -> None:
    decoder = load_decoder(run, VBS[direction])

    replies = [nbest.best for nbest in decoder.decode(["red cat", "blue dog fish", "white"])]

    assert [reply.text for reply in replies] == ["red cat!", "blue dog fish!", "white!"]
    assert replies[1].tokens == ("blue", "dog", "fish", "!")
    assert replies[1].length == 5  # the end token counted
    assert all(reply.finished for reply in replies)


def test_no_sources_get_no_reply_and_one_string_is_no_list(run: Run) -> None:
    decoder = load_decoder(run, "vbs")

    assert decoder.decode([]) == []
    with pytest.raises(InputError, match=r"Give a list of sources, not one string: \['red cat'\]"):
        decoder.decode("red cat")
    assert decoder.generator.generate([]) == []


def test_a_source_beyond_what_training_saw_keeps_its_last_tokens(run: Run) -> None:
    assert run.limits.max_source_length == 8
    decoder = load_decoder(run, "vbs")

    cut, short = decoder.decode([" ".join(["red"] * 5000 + ["cat"] * 8), " ".join(["cat"] * 8)])

    assert cut.best.text == short.best.text
    assert cut.best.log_prob == pytest.approx(short.best.log_prob, abs=1e-5)


@pytest.mark.parametrize("direction", list(Direction))
def test_unasked_a_search_finishes_the_longest_response_that_training_kept(
    toy_run: Path, tmp_path: Path, direction: Direction
) -> None:
    kept = shutil.copytree(toy_run, tmp_path / "run")
    config = json.loads((kept / "config.json").read_text())
    config["data"]["settings"]["max_response_length"] = 4
    (kept / "config.json").write_text(json.dumps(config))

    (found,) = load_decoder(kept, VBS[direction]).decode(["blue dog fish"])

    assert found.best.tokens == ("blue", "dog", "fish", "!")
    assert found.best.finished


def n_best(
    tokenizer: Tokenizer, scorer: TableScorer, direction: Direction, settings: SearchSettings
) -> NBest:
    """What a run finds for one source whose network is a table."""
    network = SimpleNamespace(directions=list(Direction), scorer=lambda _: scorer)
    config = ModelConfig("table", None, tokenizer.vocabulary_size)
    model = Run(Path("table"), network, tokenizer, config, torch.device("cpu"))
    return model.n_best(direction, ["aa"], settings)[0]


def rows(vocabulary: int, table: dict[tuple[int, ...], dict[int, float]]) -> TableScorer:
    """A model by its probabilities; what is not listed is all but impossible, and ends."""

    def row(_: int, prefix: tuple[int, ...]) -> list[float]:
        likely = table.get(prefix, {3: 1.0})
        return [math.log(likely.get(token, 1e-30)) for token in range(vocabulary)]

    return TableScorer(row)


def test_the_unknown_token_is_written_only_if_allowed() -> None:
    tokenizer = Tokenizer.train(["aa bb"], kind="word", vocabulary_size=10)
    unknown, end, word = tokenizer.unknown_id, tokenizer.end_id, 4
    likes_unknown = rows(
        tokenizer.vocabulary_size,
        {(): {unknown: 0.9, word: 0.1}, (unknown,): {end: 1.0}, (word,): {end: 1.0}, (5,): {end: 1.0}},
    )

    def best(*, allow_unknown: bool) -> str:
        settings = SearchSettings(beam_size=2, max_length=2, allow_unknown=allow_unknown)
        return n_best(tokenizer, likes_unknown, Direction.REGULAR, settings).best.text

    assert best(allow_unknown=False) == "aa"
    assert best(allow_unknown=True) == "<unk>"


@pytest.mark.parametrize("direction", list(Direction))
def test_a_bad_word_or_phrase_is_in_no_reply_of_either_direction(direction: Direction) -> None:
    tokenizer = Tokenizer.train(["aa bb cc"], kind="word", vocabulary_size=10)
    free = TableScorer(lambda _, prefix: [0.0] * 3 + [2.0 * (len(prefix) > 2)] + [1.0, 0.5, 0.2])
    settings = SearchSettings(beam_size=300, max_length=4, stopping="exhaust", length_penalty=0.0)

    def found(*words: str) -> dict[tuple[str, ...], float | None]:
        how = replace(settings, bad_words=words)
        return {one.tokens: one.log_prob for one in n_best(tokenizer, free, direction, how)}

    every = found()

    assert {("aa", "bb", "cc"), ("cc", "bb", "aa"), ("bb",)} <= {*every}
    for words in (["bb"], ["aa BB"], ["bb", "cc aa"], ["aa bb cc"], ["cc cc"]):
        phrases = [f" {word.lower()} " for word in words]
        kept = {
            tokens: value
            for tokens, value in every.items()
            if not any(phrase in f" {' '.join(tokens)} " for phrase in phrases)
        }
        assert found(*words) == pytest.approx(kept, abs=1e-5), "the others keep their log-probabilities"


def test_a_bad_word_that_the_model_cannot_write_is_refused(run: Run) -> None:
    for word in ("xyzzy", "red xyzzy", "\u200b"):
        told = f"bad_words has {word!r}, which the tokenizer of run cannot spell, so that no reply could"
        with pytest.raises(SettingsError, match=re.escape(told)):
            load_decoder(run, "vbs", settings=SearchSettings(bad_words=("red", word)))


def test_options_of_repetition_hold_in_both_directions_and_not_for_scoring(run: Run) -> None:
    sources, how = ["red red red", "cat dog cat dog"], SearchSettings(beam_size=8, max_length=9)

    for direction in Direction:
        other = run.sequence_scorer(direction.other)
        unbound = run.n_best(direction, sources, how)
        bound = run.n_best(direction, sources, replace(how, no_repeat_ngram_size=1))
        penalised = run.n_best(direction, sources, replace(how, repetition_penalty=3.0))
        assert unbound[0].best.text == "red red red!"
        assert all(len({*one.tokens}) == len(one.tokens) for nbest in bound for one in nbest)
        (scored,) = score_by_other(other, sources[:1], penalised[:1])
        for one in scored:
            ((plain,),) = other.log_probs(sources[:1], [[one.ids if one.finished else (*one.ids, 3)]])
            assert one.other_log_prob == pytest.approx(plain, abs=1e-4)
        own = run.sequence_scorer(direction).log_probs(
            sources, [[one.ids for one in each] for each in penalised]
        )
        for nbest, values in zip(penalised, own, strict=True):
            for one, value in zip(nbest, values, strict=True):
                is_repeating = len({*one.tokens}) < len(one.tokens)
                assert one.log_prob is not None
                assert (
                    one.log_prob < value if is_repeating else one.log_prob == pytest.approx(value, abs=1e-4)
                )


def test_trap_6_pieces_that_spell_the_same_text_are_one_hypothesis() -> None:
    tokenizer = Tokenizer.train(["ab ab ab ab"], kind="bpe", vocabulary_size=270)
    vocabulary = tokenizer.tokens(range(tokenizer.vocabulary_size))
    whole, first, second = map(vocabulary.index, ("ab", "a", "b"))
    end = tokenizer.end_id
    spells_twice = rows(
        tokenizer.vocabulary_size,
        {
            (): {whole: 0.5, first: 0.5},
            (whole,): {end: 1.0},
            (first,): {second: 0.6, end: 0.4},
            (first, second): {end: 1.0},
        },
    )
    settings = SearchSettings(beam_size=3, max_length=3, length_penalty=0.0)

    found = n_best(tokenizer, spells_twice, Direction.REGULAR, settings)

    texts = [(hypothesis.text, hypothesis.multiplicity) for hypothesis in found]
    assert texts == [("ab", 2), ("a", 1)]
    assert found.best.tokens == ("ab",)
    assert found.best.log_prob == pytest.approx(math.log(0.5), abs=1e-5)


def test_trap_14_subwords_are_turned_around_as_whole_pieces() -> None:
    tokenizer = Tokenizer.train(["ab! ab! ab! ab!"], kind="bpe", vocabulary_size=262)
    vocabulary = tokenizer.tokens(range(tokenizer.vocabulary_size))
    whole, mark = map(vocabulary.index, ("ab", "!"))
    from_the_right = rows(tokenizer.vocabulary_size, {(): {mark: 1.0}, (mark,): {whole: 1.0}})
    settings = SearchSettings(beam_size=1, max_length=4)

    found = n_best(tokenizer, from_the_right, Direction.REVERSE, settings)

    assert found.best.tokens == ("ab", "!")
    assert found.best.text == "ab!"


@dataclass
class TableSequenceScorer:
    """A reverse model that scores by the log-probability of each token after its prefix."""

    tokens: Mapping[tuple[int, ...], float]
    end_id: int

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        raise NotImplementedError(texts)

    def log_probs(
        self,
        sources: Sequence[str],
        sequences: Sequence[Sequence[Sequence[int]]],
        *,
        first: int | None = None,
    ) -> list[list[float]]:
        assert len(sources) == len(sequences)
        written = [[(*reversed(ids[:-1]), self.end_id)[:first] for ids in line] for line in sequences]
        return [
            [sum(self.tokens.get(ids[:end], 0.0) for end in range(1, len(ids) + 1)) for ids in line]
            for line in written
        ]


def test_of_several_spellings_the_best_alone_is_judged_and_keeps_no_other_reply_out() -> None:
    tokenizer = Tokenizer.train(["aa b aa b aa b"], kind="bpe", vocabulary_size=262)
    vocabulary = tokenizer.tokens(range(tokenizer.vocabulary_size))
    aa, a, b = map(vocabulary.index, ("aa", "a", "b"))
    spells_thrice = rows(
        tokenizer.vocabulary_size,
        {
            (): {aa: 0.5, a: 0.4, b: 0.1},
            (aa,): {a: 1.0},
            (a,): {aa: 0.6, a: 0.4},
            (a, a): {a: 1.0},
        },
    )
    # From the right: the best spelling, aa a, is all but impossible; the two others would win; b is unlikely.
    scorer = TableSequenceScorer({(a, aa): -20.0, (aa,): -0.1, (a,): -0.1, (b,): -5.0}, tokenizer.end_id)
    settings = SearchSettings(beam_size=4, max_length=4, length_penalty=0.0)

    found = n_best(tokenizer, spells_thrice, Direction.REGULAR, settings)

    assert [(each.text, each.multiplicity) for each in found] == [("aaa", 3), ("b", 1)]
    for weight in (None, 1.0):
        (scored,) = score_by_other(scorer, ["aa"], [found], weight=weight)
        ranking = BidiS(1.0).rank(Beams("1", "aa", regular=scored))
        assert ranking.text == "b"
        assert ranking.entries[0].score == pytest.approx(math.log(0.1) - 5.0, abs=1e-5)


def test_a_direction_that_the_run_lacks_is_named(run: Run) -> None:
    network = SimpleNamespace(directions=[Direction.REGULAR])
    alone = Run(run.path, network, run.tokenizer, run.config, run.device)

    for ask in (alone.scorer, alone.sequence_scorer, lambda way: alone.n_best(way, ["a"], SearchSettings())):
        with pytest.raises(RunError, match=r"has no reverse decoder, only: regular\. Train one with both"):
            ask(Direction.REVERSE)
