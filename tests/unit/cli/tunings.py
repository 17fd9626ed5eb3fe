"""How `bidibeam tune` is called, and what it wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bidibeam.metrics import build_metric
from tests.unit.cli.calls import called, lines_of

SEARCH = ("--beam-size", "4", "--max-length", "9")
FEW = (*SEARCH, "--sources", "3")
TUNED = ["vbs-tuned", "bidis", "bidia bleu_t", "bidia bleu_t expected", "bidia wmd_t", "loglinear"]
"""Some of what a model of both directions, with vectors, has settings for."""
SOME_SYSTEMS = ("vbs", "vbs-tuned", "bidis", "reverse-vbs", "mbr edit", "bidia bleu_t", "bidia bleu_t tuned")


def tuned_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "tuned.json").read_text())
    return content


def check_bleu(
    model: tuple[object, ...],
    folder: Path,
    sources: Path,
    search: tuple[str, ...],
    *,
    is_lowered: bool = False,
) -> None:
    """The BLEU that tuned.json names is that of the replies that decode writes."""
    content, found, bleu = tuned_of(folder), set(), build_metric("bleu", lowercase=is_lowered or None)
    references = [[line["reference"]] for line in lines_of(sources)]
    assert content["metric"] == str(bleu.signature)
    for system in (*SOME_SYSTEMS, "loglinear", "loglinear both", "loglinear edit both"):
        call = called("decode", model[0], sources, *model[1:], *search, "--strategy", system)
        value = bleu.values(bleu.statistics(call.replies, references).sum(axis=0, keepdims=True))[0]
        assert value == pytest.approx(content["values"][system]), system
        is_tuned = system.startswith(("vbs-tuned", "bidis", "loglinear")) or system.endswith(" tuned")
        assert ("|tuned:tuned.json@" in call.signature) == is_tuned
        found.add(value)
    assert len(found) > 1  # or tuning could have been left out
