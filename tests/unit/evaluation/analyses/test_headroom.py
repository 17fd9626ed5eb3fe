"""How far from tuned VBS to the oracle."""

from __future__ import annotations

from typing import Any

import pytest

from bidibeam.errors import InputError
from bidibeam.evaluation.analyses.headroom import headroom
from bidibeam.metrics import METRICS
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
