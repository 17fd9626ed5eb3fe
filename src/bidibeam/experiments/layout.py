"""The files of an experiment, and the n-best lists that its systems choose from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bidibeam.errors import InputError, RunError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange import nbest
from bidibeam.protocols import Requirements

VALIDATION, TEST = "validation", "test"


class Layout:
    """The files of an experiment, and where the prepared data are."""

    def __init__(self, folder: Path, data: Path) -> None:
        self.folder = folder
        self.data = data
        self.positions = folder / "positions.json"  # frequencies of words by position
        self.constant = folder / "constant.json"  # scores of one reply to every source
        self.results = folder / "results.json"  # all numbers of all seeds

    def seed(self, seed: int) -> SeedLayout:
        """Returns the layout of one seed."""
        return SeedLayout(self.folder / f"seed-{seed}")


class SeedLayout:
    """The files of one seed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.run = folder / "run"  # the trained model
        self.model = folder / "model.json"  # the fingerprint of the weights
        self.perplexity = folder / "perplexity.json"  # of the test references
        self.cost = folder / "cost.json"  # time and work of the strategies
        self.evaluation = folder / "evaluation.json"  # scores, tests and analyses
        self.results = folder / "results.json"  # all numbers of the seed

    def beams(self, split: str, beam_size: int) -> Path:
        """Returns the file of the n-best lists of a split."""
        return self.folder / "beams" / f"{split}-{beam_size}.jsonl.gz"

    def tuned(self, beam_size: int) -> Path:
        """Returns the file of the settings tuned for an N_B."""
        return self.folder / "tuned" / f"{beam_size}.json"


def split_size(directions: Sequence[Direction], beam_size: int) -> dict[Direction, int] | None:
    """Splits an N_B among directions, the larger part to the first; None if it is too small."""
    if beam_size < len(directions):
        return None
    small, larger = divmod(beam_size, len(directions))
    return {direction: small + (index < larger) for index, direction in enumerate(directions)}


def plan_searches(
    requirements: Iterable[Requirements], beam_sizes: Iterable[int]
) -> dict[int, tuple[tuple[Direction, ...], tuple[Direction, ...]]]:
    """Plans the searches that serve strategies with these requirements at every N_B.

    A search of b hypotheses in each direction serves the strategies that need one direction at N_B = b, and
    those that need both at N_B = 2b.

    Returns:
        By beam size: the directions to search, and those whose hypotheses the other direction scores.
    """
    searched: dict[int, set[Direction]] = {}
    scored: dict[int, set[Direction]] = {}
    sizes = list(beam_sizes)
    for each in requirements:
        for beam_size in sizes:
            for direction, size in (split_size(each.directions, beam_size) or {}).items():
                searched.setdefault(size, set()).add(direction)
                if each.other_weight is not None:
                    scored.setdefault(size, set()).add(direction)

    def order(directions: set[Direction]) -> tuple[Direction, ...]:
        return tuple(direction for direction in Direction if direction in directions)

    return {size: (order(searched[size]), order(scored.get(size, set()))) for size in sorted(searched)}


class BeamFiles:
    """The n-best lists of a split, by beam size, read when they are first needed."""

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self._paths = paths
        self._read: dict[int, list[Beams]] = {}

    def for_system(self, requirements: Requirements, beam_size: int) -> list[Beams] | None:
        """Returns the lists that a strategy may choose from at an N_B; None if that is too small for it."""
        parts = split_size(requirements.directions, beam_size)
        if parts is None:
            return None
        for size in parts.values():
            if size not in self._read:
                self._read[size] = read_beams(self._paths[size])
        merged = []
        for lines in zip(*(self._read[size] for size in parts.values()), strict=True):
            line = Beams(lines[0].id, lines[0].source, lines[0].reference)
            for direction, found in zip(parts, lines, strict=True):
                line = line.with_hypotheses(direction, found.of(direction))
            merged.append(line)
        return merged


def read_beams(path: Path) -> list[Beams]:
    """Reads the n-best lists that a search wrote."""
    with _blame_file(path):
        return list(nbest.read(path, allow_empty=True))


def read_json(path: Path) -> Any:
    """Reads what a stage wrote."""
    with _blame_file(path):
        return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def _blame_file(path: Path) -> Iterator[None]:
    """Turns errors of a damaged file into a RunError with the way out."""
    try:
        yield
    except (InputError, EOFError, OSError, ValueError) as error:
        told = f"{path} is damaged ({error}). Remove it and call again: it will be made anew."
        raise RunError(told) from error
