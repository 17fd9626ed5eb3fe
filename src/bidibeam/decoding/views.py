"""An explanation as a notebook and a figure show it."""

from __future__ import annotations

from html import escape
from itertools import product
from typing import TYPE_CHECKING, Literal
from unicodedata import east_asian_width

from bidibeam.errors import InputError
from bidibeam.figures import BLUE, DPI, METADATA, SMALL, VERMILLION, new_figure, require_matplotlib, use_style
from bidibeam.files import replacing
from bidibeam.hypotheses import Direction
from bidibeam.strategies.bidia import similarity_matrix
from bidibeam.text import printable

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from bidibeam.decoding.explaining import Explanation
    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Matrix

LONGEST, LONGEST_SOURCE = 48, 60
"""Letters of a hypothesis, and of the source, that a figure has room for."""
COLUMN, ROW = 4.6, 0.32
"""Inches: the width of a beam, the height of a hypothesis."""
SHOWN = 20
"""The best of each beam that a figure shows, besides those that a strategy chooses."""
TINT = tuple(int(BLUE[place : place + 2], 16) for place in (1, 3, 5))
CELL = "padding:2px 6px;text-align:left;vertical-align:top;color:#000;background:#fff;border:none"
CHOSEN = f"outline:2px solid {VERMILLION};outline-offset:-2px"


def explanation_html(explanation: Explanation) -> str:
    """Returns tables of the choices, the matrix and the reverse beam; every text is escaped."""
    choices = [
        _row(
            [choice.system, choice.text, choice.reason],
            styles=["font-weight:bold;white-space:nowrap", "", ""],
        )
        for choice in explanation.choices
    ]
    notes = "".join(f"<div>{_escape(note)}</div>" for note in explanation.notes)
    return (
        '<div style="font-family:sans-serif;font-size:13px;color:#000;background:#fff;padding:8px">'
        f"<div>{_escape(explanation.source)} &rarr; <b>{_escape(explanation.reply)}</b></div>"
        f"{_table(['strategy', 'chooses', 'since'], choices)}"
        '<div style="display:flex;flex-wrap:wrap;gap:24px">'
        f"{_matrix_table(explanation)}{_beam_table(explanation, Direction.REVERSE)}</div>{notes}</div>"
    )


def _matrix_table(explanation: Explanation) -> str:
    """Returns the regular beam, and behind each hypothesis its similarity to each of the reverse beam."""
    (matrix, caption), pairs = _orient_matrix(explanation), explanation.pairs()
    columns = [str(number) for number in range(1, 1 + len(explanation.beams.reverse))]
    rows = []
    for place, (hypothesis, values) in enumerate(zip(explanation.beams.regular, matrix, strict=True)):
        styles = [
            f"{_shade(matrix, value)};text-align:right;{CHOSEN if (place, column) in pairs else ''}"
            for column, value in enumerate(values)
        ]
        cells = _beam_cells(explanation, Direction.REGULAR, place, hypothesis)
        rows.append(
            _row([*cells, *(f"{value:.2f}" for value in values)], styles=[*[""] * len(cells), *styles])
        )
    heads = ["", "regular beam", "score", "chosen by", *columns]
    return _table(heads, rows, caption if columns else "") if rows else ""


def _orient_matrix(explanation: Explanation) -> tuple[Matrix, str]:
    """Returns the matrix, (regular, reverse), compared from the side of the reply, and what it holds.

    A similarity need not be symmetric: what decided for a reverse hypothesis is how similar that is to a
    regular one.
    """
    name, beams = explanation.similarity_name, explanation.beams
    own = next((each.ranked for each in explanation.choices if each.system == explanation.system), None)
    if own is None or own.partner is None or own.direction is Direction.REGULAR:
        return explanation.matrix, f"{name} with the reverse hypotheses"
    turned = similarity_matrix(explanation.similarity, beams.reverse.hypotheses, beams.regular.hypotheses)
    return turned.T, f"{name} of the reverse hypotheses with the regular ones"


def _beam_table(explanation: Explanation, direction: Direction) -> str:
    rows = [
        _row(_beam_cells(explanation, direction, place, hypothesis))
        for place, hypothesis in enumerate(explanation.beams.of(direction))
    ]
    return _table(["", f"{direction.value} beam", "score", "chosen by"], rows) if rows else ""


def _beam_cells(
    explanation: Explanation, direction: Direction, place: int, hypothesis: Hypothesis
) -> list[str]:
    """Returns rank, text, score, and who chooses it."""
    names = explanation.choosers(direction).get(place, [])
    score = "" if hypothesis.score is None else f"{hypothesis.score:.2f}"
    return [str(place + 1), _mark_end(hypothesis), score, ", ".join(names)]


def _mark_end(hypothesis: Hypothesis) -> str:
    return hypothesis.text if hypothesis.finished else f"{hypothesis.text} [cut off]"


def _table(heads: list[str], rows: list[str], caption: str = "") -> str:
    head = "".join(f'<th style="{CELL};border-bottom:1px solid #999">{_escape(each)}</th>' for each in heads)
    told = f'<caption style="text-align:right;color:#000">{_escape(caption)}</caption>' if caption else ""
    style = "border-collapse:collapse;margin:8px 0"
    return f'<table style="{style}">{told}<tr>{head}</tr>{"".join(rows)}</table>'


def _row(cells: list[str], styles: list[str] | None = None) -> str:
    given = styles or [""] * len(cells)
    inside = "".join(
        f'<td style="{CELL};{style}">{_escape(cell)}</td>' for cell, style in zip(cells, given, strict=True)
    )
    return f"<tr>{inside}</tr>"


def _escape(text: str) -> str:
    return escape(printable(text))


def _shade(matrix: Matrix, value: float) -> str:
    """Returns a cell's colours: the higher, the darker."""
    low, high = _find_range(matrix)
    share = (value - low) / (high - low)
    colour = ",".join(str(round(255 + share * (tint - 255))) for tint in TINT)
    return f"background:rgb({colour});color:{'#fff' if share > 0.6 else '#000'}"


def draw_explanation(explanation: Explanation, path: Path | None = None) -> Figure:
    """Draws the regular beam, the matrix and the reverse beam side by side, and writes that if asked.

    Raises:
        InputError: If matplotlib is not installed, or does not write files of the path's suffix.
    """
    require_matplotlib("matplotlib draws an explanation")
    size = max(2.4, ROW * max(len(_find_shown(explanation, direction)) for direction in Direction))
    with use_style():
        figure = new_figure(2 * COLUMN + size, size + 0.9)
        left, middle, right = figure.subplots(1, 3, width_ratios=[COLUMN, size, COLUMN])
        _draw_beam(left, explanation, Direction.REGULAR)
        _draw_matrix(middle, explanation)
        _draw_beam(right, explanation, Direction.REVERSE)
        source, reply = (_shorten(each, LONGEST_SOURCE) for each in (explanation.source, explanation.reply))
        figure.suptitle(f"{source}  \N{RIGHTWARDS ARROW}  {reply}")
        if path is not None:
            _write(figure, path)
    return figure


def _find_shown(explanation: Explanation, direction: Direction) -> list[int]:
    """Returns the places of a beam that a figure shows: the best, and those that a strategy chooses by."""
    axis = 0 if direction is Direction.REGULAR else 1
    chosen = {*explanation.choosers(direction), *(pair[axis] for pair in explanation.pairs())}
    return [
        place for place in range(len(explanation.beams.of(direction))) if place < SHOWN or place in chosen
    ]


def _draw_matrix(axes: Axes, explanation: Explanation) -> None:
    """Draws the matrix as a heat map, rows regular, columns reverse; the deciding pair is framed in red."""
    from matplotlib.patches import Rectangle

    whole, told = _orient_matrix(explanation)
    rows, columns = (_find_shown(explanation, direction) for direction in Direction)
    matrix = whole[rows][:, columns]
    axes.spines[:].set_visible(False)
    axes.grid(visible=False)
    axes.tick_params(length=0)
    axes.xaxis.tick_top()
    for set_ticks, places in ((axes.set_yticks, rows), (axes.set_xticks, columns)):
        set_ticks(range(len(places)), [str(place + 1) for place in places])
    axes.set_ylim(max(len(matrix), 1) - 0.5, -0.5)
    if not matrix.size:
        return
    low, high = _find_range(whole)
    axes.imshow(matrix, cmap="Blues", vmin=low, vmax=high, aspect="auto")
    axes.set_xlabel(f"{told}, at most {whole.max():.2g}")
    for row, column in product(*map(range, matrix.shape)):
        is_dark = matrix[row, column] - low > 0.6 * (high - low)
        text = f"{matrix[row, column]:.2f}".replace("0.", ".", 1)
        axes.text(column, row, text, ha="center", va="center", fontsize=7, color="w" if is_dark else "k")
    for (row, column), names in explanation.pairs().items():
        colour, width = (VERMILLION, 2.5) if explanation.system in names else ("gray", 1.5)
        corner = columns.index(column) - 0.5, rows.index(row) - 0.5
        axes.add_patch(Rectangle(corner, 1, 1, fill=False, edgecolor=colour, linewidth=width, clip_on=False))


def _draw_beam(axes: Axes, explanation: Explanation, direction: Direction) -> None:
    """Writes one beam beside the matrix, best first: texts and scores, and under them who chooses them.

    The reply is in red, and so is what it agrees with. Reverse hypotheses are the columns of the matrix, and
    called so.
    """
    hypotheses, names = explanation.beams.of(direction), explanation.choosers(direction)
    places = _find_shown(explanation, direction)
    is_left = direction is Direction.REGULAR
    deciding = {
        pair[not is_left] for pair, systems in explanation.pairs().items() if explanation.system in systems
    }
    side: Literal["left", "right"] = "right" if is_left else "left"
    told = f"{direction.value} beam ({'rows' if is_left else 'columns'}) and scores"
    if len(places) < len(hypotheses):
        told = f"{told}, {len(places)} of {len(hypotheses)}"
    axes.set_title(told if len(hypotheses) else f"no {direction.value} beam", loc=side)
    axes.axis("off")
    axes.set_ylim(max(len(places), 1) - 0.5, -0.5)
    for row, place in enumerate(places):
        hypothesis = hypotheses[place]
        score = "" if hypothesis.score is None else f"{hypothesis.score:.2f}"
        shown = _shorten(_mark_end(hypothesis), LONGEST)
        line = f"{shown}   {score}" if is_left else f"column {place + 1}:   {shown}   {score}"
        chosen_by = names.get(place, [])
        is_red = explanation.system in chosen_by or place in deciding
        x, colour = float(is_left), VERMILLION if is_red else "black"
        for text, height, size in ((line, 4 * bool(chosen_by), SMALL), (", ".join(chosen_by), -6, SMALL - 2)):
            drawn = axes.annotate(text, (x, row), (0, height), textcoords="offset points", color=colour)
            drawn.set(ha=side, va="center", fontsize=size, in_layout=False)


def _write(figure: Figure, path: Path) -> None:
    kinds, kind = figure.canvas.get_supported_filetypes(), path.suffix.removeprefix(".").lower()
    if kind not in kinds:
        known = ", ".join(f".{each}" for each in sorted(kinds))
        raise InputError(f"A figure cannot be written as {path.name!r}: end it in one of {known}.")
    with replacing(path) as partial:
        figure.savefig(partial, format=kind, dpi=DPI, metadata=METADATA.get(kind))


def _find_range(matrix: Matrix) -> tuple[float, float]:
    """Returns the values that are drawn lightest and darkest."""
    low, high = min(0.0, float(matrix.min())), float(matrix.max())
    return low, high if high > low else low + 1.0


def _shorten(text: str, most: int) -> str:
    """Returns a text on one line, cut to so many letters; wide ones, such as Chinese, count twice."""
    line, width = "", 0
    for letter in " ".join(printable(text).split()):
        width += 2 if east_asian_width(letter) in "WF" else 1
        if width > most:
            return f"{line}\N{HORIZONTAL ELLIPSIS}"
        line += letter
    return line
