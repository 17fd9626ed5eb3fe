"""Perplexity: what training itself would say of the same pairs."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from bidibeam.api import load_run
from bidibeam.data.prepared import PreparedData
from bidibeam.errors import InputError
from bidibeam.evaluation.perplexity import perplexities
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.run import RunModel as Run
from bidibeam.training.logs import read_metrics


@pytest.fixture(scope="module")
def run(toy_run: Path) -> Run:
    return load_run(toy_run, device="cpu")


def examples(data: PreparedData, split: str) -> list[Beams]:
    return [
        Beams(example["id"], example["source"], tuple(example["references"]))
        for example in data.examples(split)
    ]


def test_it_is_the_exponential_of_the_validation_loss(run: Run, toy_data: PreparedData) -> None:
    best = min(
        (record for record in read_metrics(run.path) if record["kind"] == "validation"),
        key=lambda record: float(record["loss"]),
    )

    found = perplexities(run, examples(toy_data, "validation"))

    for direction in Direction:
        value, signature = found[direction]
        assert value == pytest.approx(math.exp(best[f"loss_{direction}"]), rel=1e-4)
        assert f"direction:{direction}|" in str(signature)
        assert f"model:{run.fingerprint}" in str(signature)


def test_it_does_not_depend_on_how_sources_are_batched(
    run: Run, toy_data: PreparedData, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = list(islice(examples(toy_data, "test"), 5))
    together = perplexities(run, lines)
    monkeypatch.setattr("bidibeam.evaluation.perplexity.BATCH", 2)

    apart = perplexities(run, lines)

    for direction in Direction:
        assert apart[direction][0] == pytest.approx(together[direction][0], rel=1e-6)


def test_every_reference_counts(run: Run, toy_data: PreparedData) -> None:
    one, other = examples(toy_data, "test")[:2]
    both = replace(one, references=(*one.references, *other.references))

    together = perplexities(run, [both, other])
    apart = perplexities(run, [one, replace(one, references=other.references), other])

    for direction in Direction:
        assert together[direction][0] == pytest.approx(apart[direction][0], rel=1e-6)


def test_a_missing_reference_or_no_source_at_all_is_refused(run: Run, toy_data: PreparedData) -> None:
    line = examples(toy_data, "test")[0]

    with pytest.raises(InputError, match="has no reference"):
        perplexities(run, [replace(line, references=())])
    with pytest.raises(InputError, match="no sources"):
        perplexities(run, [])
