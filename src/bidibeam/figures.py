"""How figures look, and where matplotlib is asked for: it is an extra, imported when something is drawn."""

from __future__ import annotations

import io
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.figure import Figure

BLACK, GREY, DARK_GREY = "#000000", "#7f7f7f", "#595959"
ORANGE, SKY, GREEN, BLUE = "#e69f00", "#56b4e9", "#009e73", "#0072b2"
VERMILLION, PURPLE = "#d55e00", "#cc79a7"
"""The colours of Okabe and Ito, which the colour-blind can tell apart; without yellow, which print loses."""
SMALL = 9
"""Points: the smallest text in a figure."""
DPI = 144
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
METADATA: dict[str, dict[str, None]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}
"""No dates and versions: the same numbers give the same bytes."""


def require_matplotlib(what: str) -> None:
    """Raises InputError if matplotlib, which `what` needs, is not installed."""
    if find_spec("matplotlib") is None:
        raise InputError(f"{what}, and matplotlib is not installed: pip install 'bidibeam[plots]'.")


@contextmanager
def use_style() -> Iterator[None]:
    """Draws and saves in our style; a letter that the font lacks gives no warning."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def new_figure(width: float, height: float) -> Figure:
    """Makes an empty figure, in inches, with constrained layout."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Figure) -> dict[str, bytes]:
    """Returns the content of a figure's files, by suffix: svg and png."""
    contents = {}
    for suffix, metadata in METADATA.items():
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix, dpi=DPI, metadata=metadata)
        contents[suffix] = buffer.getvalue()
        figure.set_layout_engine("none")  # the first save has laid it out
    return contents
