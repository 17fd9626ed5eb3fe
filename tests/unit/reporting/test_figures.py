"""The figures: what they draw, and how systems look in them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure
from matplotlib.legend import Legend

from bidibeam.figures import save_figure, use_style
from bidibeam.reporting import plots
from bidibeam.reporting.analyses import Trial, draw_options, draw_penalty, draw_positions, draw_ranks
from bidibeam.reporting.paper import PAPER, PaperCorpus
from bidibeam.reporting.plots import (
    LOOKS,
    Look,
    Series,
    arrange_legend,
    assign_looks,
    draw_ranked,
    draw_tuning_curves,
)
from bidibeam.reporting.quality import draw_headroom, draw_quality

NAMES = ["vbs", "vbs-tuned", "bidia bleu_t"]


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with use_style():
        yield


def texts_of(svg: bytes) -> list[str]:
    """All text of a picture, as its file has it."""
    texts = ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return [(text.text or "").strip() for text in texts]


def words(figure: Figure) -> list[str]:
    return texts_of(save_figure(figure)["svg"])


def axes_of(figure: Figure) -> list[Any]:
    """The panels of a figure; matplotlib's types say too little of what is in them."""
    return list(figure.axes)


def labels(axes: Any) -> list[str]:
    return [str(line.get_label()).strip() for line in axes.lines]


def test_no_two_systems_look_the_same_and_each_looks_the_same_beside_any_others() -> None:
    names = [*LOOKS, *(f"mine {number}" for number in range(12))]

    assert len({(one.colour, one.marker, one.line) for one in assign_looks(names).values()}) == len(names)
    assert len({one.marker for one in LOOKS.values()}) == len(LOOKS)  # in black and white
    assert assign_looks(["b", "a", "vbs"]) == assign_looks(["vbs", "a", "b", "a"])
    assert assign_looks(["a"])["vbs"] == LOOKS["vbs"]


def test_quality_draws_lines_error_bars_and_the_papers_points() -> None:
    lines = [
        Series("vbs", [1, 10, 50], [0.7, 0.6, 0.5], [None, None, None]),
        Series("bidia bleu_t", [10, 50], [2.0, 2.5], [0.1, 0.2]),
    ]
    paper = PaperCorpus("Mine", bleu={"vbs": {6: 1.23, 50: 1.25}}, distinct={}, gain=0.12)

    figure = draw_quality(lines, assign_looks(NAMES), paper=paper, metric="bleu")

    (axes,) = axes_of(figure)
    highest_first = ["bidia bleu_t", "vbs", "paper: vbs", "paper: bidia bleu_t, +12 %"]
    assert labels(axes) == highest_first
    _, vbs, printed, claimed = axes.lines
    assert list(vbs.get_ydata()) == [0.7, 0.6, 0.5]
    assert list(printed.get_ydata()) == [1.23, 1.25]
    assert list(claimed.get_ydata()) == pytest.approx([1.4])
    assert printed.get_xdata()[0] < 6 < 50 < claimed.get_xdata()[0]  # clear of ours
    assert printed.get_markerfacecolor() == claimed.get_markerfacecolor() == "white"
    (bars,) = axes.collections
    assert [[round(float(y), 6) for _, y in bar] for bar in bars.get_segments()] == [[1.9, 2.1], [2.3, 2.7]]
    assert {"1", "6", "10", "50", "corpus BLEU-4 (0 to 100)"} <= set(words(figure))
    equal = [Series(name, [10, 50], [1.0, 1.0], [0.1, 0.1]) for name in NAMES]
    (axes,) = axes_of(draw_quality(equal, assign_looks(NAMES), paper=None, metric="bleu"))
    assert len({float(bars.get_segments()[0][0][0]) for bars in axes.collections}) == 3  # side by side


def test_the_oracle_has_a_panel_and_a_scale_of_its_own() -> None:
    ends = {"vbs": 0.5, "bidia bleu_t": 1.5, "oracle": 6.0}
    lines = [Series(name, [1, 50], [0.7, end]) for name, end in ends.items()]
    paper = PAPER["cornell"]

    others, best = axes_of(draw_quality(lines, assign_looks(NAMES), paper=paper, metric="bleu"))

    assert labels(others) == ["bidia bleu_t", "vbs", "paper: vbs", "paper: bidia bleu_t, +9 %"]
    assert labels(best) == ["oracle", "vbs", "paper: oracle"]
    assert others.get_ylim()[0] == best.get_ylim()[0] == 0
    assert others.get_ylim()[1] < 2 < 6 < best.get_ylim()[1]
    assert others.get_xlim() == best.get_xlim()
    (alone,) = axes_of(draw_quality(lines[2:], assign_looks(NAMES), paper=None, metric="bleu"))
    assert list(alone.lines[0].get_ydata()) == [0.7, 6.0]


def test_variants_of_bidia_have_a_panel_of_their_own_where_lines_are_many() -> None:
    names = ["bidia bleu_t", "bidia bleu_t either", "vbs-tuned", *(f"mine {number}" for number in range(6))]
    lines = [Series(name, [10, 50], [5.0, 5.5]) for name in names]

    figure = draw_quality(lines, assign_looks(names), paper=PAPER["cornell"], metric="bleu")

    assert [set(labels(axes)) for axes in axes_of(figure)] == [
        {*names, "paper: vbs", "paper: bidia bleu_t, +9 %"} - {names[1]},
        {*names[:3]},
    ]
    assert [axes.get_ylim()[0] for axes in axes_of(figure)] == pytest.approx([0, 5], abs=0.5)
    assert len(axes_of(draw_quality(lines[:8], assign_looks(names), paper=None, metric="bleu"))) == 1


@pytest.mark.parametrize("is_low", [True, False])
def test_at_one_beam_size_systems_stand_in_order_and_what_is_far_off_has_its_number(is_low: bool) -> None:
    sign = 1 if is_low else -1
    values = {"vbs": 21.0, "bidis": 20.0, "bidis control": 20.4, "mbr bleu": 21.0 + sign * 28.7}
    series = [Series(name, [50], [value], [0.2]) for name, value in values.items()]

    figure = draw_ranked(series, "SER", lower_is_better=is_low, hollow=["bidis control"])

    (axes,) = axes_of(figure)
    best_first = ["bidis", "bidis control", "vbs"] if is_low else ["vbs", "bidis control", "bidis"]
    assert [label.get_text() for label in axes.get_yticklabels()] == [*best_first, "mbr bleu"]
    assert f"{values['mbr bleu']:.1f}" in words(figure)
    reach = [line.get_xdata()[0] for line in axes.lines]
    assert max(reach) - min(reach) < 5  # so that the others can be told apart
    faces = [line.get_markerfacecolor() for line in axes.lines]
    assert faces.index("white") == 1


def test_what_lies_within_the_bars_of_others_is_drawn_where_it_is() -> None:
    values = {"bidia": (64.7, 3.0), "bidis": (64.0, 2.0), "reverse-vbs": (63.6, 6.0), "mbr bleu": (58.2, 0.5)}
    series = [Series(name, [50], [value], [spread]) for name, (value, spread) in values.items()]

    figure = draw_ranked(series, "BLEU", lower_is_better=False)

    (axes,) = axes_of(figure)
    assert [line.get_xdata()[0] for line in axes.lines] == [64.7, 64.0, 63.6, 58.2]
    assert "58.2" not in words(figure)


def test_headroom_is_in_per_cent_and_one_bad_system_does_not_flatten_the_others() -> None:
    lines = [Series("bidia bleu_t", [2, 50], [0.2, 0.25]), Series("vbs", [2, 50], [-9.0, -0.5])]

    (axes,) = axes_of(draw_headroom(lines, assign_looks(NAMES), baseline="vbs-tuned"))

    (line, *_) = axes.lines
    assert list(line.get_ydata()) == [20.0, 25.0]
    assert axes.get_ylim() == (-60.0, 32.5)
    assert list(axes.lines[labels(axes).index("vbs")].get_xdata()) == [50]  # too low at 2
    assert axes.get_ylabel() == "headroom captured (%)\n0 = vbs-tuned, 100 = oracle"


def test_ranks_are_bars_in_per_cent_with_the_ties_as_an_outline() -> None:
    figure = draw_ranks(
        {"bidia bleu_t": ([0.75, 0.25], [0.5, 0.5]), "oracle": ([1.0, 0.0], [])}, assign_looks(NAMES)
    )

    left, right = axes_of(figure)
    assert [bar.get_height() for bar in left.containers[0]] == [75.0, 25.0]
    assert [bar.get_height() for bar in right.containers[0]] == [100.0, 0.0]
    (outline,) = (patch for patch in left.patches if type(patch).__name__ == "StepPatch")
    assert list(outline.get_data().values) == [50.0, 50.0]
    assert not any(type(patch).__name__ == "StepPatch" for patch in right.patches)
    assert {"bidia bleu_t", "oracle", "sources (%)", "ties shared equally"} <= set(words(figure))


def test_positions_note_how_many_words_are_common_and_show_odd_words_as_they_are() -> None:
    panel = {"position": 1, "words": ["$x$", "<s>", "a\x00b", "extraordinarily", "no"], "above_1000": 2}
    panel["counts"] = [9000, 2000, 10, 2, 1]
    empty = {"position": 3, "words": [], "counts": [], "above_1000": 0}

    figure = draw_positions([("left", panel), ("left", panel), ("right", panel)])

    said = words(figure)
    assert said.count("2 above 1,000") == 3
    assert (said.count("$x$ <s> ab"), said.count("extraordi…")) == (3, 3)
    assert {"1 from the left", "1 from the right", "1,000", "10,000"} <= set(said)
    assert figure.axes[0].get_yscale() == "log"
    assert "0 above 1,000" in words(draw_positions([("left", empty)]))


def test_the_penalty_is_drawn_over_numbers_in_order_with_none_apart_and_no_two_values_run_together() -> None:
    trials = [
        Trial("none", 1.0, 0.4, is_default=False),
        Trial("10", 2.0, None, is_default=False),
        Trial("5", 1.5, 0.5, is_default=True),
    ]
    levels = {"longest": Trial("longest", 1.9, 1.2, is_default=False)}

    figure = draw_penalty({"bidia bleu_t": trials}, levels, assign_looks(NAMES), "bleu")

    left, right = axes_of(figure)
    joined, apart, ring, level, _ = left.lines
    assert (list(joined.get_xdata()), list(joined.get_ydata())) == ([0, 1], [1.5, 2.0])
    assert (list(apart.get_xdata()), list(apart.get_ydata())) == ([2], [1.0])
    assert (list(ring.get_xdata()), list(ring.get_ydata())) == ([0], [1.5])
    assert list(level.get_ydata()) == [1.9, 1.9]
    assert list(right.lines[0].get_xdata()) == [0]  # nobody measured the other's length
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["5", "10", "none"]

    values = [*map(str, (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60)), "none"]
    trials = [Trial(value, 1.0, 1.0, is_default=False) for value in values]
    figure = draw_penalty({"bidia bleu_t": trials}, {}, assign_looks(NAMES), "bleu")
    figure.draw_without_rendering()
    for axes in axes_of(figure):
        boxes = [tick.get_window_extent() for tick in axes.get_xticklabels()]
        assert [tick.get_text() for tick in axes.get_xticklabels()] == values
        gaps = [right.x0 - left.x1 for left, right in itertools.pairwise(boxes)]
        assert min(gaps) > 2  # dots


def test_options_have_a_row_a_value_and_the_default_is_filled() -> None:
    order = [Trial("4", 2.0, None, is_default=True), Trial("1", 1.0, None, is_default=False)]
    answer = [Trial("regular", 2.0, None, is_default=True)]
    groups = {"order": {"bidia bleu_t": order}, "answer": {"vbs": answer, "bidia bleu_t": answer}}

    (axes,) = axes_of(draw_options(groups, assign_looks(NAMES), "bleu"))

    ticks = [tick.get_text() for tick in axes.get_yticklabels()]
    assert ticks == ["order = 1", "order = 4", "answer = regular"]
    filled = {float(line.get_xdata()[0]): line.get_markerfacecolor() for line in axes.lines[:2]}
    assert filled == {2.0: LOOKS["bidia bleu_t"].colour, 1.0: "white"}
    assert [label for label in labels(axes) if not label.startswith("_")] == ["bidia bleu_t", "vbs"]


SIZES = [1, 2, 5, 6, 10, 20, 30, 40, 50]
MANY = [*LOOKS, "loglinear edit both control", "bidia embedding_cosine tuned expected", "a b"]
LINES = [
    Series(name, SIZES, [place + size / 9 for size in SIZES], [0.5] * len(SIZES))
    for place, name in enumerate(MANY)
]
LONG_OPTION = {"remove_stop_words": {name: [Trial("false", 1.5, 1.0, is_default=True)] for name in MANY}}
TRIALS = {name: [Trial("5", 1.0, 1.0, is_default=False)] for name in MANY}
DRAWN: dict[str, Callable[[dict[str, Look]], Figure]] = {
    "quality": lambda looks: draw_quality(LINES, looks, paper=PAPER["cornell"], metric="bleu"),
    "one size": lambda _: draw_ranked(LINES, "corpus BLEU-4 (0 to 100)", lower_is_better=False),
    "headroom": lambda looks: draw_headroom(LINES, looks, baseline="vbs-tuned"),
    "ranks": lambda looks: draw_ranks({name: ([0.75, 0.25], [0.5, 0.5]) for name in MANY}, looks),
    "penalty": lambda looks: draw_penalty(TRIALS, {}, looks, "bleu"),
    "options": lambda looks: draw_options(LONG_OPTION, looks, "bleu"),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_figure_fits_a_phone_with_all_of_its_text_and_no_names_run_together(name: str) -> None:
    """390 pixels less the margins are as wide as the figure, so that 9 points are more than 11 pixels."""
    figure = DRAWN[name](assign_looks(MANY))
    figure.draw_without_rendering()

    assert figure.get_figwidth() * 96 * 11 / 12 <= 358  # pixels, at which 9 points are 11
    box, (width, height) = figure.get_tightbbox(), figure.get_size_inches()
    assert min(box.x0, box.y0) >= -0.01
    assert (box.x1 <= width + 0.01, box.y1 <= height + 0.01) == (True, True)
    entries = [text for legend in figure.findobj(Legend) for text in legend.get_texts()]
    labels = [label for axes in axes_of(figure) for label in axes.get_xticklabels() if label.get_text()]
    for group in (entries, labels):
        boxes = [text.get_window_extent() for text in group]
        assert not [pair for pair in itertools.combinations(boxes, 2) if pair[0].overlaps(pair[1])]


def test_a_legend_has_as_many_columns_as_its_names_leave_room_for() -> None:
    assert arrange_legend([3, 3, 3, 3]) == (3, 2)
    assert arrange_legend([21, 22, 4]) == (2, 2)
    assert arrange_legend([21, 21, 4, 25]) == (1, 4)
    assert arrange_legend([40]) == arrange_legend([3]) == (1, 1)
    assert arrange_legend([]) == (1, 0)


PANELS = [("lambda", (0.0, 0.5, 1.0), (1.0, 3.0, 2.0), 0.5), ("word reward", (0.0, 2.0), (1.5, 1.0), 0.0)]


def test_tuning_curves_are_a_file_of_the_suffixs_format_and_the_same_each_time(tmp_path: Path) -> None:
    for name in ("one.svg", "other.svg", "tuned.png"):
        assert draw_tuning_curves(tmp_path / name, PANELS, baseline=("vbs as searched", 1.2), metric="BLEU")

    picture = (tmp_path / "one.svg").read_bytes()
    assert picture == (tmp_path / "other.svg").read_bytes()
    assert (tmp_path / "tuned.png").read_bytes().startswith(b"\x89PNG")
    texts = texts_of(picture)
    for label in ("lambda", "word reward", "BLEU on validation", "best: 0.5", "best: 0"):
        assert texts.count(label) == 1
    assert texts.count("vbs as searched") == 2  # in each panel
    assert len([*tmp_path.iterdir()]) == 3


def test_each_tuning_curve_has_its_own_scale(tmp_path: Path) -> None:
    panels = [("lambda", (0.0, 1.0), (0.002, 0.0), 0.0), ("exponent", (0.0, 1.0), (0.0, 0.5), 1.0)]

    assert draw_tuning_curves(tmp_path / "curves.svg", panels, baseline=("vbs", 0.001), metric="BLEU")

    ticks = texts_of((tmp_path / "curves.svg").read_bytes())
    assert {"0.00200", "0.5"} <= set(ticks)


def test_without_matplotlib_no_curve_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda _: None)

    assert not draw_tuning_curves(tmp_path / "tuned.svg", PANELS, baseline=("vbs", 1.2), metric="BLEU")
    assert list(tmp_path.iterdir()) == []
