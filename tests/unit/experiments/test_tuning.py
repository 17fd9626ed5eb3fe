"""What tuning tells whoever watches an experiment."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bidibeam.experiments import tuning
from bidibeam.experiments.layout import VALIDATION, SeedLayout
from bidibeam.experiments.watching import Nobody
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.tuning import Curve, TuningResult


class Listener(Nobody):
    """Remembers what was noted."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)


def test_values_at_the_end_of_a_grid_are_one_note_and_stand_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {
        2: TuningResult(
            {"bidis": {"lambda_": 1.0}}, {}, (Curve("lambda", {}, (0.0, 1.0, 9.0), (1.0, 3.0, 2.0)),), 4
        ),
        5: TuningResult({"bidia wmd_t": {"T": 60.0}}, {}, (Curve("T", {}, (2, 60), (1.0, 3.0)),), 4),
        6: TuningResult(
            {"bidis": {"lambda_": 9.0}}, {}, (Curve("lambda", {}, (0.0, 1.0, 9.0), (1.0, 2.0, 3.0)),), 4
        ),
    }
    monkeypatch.setattr(tuning, "_tuned", lambda _plan, size, *_others: found[size])
    place, audience = SeedLayout(tmp_path), Listener()
    place.model.write_text(json.dumps({"weights": "abc"}))
    settings = SimpleNamespace(largest=6, searching=lambda size: SearchSettings(beam_size=size))
    plan: Any = SimpleNamespace(
        settings=settings, beams={VALIDATION: {}}, audience=audience, tuned_sizes=tuple(found)
    )

    tuning.tune_sizes(plan, place)

    told = "At the end of what was tried, so better may lie beyond:"
    assert audience.notes == [
        f"N_B = 5: {told} T of bidia wmd_t (60 of 2 to 60). N_B = 6: {told} lambda of bidis (9 of 0 to 9)."
    ]
    ends = {size: json.loads(place.tuned(size).read_text())["at_end"] for size in found}
    assert ends == {
        2: [],
        5: [{"name": "bidia wmd_t", "setting": "T", "value": 60}],
        6: [{"name": "bidis", "setting": "lambda", "value": 9.0}],
    }
