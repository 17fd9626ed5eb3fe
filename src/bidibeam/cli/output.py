"""Answers on their way out: replies to stdout, rankings to a file, progress and a summary to stderr."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from bidibeam.cli.console import echo, format_count, note, show, tell, track
from bidibeam.decoding.decoder import Answer
from bidibeam.errors import SettingsError
from bidibeam.files import create_text, replacing, resolve, writing
from bidibeam.hypotheses import Beams
from bidibeam.interchange import resumable
from bidibeam.interchange.formats import Format
from bidibeam.interchange.text_lines import Lines
from bidibeam.scores import Signature
from bidibeam.text import printable
from bidibeam.work import Work, counting


def write_answers(
    sources: Iterable[Beams],
    answer: Callable[[Iterable[Beams]], Iterable[Answer]],
    *,
    signature: Signature,
    nbest_file: Path | None = None,
    resume: bool = False,
    batch_size: int | None = None,
    total: int | None = None,
    lines: Lines | None = None,
    description: str = "decoding",
) -> None:
    """Answer all sources, and write replies and rankings as they come (see `interchange.resumable`).

    `batch_size` is that of `answer`, where numbers depend on it by rounding: who resumes keeps to it. The bar
    counts up to `total`, if that is known, or the bytes of `lines`, if sources are read meanwhile.
    """
    if nbest_file is not None and not resume:
        for path, fate in (
            (nbest_file, "replaced once all is done"),
            (resumable.partial_of(nbest_file), "done again"),
        ):
            if path.is_file():
                note(f"{path} is there already and is {fate}; with --resume it would be gone on with.")
    began = time.perf_counter()
    count = answered = tied = 0
    conditions: Any = {"signature": signature, "resume": resume, "batch_size": batch_size}
    with counting() as work, resumable.open_output(nbest_file, sources, **conditions) as output:
        for reply in output.replies:
            echo(join_lines(reply))
        left = None if total is None else total - len(output.replies)
        answers = answer(output.rest)
        # In a terminal the replies themselves show how far it is.
        for each in answers if sys.stdout.isatty() else track(answers, left, description, lines=lines):
            echo(join_lines(each.text))
            output.write(each.beams, each.ranking)
            count += 1
            if len(each.ranking):
                answered, tied = answered + 1, tied + each.ranking.tied
    summary = f"{format_count(count, 'source')} in {time.perf_counter() - began:.1f} s."
    if output.replies:
        summary += f" {format_count(len(output.replies), 'was', 'were')} done already."
    if work != Work():
        summary += f" Work: {work}."
    if nbest_file is not None and tied > answered:  # a search for replies alone does not know of ties
        summary += f" For the first place {tied / answered:.2f} hypotheses were tied on average."
    show(summary, style="dim")
    tell(f"Signature: {signature}")


def write_lists(target: Format, lists: Iterable[Beams], out_file: str) -> None:
    """Write n-best lists to a file, or to stdout if it is -; all or nothing."""
    if out_file != "-":
        path = Path(out_file)
        with replacing(path) as partial, create_text(partial, named=path) as stream:
            target.write(lists, stream)
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as kept:
        with writing(Path(tempfile.gettempdir())):
            target.write(lists, kept)
        kept.seek(0)
        if sys.stdout.isatty():
            sys.stdout.writelines(map(printable, kept))
        else:
            shutil.copyfileobj(kept, sys.stdout)


def check_not_input(
    out_file: Path | str | None, input_files: Sequence[str | None], *, flag: str = "--out"
) -> None:
    """Make sure that what a flag names for writing is nothing that is read."""
    if out_file not in (None, "-"):
        written = resolve(Path(str(out_file)))
        for file in input_files:
            if file not in (None, "-") and Path(os.path.realpath(str(file))) == written:
                raise SettingsError(f"{flag} would overwrite the input, {file}. Name another file.")


def check_output(nbest_file: Path | None, input_files: Sequence[str], *, resume: bool) -> None:
    """Make sure that what is to be resumed is named, and that what is to be written is no input."""
    if nbest_file is not None:
        for path in (nbest_file, resumable.partial_of(nbest_file)):
            check_not_input(path, input_files, flag="--n-best")
    elif resume:
        raise SettingsError("--resume needs --n-best FILE: what is done is read from that file.")


def join_lines(reply: str) -> str:
    """A reply as stdout shows it: line breaks, which lists from elsewhere may hold, become spaces."""
    return " ".join(reply.splitlines())
