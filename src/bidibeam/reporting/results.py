"""Reads results: of a whole experiment, of an evaluation, or of analyses alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bidibeam.errors import InputError
from bidibeam.reporting.numbers import joined, mean, number, numbers
from bidibeam.reporting.paper import PAPER, PaperCorpus

FORMAT_VERSION = 1
RESULTS_FILE = "results.json"
FILES = (RESULTS_FILE, "evaluation.json", "analyses.json")
"""What a folder may hold, as `bidibeam reproduce`, `evaluate` and `analyse` write it."""
KINDS = {"systems": "system", "analyses": "analysis"}
"""What may be left out, and what one of each is called."""
NO_SIZE = 0
"""Stands for N_B where the results do not have one."""


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """The content of a file of results, or of every one that a folder holds, by name.

    Raises:
        InputError: If there is none, or one is not JSON.
    """
    files = [path / name for name in FILES] if path.is_dir() else [path]
    found = [file for file in files if file.exists()]
    if not found:
        where = f"{path} has no {joined(FILES, 'or')}" if path.is_dir() else f"There is no file {path}"
        raise InputError(f"{where}. Give what `bidibeam reproduce`, `evaluate` or `analyse` wrote.")
    return {file.name: _read(file) for file in found}


def _read(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{file} is not JSON: {error}.") from None
    if not isinstance(content, dict):
        raise InputError(f"{file} holds no results: an object is needed, not {type(content).__name__}.")
    return content


@dataclass(frozen=True)
class Results:
    """Results of any of the three kinds, seen the same way.

    Attributes:
        content: What holds for all seeds.
        seeds: What belongs to each.
    """

    content: Mapping[str, Any]
    seeds: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Results:
        """Take results as they were written; an evaluation or analyses become those of a single seed.

        Raises:
            InputError: If they are of another format.
        """
        version = content.get("format_version", FORMAT_VERSION)
        if version != FORMAT_VERSION:
            raise InputError(
                f"These results have format_version {version!r}, and this bidibeam reads {FORMAT_VERSION}. "
                f"Write them again with this version."
            )
        seeds = content.get("seeds")
        if seeds is None:
            seeds = [_single(content)]
        if not isinstance(seeds, list) or not all(isinstance(seed, Mapping) for seed in seeds):
            raise InputError("These results are damaged: `seeds` must be a list of objects.")
        return cls(content, seeds)

    @cached_property
    def corpus(self) -> str:
        """The corpus; empty if nobody says."""
        name = self.content.get("corpus") or self.content.get("data", {}).get("corpus")
        return name if isinstance(name, str) else ""

    @cached_property
    def paper(self) -> PaperCorpus | None:
        """What the paper reports on the corpus."""
        return PAPER.get(self.corpus)

    @cached_property
    def systems(self) -> list[str]:
        """All systems that have scores, in the order of the settings."""
        found = dict.fromkeys(name for seed in self.seeds for name in seed.get("systems") or {})
        listed = [name for name in self.content.get("settings", {}).get("systems") or () if name in found]
        return list(dict.fromkeys([*listed, *found]))

    @cached_property
    def names(self) -> list[str]:
        """All systems there are, those that only an analysis knows too."""
        found = [*self.systems]
        for analysis in (*self.analyses("ranks"), *self.analyses("diversity")):
            found += analysis.get("systems", {})
        found += [row["system"] for one in self.analyses("sensitivity") for row in one.get("rows") or ()]
        found += [
            name
            for one in self.analyses("headroom")
            for shares in one.get("by_beam_size", {}).values()
            for name in shares
        ]
        return list(dict.fromkeys(found))

    @cached_property
    def sizes(self) -> list[int]:
        """Every N_B that has scores, rising."""
        systems = [system for seed in self.seeds for system in (seed.get("systems") or {}).values()]
        return sorted({int(size) for system in systems for size in system})

    @property
    def largest(self) -> int:
        """The largest N_B."""
        return self.sizes[-1] if self.sizes else NO_SIZE

    def entries(self, system: str, size: int) -> list[Mapping[str, Any]]:
        """A system's results at an N_B, one for each seed that has them."""
        found = [(seed.get("systems") or {}).get(system, {}).get(str(size)) for seed in self.seeds]
        return [entry for entry in found if entry is not None]

    def values(self, system: str, size: int, metric: str) -> list[float]:
        """A score, seed by seed."""
        scores = [entry.get("scores", {}).get(metric, {}) for entry in self.entries(system, size)]
        return numbers(score.get("value") for score in scores)

    def mean(self, system: str, size: int, metric: str = "bleu") -> float | None:
        """A score's mean over seeds."""
        return mean(self.values(system, size, metric))

    def metrics(self, size: int) -> list[str]:
        """The names of all scores at an N_B."""
        entries = [entry for name in self.systems for entry in self.entries(name, size)]
        return list(dict.fromkeys(metric for entry in entries for metric in entry.get("scores", {})))

    def tests(self, size: int) -> list[Mapping[str, Any]]:
        """The significance tests at an N_B, of all seeds; all tests where no N_B is known."""
        found = [test for seed in self.seeds for test in seed.get("tests") or ()]
        return [test for test in found if size == NO_SIZE or int(test.get("beam_size") or size) == size]

    def analyses(self, name: str) -> list[Mapping[str, Any]]:
        """An analysis, one for each seed that has it."""
        found = [(seed.get("analyses") or {}).get(name) for seed in self.seeds]
        return [analysis for analysis in found if analysis]

    @property
    def left_out(self) -> list[tuple[str, str, str]]:
        """What could not be made: its kind, its name, and why. Seeds name analyses alone."""
        rows: dict[tuple[str, str, str], None] = {}
        for source in (*self.seeds, self.content):
            for name, reason in (source.get("left_out") or {}).items():
                if isinstance(reason, Mapping):
                    kind = KINDS.get(name, name)
                    rows |= dict.fromkeys((kind, str(one), str(why)) for one, why in reason.items())
                else:
                    rows[KINDS["analyses"], str(name), str(reason)] = None
        return list(rows)

    @cached_property
    def last_step(self) -> str:
        """That not the best weights were kept but the last; empty where that is not so."""
        settings = self.content.get("settings") or {}
        if (settings.get("training") or {}).get("keep") != "last":
            return ""
        is_past = any(best < last for best, last in self.best_steps) or not self.best_steps
        return "trained to its last step" + (", past its best validation loss" if is_past else "")

    @property
    def best_steps(self) -> list[tuple[float, float]]:
        """The step with the best validation loss and the last one, of each seed that tells."""
        facts = [seed.get("training") or {} for seed in self.seeds]
        found = [(number(one.get("best step")), number(one.get("steps"))) for one in facts]
        return [(best, last) for best, last in found if best is not None and last is not None]

    @property
    def means_note(self) -> list[str]:
        """Says of a table that its numbers are means over seeds, if they are."""
        return [f"Means over {len(self.seeds)} seeds."] if len(self.seeds) > 1 else []

    @property
    def positions(self) -> Mapping[str, Any] | None:
        """Words by position: the corpus has them, no seed."""
        found = self.content.get("positions")
        return found or next(iter(self.analyses("positions")), None)

    @property
    def constant(self) -> Mapping[str, Any] | None:
        """What one reply to every source scores: the corpus has it, no seed."""
        found: Mapping[str, Any] | None = self.content.get("constant")
        return found or None


def _single(content: Mapping[str, Any]) -> dict[str, Any]:
    """An evaluation or analyses as those of one seed; an evaluation does not know N_B."""
    systems = content.get("systems")
    if not isinstance(systems, Mapping):
        systems = {}
    seed = {key: content[key] for key in ("tests", "analyses", "perplexity", "tuned") if key in content}
    return {**seed, "systems": {name: {str(NO_SIZE): entry} for name, entry in systems.items()}}
