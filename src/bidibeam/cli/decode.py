"""`bidibeam decode`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.options import (
    batch_size_option,
    check_output,
    output_options,
    search_options,
    strategy_options,
    strategy_settings,
)

if TYPE_CHECKING:
    from bidibeam.scores import Signature
    from bidibeam.search.settings import SearchSettings


@click.command()
@click.argument("run", required=False)
@click.argument("input_file", metavar="[INPUT]", required=False)
@strategy_options
@search_options
@output_options
@batch_size_option
def decode(
    run: str | None,
    input_file: str | None,
    nbest_file: Path | None,
    resume: bool,
    batch_size: int | None,
    device: str | None,
    **flags: Any,
) -> None:
    """Answer one source per line; write one reply per line.

    RUN is what `bidibeam train` wrote; left out, it is the small model that comes with bidibeam. INPUT is a
    text file, a .tsv file of sources and references, or JSON lines (.jsonl) with "source" and, where there
    are any, "id" and "reference"; left out or -, it is stdin. Sources longer than any that training saw keep
    only their last tokens.

    \b
    echo "how are you?" | bidibeam decode
    bidibeam decode sources.txt > replies.txt
    bidibeam decode runs/first data/test.jsonl --beam-size 50 --n-best beams.jsonl > replies.txt
    bidibeam decode runs/first data/test.jsonl --strategy bidis --lambda 0.5
    bidibeam decode runs/first data/test.jsonl --strategy "bidia wmd_t either" --vectors wiki.vec
    bidibeam decode runs/first data/test.jsonl --strategy "bidia bleu_t tuned" --beam-size 50
    """  # noqa: D301
    from bidibeam.assembly import load_run
    from bidibeam.cli.answering import tuned_decoder, warm_up, write_answers
    from bidibeam.cli.info import run_or_bundled
    from bidibeam.interchange.sources import read_sources, with_distinct_ids
    from bidibeam.search.settings import SearchSettings

    strategy, workers = strategy_settings(flags)
    settings = SearchSettings(**flags)
    named, input_file = _named(run, input_file)
    check_output(nbest_file, input_file, resume=resume)
    if input_file == "-" and sys.stdin.isatty():
        click.echo("Reading sources from the keyboard, one a line; Ctrl-D ends.", err=True)
    source = Path(input_file) if input_file != "-" else sys.stdin.buffer
    folder = run_or_bundled(named)
    decoder = tuned_decoder(
        load_run(folder, device=device),
        strategy,
        settings=settings,
        batch_size=batch_size,
        workers=workers,
        replies_only=nbest_file is None,
        score_other=nbest_file is not None,
    )
    _note_tuning(folder, decoder.signature, settings)
    warm_up(decoder.ranker.selection)
    total = None
    if isinstance(source, Path) and source.is_file():
        needs = decoder.ranker.selection.needs
        total = _counted(source, needs_reference=needs.reference, has_ids=nbest_file is not None)
    sources = read_sources(source)
    write_answers(
        sources if nbest_file is None else with_distinct_ids(sources),
        decoder.answers,
        signature=decoder.signature,
        nbest_file=nbest_file,
        resume=resume,
        total=total,
    )


def _named(run: str | None, input_file: str | None) -> tuple[Path | None, str]:
    """The run, if one was named, and the input: a name that stands alone is a run if it is a directory.

    Raises:
        InputError: If it is nothing at all.
    """
    from bidibeam.errors import InputError

    if run is None or input_file is not None:
        return (Path(run) if run is not None else None), input_file or "-"
    if Path(run).is_dir():
        return Path(run), "-"
    if run == "-" or Path(run).exists():  # a pipe will do
        return None, run
    raise InputError(
        f"{run} is not a run directory: it has no config.json. Nor is it a file of sources: there is nothing "
        "by that name."
    )


def _note_tuning(run: Path, signature: Signature, settings: SearchSettings) -> None:
    """Say so if what is used was tuned for another search."""
    from bidibeam.assembly.tuned import TUNED_FILE, TunedSettings
    from bidibeam.cli.console import console
    from bidibeam.selection.settings import flag_of

    if "tuned" not in dict(signature.facts):
        return
    search = TunedSettings(run / TUNED_FILE).content.get("search", {})
    then = {name: search[name] for name in ("beam_size", "max_length") if name in search}
    if any(value != getattr(settings, name) for name, value in then.items()):
        told = " and ".join(f"{flag_of(name)} {value}" for name, value in then.items())
        console.print(f"Note: the strategy's settings were tuned with {told}.", style="dim")


def _counted(path: Path, *, needs_reference: bool, has_ids: bool) -> int:
    """How many sources a file holds; all of it is read before the first is answered, lest replies be in vain.

    Raises:
        InputError: If a line cannot be read, an id that matters comes twice, or a reference is missing.
    """
    from bidibeam.errors import InputError
    from bidibeam.interchange.sources import read_sources, with_distinct_ids

    sources, count = read_sources(path), 0
    for beams in with_distinct_ids(sources) if has_ids else sources:
        count += 1
        if needs_reference and beams.reference is None:
            raise InputError(
                f"{path}: source {beams.id!r} has no reference, and the strategy chooses by it. Add one, or "
                "choose another --strategy."
            )
    return count
