"""`bidibeam decode`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bidibeam.decoding.decoder import Answer

Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)

STOPPING_HELP = (
    "When a source's search is over: shrinking (the paper's), constant, patience[=FACTOR], optimal, exhaust."
)


def search_options(command: Command) -> Command:
    """The options of a search, the same for every command that searches."""
    options = [
        click.option("--beam-size", type=int, default=10, show_default=True, help="Hypotheses kept, B."),
        click.option(
            "--max-length",
            type=int,
            default=20,
            show_default=True,
            help="Most steps, T, the end token counted.",
        ),
        click.option(
            "--min-length", type=int, default=1, show_default=True, help="Tokens before the reply may end."
        ),
        click.option("--stopping", default="shrinking", show_default=True, help=STOPPING_HELP),
        click.option(
            "--length-penalty",
            type=float,
            default=0.6,
            show_default=True,
            help="Exponent a of lp = (5+|Y|)^a / 6^a; 0 ranks by log-probability alone.",
        ),
        click.option(
            "--count-end/--no-count-end",
            default=True,
            show_default=True,
            help="Does |Y| count the end token?",
        ),
        click.option(
            "--unfinished",
            type=click.Choice(["keep", "drop"]),
            default="keep",
            show_default=True,
            help="Replies cut off at --max-length: rank them last, or leave them out.",
        ),
        click.option("--allow-unknown", is_flag=True, help="Let the unknown token be written."),
        click.option("--device", help="cpu, cuda, cuda:1 ...  [default: a GPU where there is one]"),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("input_file", metavar="[INPUT]", default="-")
@search_options
@click.option(
    "--direction",
    type=click.Choice(["regular", "reverse"]),
    default="regular",
    show_default=True,
    help="Which decoder answers; its replies are in reading order either way.",
)
@click.option(
    "--n-best",
    "nbest_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write every hypothesis with its scores, under both directions, as JSON lines.",
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    help="Sources searched at once.",
)
def decode(
    run: Path,
    input_file: str,
    direction: str,
    nbest_file: Path | None,
    batch_size: int,
    device: str | None,
    **search: Any,
) -> None:
    """Answer one source per line; write one reply per line.

    RUN is what `bidibeam train` wrote. INPUT is a text file, a .tsv file of sources and references, or JSON
    lines (.jsonl) with "source" and, where there are any, "id" and "reference"; left out or -, it is stdin.
    Sources longer than any that training saw keep only their last tokens.

    \b
    echo "how are you?" | bidibeam decode runs/first
    bidibeam decode runs/first data/test.jsonl --beam-size 50 --n-best beams.jsonl > replies.txt
    """  # noqa: D301
    from bidibeam.assembly import load_decoder, load_run
    from bidibeam.errors import SettingsError
    from bidibeam.interchange.sources import read_sources
    from bidibeam.search.settings import SearchSettings

    settings = SearchSettings(**search)
    if nbest_file is not None and nbest_file.resolve() == Path(input_file).resolve():
        raise SettingsError(f"--n-best would overwrite the input, {input_file}. Name another file.")
    if input_file == "-" and sys.stdin.isatty():
        click.echo("Reading sources from the keyboard, one a line; Ctrl-D ends.", err=True)
    source = Path(input_file) if input_file != "-" else sys.stdin.buffer
    loaded = load_run(run, device=device)
    decoder = load_decoder(
        loaded,
        direction=direction,
        settings=settings,
        batch_size=batch_size,
        score_other=nbest_file is not None,
    )
    answers: Iterable[Answer] = decoder.answers(read_sources(source))
    if not sys.stdout.isatty():  # in a terminal the replies themselves show how far it is
        answers = watched(answers)
    _write(answers, nbest_file)


def watched(
    answers: Iterable[Answer], total: int | None = None, description: str = "decoding"
) -> Iterator[Answer]:
    """The same answers, counted on a progress bar that goes away when they end."""
    from bidibeam.cli.console import progress

    with progress(transient=True) as bar:
        task = bar.add_task(description, total=total)
        for answer in answers:
            yield answer
            bar.advance(task)


def _write(answers: Iterable[Answer], nbest_file: Path | None) -> None:
    """Replies to stdout as they come; the n-best file appears when it is complete."""
    from bidibeam.interchange import nbest

    with nbest.writing(nbest_file) if nbest_file is not None else nullcontext() as write_beams:
        for answer in answers:
            click.echo(answer.text)
            if write_beams is not None:
                write_beams(answer.beams)
