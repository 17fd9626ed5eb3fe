"""Five sources, the lines of their answers, and a command that writes and resumes them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest, Ranked, Ranking
from bidibeam.interchange import nbest, resumable
from bidibeam.scores import Signature

SIGNATURE = Signature((("strategy", "vbs"), ("beam_size", "2")))
SOURCES = [Beams(str(number), f"où {number}?", ("là.",)) for number in range(1, 6)]


def answered(source: Beams) -> tuple[Beams, Ranking]:
    """Source n is answered with "n here"; the third finds nothing."""
    if source.id == "3":
        return source, Ranking()
    found = Hypothesis(f"{source.id} here", (source.id, "here"), -1.0, 3, -0.5)
    beams = source.with_hypotheses(Direction.REGULAR, NBest((found,)))
    return beams, Ranking((Ranked(found, Direction.REGULAR, 0, -0.5),))


REPLIES = ["1 here", "2 here", "", "4 here", "5 here"]
LINES = [nbest.to_json(*answered(source), SIGNATURE) + "\n" for source in SOURCES]
CONTENT = "".join(LINES).encode()


def call(
    path: Path | None,
    sources: Iterable[Beams] = SOURCES,
    *,
    signature: Signature = SIGNATURE,
    resume: bool = False,
    fail_at: str | None = None,
) -> tuple[list[str], int]:
    """What a command does: all the replies that it prints, and how many of them it had to find."""
    found = 0
    with resumable.open_output(path, sources, signature=signature, resume=resume) as output:
        printed = list(output.replies)
        for source in output.rest:
            if source.id == fail_at:
                raise RuntimeError
            found += 1
            beams, ranking = answered(source)
            output.write(beams, ranking)
            printed.append(ranking.text)
    return printed, found


def interrupt(path: Path, fail_at: str = "4", *, resume: bool = False) -> None:
    with pytest.raises(RuntimeError):
        call(path, fail_at=fail_at, resume=resume)


def partial(path: Path) -> Path:
    return path.with_name(f"{path.name}.partial")
