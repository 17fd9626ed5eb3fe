"""chrF beside sacreBLEU's, and beside arithmetic done by hand."""

from __future__ import annotations

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.metrics.chrf import Chrf

sentences = st.lists(st.sampled_from(["a", "ab", "bad", "the", "naïve", "漢字", ".", "x y", ""]), max_size=7)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)


@given(pairs)
def test_it_equals_sacrebleu_on_words_with_spaces_between(pairs: list[tuple[list[str], list[str]]]) -> None:
    replies, references = [reply for reply, _ in pairs], [reference for _, reference in pairs]

    expected = sacrebleu.corpus_chrf(
        [" ".join(reply) for reply in replies], [[" ".join(reference) for reference in references]]
    )

    assert Chrf().score(replies, references).value == pytest.approx(expected.score, abs=1e-9)


def test_it_equals_the_arithmetic() -> None:
    # precisions 2/3, 1/2, 0 and recalls 2/4, 1/3, 0; the reply has no longer n-grams
    precision, recall = (2 / 3 + 1 / 2 + 0) / 3, (2 / 4 + 1 / 3 + 0) / 3

    value = Chrf().score([["ab", "x"]], [["abcd"]]).value

    assert value == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))


def test_half_a_word_right_is_better_than_none_and_worse_than_all() -> None:
    right, half, wrong = (
        Chrf().score([[word]], [["walking"]]).value for word in ("walking", "walked", "runs")
    )

    assert right == pytest.approx(100)
    assert right > half > wrong


def test_sacrebleus_own_signature_stands_inside_ours() -> None:
    signature = str(Chrf().score([["a"]], [["a"]]).signature)

    version = sacrebleu.__version__
    assert f"metric:chrf|beta:2|nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:{version}|" in signature
