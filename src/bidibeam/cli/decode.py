"""`bidibeam decode`."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.models import (
    ModelChoice,
    check_search,
    model_argument,
    model_options,
    note_tuning,
    search_settings,
)
from bidibeam.cli.options import (
    batch_size_option,
    check_output,
    output_options,
    search_options,
    strategy_options,
    strategy_settings,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bidibeam.decoding.decoder import Answer, Decoder
    from bidibeam.hypotheses import Beams
    from bidibeam.interchange.text_lines import Lines


@click.command()
@model_argument
@click.argument("input_file", metavar="[INPUT]", required=False)
@model_options
@strategy_options
@search_options
@output_options
@batch_size_option
@click.option("--line-buffered", is_flag=True, help="Answer each line before the next one is read.")
def decode(
    model: str | None,
    input_file: str | None,
    nbest_file: Path | None,
    resume: bool,
    batch_size: int | None,
    line_buffered: bool,
    **flags: Any,
) -> None:
    """Answer one source per line; write one reply per line.

    MODEL is a run of `bidibeam train`, a Hugging Face model's folder or name, or a CTranslate2 folder; left
    out, it is the small model that comes with bidibeam. The reverse model of a pair is named by --reverse.
    INPUT is a text file, a .tsv file of sources and references, or JSON lines (.jsonl) with "source" and,
    where there are any, "id" and "reference"; left out or -, it is stdin. Sources longer than any that
    training saw keep only their last tokens.

    \b
    echo "how are you?" | bidibeam decode
    bidibeam decode sources.txt > replies.txt
    bidibeam decode runs/first data/test.jsonl --beam-size 50 --n-best beams.jsonl > replies.txt
    bidibeam decode runs/first data/test.jsonl --strategy bidis --lambda 0.5
    bidibeam decode runs/first data/test.jsonl --strategy "bidia wmd_t either" --vectors wiki.vec
    bidibeam decode bart --reverse bart-reverse data/test.jsonl --beam-size 50
    """  # noqa: D301
    from bidibeam.api import load_decoder
    from bidibeam.cli.output import write_answers
    from bidibeam.interchange.reading import read_sources, with_distinct_ids
    from bidibeam.strategies.ranking import warm_up

    strategy, workers = strategy_settings(flags)
    model, input_file = split_arguments(model, input_file, is_named=flags["regular"] is not None)
    choice = ModelChoice.take(model, flags)
    check_search(flags)
    check_output(nbest_file, input_file, resume=resume)
    lines = _open(input_file)
    loaded = choice.load()
    settings = search_settings(loaded, flags)
    decoder = load_decoder(
        loaded,
        strategy,
        settings=settings,
        batch_size=batch_size,
        workers=workers,
        replies_only=nbest_file is None,
        score_other=nbest_file is not None,
    )
    if line_buffered:
        decoder = replace(decoder, batch_size=1, prefetch=False)
    note_tuning(loaded.path, decoder.signature, settings)
    warm_up(decoder.ranker.strategy)
    sources = _with_references(read_sources(lines, skip_blank=not line_buffered), decoder, strategy.name)
    counter = CutOffCounter()
    write_answers(
        with_distinct_ids(sources) if nbest_file is not None else sources,
        lambda rest: counter.watch(decoder.answers(rest)),
        signature=decoder.signature,
        nbest_file=nbest_file,
        resume=resume,
        lines=lines,
    )
    counter.note(settings.max_length)


def split_arguments(model: str | None, input_file: str | None, *, is_named: bool) -> tuple[str | None, str]:
    """The model, if one was named, and the input: a name that stands alone is a model if it is a folder.

    Args:
        model: The first argument.
        input_file: The second one.
        is_named: Whether the model is named by --regular, so that only the input may stand alone.

    Raises:
        UsageError: If the model is named twice.
        InputError: If a name that stands alone is nothing at all.
    """
    from bidibeam.errors import InputError

    if is_named:
        if input_file is not None or Path(model or "-").is_dir():
            raise click.UsageError(f"--regular stands instead of MODEL, not beside {model}.")
        return None, model or "-"
    if model is None or input_file is not None or Path(model).is_dir():
        return model, input_file or "-"
    if model == "-" or Path(model).exists():  # a pipe will do
        return None, model
    raise InputError(
        f"{model} is not a run directory: it has no config.json. Nor is it a file of sources: there is "
        "nothing by that name. To name a model of the Hugging Face Hub, name the input too: - for stdin."
    )


def _open(input_file: str) -> Lines:
    """The lines of the file, if it can be read, or of stdin; a person at a keyboard is told so."""
    from bidibeam.interchange.text_lines import open_named

    if input_file == "-" and sys.stdin.isatty():
        click.echo("Reading sources from the keyboard, one a line; Ctrl-D ends.", err=True)
    lines = open_named(input_file)
    click.get_current_context().call_on_close(lines.close)
    if lines.size is not None or not (input_file == "-" or Path(input_file).exists()):
        lines.peek()  # so that what cannot be read is refused before a model is loaded
    return lines


def _with_references(sources: Iterable[Beams], decoder: Decoder, strategy: str) -> Iterator[Beams]:
    """The same sources, each with a reference if the strategy chooses by it.

    Raises:
        InputError: At the first that has none.
    """
    from bidibeam.errors import InputError

    is_needed = decoder.ranker.strategy.requirements.reference
    for beams in sources:
        if is_needed and beams.reference is None:
            raise InputError(
                f"Source {beams.id!r} has no reference, and the {strategy} chooses by it. Add one, or choose "
                "another --strategy."
            )
        yield beams


@dataclass
class CutOffCounter:
    """Counts the hypotheses that were cut off at T."""

    cut_off: int = 0
    total: int = 0

    def watch(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """Pass answers on, and count."""
        for answer in answers:
            for hypothesis in (*answer.beams.regular, *answer.beams.reverse):
                self.total += 1
                self.cut_off += not hypothesis.finished
            yield answer

    def note(self, max_length: int) -> None:
        """Tell how many there were, if any."""
        from bidibeam.cli.console import note

        if self.cut_off:
            note(f"{self.cut_off:,} of {self.total:,} hypotheses were cut off at --max-length {max_length}.")
