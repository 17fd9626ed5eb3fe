"""Figures, as files."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from bidibeam.reporting import plots
from bidibeam.reporting.plots import curves_figure

PANELS = [
    ("lambda", (0.0, 0.5, 1.0), (1.0, 3.0, 2.0), 0.5),
    ("word reward", (0.0, 2.0), (1.5, 1.0), 0.0),
]


def test_the_curves_are_a_picture_with_their_names_as_text(tmp_path: Path) -> None:
    path = tmp_path / "tuned.svg"

    assert curves_figure(path, PANELS, baseline=("vbs as searched", 1.2))

    picture = ElementTree.fromstring(path.read_text())
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    for label in ("lambda", "word reward", "corpus BLEU on validation", "best: 0.5", "best: 0"):
        assert words.count(label) == 1
    assert words.count("vbs as searched") == 2  # in each panel
    assert [path.name for path in tmp_path.iterdir()] == ["tuned.svg"]


def test_the_same_curves_are_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one.svg", "other.svg"):
        assert curves_figure(tmp_path / name, PANELS, baseline=("vbs", 1.2))

    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


def test_the_name_decides_the_format(tmp_path: Path) -> None:
    assert curves_figure(tmp_path / "tuned.png", PANELS, baseline=("vbs", 1.2))

    assert (tmp_path / "tuned.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_nothing_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda _: None)

    assert not curves_figure(tmp_path / "tuned.svg", PANELS, baseline=("vbs", 1.2))
    assert list(tmp_path.iterdir()) == []


def test_every_curve_is_seen_whole_whatever_the_other_panels_show(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[tuple[float, float]] = []

    def saved(figure: Figure, path: Path, **_: object) -> None:
        path.touch()
        limits.extend(axis.get_ylim() for axis in figure.axes)

    monkeypatch.setattr(Figure, "savefig", saved)
    panels = [("lambda", (0.0, 1.0), (0.002, 0.0), 0.0), ("exponent", (0.0, 1.0), (0.0, 0.5), 1.0)]

    assert curves_figure(tmp_path / "curves.svg", panels, baseline=("vbs", 0.001))

    assert [bottom for bottom, _ in limits] == [0.0, 0.0]
    assert [top for _, top in limits] == pytest.approx([0.0022, 0.55])
