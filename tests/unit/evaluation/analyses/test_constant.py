"""One reply to every source: which is chosen, and that its scores are sacreBLEU's."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU

from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import PreparedData
from bidibeam.data.words import split
from bidibeam.errors import InputError, SettingsError
from bidibeam.evaluation.analyses.constant import bleus, candidates, constant
from bidibeam.evaluation.analyses.corpus import constant_of, counted_replies, positions_of
from bidibeam.evaluation.analyses.positions import positions
from tests.conftest import write_toy_corpus

REPLIES = {
    ("uh", "-", "huh", "."): 9,
    ("yeah", "."): 7,
    ("i", "do", "n't", "know", "."): 7,
    ("oh", "."): 1,
}
WORDS = ("yeah", "uh", "-", "huh", ".", "i", "do", "n't", "know", "oh")


def references(seed: int, count: int = 30) -> list[list[str]]:
    """Stock phrases among other things."""
    chance = random.Random(seed)
    phrases = list(REPLIES)
    return [
        [*chance.choice(phrases), *chance.choices(WORDS, k=chance.randint(0, 4))][: chance.randint(2, 9)]
        for _ in range(count)
    ]


def sacrebleu(reply: tuple[str, ...], wanted: list[list[str]]) -> float:
    """By sacreBLEU alone."""
    metric = BLEU(tokenize="none", force=True)
    lines = [" ".join(words) for words in wanted]
    return float(metric.corpus_score([" ".join(reply)] * len(wanted), [lines]).score)


def test_the_best_on_validation_is_chosen_and_its_test_bleu_is_sacrebleus() -> None:
    validation, test = references(0), references(1)

    found = constant(REPLIES, validation, test, commonest=3, parts=2, shown=4)

    tried = [*list(REPLIES)[:3]]
    tried[1:] = sorted(tried[1:])  # equally common
    first, second = tried[:2]
    tried += [first + first, first + second, second + first, second + second]
    by_validation = sorted(tried, key=lambda reply: -sacrebleu(reply, validation))
    shown = [found["chosen"], *found["runners_up"]]
    assert found["candidates"] == {"tried": 7, "commonest": 3, "parts": 2}
    assert [split(each["reply"]) for each in shown] == [list(reply) for reply in by_validation[:4]]
    for each, reply in zip(shown, by_validation, strict=False):
        assert each["validation_bleu"] == pytest.approx(sacrebleu(reply, validation), abs=1e-9)
        assert each["bleu"] == pytest.approx(sacrebleu(reply, test), abs=1e-9)
        assert each["low"] <= each["bleu"] <= each["high"]
        assert each["length_ratio"] == pytest.approx(len(reply) * len(test) / sum(map(len, test)))
        assert each["exact"] == sum(tuple(words) == reply for words in test)
        assert each["training_count"] == REPLIES.get(reply, 0)


def test_it_tells_how_short_the_references_are_and_what_is_commonest() -> None:
    test = [["yeah", "."], ["uh", "-", "huh", "."], ["uh", "-", "huh", "."], ["i", "do", "n't", "know", "."]]

    found = constant(REPLIES, test, test)

    assert found["references"] == {"sources": 4, "words": 15, "short": 4, "share_short": 0.75}
    assert (found["validation_sources"], found["most_common"]["reply"]) == (4, "uh-huh.")
    assert (found["most_common"]["exact"], found["most_common"]["share_exact"]) == (2, 0.5)
    assert found["signature"].startswith("metric:bleu|order:4|nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|")
    assert "|interval:95%|samples:1000|seed:12345" in found["signature"]


@given(
    st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=9).map(tuple), min_size=1, max_size=60),
    st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=7), min_size=1, max_size=8),
)
def test_the_bleu_of_every_reply_is_sacrebleus(
    replies: list[tuple[str, ...]], wanted: list[list[str]]
) -> None:
    expected = [sacrebleu(reply, wanted) for reply in replies]

    assert bleus(replies, wanted).tolist() == pytest.approx(expected, abs=1e-9)


def test_of_equal_replies_the_commoner_is_chosen_and_none_is_tried_twice() -> None:
    replies = {("b",): 2, ("a",): 2, ("a", "b"): 1, ("c",): 5}

    assert candidates(replies, commonest=4, parts=3) == [
        *(("c",), ("a",), ("b",), ("a", "b")),
        *(("c", "c"), ("c", "a"), ("c", "b"), ("a", "c"), ("a", "a")),
        *(("b", "c"), ("b", "a"), ("b", "b")),
    ]
    found = constant(replies, [["x"]], [["x"]])
    assert (found["chosen"]["reply"], found["chosen"]["bleu"]) == ("c", 0.0)


def test_refusals_are_one_sentence() -> None:
    call: Any = constant
    whole: list[Any] = [REPLIES, [["a"]], [["a"]]]
    for place, what in enumerate(("training replies", "validation pairs", "test pairs")):
        with pytest.raises(InputError, match=f"There are no {what}, and a constant reply needs some"):
            constant(*(type(one)() if index == place else one for index, one in enumerate(whole)))
    for name in ("commonest", "parts", "shown"):
        with pytest.raises(SettingsError, match=f"{name} must be at least 1, not 0"):
            call(*whole, **{name: 0})


def test_prepared_data_are_enough(toy_data: PreparedData) -> None:
    found = constant_of(toy_data, validation_sources=3, sources=4)

    tests = [split(each["reference"]) for each in toy_data.examples("test")][:4]
    assert found["validation_sources"] == 3
    assert found["references"]["words"] == sum(map(len, tests))
    assert found["chosen"]["bleu"] == pytest.approx(sacrebleu(tuple(split(found["chosen"]["reply"])), tests))
    assert positions_of(toy_data)["pairs"] == len(toy_data.split("train"))


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_replies_are_counted_as_words_whatever_the_tokens_are(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "toy.tsv"
    write_toy_corpus(source, 300)
    settings = PrepareSettings("tsv", tokenizer=kind, vocabulary_size=300)
    data = prepare(settings, source, tmp_path / "data")
    texts = ["well, red cat!", "well, red cat!", "red cat!", "Red cat!"]

    counted = counted_replies(data, map(data.tokenizer.encode, texts))

    whole: dict[tuple[str, ...], int] = {("well", ",", "red", "cat", "!"): 2}  # "well" is unknown
    known: dict[tuple[str, ...], int] = {("red", "cat", "!"): 2}
    assert counted == (known | whole if kind == "bpe" else known)


def test_positions_of_data_are_those_of_their_tokens(toy_data: PreparedData) -> None:
    pairs = toy_data.split("train")
    columns = zip(pairs.response_start.tolist(), pairs.response_length.tolist(), strict=True)
    tokens = [
        toy_data.tokenizer.tokens(pairs.tokens[start : start + size].tolist()) for start, size in columns
    ]

    assert positions_of(toy_data) == positions(tokens)
