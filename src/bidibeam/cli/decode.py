"""`bidibeam decode`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from bidibeam.cli.options import (
    batch_size_option,
    check_output,
    output_options,
    search_options,
    strategy_options,
    strategy_settings,
    together,
)

if TYPE_CHECKING:
    from bidibeam.decoding.decoder import Decoder
    from bidibeam.scores import Signature
    from bidibeam.search.settings import SearchSettings
    from bidibeam.strategies.settings import StrategySettings

model_options = together(
    [
        click.option(
            "--regular",
            metavar="MODEL",
            help="Instead of RUN: a Hugging Face model, by its folder or its name on the Hub. One with a "
            "shared encoder is the reverse one too.",
        ),
        click.option("--reverse", metavar="MODEL", help="The Hugging Face model that writes from the end."),
        click.option(
            "--dtype",
            type=click.Choice(["float32", "bfloat16", "float16"]),
            help="Hugging Face models: the precision to compute in.  [default: float32; on a GPU as stored]",
        ),
    ]
)
"""The options of Hugging Face models."""


@click.command()
@click.argument("run", required=False)
@click.argument("input_file", metavar="[INPUT]", required=False)
@model_options
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
    *,
    regular: str | None,
    reverse: str | None,
    dtype: str | None,
    **flags: Any,
) -> None:
    """Answer one source per line; write one reply per line.

    RUN is what `bidibeam train` wrote; left out, it is the small model that comes with bidibeam. INPUT is a
    text file, a .tsv file of sources and references, or JSON lines (.jsonl) with "source" and, where there
    are any, "id" and "reference"; left out or -, it is stdin. Sources longer than any that training saw keep
    only their last tokens. Hugging Face models are named by --regular and --reverse, and INPUT stands alone
    (docs/hf.md).

    \b
    echo "how are you?" | bidibeam decode
    bidibeam decode sources.txt > replies.txt
    bidibeam decode runs/first data/test.jsonl --beam-size 50 --n-best beams.jsonl > replies.txt
    bidibeam decode runs/first data/test.jsonl --strategy bidis --lambda 0.5
    bidibeam decode runs/first data/test.jsonl --strategy "bidia wmd_t either" --vectors wiki.vec
    bidibeam decode runs/first data/test.jsonl --strategy "bidia bleu_t tuned" --beam-size 50
    bidibeam decode --regular bart --reverse bart-reverse data/test.jsonl --beam-size 50
    """  # noqa: D301
    from bidibeam.cli.answering import warm_up, write_answers
    from bidibeam.interchange.sources import read_sources, with_distinct_ids
    from bidibeam.search.settings import SearchSettings

    strategy, workers = strategy_settings(flags)
    settings = SearchSettings(**flags)
    is_hugging_face = regular is not None or reverse is not None
    named, input_file = _input_alone(run, input_file) if is_hugging_face else _named(run, input_file)
    check_output(nbest_file, input_file, resume=resume)
    source = _opened(input_file)
    options = {
        "batch_size": batch_size,
        "workers": workers,
        "replies_only": nbest_file is None,
        "score_other": nbest_file is not None,
    }
    if is_hugging_face:
        decoder = _of_models(regular, reverse, strategy, settings, device=device, dtype=dtype, **options)
    else:
        _refuse_without_models(dtype)
        decoder = _of_run(named, strategy, settings, device=device, **options)
    selection, has_ids = decoder.ranker.strategy, nbest_file is not None
    warm_up(selection)
    total = None
    if isinstance(source, Path) and source.is_file():
        total = _counted(source, needs_reference=selection.requirements.reference, has_ids=has_ids)
    sources = read_sources(source)
    write_answers(
        with_distinct_ids(sources) if has_ids else sources,
        decoder.answers,
        signature=decoder.signature,
        nbest_file=nbest_file,
        resume=resume,
        total=total,
    )


def _opened(input_file: str) -> Path | BinaryIO:
    """The file, if it can be read, or stdin; a person at a keyboard is told that it is read."""
    from bidibeam.interchange.lines import numbered_lines

    if input_file != "-":
        path = Path(input_file)
        if path.is_file() or not path.exists():  # of a pipe, what is read is gone
            next(numbered_lines(path), None)
        return path
    if sys.stdin.isatty():
        click.echo("Reading sources from the keyboard, one a line; Ctrl-D ends.", err=True)
    return sys.stdin.buffer


def _of_run(
    named: Path | None,
    strategy: StrategySettings,
    settings: SearchSettings,
    *,
    device: str | None,
    **options: Any,
) -> Decoder:
    """A decoder for a run, or for the model that comes with the package."""
    from bidibeam.api import load_decoder, load_run
    from bidibeam.cli.info import run_or_bundled

    folder = run_or_bundled(named)
    decoder = load_decoder(load_run(folder, device=device), strategy, settings=settings, **options)
    _note_tuning(folder, decoder.signature, settings)
    return decoder


def _of_models(
    regular: str | None,
    reverse: str | None,
    strategy: StrategySettings,
    settings: SearchSettings,
    **options: Any,
) -> Decoder:
    """A decoder for Hugging Face models."""
    from bidibeam.cli.answering import saying_if_slow
    from bidibeam.models.huggingface.texts import needing_transformers

    with saying_if_slow("Loading the models ..."):
        with needing_transformers("A Hugging Face model"):
            from bidibeam.models.huggingface.decoding import load_hf_decoder, tuned_folder
        decoder = load_hf_decoder(regular, reverse, strategy, settings, **options)
    folder = tuned_folder(regular)
    if folder is not None:
        _note_tuning(folder, decoder.signature, settings)
    return decoder


def _refuse_without_models(dtype: str | None) -> None:
    if dtype is not None:
        raise click.UsageError("--dtype goes with --regular and --reverse.")


def _input_alone(first: str | None, second: str | None) -> tuple[None, str]:
    """The input where models are named by options: no run may stand beside it."""
    if second is not None:
        raise click.UsageError(
            f"With --regular and --reverse only INPUT may stand alone, not both {first!r} and {second!r}."
        )
    return None, first or "-"


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
    from bidibeam.api.tuned import TUNED_FILE, TunedSettings
    from bidibeam.cli.console import console
    from bidibeam.strategies.settings import flag_of

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
