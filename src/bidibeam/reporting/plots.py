"""Figures, drawn with matplotlib where that is installed: it is an extra."""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError
from bidibeam.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MISSING = "No plot was drawn: matplotlib is not installed. pip install 'bidibeam[plots]' brings it."

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#595959"
"""Okabe and Ito's colours, which the colour-blind can tell apart."""
SMALL = 9
"""Points: the smallest text in a figure."""
DOTS_AN_INCH = 144
PANELS_A_ROW = 3
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.labelsize": 10,
    "axes.titlesize": 10,
    "xtick.labelsize": SMALL,
    "ytick.labelsize": SMALL,
    "legend.fontsize": SMALL,
    "legend.frameon": False,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "bidibeam",
    "text.parse_math": False,  # a dollar in a corpus is a dollar
}
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "png": {"Software": None},
}
"""What a file would say of its making; the same numbers are to be the same bytes."""


def check_drawing() -> None:
    """Refuse to go on without matplotlib.

    Raises:
        InputError: If it is not installed.
    """
    if find_spec("matplotlib") is None:
        raise InputError(
            "A report has figures, and matplotlib is not installed: pip install 'bidibeam[plots]'."
        )


@contextmanager
def drawing() -> Iterator[None]:
    """Draw and save in our style; a letter that the font lacks is no reason to warn."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, in inches, whose parts make room for each other."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def saved(figure: Figure) -> dict[str, bytes]:
    """A figure as the content of its files, by ending: svg and png."""
    contents = {}
    for form, metadata in METADATA.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format=form, dpi=DOTS_AN_INCH, metadata=metadata)
        contents[form] = buffer.getvalue()
        figure.set_layout_engine("none")  # everything has its place now
    return contents


def size_axis(axes: Axes, sizes: Sequence[int]) -> None:
    """An axis of N_B: logarithmic, with every size that there is named."""
    from matplotlib.ticker import NullLocator

    axes.set_xscale("log")
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("N_B (hypotheses to choose from)")


def curves_figure(
    path: Path,
    panels: Sequence[tuple[str, Sequence[float], Sequence[float], float]],
    *,
    baseline: tuple[str, float] | None,
) -> bool:
    """Draw BLEU against one setting a panel, three in a row; False if there is nothing to draw with.

    Args:
        path: The file; its ending decides the format.
        panels: For each: the setting, its values, BLEU at each, and the value chosen.
        baseline: A name and a BLEU to draw across, if there is one.
    """
    if find_spec("matplotlib") is None:
        return False
    with drawing():
        columns = min(len(panels), PANELS_A_ROW)
        rows = -(-len(panels) // columns)
        figure = new_figure(3.4 * columns, 3.0 * rows)
        axes = [figure.add_subplot(rows, columns, place) for place in range(1, len(panels) + 1)]
        name, level = baseline or ("", 0.0)
        for axis, (setting, values, bleu, best) in zip(axes, panels, strict=True):
            if baseline is not None:
                axis.axhline(level, color=GREY, linestyle="--", linewidth=1, label=name)
            axis.plot(values, bleu, color=BLUE, marker="o", markersize=2.5, linewidth=1.4)
            chosen = bleu[list(values).index(best)]
            axis.plot([best], [chosen], color=ORANGE, marker="D", linestyle="none", label=f"best: {best:g}")
            axis.set_xlabel(setting)
            axis.set_ylim(0, 1.1 * max(level, *bleu) or 1.0)
            axis.legend()
        for axis in axes[::columns]:
            axis.set_ylabel("corpus BLEU on validation")
        with replacing(path) as partial:
            figure.savefig(partial, format=path.suffix.removeprefix("."), metadata={"Date": None})
    return True
