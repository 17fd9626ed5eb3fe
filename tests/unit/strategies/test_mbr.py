"""Minimum Bayes risk within the regular beam, beside a plain sum over pairs."""

from __future__ import annotations

import math

import pytest
from hypothesis import given

from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Beams
from bidibeam.similarities.overlap import TokenF1
from bidibeam.strategies.mbr import Mbr
from tests.unit.strategies.lists import Table, beams, hypothesis, random_beams, scores, texts


@given(random_beams(smallest=1))
def test_it_is_the_expected_similarity_to_the_beam(found: Beams) -> None:
    weights = [math.exp(each.log_prob or 0.0) for each in found.regular]
    similarity = TokenF1()

    for how, shares in (
        ("expected", [weight / sum(weights) for weight in weights]),
        ("mean", [1 / len(weights)] * len(weights)),
    ):
        slowly = [
            sum(
                share * similarity.pairwise([one], [other]).item()
                for share, other in zip(shares, found.regular, strict=True)
            )
            for one in found.regular
        ]
        ranking = Mbr(similarity, how).rank(found)  # type: ignore[arg-type]
        for entry in ranking:
            assert entry.score == pytest.approx(slowly[entry.place])
        assert len(ranking) == len(slowly)


def test_the_reverse_beam_has_no_say() -> None:
    table = Table({("a", "b"): 1.0, ("b", "a"): 0.5})

    ranking = Mbr(table, "mean").rank(beams("a", "b", reverse=["c", "d"]))

    assert (texts(ranking), scores(ranking), table.asked) == (["a", "b"], [0.5, 0.25], [(2, 2)])


def test_the_posterior_decides_who_is_listened_to() -> None:
    table = Table({("a", "b"): 1.0, ("b", "c"): 1.0})
    found = beams(hypothesis("a", -9.0), hypothesis("b", -0.1), hypothesis("c", -8.0))

    assert texts(Mbr(table).rank(found))[0] == "a"
    assert Mbr(table).requirements.log_prob
    assert not Mbr(table, "mean").requirements.log_prob
    with pytest.raises(SettingsError, match="agreement must be one of expected, mean, not 'closest'"):
        Mbr(table, "closest")  # type: ignore[arg-type]
