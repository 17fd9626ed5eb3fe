"""The figures: what they draw, and how systems look in them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from bidibeam.reporting.figures.agreement import CELL, MARGIN, heat_map
from bidibeam.reporting.figures.headroom import draw_headroom
from bidibeam.reporting.figures.options import draw_options
from bidibeam.reporting.figures.penalty import Trial, draw_penalty
from bidibeam.reporting.figures.positions import draw_positions
from bidibeam.reporting.figures.quality import draw_quality
from bidibeam.reporting.figures.ranks import draw_ranks
from bidibeam.reporting.figures.systems import LOOKS, Line, looks
from bidibeam.reporting.plots import drawing, saved

NAMES = ["vbs", "vbs-tuned", "bidia bleu_t"]


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with drawing():
        yield


def words(figure: Figure) -> list[str]:
    """All text of a figure, as its file has it."""
    texts = ElementTree.fromstring(saved(figure)["svg"]).iter("{http://www.w3.org/2000/svg}text")
    return [(text.text or "").strip() for text in texts]


def axes_of(figure: Figure) -> list[Any]:
    """The panels of a figure; matplotlib's types say too little of what is in them."""
    return list(figure.axes)


def test_no_two_systems_look_the_same() -> None:
    names = [*LOOKS, *(f"mine {number}" for number in range(12))]
    look = looks(names)

    assert len({(one.colour, one.marker, one.line) for one in look.values()}) == len(names)
    markers = [one.marker for one in LOOKS.values()]
    assert len(set(markers)) == len(markers)  # in black and white


def test_a_system_looks_the_same_beside_whatever_others_in_whatever_order() -> None:
    assert looks(["b", "a", "vbs"]) == looks(["vbs", "a", "b", "a"])
    assert looks(["a"])["vbs"] == LOOKS["vbs"]


def test_quality_draws_every_line_its_spread_and_the_papers_points() -> None:
    lines = [
        Line("vbs", [1, 10, 50], [0.7, 0.6, 0.5], [None, None, None]),
        Line("bidia bleu_t", [10, 50], [2.0, 2.5], [0.1, 0.2]),
    ]

    figure = draw_quality(
        lines, looks(NAMES), paper={"vbs": {6: 1.23}}, claim=("paper: +9 %", "bidia bleu_t", 50, 1.4)
    )

    (axes,) = axes_of(figure)
    drawn = {str(line.get_label()).strip(): line for line in axes.lines}
    assert [*drawn] == ["bidia bleu_t", "vbs", "paper: vbs", "paper: +9 %"]  # the highest first
    assert list(drawn["vbs"].get_ydata()) == [0.7, 0.6, 0.5]
    assert (list(drawn["paper: vbs"].get_ydata()), list(drawn["paper: +9 %"].get_ydata())) == ([1.23], [1.4])
    (bars,) = axes.collections
    assert [[round(float(y), 6) for _, y in bar] for bar in bars.get_segments()] == [[1.9, 2.1], [2.3, 2.7]]
    assert {"1", "6", "10", "50", "corpus BLEU-4 (0 to 100)"} <= set(words(figure))


def test_what_the_paper_prints_lies_on_top_white_and_larger_and_beside_our_points() -> None:
    lines = [Line("vbs", [10, 50], [0.6, 0.5]), Line("bidia bleu_t", [10, 50], [2.0, 1.4])]

    (axes,) = axes_of(
        draw_quality(
            lines, looks(NAMES), paper={"vbs": {50: 0.5}}, claim=("paper: +9 %", "bidia bleu_t", 50, 1.4)
        )
    )

    drawn = {str(line.get_label()).strip(): line for line in axes.lines}
    for name, ours in (("paper: vbs", "vbs"), ("paper: +9 %", "bidia bleu_t")):
        assert drawn[name].get_markerfacecolor() == "white"
        assert drawn[name].get_markersize() > drawn[ours].get_markersize()
        assert drawn[name].get_zorder() > max(drawn[one].get_zorder() for one in ("vbs", "bidia bleu_t"))
    assert 45 < drawn["paper: vbs"].get_xdata()[0] < 50 < drawn["paper: +9 %"].get_xdata()[0] < 60


def test_the_oracle_has_a_panel_and_a_scale_of_its_own() -> None:
    lines = [
        Line("vbs", [1, 50], [0.7, 0.5]),
        Line("bidia bleu_t", [1, 50], [0.7, 1.5]),
        Line("oracle", [1, 50], [0.7, 6.0]),
    ]

    others, best = axes_of(
        draw_quality(lines, looks(NAMES), paper={"vbs": {50: 1.3}, "oracle": {50: 2.56}}, claim=None)
    )

    named = [[str(line.get_label()).strip() for line in axes.lines] for axes in (others, best)]
    assert named == [["bidia bleu_t", "vbs", "paper: vbs"], ["oracle", "vbs", "paper: oracle"]]
    assert others.get_ylim()[0] == best.get_ylim()[0] == 0
    assert others.get_ylim()[1] < 2
    assert best.get_ylim()[1] > 6
    assert others.get_xlim() == best.get_xlim()


def test_an_oracle_alone_is_one_panel() -> None:
    (axes,) = axes_of(draw_quality([Line("oracle", [1, 50], [0.7, 6.0])], looks(NAMES), paper={}))

    assert list(axes.lines[0].get_ydata()) == [0.7, 6.0]


def test_bars_at_the_same_beam_size_stand_side_by_side() -> None:
    lines = [Line(name, [10, 50], [1.0, 1.0], [0.1, 0.1]) for name in NAMES]

    (axes,) = axes_of(draw_quality(lines, looks(NAMES), paper={}))

    places = [float(bars.get_segments()[0][0][0]) for bars in axes.collections]
    assert len(set(places)) == 3
    assert all(9.5 < place < 10.5 for place in places)
    alone = [Line(name, [10, 50], [1.0, 1.0], [None, None]) for name in NAMES]
    (axes,) = axes_of(draw_quality(alone, looks(NAMES), paper={}))
    assert {tuple(line.get_xdata()) for line in axes.lines} == {(10, 50)}


def test_the_variants_of_agreement_have_a_panel_of_their_own_where_lines_are_many() -> None:
    names = ["bidia bleu_t", "bidia bleu_t either", "vbs-tuned", *(f"mine {number}" for number in range(6))]
    lines = [Line(name, [10, 50], [5.0, 5.5]) for name in names]

    figure = draw_quality(lines, looks(names), paper={"vbs": {50: 1.3}})

    named = [{str(line.get_label()).strip() for line in axes.lines} for axes in axes_of(figure)]
    assert named == [{*names, "paper: vbs"} - {names[1]}, {*names[:3]}]
    assert [axes.get_ylim()[0] for axes in axes_of(figure)] == pytest.approx([0, 5], abs=0.5)
    assert len(axes_of(draw_quality(lines[:8], looks(names), paper={}))) == 1


def test_headroom_is_in_per_cent_and_one_bad_system_does_not_flatten_the_others() -> None:
    lines = [Line("bidia bleu_t", [2, 50], [0.2, 0.25]), Line("vbs", [2, 50], [-9.0, -0.5])]

    (axes,) = axes_of(draw_headroom(lines, looks(NAMES), baseline="vbs-tuned"))

    (line, *_) = axes.lines
    assert list(line.get_ydata()) == [20.0, 25.0]
    assert axes.get_ylim() == (-60.0, 32.5)
    (bad,) = (line for line in axes.lines if str(line.get_label()).strip() == "vbs")
    assert list(bad.get_xdata()) == [50]  # too low at 2
    assert axes.get_ylabel() == "headroom captured (%)\n0 = vbs-tuned, 100 = oracle"


def test_ranks_are_bars_in_per_cent_with_the_ties_as_an_outline() -> None:
    figure = draw_ranks(
        {"bidia bleu_t": ([0.75, 0.25], [0.5, 0.5]), "oracle": ([1.0, 0.0], [])}, looks(NAMES)
    )

    left, right = axes_of(figure)
    assert [bar.get_height() for bar in left.containers[0]] == [75.0, 25.0]
    assert [bar.get_height() for bar in right.containers[0]] == [100.0, 0.0]
    (outline,) = (patch for patch in left.patches if type(patch).__name__ == "StepPatch")
    assert list(outline.get_data().values) == [50.0, 50.0]
    assert not any(type(patch).__name__ == "StepPatch" for patch in right.patches)
    assert {"bidia bleu_t", "oracle", "sources (%)", "ties shared equally"} <= set(words(figure))


def test_positions_note_how_many_words_are_common_and_show_odd_words_as_they_are() -> None:
    panel = (1, ["$x$", "<s>", "a\x00b", "extraordinarily", "no"], [9000, 2000, 10, 2, 1], 2)

    figure = draw_positions({"left": [panel, panel], "right": [panel]})

    said = words(figure)
    assert said.count("2 above 1,000") == 3
    assert said.count("$x$ <s> ab extraordi…") == 3
    assert {"position 1 from the left", "position 1 from the right", "1,000", "10,000"} <= set(said)
    assert figure.axes[0].get_yscale() == "log"


def test_positions_where_nothing_stands_are_empty_panels() -> None:
    assert "0 above 1,000" in words(draw_positions({"left": [(3, [], [], 0)]}))


def test_the_penalty_is_drawn_over_numbers_in_order_with_none_apart() -> None:
    trials = [
        Trial("none", 1.0, 0.4, is_default=False),
        Trial("10", 2.0, None, is_default=False),
        Trial("5", 1.5, 0.5, is_default=True),
    ]

    figure = draw_penalty(
        {"bidia bleu_t": trials}, {"longest": Trial("longest", 1.9, 1.2, is_default=False)}, looks(NAMES)
    )

    left, right = axes_of(figure)
    joined, apart, ring, level, _ = left.lines
    assert (list(joined.get_xdata()), list(joined.get_ydata())) == ([0, 1], [1.5, 2.0])
    assert (list(apart.get_xdata()), list(apart.get_ydata())) == ([2], [1.0])
    assert (list(ring.get_xdata()), list(ring.get_ydata())) == ([0], [1.5])
    assert list(level.get_ydata()) == [1.9, 1.9]
    assert list(right.lines[0].get_xdata()) == [0]  # nobody measured the other's length
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["5", "10", "none"]


def test_no_two_values_of_the_penalty_run_together() -> None:
    values = [*map(str, (2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 60)), "none"]
    trials = [Trial(value, 1.0, 1.0, is_default=False) for value in values]

    figure = draw_penalty({"bidia bleu_t": trials}, {}, looks(NAMES))

    figure.draw_without_rendering()
    for axes in axes_of(figure):
        boxes = [tick.get_window_extent() for tick in axes.get_xticklabels()]
        assert [tick.get_text() for tick in axes.get_xticklabels()] == values
        gaps = [right.x0 - left.x1 for left, right in itertools.pairwise(boxes)]
        assert min(gaps) > 2  # dots


def test_options_have_a_row_a_value_and_the_default_is_filled() -> None:
    order = [Trial("4", 2.0, None, is_default=True), Trial("1", 1.0, None, is_default=False)]
    answer = [Trial("regular", 2.0, None, is_default=True)]

    figure = draw_options(
        {"order": {"bidia bleu_t": order}, "answer": {"vbs": answer, "bidia bleu_t": answer}}, looks(NAMES)
    )

    (axes,) = axes_of(figure)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [
        "order = 1",
        "order = 4",
        "answer = regular",
    ]
    filled = {float(line.get_xdata()[0]): line.get_markerfacecolor() for line in axes.lines[:2]}
    assert filled == {2.0: LOOKS["bidia bleu_t"].colour, 1.0: "white"}
    assert [str(line.get_label()).strip() for line in axes.lines if " " in str(line.get_label())] == [
        "bidia bleu_t",
        "vbs",
    ]


def test_a_heat_map_is_dark_where_the_matrix_is_high_and_outlines_the_pair() -> None:
    picture = ElementTree.fromstring(heat_map([[0.0, 1.0, None], [0.5, 1.0, 0.0]], [1, 0]))

    space = "{http://www.w3.org/2000/svg}"
    squares = {path.get("fill"): path.get("d") for path in picture.iter(f"{space}path")}
    assert squares["#08306b"] == "M1 0h1v1h-1zM1 1h1v1h-1z"
    assert squares["#f7fbff"] == "M0 0h1v1h-1zM2 1h1v1h-1z"
    assert len(squares) == 3
    outline = [*picture.iter(f"{space}rect")][-1]
    assert (outline.get("x"), outline.get("y")) == (str(MARGIN - 1), str(MARGIN + CELL - 1))


@pytest.mark.parametrize("pair", [[], [5, 0], [0, -1]])
def test_a_pair_that_is_not_in_the_matrix_is_not_outlined(pair: list[int]) -> None:
    picture = heat_map([[0.5]], pair)

    assert "<rect" not in picture
    assert len(re.findall("h1v1h-1z", picture)) == 1


def test_nothing_is_drawn_of_nothing() -> None:
    assert heat_map([], []) == heat_map([[None]], [0, 0]) == ""
