"""Answers on their way out: replies to stdout, rankings to a file, progress and a summary to stderr."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bidibeam.decoding.decoder import Answer
    from bidibeam.hypotheses import Beams, Ranking
    from bidibeam.interchange.formats import Format
    from bidibeam.interchange.text_lines import Lines
    from bidibeam.scores import Signature
    from bidibeam.work import Work


def write_answers(
    sources: Iterable[Beams],
    answer: Callable[[Iterable[Beams]], Iterable[Answer]],
    *,
    signature: Signature,
    nbest_file: Path | None = None,
    resume: bool = False,
    total: int | None = None,
    lines: Lines | None = None,
    description: str = "decoding",
) -> None:
    """Answer all sources and write as the answers come; see `interchange.resumable`.

    Args:
        sources: What to answer, in order.
        answer: Answers a stream of sources, in order.
        signature: All that the answers depend on besides the sources.
        nbest_file: Where rankings go.
        resume: Whether to go on with what a killed call left there.
        total: How many sources there are, if that is known.
        lines: What the sources are read from, if it is read meanwhile; the progress bar counts its bytes.
        description: What the progress bar says.
    """
    from bidibeam.cli.console import console, track
    from bidibeam.interchange import resumable
    from bidibeam.work import counting

    if nbest_file is not None and not resume:
        _note_replaced(nbest_file)
    began, counts = time.perf_counter(), _Counts()
    try:
        with (
            counting() as work,
            resumable.open_output(nbest_file, sources, signature=signature, resume=resume) as output,
        ):
            for reply in output.replies:
                click.echo(one_line(reply))
            left = None if total is None else total - len(output.replies)
            answers = answer(output.rest)
            # In a terminal the replies themselves show how far it is.
            for each in answers if sys.stdout.isatty() else track(answers, left, description, lines=lines):
                click.echo(one_line(each.text))
                output.write(each.beams, each.ranking)
                counts.add(each.ranking)
    except KeyboardInterrupt:
        if nbest_file is not None:
            click.echo(f"What is done is in {nbest_file}.partial; --resume goes on from there.", err=True)
        raise
    took_s = time.perf_counter() - began
    sentences = _summary(counts, took_s, work, done=len(output.replies), ranked=nbest_file is not None)
    console.print(" ".join(sentences), style="dim")
    console.print(f"Signature: {signature}", style="dim", soft_wrap=True)


def write_lists(target: Format, lists: Iterable[Beams], out_file: str) -> None:
    """Write n-best lists to a file, or to stdout if it is -; all or nothing."""
    import shutil
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


def check_not_input(out_file: Path | str | None, input_files: Sequence[str | None]) -> None:
    """Make sure that --out is nothing that is read."""
    from bidibeam.errors import SettingsError

    for file in input_files:
        if {None, "-"}.isdisjoint({file, out_file}) and Path(str(file)).resolve() == Path(
            str(out_file)
        ).resolve():
            raise SettingsError(f"--out would overwrite the input, {file}. Name another file.")


def one_line(reply: str) -> str:
    """A reply as stdout shows it: line breaks, which lists from elsewhere may hold, become spaces."""
    return " ".join(reply.splitlines())


@dataclass
class _Counts:
    """How many sources there were, how many got a reply, and how many hypotheses were first among those."""

    sources: int = 0
    answered: int = 0
    tied: int = 0

    def add(self, ranking: Ranking) -> None:
        """Count one source's."""
        self.sources += 1
        if len(ranking):
            self.answered, self.tied = self.answered + 1, self.tied + ranking.tied


def _summary(counts: _Counts, took_s: float, work: Work, *, done: int, ranked: bool) -> Iterator[str]:
    """What is told at the end, sentence by sentence; a search for replies alone does not know of ties."""
    from bidibeam.cli.console import counted
    from bidibeam.work import Work

    yield f"{counted(counts.sources, 'source')} in {took_s:.1f} s."
    if done:
        yield f"{counted(done, 'was', 'were')} done already."
    if work != Work():
        yield f"Work: {work}."
    if ranked and counts.tied > counts.answered:
        average = counts.tied / counts.answered
        yield f"For the first place {average:.2f} hypotheses were tied on average."


def _note_replaced(nbest_file: Path) -> None:
    """Say so before a file is replaced that --resume would go on with."""
    from bidibeam.cli.console import note

    written = nbest_file.resolve() if nbest_file.is_symlink() else nbest_file
    partial = written.with_name(f"{written.name}.partial")
    for path, fate in ((nbest_file, "replaced once all is done"), (partial, "done again")):
        if path.is_file():
            note(f"{path} is there already and is {fate}; with --resume it would be gone on with.")
