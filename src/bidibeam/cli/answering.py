"""Answers on their way out: replies to stdout, rankings to a file, progress and a summary to stderr."""

from __future__ import annotations

import gc
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from bidibeam.decoding.decoder import Answer
    from bidibeam.hypotheses import Beams
    from bidibeam.protocols import Selection
    from bidibeam.scores import Signature

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
    from bidibeam.work import Work, counting

    settle()
    if nbest_file is not None and not resume:
        _note_replaced(nbest_file)
    began, count, answered, tied = time.perf_counter(), 0, 0, 0
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
                count += 1
                if len(each.ranking):
                    answered, tied = answered + 1, tied + each.ranking.tied
    except KeyboardInterrupt:
        if nbest_file is not None:
            click.echo(f"What is done is in {nbest_file}.partial; --resume goes on from there.", err=True)
        raise
    took_s = time.perf_counter() - began
    from bidibeam.cli.console import console, counted

    sentences = [f"{counted(count, 'source')} in {took_s:.1f} s."]
    if output.replies:
        sentences.append(f"{counted(len(output.replies), 'was', 'were')} done already.")
    if work != Work():
        sentences.append(f"Work: {work}.")
    if nbest_file is not None and tied > answered:
        sentences.append(f"For the first place {tied / answered:.2f} hypotheses were tied on average.")
    console.print(" ".join(sentences), style="dim")
    console.print(f"Signature: {signature}", style="dim", soft_wrap=True)


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


def warm_up(selection: Selection) -> None:
    """Have the kernels ready that a strategy will use; compiling them, the first time, takes seconds.

    They say so themselves.
    """
    from bidibeam.selection.choosing import warm_up as rank_something

    rank_something(selection)


def settle() -> None:
    """Prepare for long work: the garbage collector need not look again through what was loaded.

    Otherwise it does, a third of a second each time, whenever enough hypotheses were read or made.
    """
    gc.collect()
    gc.freeze()
