"""`bidibeam report`."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("results", metavar="PATH", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder that the report goes to.  [default: where the results are]",
)
def report(results: Path, out: Path | None) -> None:
    """Write a report of results: a page, a document and figures.

    PATH is a results.json of `bidibeam reproduce`, what `bidibeam evaluate --out` wrote, the analyses.json of
    `bidibeam analyse`, or a folder that has some of results.json, evaluation.json and analyses.json. The
    report shows what is there, and beside it what the paper prints. report.html is one file that needs
    nothing else; report.md links the figures.
    """
    from bidibeam.cli.console import console
    from bidibeam.reporting.report import write_joint_report
    from bidibeam.reporting.results import read_results

    files = read_results(results)
    folder = out or (results if results.is_dir() else results.parent)
    written = write_joint_report(files, folder)
    console.print(f"Wrote {written.page} and {written.document}.", soft_wrap=True)
    if written.figures:
        count = len({path.stem for path in written.figures})
        what = "1 figure, as SVG and PNG, is" if count == 1 else f"{count} figures, as SVG and PNG, are"
        console.print(f"{what} in {written.figures[0].parent}.", soft_wrap=True)
