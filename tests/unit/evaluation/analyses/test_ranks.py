"""Which places replies come from."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean, median
from typing import Any

import pytest

from bidibeam.data.words import split
from bidibeam.errors import InputError
from bidibeam.evaluation.analyses.evidence import Evidence
from bidibeam.evaluation.analyses.ranks import ranks
from bidibeam.hypotheses import Beams, NBest
from bidibeam.similarities.bleu import BleuT, sentence_bleus
from tests.unit.evaluation.analyses.evidences import (
    MAX_LENGTH,
    evidence_of,
    hypothesis,
    random_evidence,
    system,
)


def both(*lines: tuple[list[str], list[str], str | None]) -> Evidence:
    """Bidia's beams, written by hand."""
    beams = [
        Beams(
            str(number),
            "hi",
            reference,
            NBest(tuple(hypothesis(text, -1.0) for text in regular)),
            NBest(tuple(hypothesis(text, -1.0) for text in reverse)),
        )
        for number, (regular, reverse, reference) in enumerate(lines)
    ]
    return evidence_of({"bidia bleu_t": {6: system("bidia bleu_t", beams, 6)}})


def test_places_are_counted_from_one_and_ties_go_to_the_better() -> None:
    found = ranks(
        both(
            (["a", "b c", "d e f"], ["d e f"], "x"),  # agrees on the third; the reference is like none
            (["a", "b", "c"], ["x"], "b"),  # nothing agrees; the reference is the second
            (["a b", "c d", "c d"], ["c d"], "c d"),  # two are the same
        )
    )

    assert found["beam_size"] == 3
    assert list(found["systems"]) == ["bidia bleu_t", "oracle"]
    agreed, oracle = found["systems"].values()
    third = 1 / 3
    assert agreed == {
        "counts": [1, 1, 1],
        "mean": 2.0,
        "median": 2,
        "tied": 2.0,
        "tie_mass": pytest.approx([third, third + 0.5, 1 + third + 0.5]),
    }
    assert oracle == {
        "counts": [1, 2, 0],
        "mean": pytest.approx(5 / 3),
        "median": 2,
        "tied": 2.0,
        "tie_mass": pytest.approx([third, third + 1 + 0.5, third + 0.5]),
    }


def test_where_nothing_matches_ties_are_not_reversed() -> None:
    """A reversed stable sort would put the last of equal hypotheses first."""
    oracle = ranks(both((["a", "b", "c"], ["d"], "x")))["systems"]["oracle"]

    assert oracle["counts"] == [1, 0, 0]
    assert oracle["tie_mass"] == pytest.approx([1 / 3] * 3)
    assert oracle["tied"] == 3


def test_what_was_cut_off_ties_with_nothing_that_finished_but_for_the_oracle() -> None:
    cut, whole = hypothesis("a b", -1.0, finished=False), hypothesis("a b", -2.0)
    beams = [Beams("1", "hi", "a b", NBest((cut, whole)), NBest((whole,)))]
    found = ranks(evidence_of({"bidia bleu_t": {4: system("bidia bleu_t", beams, 4)}}))["systems"]

    assert (found["bidia bleu_t"]["counts"], found["bidia bleu_t"]["tie_mass"]) == ([0, 1], [0, 1])
    assert (found["oracle"]["counts"], found["oracle"]["tie_mass"]) == ([1, 0], [0.5, 0.5])


def slowly(evidence: Evidence, name: str) -> dict[str, Any]:
    """The same, score by score."""
    beams = evidence.agreeing.beams
    width = evidence.agreeing.beam_size // 2
    counts, mass, places, ties = [0] * width, [0.0] * width, [], []
    for line in beams:
        regular, reverse = line.regular.hypotheses, line.reverse.hypotheses
        if not regular:
            continue
        allowed = list(range(len(regular)))
        if name == "oracle":
            words = [split(each.text) for each in regular]
            scores = list(sentence_bleus(words, split(line.reference or "")))
        else:
            similarity = BleuT(max_length=MAX_LENGTH)
            scores = [max([0.0, *similarity.pairwise([each], reverse)[0]]) for each in regular]
            allowed = [place for place in allowed if regular[place].finished] or allowed
        best = max(scores[place] for place in allowed)
        tied = [place for place in allowed if scores[place] == best]
        counts[tied[0]] += 1
        places.append(tied[0] + 1)
        ties.append(len(tied))
        for place in tied:
            mass[place] += 1 / len(tied)
    return {
        "counts": counts,
        "mean": pytest.approx(mean(places)),
        "median": median(places),
        "tied": pytest.approx(mean(ties)),
        "tie_mass": pytest.approx(mass),
    }


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("whole", [True, False])
def test_it_is_what_counting_slowly_gives(seed: int, whole: bool) -> None:
    evidence = random_evidence(80, seed=seed, whole=whole)

    found = ranks(evidence)

    assert found["beam_size"] == 4
    assert list(found["systems"]) == ["bidia bleu_t", "bidia wmd_t", "oracle"]
    for name in ("bidia bleu_t", "oracle"):
        assert found["systems"][name] == slowly(evidence, name)
        assert sum(found["systems"][name]["tie_mass"]) == pytest.approx(sum(found["systems"][name]["counts"]))


def test_replies_alone_are_ranked_again() -> None:
    assert ranks(random_evidence(whole=False)) == ranks(random_evidence(whole=True))


def test_a_system_that_chose_among_others_is_not_set_beside_them() -> None:
    evidence = random_evidence()
    wider = system("bidia wmd_t", evidence.systems["vbs"][8].beams, 8)
    moved = evidence_of({**evidence.systems, "bidia wmd_t": {8: wider}})

    assert list(ranks(moved)["systems"]) == ["bidia bleu_t", "oracle"]


def test_without_references_there_is_no_oracle() -> None:
    assert list(ranks(both((["a"], ["a"], None)))["systems"]) == ["bidia bleu_t"]


def test_a_beam_that_is_shorter_than_half_of_n_b_keeps_its_places() -> None:
    evidence = both((["a"], ["a"], "a"))

    assert ranks(evidence)["systems"]["oracle"]["counts"] == [1, 0, 0]


def test_nothing_chosen_is_one_sentence() -> None:
    nothing = Beams("1", "hi", "a", NBest(), NBest((hypothesis("a", -1.0),)))
    something = Beams("2", "hi", "a", NBest((hypothesis("a", -1.0),)), NBest((hypothesis("a", -1.0),)))
    evidence = evidence_of({"bidia bleu_t": {4: system("bidia bleu_t", [nothing, something], 4)}})

    assert sum(ranks(evidence)["systems"]["oracle"]["counts"]) == 1

    empty = replace(evidence.agreeing, beams=[nothing], rankings=evidence.agreeing.rankings[:1])
    with pytest.raises(InputError, match="No source has hypotheses of both directions"):
        ranks(evidence_of({"bidia bleu_t": {4: empty}}))
