"""`bidibeam convert`."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.lists import Lists, Reading, build_format, lists_options, settings_of
from bidibeam.interchange.formats import FORMATS

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Direction
    from bidibeam.interchange.formats import Format

WRITING = ("direction", "per_source")
"""Settings that say something of what is written too."""


@click.command()
@click.argument("input_file", metavar="INPUT")
@lists_options
@click.option("--ranked", is_flag=True, help="jsonl: the order and scores of the ranking, not of the search.")
@click.option(
    "--to",
    "to_format",
    metavar="FORMAT",
    help=f"How to write them: {', '.join(FORMATS.names())}.  [default: as the ending of --out tells; jsonl]",
)
@click.option(
    "-o", "--out", "out_file", metavar="FILE", default="-", help="Where to; - is stdout.  [default: -]"
)
def convert(input_file: str, to_format: str | None, out_file: str, **flags: Any) -> None:
    """Read and write n-best lists as other tools do.

    INPUT is a file, plain, .gz or .xz, or - for stdin: our own JSON lines (jsonl), Moses n-best lists
    (moses), the output of fairseq-generate (fairseq), flat text with N lines a source (mbrs) or responses of
    the OpenAI API with `n` choices (openai). All but ours hold one list a source, that of the regular
    direction unless --direction says otherwise. docs/nbest.md tells what each can carry. Nothing is written
    unless all of it can be.

    \b
    bidibeam convert marian.nbest --log-prob F0 --sources test.src -o lists.jsonl
    bidibeam convert l2r.out --reverse r2l.out -o lists.jsonl.gz
    bidibeam convert lists.jsonl --to mbrs > hypotheses.txt
    bidibeam convert ranked.jsonl --ranked -o ranked.nbest
    """  # noqa: D301
    from bidibeam.hypotheses import Direction
    from bidibeam.interchange.formats.detection import format_for

    reading = Reading.taken(input_file, flags)
    _check_out(out_file, reading.files)
    name = to_format or ("jsonl" if out_file == "-" else format_for(out_file))
    written = settings_of(name) & set(WRITING)
    lists = Lists(reading, others=written, allow_empty=True)
    settings = {key: value for key, value in reading.settings.items() if key in written}
    direction = settings.get("direction", Direction.REGULAR) if "direction" in written else None
    target, tally = build_format(name, settings), Tally(direction)
    is_there = out_file != "-" and Path(out_file).is_file()
    _write(target, tally.counting(lists.read()), out_file)
    tally.tell(lists.format_name, name, target.carries)
    if is_there:
        from bidibeam.cli.console import console

        console.print(f"Replaced {out_file}, which was there already.", style="dim", soft_wrap=True)


@dataclass
class Tally:
    """What went through.

    Attributes:
        direction: Whose hypotheses are written; None for those of both.
        sources: How many sources there were.
        hypotheses: How many hypotheses of them.
        left_out: How many sources have hypotheses of the other direction, which are not written.
        known: What is known about sources besides: "id", "source", "reference".
    """

    direction: Direction | None
    sources: int = 0
    hypotheses: int = 0
    left_out: int = 0
    known: set[str] = field(default_factory=set)

    def counting(self, lists: Iterable[Beams]) -> Iterator[Beams]:
        """The same lists, counted."""
        for beams in lists:
            if beams.id not in (str(self.sources), str(self.sources + 1)):  # more than a number in order
                self.known.add("id")
            self.known.update(key for key in ("source", "reference") if getattr(beams, key))
            self.sources += 1
            if self.direction is None:
                self.hypotheses += len(beams.regular) + len(beams.reverse)
            else:
                self.hypotheses += len(beams.of(self.direction))
                self.left_out += bool(beams.of(self.direction.other))
            yield beams

    def tell(self, from_format: str, to_format: str, carries: Collection[str]) -> None:
        """Say it on stderr, with what was lost on the way to a format that carries no more than this."""
        from bidibeam.cli.console import console, counted

        told = f"{counted(self.sources, 'source')}, {counted(self.hypotheses, 'hypothesis', 'hypotheses')}"
        console.print(f"{told}, from {from_format} to {to_format}.", style="dim")
        if self.direction is not None and self.left_out:
            other = self.direction.other.value
            console.print(
                f"Note: {self.left_out:,} of the sources {'has' if self.left_out == 1 else 'have'} {other} "
                f"hypotheses too, but {to_format} holds one list a source; --direction {other} writes those.",
                style="dim",
            )
        lost = [key for key in ("id", "source", "reference") if key in self.known and key not in carries]
        if lost:
            last = f"{', '.join(lost[:-1])} and {lost[-1]}" if len(lost) > 1 else lost[0]
            console.print(f"Note: {to_format} has no place for {last}; that was dropped.", style="dim")


def _check_out(out_file: str, files: Collection[str]) -> None:
    """Make sure that what is to be written is nothing that is read.

    Raises:
        SettingsError: If it is.
    """
    from bidibeam.errors import SettingsError

    for name in files:
        if "-" not in (name, out_file) and Path(name).resolve() == Path(out_file).resolve():
            raise SettingsError(f"--out would overwrite the input, {name}. Name another file.")


def _write(target: Format, lists: Iterable[Beams], out_file: str) -> None:
    """Write all or nothing."""
    import tempfile

    from bidibeam.files import create_text, replacing

    if out_file != "-":
        path = Path(out_file)
        with replacing(path) as partial, create_text(partial, named=path) as stream:
            target.write(lists, stream)
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as kept:
        target.write(lists, kept)
        kept.seek(0)
        shutil.copyfileobj(kept, sys.stdout)
