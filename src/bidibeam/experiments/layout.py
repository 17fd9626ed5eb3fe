"""The files of an experiment, and the n-best lists that its systems choose from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bidibeam.errors import InputError, RunError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange import nbest
from bidibeam.protocols import Requirements

VALIDATION, TEST = "validation", "test"


@dataclass(frozen=True)
class Layout:
    """The folder of an experiment, and where the prepared data are."""

    folder: Path
    data: Path

    @property
    def positions(self) -> Path:
        """The frequencies of words by position."""
        return self.folder / "positions.json"

    @property
    def constant(self) -> Path:
        """The scores of one reply to every source."""
        return self.folder / "constant.json"

    @property
    def results(self) -> Path:
        """All numbers of all seeds."""
        return self.folder / "results.json"

    def seed(self, seed: int) -> SeedLayout:
        """Returns the layout of one seed."""
        return SeedLayout(self.folder / f"seed-{seed}")


@dataclass(frozen=True)
class SeedLayout:
    """The folder of one seed."""

    folder: Path

    @property
    def run(self) -> Path:
        """The trained model."""
        return self.folder / "run"

    @property
    def model(self) -> Path:
        """The fingerprint of the weights."""
        return self.folder / "model.json"

    @property
    def perplexity(self) -> Path:
        """Perplexities of the test references."""
        return self.folder / "perplexity.json"

    @property
    def cost(self) -> Path:
        """Time and work of the strategies."""
        return self.folder / "cost.json"

    @property
    def evaluation(self) -> Path:
        """Scores, tests and analyses."""
        return self.folder / "evaluation.json"

    @property
    def results(self) -> Path:
        """All numbers of the seed."""
        return self.folder / "results.json"

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
    """The n-best lists of a split, read when they are first needed.

    Args:
        paths: By beam size, the file.
    """

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
    """Reads the n-best lists that a search wrote.

    Raises:
        RunError: If the file is damaged.
    """
    try:
        return list(nbest.read(path, allow_empty=True))
    except (InputError, EOFError, OSError) as error:
        raise _damaged(path, error) from error


def read_json(path: Path) -> Any:
    """Reads what a stage wrote.

    Raises:
        RunError: If the file is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> RunError:
    return RunError(f"{path} is damaged ({error}). Remove it and call again: it will be made anew.")
