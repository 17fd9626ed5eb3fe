"""An n-best file that grows line by line, and that a later call can take up where a killed one left it.

    with resumable.open_output(path, sources, signature=signature, resume=resume) as output:
        for reply in output.replies:  # those an earlier call found
            print(reply)
        for answer in decoder.answers(output.rest):
            print(answer.text)
            output.write(answer.beams, answer.ranking)

Lines go to FILE.partial, always plain text, which takes the place of FILE when all is done.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import IO, TYPE_CHECKING

from bidibeam.errors import InputError
from bidibeam.files import PACKED, create_text, is_stream, lock, replacing, resolve, writing
from bidibeam.hypotheses import Direction
from bidibeam.interchange.nbest import WRITTEN, parse_beams, to_json
from bidibeam.interchange.text_lines import JsonObject, Lines, describe
from bidibeam.text import PackedTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from bidibeam.hypotheses import Beams, Ranking
    from bidibeam.scores import Signature


@dataclass(frozen=True, slots=True)
class Output:
    """Where the answers go."""

    replies: Sequence[str]  # what an earlier call replied to the first sources, in their order
    rest: Iterator[Beams]  # the sources that are still to be answered
    write: Callable[[Beams, Ranking], None]  # writes the next source's line


@contextmanager
def open_output(
    path: Path | None,
    sources: Iterable[Beams],
    *,
    signature: Signature,
    resume: bool = False,
    batch_size: int | None = None,
) -> Iterator[Output]:
    """Write an n-best file as the answers come; it has its name only once it is whole.

    If the block raises, or the process dies in it, `path` stays as it was and `path`.partial keeps the lines
    that are done. What is no file (a pipe, /dev/stdout) is simply written to, and None is nowhere.

    What is to be resumed must have been written for the same sources and with the same signature, and no
    other process may be writing to the same file.

    Args:
        path: The file; compressed, in the end, if its name ends in .gz or .xz.
        sources: What is to be answered, in order: the same from call to call, hypotheses too if they have
            any already. Only those that are done are read here.
        signature: All that the answers depend on besides the sources.
        resume: Whether to keep the lines of `path`.partial, or of `path` itself if there is no such file, and
            go on behind them; a last line that was torn is dropped. Otherwise they are done again.
        batch_size: Sources that are answered at once, where numbers depend on that by rounding. Lines of a
            batch that was not finished are then done again, so that batches begin where they would have
            begun, and the file is byte for byte what it would have been; lines of another size are refused.
    """
    rest = iter(sources)

    def as_line(beams: Beams, ranking: Ranking) -> str:
        return to_json(beams, ranking, signature, batch_size=batch_size)

    if path is None:
        yield Output((), rest, lambda _beams, _ranking: None)
    elif is_stream(path):
        with writing(path), create_text(path) as pipe:
            yield Output(
                (), rest, lambda beams, ranking: print(as_line(beams, ranking), file=pipe, flush=True)
            )
    else:
        with _grow(resolve(path) if path.is_symlink() else path, resume=resume) as (growing, done):
            replies, begun = _read_done(done, rest, str(signature), batch_size)
            if begun and (following := next(rest, None)) is not None:  # a last batch may be smaller
                growing.drop(len(begun))
                replies = replies[: -len(begun)]
                rest = chain(begun, [following], rest)
            yield Output(replies, rest, lambda beams, ranking: growing.append(as_line(beams, ranking)))


@dataclass
class _Growing:
    """The file to append to."""

    stream: IO[bytes]
    has_grown: bool = False
    """Whether this call has added a line."""

    def append(self, line: str) -> None:
        """Add a line."""
        self.stream.write(line.encode("utf-8") + b"\n")
        self.stream.flush()  # so that it stays if the process is killed
        self.has_grown = True

    def drop(self, count: int) -> None:
        """Drop the last lines, so many of those that are not empty."""
        self.stream.seek(0)
        starts: deque[int] = deque(maxlen=count)
        at = 0
        for line in self.stream:
            if line.strip():
                starts.append(at)
            at += len(line)
        self.stream.truncate(starts[0])


def partial_of(path: Path) -> Path:
    """Where the lines of an n-best file are until all are there."""
    written = resolve(path) if path.is_symlink() else path
    return written.with_name(f"{written.name}.partial")


@contextmanager
def _grow(path: Path, *, resume: bool) -> Iterator[tuple[_Growing, Lines]]:
    """Yield the file to append to, and the lines it has; when the block succeeds, it becomes `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = partial_of(path)
    is_whole = resume and path.exists() and not partial.exists()
    with writing(path, partial), _open_alone(partial) as stream:
        stream.seek(0)
        stream.truncate(sum(len(line) for line in stream if line.endswith(b"\n")) if resume else 0)
        growing = _Growing(stream)
        try:
            if is_whole:  # a finished file is what is resumed
                stream.writelines(f"{line}\n".encode() for _, line in Lines(path))
                stream.flush()
            stream.seek(0)
            done = Lines(stream)
            done.name = str(path if is_whole else partial)
            yield growing, done
        except BaseException:
            if not os.fstat(stream.fileno()).st_size or (is_whole and not growing.has_grown):
                partial.unlink()
            raise
        if is_whole and not growing.has_grown:  # nothing was left to do
            partial.unlink()
        elif path.suffix in PACKED:
            with (
                partial.open(encoding="utf-8", newline="\n") as plain,
                replacing(path) as packed,
                create_text(packed, named=path) as target,
            ):
                shutil.copyfileobj(plain, target)
            partial.unlink()
        else:
            os.fsync(stream.fileno())
            partial.replace(path)


@contextmanager
def _open_alone(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading and appending, for this process alone."""
    while True:
        with path.open("a+b") as stream:
            if not lock(stream):
                raise InputError(
                    f"Another process is writing to {path}. Wait until it is done, or name another file."
                )
            try:
                is_there = os.path.samestat(os.fstat(stream.fileno()), path.stat())
            except FileNotFoundError:
                is_there = False
            if is_there:
                yield stream
                return  # otherwise whoever had it has finished just now, and it has another name


def _read_done(
    done: Lines, sources: Iterator[Beams], signature: str, batch_size: int | None
) -> tuple[PackedTexts, list[Beams]]:
    """The replies on the lines that are done, each of which must answer its source with this signature.

    Besides, the sources among them that are less than a batch, at the end.
    """
    replies = PackedTexts()
    begun: list[Beams] = []
    for number, line in done:
        if not line.strip():
            continue
        source = next(sources, None)
        try:
            entry = JsonObject.parse(line, done.place(number), number)
            replies.append(_read_reply(entry, signature, batch_size))
            _check_source(parse_beams(entry), source, entry.place)
        except InputError as error:
            raise InputError(f"{error} Remove {done.name}, or do not resume, to start over.") from error
        if source is not None:
            begun.append(source)
        if len(begun) == (batch_size or 1):
            begun = []
    return replies, begun


def _read_reply(entry: JsonObject, signature: str, batch_size: int | None) -> str:
    """The reply that a line's ranking begins with; empty if nothing was found."""
    try:
        written, replies = entry.fields["ranking"]["signature"], entry.fields["ranking"]["replies"]
        reply = str(replies[0]["text"]) if replies else ""
        there, here = written.split("|"), signature.split("|")
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{entry.place}: it has no ranking that says how it was made.") from None
    if written != signature:
        old, new = (
            ", ".join(fact for fact in one if fact not in other) or "nothing"
            for one, other in ((there, here), (here, there))
        )
        raise InputError(
            f"{entry.place}: it was written with other settings: {old}, where now there is {new}."
        )
    if (before := entry.fields["ranking"].get("batch_size", batch_size)) != batch_size:
        raise InputError(
            f"{entry.place}: it was searched with batch_size {str(before)[:40]}, and numbers depend on that "
            f"by rounding. Give it in place of {batch_size}."
        )
    return reply


def _check_source(done: Beams, source: Beams | None, place: str) -> None:
    """Refuse a line that was written for another source, or for other hypotheses of it."""
    if source is None:
        raise InputError(f"{place}: the input ends before it.")
    for key in ("id", "source", "reference"):
        ours, inputs = getattr(done, key), getattr(source, key)
        if ours != inputs:
            raise InputError(
                f'{place}: its "{key}" is {describe(ours)}, but the input has {describe(inputs)} there.'
            )
    if done.references != source.references:
        raise InputError(f'{place}: its "references" are not those that the input has there.')
    if not (source.regular or source.reverse):
        return
    for direction in Direction:
        for key in WRITTEN:
            ours, inputs = ([getattr(each, key) for each in beams.of(direction)] for beams in (done, source))
            if ours != inputs:
                raise InputError(
                    f'{place}: the "{key}" of its "{direction}" hypotheses is not what the input has there.'
                )
