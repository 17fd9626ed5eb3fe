"""`bidibeam convert`."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Collection, Iterable, Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.lists import Lists, Reading, build_format, lists_options, settings_of
from bidibeam.interchange.formats import FORMATS

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Direction, Hypothesis
    from bidibeam.interchange.formats import Format

WRITING = ("direction", "per_source")
"""Settings that say something of what is written too."""
OF_SOURCES = ("id", "source", "reference")
OF_HYPOTHESES = ("tokens", "log_prob", "other_log_prob", "length", "score", "finished")
"""What may be known besides texts."""
SPLITTING = frozenset({"tokens", "length"})
"""To compare these with words takes longer than to read and write them: the first of a list tells enough."""


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
    target = build_format(name, settings)
    tally = Tally(direction, dropped={*OF_SOURCES, *OF_HYPOTHESES} - {*target.carries, *_kept(name)})
    is_there = out_file != "-" and Path(out_file).is_file()
    _write(target, tally.counting(lists.read()), out_file)
    tally.tell(lists.format_name, name)
    if is_there:
        from bidibeam.cli.console import console

        console.print(f"Replaced {out_file}, which was there already.", style="dim", soft_wrap=True)


@dataclass
class Tally:
    """What went through.

    Attributes:
        direction: Whose hypotheses are written; None for those of both.
        dropped: What the format has no place for, of sources and of hypotheses.
        sources: How many sources there were.
        hypotheses: How many hypotheses of them.
        left_out: How many sources have hypotheses of the other direction, which are not written.
        lost: What of it was known, and so was lost.
    """

    direction: Direction | None
    dropped: Set[str]
    sources: int = 0
    hypotheses: int = 0
    left_out: int = 0
    lost: set[str] = field(default_factory=set)

    def counting(self, lists: Iterable[Beams]) -> Iterator[Beams]:
        """The same lists, counted."""
        for beams in lists:
            if self.direction is None:
                written = (*beams.regular, *beams.reverse)
            else:
                written = beams.of(self.direction).hypotheses
                self.left_out += bool(beams.of(self.direction.other))
            self.lost.update(self.dropped & _known_of_source(beams, self.sources))
            for rank, one in enumerate(written):
                looked_for = self.dropped - self.lost
                self.lost.update(_known(one, looked_for - SPLITTING if rank else looked_for))
            self.sources += 1
            self.hypotheses += len(written)
            yield beams

    def tell(self, from_format: str, to_format: str) -> None:
        """Say it on stderr, with what was lost on the way."""
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
        lost = [key for key in (*OF_SOURCES, *OF_HYPOTHESES) if key in self.lost]
        if lost:
            last = f"{', '.join(lost[:-1])} and {lost[-1]}" if len(lost) > 1 else lost[0]
            console.print(
                f"Note: {to_format} has no place for {last}; that was dropped.", style="dim", soft_wrap=True
            )


def _known_of_source(beams: Beams, place: int) -> set[str]:
    """What is known of a source besides its hypotheses; a number in order is no id."""
    known = {key for key in ("source", "reference") if getattr(beams, key)}
    return known if beams.id in (str(place), str(place + 1)) else {*known, "id"}


def _known(found: Hypothesis, keys: Set[str]) -> set[str]:
    """Those of the keys of which a hypothesis says more than its text does."""
    from bidibeam.interchange.formats.single import hypothesis

    said = {key for key in ("log_prob", "other_log_prob", "score") if getattr(found, key) is not None} & keys
    if "finished" in keys and not found.finished:
        said.add("finished")
    if keys & SPLITTING:
        plain = hypothesis(found.text, finished=found.finished)
        said |= {key for key in keys & SPLITTING if getattr(found, key) != getattr(plain, key)}
    return said


def _kept(format_name: str) -> set[str]:
    """What of a hypothesis can be read again once a format has written it: one is, of which all is known."""
    from bidibeam.errors import BidibeamError
    from bidibeam.hypotheses import Beams, Hypothesis, NBest

    whole = Hypothesis("a b", ("a", "b@@", "c"), -2.5, 9, -1.25, finished=False, other_log_prob=-4.0)
    target, stream = build_format(format_name, {"per_source": 1}), io.StringIO()
    try:
        target.write([Beams("0", "", regular=NBest((whole,)))], stream)
        stream.seek(0)
        found = [one for beams in target.read(stream) for one in beams.regular]
    except BidibeamError:  # a format may have reasons to refuse it; then nobody knows
        return set(OF_HYPOTHESES)
    return {key for one in found for key in _known(one, set(OF_HYPOTHESES))}


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
