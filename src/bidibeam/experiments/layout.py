"""Where an experiment keeps what, and which beams its systems choose from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bidibeam.errors import InputError, RunError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange import nbest
from bidibeam.protocols import Requirements

VALIDATION, TEST = "validation", "test"


@dataclass(frozen=True)
class Layout:
    """The folder of an experiment.

    Attributes:
        folder: The folder.
        data: Where the prepared data are.
    """

    folder: Path
    data: Path

    @property
    def positions(self) -> Path:
        """Where words stand in the corpus."""
        return self.folder / "positions.json"

    @property
    def constant(self) -> Path:
        """What one reply to every source scores."""
        return self.folder / "constant.json"

    @property
    def results(self) -> Path:
        """All numbers of all seeds."""
        return self.folder / "results.json"

    def seed(self, seed: int) -> SeedLayout:
        """One seed's part of it."""
        return SeedLayout(self.folder / f"seed-{seed}")


@dataclass(frozen=True)
class SeedLayout:
    """What belongs to one seed.

    Attributes:
        folder: Its folder.
    """

    folder: Path

    @property
    def run(self) -> Path:
        """The trained run."""
        return self.folder / "run"

    @property
    def model(self) -> Path:
        """What tells the run's weights from any others."""
        return self.folder / "model.json"

    @property
    def perplexity(self) -> Path:
        """Perplexities of the test references."""
        return self.folder / "perplexity.json"

    @property
    def cost(self) -> Path:
        """Time and work of every strategy."""
        return self.folder / "cost.json"

    @property
    def evaluation(self) -> Path:
        """Scores, tests and analyses."""
        return self.folder / "evaluation.json"

    @property
    def results(self) -> Path:
        """All its numbers."""
        return self.folder / "results.json"

    def beams(self, split: str, beam_size: int) -> Path:
        """The hypotheses found for a split, so many in each direction."""
        return self.folder / "beams" / f"{split}-{beam_size}.jsonl.gz"

    def tuned(self, beam_size: int) -> Path:
        """What was tuned for an N_B."""
        return self.folder / "tuned" / f"{beam_size}.json"


def shares(directions: Sequence[Direction], beam_size: int) -> dict[Direction, int] | None:
    """How an N_B is shared out among directions, the larger part to the first; None if it is too small."""
    if beam_size < len(directions):
        return None
    small, larger = divmod(beam_size, len(directions))
    return {direction: small + (index < larger) for index, direction in enumerate(directions)}


def searched_beams(
    needs: Iterable[Requirements], beam_sizes: Iterable[int]
) -> dict[int, tuple[tuple[Direction, ...], tuple[Direction, ...]]]:
    """What must be searched so that strategies with these needs can choose at every N_B.

    A search of b hypotheses in each direction serves the strategies that need one of them at N_B = b, and
    those that need both at N_B = 2b.

    Returns:
        By beam size: the directions to search, and those whose hypotheses the other one must score.
    """
    wanted: dict[int, set[Direction]] = {}
    judged: dict[int, set[Direction]] = {}
    sizes = list(beam_sizes)
    for need in needs:
        for beam_size in sizes:
            for direction, size in (shares(need.directions, beam_size) or {}).items():
                wanted.setdefault(size, set()).add(direction)
                if need.other_weight is not None:
                    judged.setdefault(size, set()).add(direction)
    return {size: (_in_order(wanted[size]), _in_order(judged.get(size, set()))) for size in sorted(wanted)}


def _in_order(directions: Iterable[Direction]) -> tuple[Direction, ...]:
    chosen = set(directions)
    return tuple(direction for direction in Direction if direction in chosen)


class BeamFiles:
    """The beams of a split, read when they are first needed.

    Args:
        paths: By beam size, the file.
    """

    def __init__(self, paths: Mapping[int, Path]) -> None:
        self._paths = paths
        self._read: dict[int, list[Beams]] = {}

    def for_system(self, requirements: Requirements, beam_size: int) -> list[Beams] | None:
        """What a strategy with these needs may choose from at an N_B; None if that is too small for it."""
        parts = shares(requirements.directions, beam_size)
        if parts is None:
            return None
        lists = {direction: self._of(size) for direction, size in parts.items()}
        first = next(iter(lists.values()))
        return list(self._merged(first, lists))

    def _merged(self, first: Sequence[Beams], lists: Mapping[Direction, Sequence[Beams]]) -> Iterator[Beams]:
        for index, line in enumerate(first):
            merged = Beams(line.id, line.source, line.reference)
            for direction, lines in lists.items():
                merged = merged.with_hypotheses(direction, lines[index].of(direction))
            yield merged

    def _of(self, size: int) -> list[Beams]:
        if size not in self._read:
            self._read[size] = read_beams(self._paths[size])
        return self._read[size]


def read_beams(path: Path) -> list[Beams]:
    """What a search wrote.

    Raises:
        RunError: If the file is damaged.
    """
    try:
        return list(nbest.read(path, allow_empty=True))
    except (InputError, EOFError, OSError) as error:
        raise RunError(
            f"{path} is damaged ({error}). Remove it and call again: it will be made anew."
        ) from error
