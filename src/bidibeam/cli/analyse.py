"""`bidibeam analyse`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bidibeam.cli.analyse_data import OF_DATA, analyse_data
from bidibeam.cli.analyse_lists import OUT_FILE, analyse_lists
from bidibeam.cli.options import max_length_option, tuned_option, vectors_option, workers_option
from bidibeam.evaluation.analyses import ANALYSES


@click.command()
@click.argument("files", metavar="[NBEST.jsonl...]", nargs=-1)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Prepared data to analyse in place of lists, as far as that needs no hypotheses: "
    f"{', '.join(OF_DATA)}.",
)
@click.option(
    "--analysis",
    "names",
    multiple=True,
    metavar="NAME",
    help=f"Only this one, and it must be possible: {', '.join(ANALYSES.names())}. May be repeated.",
)
@click.option(
    "--systems",
    multiple=True,
    metavar="NAME",
    help='Only this system: "vbs", "bidia wmd_t", "bidia bleu_t either", "bidia bleu_t tuned" ... May be '
    "repeated.  [default: all that the lists are enough for]",
)
@max_length_option
@vectors_option
@tuned_option
@click.option(
    "--examples",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Sources to keep as examples, those on which systems disagree most.",
)
@workers_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help=f"A folder that gets {OUT_FILE}, from which `bidibeam report` makes figures; with --data a file for "
    "each analysis.",
)
def analyse(
    files: Sequence[str],
    data: Path | None,
    names: Sequence[str],
    systems: Sequence[str],
    out: Path | None,
    **flags: Any,
) -> None:
    """Look behind the scores of n-best lists: ranks, headroom, diversity and more.

    NBEST.jsonl is what `bidibeam decode --n-best` writes, or lists from any other decoder (docs/nbest.md); -
    is stdin. Every system that finds what it needs chooses among the lists. Its N_B is their length, for
    bidia that of regular and reverse list together; so lists of 25 and 25 give bidia at N_B = 50 and vbs at
    25. Give several files of the same sources to compare at the same N_B:

    \b
    bidibeam decode run test.jsonl --beam-size 50 --strategy vbs --n-best regular.jsonl > vbs.txt
    bidibeam decode run test.jsonl --beam-size 50 --n-best both.jsonl > bidia.txt
    bidibeam analyse regular.jsonl both.jsonl --tuned run --vectors wiki.vec --out analysis

    \b
    ranks        which place of the regular beam replies come from
    headroom     how much of the way from tuned VBS to the oracle each system goes
    diversity    distinct-n, beside VBS at the same length and in equally many words
    sensitivity  what becomes of bidia with other settings
    examples     sources on which the systems disagree most, with both beams

    What the lists are not enough for is left out, and why is said.

    With --data there are no lists, and each analysis goes to a file of its name:

    \b
    bidibeam analyse --data data/mine --analysis constant --out analysis
    \b
    constant     what the best single reply to all sources scores, chosen on validation
    positions    which words stand first, from the left and from the right
    """  # noqa: D301
    from bidibeam.errors import SettingsError

    if out is not None and out.exists() and not out.is_dir():
        raise SettingsError(f"--out must name a folder, and {out} is a file.")
    if data is not None:
        analyse_data(data, files, names, out)
        return
    if not files:
        raise click.UsageError("Give lists, NBEST.jsonl..., or prepared data with --data.")
    analyse_lists(files, names, systems, out=out, **flags)
