"""Which places replies come from, how far from tuned VBS to the oracle, and where systems disagree most."""

from __future__ import annotations

from dataclasses import replace
from statistics import mean, median
from typing import Any

import numpy as np
import pytest

from bidibeam.errors import InputError
from bidibeam.evaluation.choices import examples, headroom, ranks
from bidibeam.evaluation.systems import Evidence
from bidibeam.hypotheses import Beams, NBest
from bidibeam.metrics import build_metric
from bidibeam.similarities.bleu import BleuT
from tests.unit.evaluation.evidences import (
    MAX_LENGTH,
    answering,
    evidence_of,
    hypothesis,
    random_evidence,
    system,
    value_of,
)


def line(number: int, regular: list[str], reverse: list[str], reference: str | None = "r") -> Beams:
    texts = [NBest(tuple(hypothesis(text, -1.0) for text in each)) for each in (regular, reverse)]
    return Beams(str(number), f"source {number}", () if reference is None else (reference,), *texts)


def bidia(*beams: Beams, beam_size: int = 6, **others: Any) -> Evidence:
    """Bidia's beams, written by hand."""
    chosen = system("bidia bleu_t", beams, beam_size)
    systems = {name: {beam_size: each} for name, each in others.items()}
    return evidence_of({"bidia bleu_t": {beam_size: chosen}, **systems})


def test_places_are_counted_from_one_and_ties_go_to_the_better() -> None:
    found = ranks(
        bidia(
            line(0, ["a", "b c", "d e f"], ["d e f"], "x"),  # agrees on the third; the reference is like none
            line(1, ["a", "b", "c"], ["x"], "b"),  # nothing agrees; the reference is the second
            line(2, ["a b", "c d", "c d"], ["c d"], "c d"),  # two are the same
        )
    )

    third = 1 / 3
    assert found == {
        "beam_size": 3,
        "systems": {
            "bidia bleu_t": {
                "counts": [1, 1, 1],
                "mean": 2.0,
                "median": 2,
                "tied": 2.0,
                "tie_mass": pytest.approx([third, third + 0.5, 1 + third + 0.5]),
            },
            "oracle": {
                "counts": [1, 2, 0],
                "mean": pytest.approx(5 / 3),
                "median": 2,
                "tied": 2.0,
                "tie_mass": pytest.approx([third, third + 1 + 0.5, third + 0.5]),
            },
        },
    }


def count_ranks(evidence: Evidence, name: str) -> dict[str, Any]:
    """The same, score by score."""
    width = evidence.agreeing.beam_size // 2
    counts, mass, places, ties = [0] * width, [0.0] * width, [], []
    for found in evidence.agreeing.beams:
        regular, reverse = found.regular.hypotheses, found.reverse.hypotheses
        if not regular:
            continue
        allowed = list(range(len(regular)))
        if name == "oracle":
            judge, wanted = build_metric("sentence_bleu"), [[found.reference or ""]]
            scores = [judge.statistics([each.text], wanted)[0, 0] for each in regular]
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


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("whole", [True, False])  # replies alone are ranked again
def test_ranks_are_what_a_plain_count_gives(seed: int, whole: bool) -> None:
    evidence = random_evidence(80, seed=seed, whole=whole)

    found = ranks(evidence)

    assert found["beam_size"] == 4
    assert list(found["systems"]) == ["bidia bleu_t", "bidia wmd_t", "oracle"]
    for name in ("bidia bleu_t", "oracle"):
        assert found["systems"][name] == count_ranks(evidence, name)


def test_ranks_are_of_the_same_beams_and_there_is_no_oracle_without_references() -> None:
    evidence = random_evidence()
    wider = system("bidia wmd_t", evidence.systems["vbs"][8].beams, 8)
    moved = evidence_of({**evidence.systems, "bidia wmd_t": {8: wider}})

    assert list(ranks(moved)["systems"]) == ["bidia bleu_t", "oracle"]
    assert list(ranks(bidia(line(0, ["a"], ["a"], None)))["systems"]) == ["bidia bleu_t"]
    nothing, short = line(0, [], ["a"]), line(1, ["a"], ["a"])
    assert ranks(bidia(nothing, short))["systems"]["oracle"]["counts"] == [1, 0, 0]
    with pytest.raises(InputError, match="No source has hypotheses of both directions"):
        ranks(bidia(nothing))


def headroom_of(bleu: dict[str, dict[int, float]]) -> dict[str, Any]:
    """With these scores and nothing else."""
    vbs = {"vbs": {4: answering("vbs", ["a"], ["a"])}}
    return headroom(evidence_of(vbs, known={"vbs": {4: 0.0}, **bleu}))


def test_headroom_is_a_share_of_the_oracles_lead_at_the_same_n_b() -> None:
    found = headroom_of(
        {
            "vbs-tuned": {4: 1.0, 8: 2.0, 16: 5.0},
            "oracle": {4: 3.0, 8: 6.0, 32: 9.0},
            "bidia bleu_t": {4: 1.5, 8: 1.0},
        }
    )

    assert found == {
        "metric": "bleu",
        "baseline": "vbs-tuned",
        "by_beam_size": {"4": {"vbs": -0.5, "bidia bleu_t": 0.25}, "8": {"bidia bleu_t": -0.25}},
        "intervals": {},  # the systems themselves are not at hand
    }
    for oracle in (1.0, 0.5):  # no lead
        none = headroom_of({"vbs-tuned": {4: 1.0}, "oracle": {4: oracle}})
        assert none["by_beam_size"] == {"4": {"vbs": None}}
    equal = {name: {4: answering(name, ["a b c d"], ["a b c d"])} for name in ("vbs-tuned", "oracle", "vbs")}
    assert headroom(evidence_of(equal))["intervals"] == {"4": {"vbs": None}}


def resample_shares(evidence: Evidence, name: str, beam_size: int) -> list[float]:
    """A share, and its interval resample by resample, each scored by the metric."""

    def bleu(name: str, drawn: list[int]) -> float:
        chosen = evidence.systems[name][beam_size]
        replies = [chosen.replies[source] for source in drawn]
        return value_of("bleu", replies, [chosen.references[source] for source in drawn])

    sources = len(evidence.systems[name][beam_size].replies)
    drawn = np.random.default_rng(12345).choice(sources, size=(1000, sources)).tolist()
    shares = []
    for sample in [list(range(sources)), *drawn]:
        low, high = bleu("vbs-tuned", sample), bleu("oracle", sample)
        if high > low:
            shares.append((bleu(name, sample) - low) / (high - low))
    share, *shares = shares
    shares.sort()
    cut = len(shares) // 40
    return [share, shares[cut], shares[-1 - cut]]


@pytest.mark.parametrize("sources", [12, 4])  # of few, the oracle is often no better
def test_shares_and_intervals_are_what_plain_resampling_finds(sources: int) -> None:
    evidence = random_evidence(sources, seed=7)

    found = headroom(evidence)

    shares, intervals = found["by_beam_size"], found["intervals"]
    assert list(shares) == list(intervals) == ["4", "8"]
    assert intervals["8"].keys() == shares["8"].keys() == evidence.systems.keys() - {"vbs-tuned", "oracle"}
    expected = resample_shares(evidence, "longest", 8)
    assert [shares["8"]["longest"], *intervals["8"]["longest"]] == pytest.approx(expected, rel=1e-5)


def test_the_way_to_the_oracle_may_lead_down() -> None:
    """Error rates fall on it."""
    references = ["a b c d", "e f g h", "i j k l"]
    replies = {
        "vbs-tuned": ["a x x x", "e x x x", "i x x x"],
        "bidia bleu_t": ["a b x x", "e x x x", "i x x x"],
        "oracle": ["a b c x", "e f g h", "i j k x"],
    }
    systems = {name: {4: answering(name, texts, references)} for name, texts in replies.items()}

    found = headroom(evidence_of(systems, metric=build_metric("wer")))

    assert found["metric"] == "wer"
    assert found["by_beam_size"] == {"4": {"bidia bleu_t": pytest.approx(1 / 7)}}  # 9 edits, 8, 2
    low, high = found["intervals"]["4"]["bidia bleu_t"]
    assert 0 <= low <= 1 / 7 <= high <= 1


def test_the_oracle_of_ranks_chooses_by_the_metric() -> None:
    evidence = bidia(line(0, ["a b c x y", "a b c d"], ["a"], "a b c d z z z z z"))

    def place(metric: str) -> list[int]:
        found: dict[str, Any] = ranks(replace(evidence, metric=build_metric(metric)))["systems"]
        return list(found["oracle"]["counts"][:2])

    assert place("bleu") == place("sentence_bleu")
    assert place("wer") == [0, 1]
    assert place("distinct-1") == place("bleu")  # which says nothing of single replies


@pytest.mark.parametrize(
    ("bleu", "fragment"),
    [
        ({"oracle": {4: 1.0}}, "It needs the system 'vbs-tuned'"),
        ({"vbs-tuned": {4: 1.0}}, "It needs the system 'oracle'"),
        ({"vbs-tuned": {4: 1.0}, "oracle": {8: 1.0}}, "No other system has an N_B at which there are"),
    ],
)
def test_what_headroom_needs_is_named(bleu: dict[str, dict[int, float]], fragment: str) -> None:
    with pytest.raises(InputError, match=fragment):
        headroom_of(bleu)


def test_an_example_by_hand() -> None:
    beams = [line(0, ["a b c", "d e f g"], ["d e f g", "x"]), line(1, ["a"], ["a"])]
    evidence = bidia(*beams, beam_size=4, other=answering("other", ["a b c", "a"], ["r", "r"]))

    found = examples(replace(evidence, examples=1))

    matrix = BleuT(max_length=MAX_LENGTH).pairwise(beams[0].regular.hypotheses, beams[0].reverse.hypotheses)
    assert found == {
        "beam_size": 4,
        "examples": [
            {
                "id": "0",
                "source": "source 0",
                "reference": "r",
                "replies": {"bidia bleu_t": "d e f g", "other": "a b c"},
                "regular": ["a b c", "d e f g"],
                "reverse": ["d e f g", "x"],
                "tokens": {
                    "regular": [["a", "b", "c"], ["d", "e", "f", "g"]],
                    "reverse": [["d", "e", "f", "g"], ["x"]],
                },
                "scores": {
                    "regular": [round(each.score or 0.0, 3) for each in beams[0].regular],
                    "reverse": [round(each.score or 0.0, 3) for each in beams[0].reverse],
                },
                "finished": {"regular": [True, True], "reverse": [True, True]},
                "similarity": "bleu_t",
                "matrix": [[0, 0], [round(float(matrix[1, 0]), 3), 0]],
                "pair": [1, 0],
            }
        ],
    }
    assert 0 < matrix[1, 0] < 1


def test_examples_have_the_most_different_replies_first_each_source_once_and_two_beams() -> None:
    beams = [line(number, ["a", "b"], ["a"]) for number in range(4)]  # bidia says "a" everywhere
    beams += [replace(beams[1], id="same source"), line(5, ["a"], []), line(6, [], ["a"])]
    one = answering("one", ["a", "x", "a", "x", "x", "p", "p"], ["r"] * 7)
    other = answering("other", ["x", "y", "a", "y", "y", "q", "q"], ["r"] * 7)
    ids = [each.id for each in beams]
    one, other = (
        replace(each, beams=[replace(found, id=name) for found, name in zip(each.beams, ids, strict=True)])
        for each in (one, other)
    )

    found = examples(bidia(*beams, one=one, other=other))["examples"]

    assert [each["id"] for each in found] == ["1", "3", "0", "2"]
    assert [len(set(each["replies"].values())) for each in found] == [3, 3, 2, 1]
    assert examples(random_evidence(5, examples=0))["examples"] == []


@pytest.mark.parametrize("whole", [True, False])
def test_the_pair_is_that_of_the_reply_and_its_partner(whole: bool) -> None:
    evidence = random_evidence(40, whole=whole, examples=40)
    agreeing = evidence.agreeing
    rankings = {found.id: each for found, each in zip(agreeing.beams, agreeing.rankings, strict=True)}

    found = examples(evidence)["examples"]

    assert len(found) > 20
    for each in found:
        first = rankings[each["id"]].entries[0]
        row, column = each["pair"]
        assert each["regular"][row] == each["replies"]["bidia bleu_t"]
        assert [row, column] == [first.place, first.partner]
        assert each["matrix"][row][column] == pytest.approx(first.score, abs=5e-4)
        assert (len(each["matrix"]), len(each["matrix"][0])) == (len(each["regular"]), len(each["reverse"]))
