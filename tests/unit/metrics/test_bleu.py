"""Corpus BLEU beside sacreBLEU called by another door, and beside arithmetic done by hand."""

from __future__ import annotations

import math

import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.metrics.bleu import Bleu

sentences = st.lists(st.sampled_from(["a", "b", "c", "the", "."]), max_size=9)
pairs = st.lists(st.tuples(sentences, sentences), min_size=1, max_size=6)


@given(pairs)
def test_it_equals_sacrebleu_called_on_lines_of_text(pairs: list[tuple[list[str], list[str]]]) -> None:
    replies, references = [reply for reply, _ in pairs], [reference for _, reference in pairs]

    expected = sacrebleu.corpus_bleu(
        [" ".join(reply) for reply in replies],
        [[" ".join(reference) for reference in references]],
        tokenize="none",
        force=True,
    )

    assert Bleu().score(replies, references).value == pytest.approx(expected.score)


def test_it_equals_the_arithmetic() -> None:
    reply, reference = ["a", "b", "c", "d", "x"], ["a", "b", "c", "d", "e", "f"]

    # precisions 4/5, 3/4, 2/3, 1/2 and a reply one word short of six
    expected = 100 * math.exp(1 - 6 / 5) * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25

    assert Bleu().score([reply], [reference]).value == pytest.approx(expected)


def test_a_perfect_copy_scores_a_hundred_and_a_worse_reply_less() -> None:
    reference = ["see", "you", "at", "noon", "then"]

    copy, worse = (Bleu().score([reply], [reference]).value for reply in (reference, reference[:-1]))

    assert copy == pytest.approx(100)
    assert worse < copy


@given(pairs)
def test_a_perfect_copy_is_never_beaten(pairs: list[tuple[list[str], list[str]]]) -> None:
    replies, references = [reply for reply, _ in pairs], [reference for _, reference in pairs]

    copied = Bleu().score(references, references).value

    assert copied >= Bleu().score(replies, references).value - 1e-9 or copied == 0


@pytest.mark.parametrize("token", ["new york", "a\u00a0b", "\u2028", ""])
def test_a_token_with_white_space_in_it_stays_one_token(token: str) -> None:
    odd, plain = ["in", token, "we", "met"], ["in", "paris", "we", "met"]

    assert Bleu().score([odd], [odd]).value == pytest.approx(Bleu().score([plain], [plain]).value)
    assert Bleu().score([odd], [plain]).value < Bleu().score([odd], [odd]).value


def test_sacrebleus_own_signature_stands_inside_ours() -> None:
    signature = str(Bleu().score([["a"]], [["a"]]).signature)

    assert f"nrefs:1|case:mixed|eff:no|tok:none|smooth:exp|version:{sacrebleu.__version__}" in signature
