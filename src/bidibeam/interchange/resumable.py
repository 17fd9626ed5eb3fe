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
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

from bidibeam.errors import InputError
from bidibeam.files import create_text, open_binary, open_text, replacing
from bidibeam.hypotheses import Direction, Hypothesis
from bidibeam.interchange.nbest import from_object, to_json
from bidibeam.interchange.text_lines import describe, name_of, open_lines, parse_object

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any

    from bidibeam.hypotheses import Beams, Ranking
    from bidibeam.scores import Signature

WRITTEN = [field for field in Hypothesis._fields if field not in ("multiplicity", "ids")]
"""What a line says of a hypothesis, its text first."""


@dataclass(frozen=True, slots=True)
class Output:
    """Where the answers go.

    Attributes:
        replies: What an earlier call replied to the first sources, in their order.
        rest: The sources that are still to be answered.
        write: Writes the next source's line.
    """

    replies: Sequence[str]
    rest: Iterator[Beams]
    write: Callable[[Beams, Ranking], None]


@contextmanager
def open_output(
    path: Path | None, sources: Iterable[Beams], *, signature: Signature, resume: bool = False
) -> Iterator[Output]:
    """Write an n-best file as the answers come; it has its name only once it is whole.

    If the block raises, or the process dies in it, `path` stays as it was and `path`.partial keeps the lines
    that are done. What is no file (a pipe, /dev/stdout) is simply written to, and None is nowhere.

    Args:
        path: The file; compressed, in the end, if its name ends in .gz or .xz.
        sources: What is to be answered, in order: the same from call to call, hypotheses too if they have
            any already. Only those that are done are read here.
        signature: All that the answers depend on besides the sources.
        resume: Whether to keep the lines of `path`.partial, or of `path` itself if there is no such file, and
            go on behind them; a last line that was torn is dropped. Otherwise they are done again.

    Raises:
        InputError: If what is to be resumed was written for other sources or with another signature, or if
            another process is writing to the same file.
    """
    rest = iter(sources)
    if path is None:
        yield Output((), rest, lambda _beams, _ranking: None)
    elif path.exists() and (not path.is_file() or path.is_relative_to("/dev")):
        with create_text(path) as stream:
            yield Output(
                (),
                rest,
                lambda beams, ranking: print(to_json(beams, ranking, signature), file=stream, flush=True),
            )
    else:
        with _grow(path.resolve() if path.is_symlink() else path, resume=resume) as lines:
            replies = _read_replies(lines, rest, str(signature))
            yield Output(
                replies, rest, lambda beams, ranking: lines.append(to_json(beams, ranking, signature))
            )


@dataclass(slots=True)
class _Lines:
    """The lines that are done, and the file that the next ones go to.

    Attributes:
        partial: That file, plain and open for appending.
        whole: A finished file, where it is that which is resumed; the first new line brings a copy along.
    """

    partial: IO[bytes]
    whole: Path | None

    def append(self, line: str) -> None:
        """Write one more, so that it stays if the process is killed."""
        if self.whole is not None:
            with open_binary(self.whole) as done:
                self.partial.writelines(each.removesuffix(b"\n") + b"\n" for each in done)
            self.whole = None
        self.partial.write(line.encode("utf-8") + b"\n")
        self.partial.flush()


@contextmanager
def _grow(path: Path, *, resume: bool) -> Iterator[_Lines]:
    """The lines to go on from; when the block succeeds, they are those of `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    is_whole = resume and path.exists() and not partial.exists()
    with _open_alone(partial) as stream:
        stream.seek(0)
        stream.truncate(sum(len(line) for line in stream if line.endswith(b"\n")) if resume else 0)
        lines = _Lines(stream, path if is_whole else None)
        try:
            yield lines
        except BaseException:
            if not os.fstat(stream.fileno()).st_size:
                partial.unlink()
            raise
        if lines.whole is not None:  # nothing was left to do
            partial.unlink()
        elif path.suffix in (".gz", ".xz"):
            with (
                open_text(partial) as plain,
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
    """Open a file for reading and appending, for this process alone.

    Raises:
        InputError: If another has it.
    """
    while True:
        with path.open("a+b") as stream:
            _lock(stream, path)
            try:
                is_there = os.path.samestat(os.fstat(stream.fileno()), path.stat())
            except FileNotFoundError:
                is_there = False
            if is_there:
                yield stream
                return  # otherwise whoever had it has finished just now, and it has another name


def _lock(stream: IO[bytes], path: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            f"Another process is writing to {path}. Wait until it is done, or name another file."
        ) from None
    except OSError:  # a file system without locks
        return


def _read_replies(lines: _Lines, sources: Iterator[Beams], signature: str) -> list[str]:
    """The replies on the lines that are done, once each line was found to answer its source.

    Raises:
        InputError: If one does not, or was written with another signature.
    """
    done = lines.whole or lines.partial
    lines.partial.seek(0)
    replies: list[str] = []
    for number, line in open_lines(done):
        if not line.strip():
            continue
        place = f"{name_of(done)}, line {number}"
        source = next(sources, None)
        try:
            value = parse_object(line, place)
            replies.append(_read_reply(value, signature, place))
            _check_source(from_object(value, number, place), source, place)
        except InputError as error:
            way_out = f"Remove {name_of(done)}, or do not resume, to start over."
            raise InputError(f"{error} {way_out}") from error
    return replies


def _read_reply(value: Mapping[str, Any], signature: str, place: str) -> str:
    """The reply that a line's ranking begins with; empty if nothing was found."""
    try:
        written, replies = value["ranking"]["signature"], value["ranking"]["replies"]
        reply = str(replies[0]["text"]) if replies else ""
        there, here = written.split("|"), signature.split("|")
    except (KeyError, TypeError, AttributeError):
        raise InputError(f"{place}: it has no ranking that says how it was made.") from None
    if written != signature:
        old, new = (
            ", ".join(fact for fact in one if fact not in other) or "nothing"
            for one, other in ((there, here), (here, there))
        )
        raise InputError(f"{place}: it was written with other settings: {old}, where now there is {new}.")
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
    if not (source.regular or source.reverse):
        return
    for direction in Direction:
        for key in WRITTEN:
            ours, inputs = ([getattr(each, key) for each in beams.of(direction)] for beams in (done, source))
            if ours != inputs:
                raise InputError(
                    f'{place}: the "{key}" of its "{direction}" hypotheses is not what the input has there.'
                )
