"""One reply to every source, scored as sacreBLEU does; and words at the first places from either end."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import PreparedData
from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.evaluation import corpus
from bidibeam.evaluation.corpus import (
    analyse_constant,
    analyse_positions,
    constant,
    count_replies,
    list_candidates,
    positions,
    score_constants,
)
from bidibeam.metrics import build_metric
from bidibeam.metrics.bleu import CorpusBleu
from tests.conftest import write_toy_corpus
from tests.unit.metrics.test_bleu import columns

REPLIES = {"uh-huh.": 9, "yeah.": 7, "i don't know.": 7, "oh.": 1}
WORDS = ("yeah", "uh", "-", "huh", ".", "i", "do", "n't", "know", "oh")


def texts(letters: str, longest: int) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(letters), min_size=1, max_size=longest).map(" ".join)


def references(seed: int, count: int = 30) -> list[tuple[str, ...]]:
    """Stock phrases among other things."""
    chooser = random.Random(seed)
    phrases = list(map(split, REPLIES))
    lines = [
        [*chooser.choice(phrases), *chooser.choices(WORDS, k=chooser.randint(0, 4))][: chooser.randint(2, 9)]
        for _ in range(count)
    ]
    return [(" ".join(words),) for words in lines]


def bleu(reply: str, wanted: Sequence[Sequence[str]]) -> float:
    """By sacreBLEU alone, on words with spaces between."""
    lines = [[" ".join(split(text)) for text in texts] for texts in wanted]
    metric = sacrebleu.BLEU(tokenize="none", force=True)
    return float(metric.corpus_score([" ".join(split(reply))] * len(wanted), columns(lines)).score)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few replies are tried, and fewer reported."""
    for name, value in {"COMMONEST": 3, "PARTS": 2, "SHOWN": 4}.items():
        monkeypatch.setattr(corpus, name, value)


@pytest.mark.usefixtures("few")
def test_the_best_on_validation_is_chosen_and_its_test_bleu_is_sacrebleus() -> None:
    validation, test = references(0), references(1)

    found = constant(REPLIES, validation, test)

    first, second = "uh-huh.", "i don't know."  # equally common by the alphabet
    pairs = [f"{one} {other}" for one in (first, second) for other in (first, second)]
    tried = [first, second, "yeah.", *pairs]
    words = sum(len(split(text)) for texts in test for text in texts)
    by_validation = sorted(tried, key=lambda reply: -bleu(reply, validation))
    shown = [found["chosen"], *found["runners_up"]]
    assert found["candidates"] == {"tried": 7, "commonest": 3, "parts": 2}
    assert [each["reply"] for each in shown] == by_validation[:4]
    assert found["metric"] == "bleu"
    for each, reply in zip(shown, by_validation, strict=False):
        assert each["validation_bleu"] == pytest.approx(bleu(reply, validation), abs=1e-9)
        assert each["bleu"] == pytest.approx(bleu(reply, test), abs=1e-9)
        assert each["low"] <= each["bleu"] <= each["high"]
        assert each["length_ratio"] == pytest.approx(len(split(reply)) * len(test) / words)
        assert each["words"] == len(split(reply))
        assert each["exact"] == sum(split(texts[0]) == split(reply) for texts in test)
        assert each["training_count"] == REPLIES.get(reply, 0)


def test_it_tells_how_short_the_references_are_and_what_is_commonest() -> None:
    test = [("Yeah.",), ("uh-huh.",), ("Uh-huh.",), ("I don't know.",)]

    found = constant(REPLIES, test, test)

    assert found["references"] == {"sources": 4, "words": 15, "short": 4, "share_short": 0.75}
    assert (found["validation_sources"], found["most_common"]["reply"]) == (4, "uh-huh.")
    assert (found["most_common"]["exact"], found["most_common"]["share_exact"]) == (2, 0.5)
    assert found["signature"].startswith("metric:bleu|order:4|nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|")
    assert "|interval:95%|samples:1000|seed:12345" in found["signature"]
    assert "signature" not in found["chosen"]


@given(
    st.lists(texts("abc", 9), min_size=1, max_size=60),
    st.lists(st.lists(texts("abcd", 7), min_size=1, max_size=2), min_size=1, max_size=8),
)
def test_the_bleu_of_every_reply_is_sacrebleus(replies: list[str], wanted: list[list[str]]) -> None:
    for several in (wanted, [texts[:1] for texts in wanted]):  # which take different ways
        references = list(map(tuple, several))
        expected = [bleu(reply, references) for reply in replies]
        assert score_constants(replies, references, CorpusBleu("words")).tolist() == expected


def test_any_metric_chooses_and_lower_may_be_better() -> None:
    validation = [("yeah.", "oh."), ("yeah.",), ("i don't know.",), ("I  don't know.",)]

    found = constant(REPLIES, validation, validation, build_metric("wer"))

    assert (found["metric"], found["chosen"]["reply"]) == ("wer", "yeah.")  # 0, 0, 3 and 3 edits
    assert found["chosen"]["wer"] == found["chosen"]["validation_wer"] == 100 * 6 / 8
    assert found["chosen"]["low"] <= found["chosen"]["wer"] <= found["chosen"]["high"]
    values = [each["validation_wer"] for each in (found["chosen"], *found["runners_up"])]
    assert values == sorted(values)
    assert found["signature"].startswith("metric:wer|unit:words|nrefs:var|case:mixed|")
    distinct = constant(REPLIES, validation, validation, build_metric("distinct-1"))
    assert distinct["signature"].endswith("|interval:95%|samples:100|seed:12345")


def test_of_equal_replies_the_commoner_is_chosen_and_none_is_tried_twice() -> None:
    replies = {"b": 2, "a": 2, "a b": 1, "c": 5}

    tried = list_candidates(replies)

    pairs = "cc ca cb cab ac aa aab bc ba bb bab abc aba abb abab"  # a and b are ab
    assert " ".join(text.replace(" ", "") for text in tried) == f"c a b ab {pairs}"
    found = constant(replies, [("x",)], [("x",)])
    assert (found["chosen"]["reply"], found["chosen"]["bleu"]) == ("c", 0.0)


def test_refusals_are_one_sentence() -> None:
    whole: list[Any] = [REPLIES, [("a",)], [("a",)]]
    for place, what in enumerate(("training replies", "validation pairs", "test pairs")):
        with pytest.raises(InputError, match=f"There are no {what}, and a constant reply needs some"):
            constant(*(type(one)() if index == place else one for index, one in enumerate(whole)))
    with pytest.raises(InputError, match="no responses whose words could be counted"):
        positions([])


def test_prepared_data_are_enough(toy_data: PreparedData) -> None:
    found = analyse_constant(toy_data, validation_sources=3, sources=4)

    items = list(toy_data.examples("test"))
    tests = [(items[place * len(items) // 4]["reference"],) for place in range(4)]
    assert found["validation_sources"] == 3
    assert found["references"]["words"] == sum(len(split(text)) for (text,) in tests)
    assert found["chosen"]["bleu"] == pytest.approx(bleu(found["chosen"]["reply"], tests))
    pairs = toy_data.split("train")
    columns = zip(pairs.response_start.tolist(), pairs.response_length.tolist(), strict=True)
    tokens = [
        toy_data.tokenizer.tokens(pairs.tokens[start : start + size].tolist()) for start, size in columns
    ]
    assert analyse_positions(toy_data) == positions(tokens)


@pytest.mark.parametrize("kind", ["word", "bpe"])
def test_replies_are_counted_as_texts_whatever_the_tokens_are(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "toy.tsv"
    write_toy_corpus(source, 300)
    settings = PrepareSettings("tsv", tokenizer=kind, vocabulary_size=300)
    data = prepare(settings, source, tmp_path / "data")
    texts = ["well, red cat!", "well, red cat!", "red cat!", "Red cat!"]

    counts = count_replies(data, map(data.tokenizer.encode, texts))

    known = {"red cat!": 2} if kind == "word" else {"red cat!": 1, "Red cat!": 1}  # words have no case
    whole = {"well, red cat!": 2}  # "well" is unknown
    assert counts == (known | whole if kind == "bpe" else known)


sequences = st.lists(st.lists(st.sampled_from("abcdef"), max_size=5), min_size=1, max_size=20)


@given(sequences, st.integers(1, 4), st.integers(1, 4))
def test_words_are_counted_from_the_left_and_from_the_right(
    responses: list[list[str]], words_shown: int, max_position: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(corpus, "WORDS_SHOWN", words_shown)
        patch.setattr(corpus, "MAX_POSITION", max_position)
        found = positions(iter(responses))

    assert (found["words_shown"], found["pairs"]) == (words_shown, len(responses))
    for side, read in (("left", responses), ("right", [each[::-1] for each in responses])):
        assert len(found["from"][side]) == max_position
        for place, each in enumerate(found["from"][side]):
            column = [words[place] for words in read if len(words) > place]
            counts = {word: column.count(word) for word in column}
            order = sorted(counts, key=lambda word: (-counts[word], word))[:words_shown]
            shares = [count / len(column) for count in counts.values()]
            assert each == {
                "position": place + 1,
                "words": order,
                "counts": [counts[word] for word in order],
                "different": len(counts),
                "entropy_bits": pytest.approx(-sum(share * math.log2(share) for share in shares)),
                "above_1000": 0,
            }
