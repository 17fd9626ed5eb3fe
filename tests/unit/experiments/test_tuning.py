"""The notes of tuning in an experiment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bidibeam.experiments.layout import Layout
from bidibeam.experiments.measure import Measurement
from bidibeam.experiments.plan import Plan
from bidibeam.experiments.settings import resolve
from bidibeam.experiments.stages import Progress
from bidibeam.strategies.tuning import Curve, TuningResult


class Listener(Progress):
    """Remembers the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)


def test_values_at_the_end_of_a_grid_are_one_note_and_stand_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid = (0.0, 1.0, 9.0)
    found = {
        2: TuningResult({"bidis": {"lambda_": 1.0}}, {}, (Curve("lambda", {}, grid, (1.0, 3.0, 2.0)),), 4),
        5: TuningResult({"bidia wmd_t": {"T": 60.0}}, {}, (Curve("T", {}, (2, 60), (1.0, 3.0)),), 4),
        6: TuningResult({"bidis": {"lambda_": 9.0}}, {}, (Curve("lambda", {}, grid, (1.0, 2.0, 3.0)),), 4),
    }
    monkeypatch.setattr(Measurement, "tune_size", lambda _self, size, _files: found[size])
    layout, progress = Layout(tmp_path, tmp_path / "data"), Listener()
    place = layout.seed(0)
    place.folder.mkdir()
    place.model.write_text(json.dumps({"weights": "abc"}))
    settings = resolve(preset="demo", overrides=["beam_sizes=[2,5,6]"])

    Measurement(Plan(layout, settings, None, "cpu", 1, progress), place).tune()

    told = "At the end of what was tried, so better may lie beyond:"
    assert progress.notes == [
        f"N_B = 5: {told} T of bidia wmd_t (60 of 2 to 60). N_B = 6: {told} lambda of bidis (9 of 0 to 9)."
    ]
    ends = {size: json.loads(place.tuned(size).read_text())["at_end"] for size in found}
    assert ends == {
        2: [],
        5: [{"name": "bidia wmd_t", "setting": "T", "value": 60}],
        6: [{"name": "bidis", "setting": "lambda", "value": 9.0}],
    }
