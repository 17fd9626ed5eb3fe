"""`bidibeam analyse --data`: analyses of prepared data, which need no lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OF_DATA = ("constant", "positions")
"""The analyses there are of it."""
FORMAT_VERSION = 1


def analyse_data(path: Path, files: Sequence[str], names: Sequence[str], out: Path | None) -> None:
    """Analyse prepared data, each analysis to a file that `bidibeam report` reads.

    Raises:
        SettingsError: If there are lists as well.
        UnknownNameError: If an analysis is not one of data.
    """
    from bidibeam._version import __version__
    from bidibeam.cli.analysis_tables import print_tables
    from bidibeam.cli.console import console, track
    from bidibeam.data.prepared import PreparedData
    from bidibeam.errors import SettingsError, UnknownNameError
    from bidibeam.evaluation.analyses.corpus import CORPUS_ANALYSES
    from bidibeam.files import write_json

    if files:
        raise SettingsError("Give either lists or --data: what --data is enough for needs no lists.")
    for name in names:
        if name not in CORPUS_ANALYSES:
            known = ", ".join(CORPUS_ANALYSES)
            raise UnknownNameError(f"There is no analysis {name!r} of prepared data. Choose one of: {known}.")
    data = PreparedData.open(path)
    about = {name: value for name, value in data.info.items() if name != "path"}
    for name in dict.fromkeys(names or CORPUS_ANALYSES):
        content = CORPUS_ANALYSES[name](data, track=track)
        print_tables({name: content})
        if out is not None:
            head = {"format_version": FORMAT_VERSION, "bidibeam": __version__, "corpus": about["corpus"]}
            write_json(out / f"{name}.json", {**head, "data": about, name: content})
            console.print(f"Wrote {out / f'{name}.json'}, which `bidibeam report` reads.", soft_wrap=True)
