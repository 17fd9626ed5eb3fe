"""Answers on their way out: replies to stdout, rankings to a file, progress and a summary to stderr."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from bidibeam.decoding.decoder import Answer
    from bidibeam.hypotheses import Beams, Ranking
    from bidibeam.protocols import Strategy
    from bidibeam.scores import Signature
    from bidibeam.work import Work

SLOW_S = 0.8
"""After so many seconds a person wants to know what is going on."""


def write_answers(
    sources: Iterable[Beams],
    answer: Callable[[Iterable[Beams]], Iterable[Answer]],
    *,
    signature: Signature,
    nbest_file: Path | None = None,
    resume: bool = False,
    total: int | None = None,
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
        description: What the progress bar says.
    """
    from bidibeam.interchange import resumable
    from bidibeam.interpreter import settle
    from bidibeam.work import counting

    settle()
    if nbest_file is not None and not resume:
        _note_replaced(nbest_file)
    began, tally = time.perf_counter(), _Tally()
    try:
        with (
            counting() as work,
            resumable.writing(nbest_file, sources, signature=signature, resume=resume) as output,
        ):
            for reply in output.replies:
                click.echo(one_line(reply))
            left = None if total is None else total - len(output.replies)
            answers = answer(output.rest)
            # In a terminal the replies themselves show how far it is.
            for each in answers if sys.stdout.isatty() else watched(answers, left, description):
                click.echo(one_line(each.text))
                output.write(each.beams, each.ranking)
                tally.add(each.ranking)
    except KeyboardInterrupt:
        if nbest_file is not None:
            click.echo(f"What is done is in {nbest_file}.partial; --resume goes on from there.", err=True)
        raise
    took_s = time.perf_counter() - began
    from bidibeam.cli.console import console

    sentences = _summary(tally, took_s, work, done=len(output.replies), ranked=nbest_file is not None)
    console.print(" ".join(sentences), style="dim")
    console.print(f"Signature: {signature}", style="dim", soft_wrap=True)


@dataclass
class _Tally:
    """How many sources there were, how many got a reply, and how many hypotheses were first among those."""

    sources: int = 0
    answered: int = 0
    tied: int = 0

    def add(self, ranking: Ranking) -> None:
        """Count one source's."""
        self.sources += 1
        if len(ranking):
            self.answered, self.tied = self.answered + 1, self.tied + ranking.tied


def _summary(tally: _Tally, took_s: float, work: Work, *, done: int, ranked: bool) -> Iterator[str]:
    """What is told at the end, sentence by sentence; a search for replies alone does not know of ties."""
    from bidibeam.cli.console import counted
    from bidibeam.work import Work

    yield f"{counted(tally.sources, 'source')} in {took_s:.1f} s."
    if done:
        yield f"{counted(done, 'was', 'were')} done already."
    if work != Work():
        yield f"Work: {work}."
    if ranked and tally.tied > tally.answered:
        average = tally.tied / tally.answered
        yield f"For the first place {average:.2f} hypotheses were tied on average."


def _note_replaced(nbest_file: Path) -> None:
    """Say so before a file is replaced that --resume would go on with."""
    from bidibeam.cli.console import console

    written = nbest_file.resolve() if nbest_file.is_symlink() else nbest_file
    partial = written.with_name(f"{written.name}.partial")
    for path, fate in ((nbest_file, "replaced once all is done"), (partial, "done again")):
        if path.is_file():
            told = f"Note: {path} is there already and is {fate}; with --resume it would be gone on with."
            console.print(told, style="dim", soft_wrap=True)


def one_line(reply: str) -> str:
    """A reply as stdout shows it: line breaks, which lists from elsewhere may hold, become spaces."""
    return " ".join(reply.splitlines())


def watched(
    answers: Iterable[Answer], total: int | None = None, description: str = "decoding"
) -> Iterator[Answer]:
    """The same answers, counted; see `console.track`."""
    from bidibeam.cli.console import track

    return track(answers, total, description)


@contextmanager
def saying_if_slow(message: str) -> Iterator[None]:
    """Print a message if the block takes so long that a person would wonder."""
    from bidibeam.cli.console import console

    timer = threading.Timer(SLOW_S, lambda: console.print(message, style="dim"))
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def warm_up(selection: Strategy) -> None:
    """Have the kernels ready that a strategy will use; compiling them, the first time, takes seconds.

    They say so themselves.
    """
    from bidibeam.strategies.ranking import warm_up as rank_something

    rank_something(selection)
