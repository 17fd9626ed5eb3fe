"""Files of replies or of n-best lists, read whole."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import io

    from bidibeam.hypotheses import Beams
    from bidibeam.scores import Signature


@dataclass(frozen=True)
class Input:
    """A file of replies or of n-best lists, read whole.

    Attributes:
        file: Its name.
        numbers: The line of each source.
        beams: Each source, with all its hypotheses if a strategy is to choose, or else with its reply alone.
        has_lists: Whether it is an n-best file.
        beam_size: N_B, as far as the file says.
        signature: How its replies came about, as far as the file says.
        model: Who wrote its lists, as far as the file says.
    """

    file: str
    numbers: Sequence[int]
    beams: Sequence[Beams]
    has_lists: bool
    beam_size: int
    signature: Signature
    model: str | None = None

    def place(self, index: int) -> str:
        """What a message calls a source."""
        return f"{self.file}, line {self.numbers[index]}"


def read_input(file: str, *, whole_lists: bool) -> Input:
    """Read a file, or stdin if it is -.

    Args:
        file: Its name.
        whole_lists: Whether all hypotheses are wanted, for strategies to choose among.

    Raises:
        InputError: If it is empty, cannot be read, or has no lists though they are wanted.
    """
    from bidibeam.errors import InputError
    from bidibeam.interchange import nbest, replies

    stream = replies.whole(sys.stdin.buffer if file == "-" else Path(file))
    has_lists = replies.is_nbest(stream)
    if whole_lists and not has_lists and stream.getvalue():
        raise InputError(
            f"{file} holds text, one reply a line, and a --strategy chooses among the lists of an n-best "
            "file. Give such a file, or leave --strategy out."
        )
    if whole_lists:
        stream.seek(0)
        lines = [replies.Reply(number, beams) for number, beams in nbest.read_numbered(stream)]
    else:
        lines = list(replies.read_replies(stream))
    if not lines:
        raise InputError(f"{file} is empty; it must hold one reply a line, or n-best lists.")
    if not has_lists:
        _note_tab(file, stream)
    return Input(
        file,
        [line.number for line in lines],
        [line.beams for line in lines],
        has_lists,
        beam_size=max(line.found for line in lines),
        signature=_signature(file, stream, lines[0].signature),
        model=replies.model_of(stream) if has_lists else None,
    )


def _signature(file: str, stream: io.StringIO, ranked_by: str | None) -> Signature:
    """How a file's replies came about, where it says so, and which file it is."""
    import hashlib

    from bidibeam.scores import Signature

    facts = [fact.partition(":") for fact in ranked_by.split("|")] if ranked_by else []
    content = stream.getvalue().encode("utf-8", "surrogatepass")
    name = f"{Path(file).name}@{hashlib.blake2b(content).hexdigest()[:8]}"
    return Signature(tuple((key, value) for key, _, value in facts)).extended(file=name)


def _note_tab(file: str, stream: io.StringIO) -> None:
    """Say so if replies hold a tab: they may be a table."""
    from bidibeam.cli.console import console
    from bidibeam.interchange.replies import first_tab

    number = first_tab(stream)
    if number is not None:
        told = f"Note: {file}, line {number} holds a tab; the whole line counts as the reply."
        console.print(told, style="dim", soft_wrap=True)
