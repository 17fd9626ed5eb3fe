"""`bidibeam report`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click


@click.command()
@click.argument("results", metavar="PATH", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder that the report goes to.  [default: PATH; of a file NAME.json, NAME-report beside it]",
)
def report(results: Path, out: Path | None) -> None:
    """Write a report of results: a page, a document and figures.

    PATH is a results.json of `bidibeam reproduce`, what `bidibeam evaluate --out` wrote, the analyses.json of
    `bidibeam analyse`, or a folder that has some of results.json, evaluation.json and analyses.json. The
    report shows what is there, and beside it what the paper prints. report.html is one file that needs
    nothing else; report.md links the figures. A report of other files is never overwritten.

    \b
    bidibeam report runs/demo                     # runs/demo/report.html
    bidibeam report scores.json                   # scores-report/report.html
    bidibeam report scores.json --out evaluation  # evaluation/report.html
    """  # noqa: D301
    from bidibeam.cli.console import console
    from bidibeam.reporting.report import write_report
    from bidibeam.reporting.results import read_results

    files = read_results(results)
    folder = out or (results if results.is_dir() else results.with_name(f"{results.stem}-report"))
    paths = [results / name for name in files] if results.is_dir() else [results]
    sources = [Path(os.path.relpath(path.resolve(), folder.resolve())).as_posix() for path in paths]
    _check_not_replaced(folder, sources)
    written = write_report(files, folder, sources)
    console.print(f"Wrote {written.page} and {written.document}.", soft_wrap=True)
    if written.figures:
        count = len({path.stem for path in written.figures})
        what = "1 figure, as SVG and PNG, is" if count == 1 else f"{count} figures, as SVG and PNG, are"
        console.print(f"{what} in {written.figures[0].parent}.", soft_wrap=True)


def _check_not_replaced(folder: Path, sources: Sequence[str]) -> None:
    """Refuse to write over a report that was made from other files."""
    from bidibeam.errors import SettingsError
    from bidibeam.reporting.report import PAGE_FILE, read_sources
    from bidibeam.reporting.results import FILES

    before = read_sources(folder)
    is_ours = set(before) <= set(sources) if before else set(sources) <= set(FILES)
    if before is None or is_ours:
        return
    files = " and ".join(os.path.normpath(folder / source) for source in before)
    told = f"made from {files}" if files else "there already"
    raise SettingsError(
        f"{folder / PAGE_FILE} was {told}, and would be overwritten. Name another folder with --out, or "
        "remove it."
    )
