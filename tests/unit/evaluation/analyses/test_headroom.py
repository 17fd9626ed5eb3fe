"""How far from tuned VBS to the oracle."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bidibeam.errors import InputError
from bidibeam.evaluation.analyses.evidence import Evidence
from bidibeam.evaluation.analyses.headroom import headroom
from bidibeam.metrics import METRICS
from bidibeam.metrics.bleu import CorpusBleu as Bleu
from tests.unit.evaluation.analyses.evidences import answering, evidence_of, random_evidence

HERE = {"vbs": {4: answering("vbs", ["a"], ["a"])}}


def of(bleu: dict[str, dict[int, float]]) -> dict[str, Any]:
    """With these scores and nothing else."""
    return headroom(evidence_of(HERE, bleu={"vbs": {4: 0.0}, **bleu}))


def test_it_is_a_share_of_the_oracles_lead_at_the_same_n_b() -> None:
    found = of(
        {
            "vbs-tuned": {4: 1.0, 8: 2.0, 16: 5.0},
            "oracle": {4: 3.0, 8: 6.0, 32: 9.0},
            "bidia bleu_t": {4: 1.5, 8: 1.0},
        }
    )

    assert found == {
        "baseline": "vbs-tuned",
        "by_beam_size": {"4": {"vbs": -0.5, "bidia bleu_t": 0.25}, "8": {"bidia bleu_t": -0.25}},
        "intervals": {},  # the systems themselves are not at hand
    }


@pytest.mark.parametrize("oracle", [1.0, 0.5])
def test_without_a_lead_there_is_no_share(oracle: float) -> None:
    assert of({"vbs-tuned": {4: 1.0}, "oracle": {4: oracle}})["by_beam_size"] == {"4": {"vbs": None}}


def test_scores_that_nobody_knows_are_computed() -> None:
    evidence = random_evidence()

    def bleu(name: str) -> float:
        system = evidence.systems[name][8]
        return METRICS.create("bleu").score(system.reply_words, system.reference_words).value

    expected = (bleu("bidia wmd_t") - bleu("vbs-tuned")) / (bleu("oracle") - bleu("vbs-tuned"))
    shares = headroom(evidence)["by_beam_size"]
    assert shares["8"]["bidia wmd_t"] == pytest.approx(expected)
    assert list(shares) == ["4", "8"]
    assert not {"oracle", "vbs-tuned"} & set(shares["8"])


def slowly(evidence: Evidence, name: str, beam_size: int, samples: int = 1000) -> list[float]:
    """The interval of a share, resample by resample, each scored by the metric."""

    def bleu(name: str, drawn: list[int]) -> float:
        system = evidence.systems[name][beam_size]
        replies = [system.reply_words[source] for source in drawn]
        return Bleu().score(replies, [system.reference_words[source] for source in drawn]).value

    sources = len(evidence.systems[name][beam_size].replies)
    shares = []
    for drawn in np.random.default_rng(12345).choice(sources, size=(samples, sources)).tolist():
        low, high = bleu("vbs-tuned", drawn), bleu("oracle", drawn)
        if high > low:
            shares.append((bleu(name, drawn) - low) / (high - low))
    shares.sort()
    cut = len(shares) // 40
    return [shares[cut], shares[-1 - cut]]


@pytest.mark.parametrize("sources", [25, 4])  # of few, the oracle is often no better
def test_intervals_are_what_resampling_slowly_finds(sources: int) -> None:
    evidence = random_evidence(sources, seed=7)

    found = headroom(evidence)["intervals"]

    assert list(found) == ["4", "8"]
    assert found["8"].keys() == evidence.systems.keys() - {"vbs-tuned", "oracle"}
    for name in ("bidia bleu_t", "longest"):
        assert found["8"][name] == pytest.approx(slowly(evidence, name, 8), rel=1e-5)
        assert found["8"][name][0] < found["8"][name][1]


def test_a_share_lies_in_its_interval() -> None:
    found = headroom(random_evidence(200))

    for size, intervals in found["intervals"].items():
        for name, (low, high) in intervals.items():
            assert low <= found["by_beam_size"][size][name] <= high


def test_intervals_have_the_systems_that_are_at_hand() -> None:
    whole = random_evidence(20)
    systems = {
        name: {8: sizes[8]} for name, sizes in whole.systems.items() if name in ("vbs-tuned", "oracle", "vbs")
    }
    known = {name: {4: 1.0, 8: 2.0} for name in ("vbs", "bidis")}
    bleu = {**known, "vbs-tuned": {4: 0.5, 8: 1.0}, "oracle": {4: 3.0, 8: 4.0}}

    found = headroom(evidence_of(systems, bleu=bleu))

    assert {size: list(shares) for size, shares in found["by_beam_size"].items()} == {
        "4": ["vbs", "bidis"],
        "8": ["vbs", "bidis"],
    }
    assert {size: list(intervals) for size, intervals in found["intervals"].items()} == {"8": ["vbs"]}


def test_without_a_lead_there_is_no_interval() -> None:
    systems = {
        name: {4: answering(name, ["a b c d"], ["a b c d"])} for name in ("vbs-tuned", "oracle", "vbs")
    }

    found = headroom(evidence_of(systems))

    assert (found["by_beam_size"], found["intervals"]) == ({"4": {"vbs": None}}, {"4": {"vbs": None}})


@pytest.mark.parametrize(
    ("bleu", "message"),
    [
        ({"oracle": {4: 1.0}}, "It needs the system 'vbs-tuned', which is not there."),
        ({"vbs-tuned": {4: 1.0}}, "It needs the system 'oracle', which is not there."),
        (
            {"vbs-tuned": {4: 1.0}, "oracle": {8: 1.0}},
            "No other system has an N_B at which there are 'vbs-tuned' and 'oracle' too.",
        ),
    ],
)
def test_what_is_missing_is_named(bleu: dict[str, dict[int, float]], message: str) -> None:
    with pytest.raises(InputError) as caught:
        of(bleu)
    assert str(caught.value) == message
