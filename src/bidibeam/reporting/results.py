"""Reads results of an experiment, of an evaluation, or of analyses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from bidibeam.errors import InputError, SettingsError
from bidibeam.evaluation import RESULTS_VERSION
from bidibeam.files import parse_json
from bidibeam.metrics import DEFAULT_METRIC
from bidibeam.reporting.numbers import (
    Interval,
    format_fixed,
    format_interval,
    format_metric,
    format_p,
    join_words,
    label_metric,
    mean,
    span_intervals,
    to_number,
    to_numbers,
)
from bidibeam.reporting.paper import PAPER, PaperCorpus

RESULTS_FILE = "results.json"
FILES = (RESULTS_FILE, "evaluation.json", "analyses.json")
"""The files that `bidibeam reproduce`, `evaluate` and `analyse` write."""
KINDS = {"systems": "system", "analyses": "analysis"}
"""The kinds of things that may be left out, in the plural and in the singular."""
NO_SIZE = 0
"""Stands for N_B where the results have none."""
TESTS = {"approximate_randomisation": "randomisation", "paired_bootstrap": "bootstrap"}
"""The labels of significance tests, in order of preference."""


def read_results(path: Path) -> dict[str, dict[str, Any]]:
    """Reads a file of results, or every one in a folder; returns the contents by file name."""
    files = [path / name for name in FILES] if path.is_dir() else [path]
    found = [file for file in files if file.exists()]
    if not found:
        where = f"{path} has no {join_words(FILES, 'or')}" if path.is_dir() else f"There is no file {path}"
        raise InputError(f"{where}. Give what `bidibeam reproduce`, `evaluate` or `analyse` wrote.")
    contents: dict[str, dict[str, Any]] = {}
    for file in found:
        try:
            content = parse_json(file.read_bytes())
        except ValueError as error:
            raise InputError(f"{file} is not JSON: {error}.") from None
        if not isinstance(content, dict):
            raise InputError(f"{file} holds no results: an object is needed, not {type(content).__name__}.")
        contents[file.name] = content
    return contents


@dataclass(frozen=True)
class Results:
    """Results of any of the three kinds behind one interface: a whole file, and the part of each seed."""

    content: Mapping[str, Any]
    seeds: Sequence[Mapping[str, Any]]

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> Results:
        """Wraps the content of a file; an evaluation or analyses become those of a single seed."""
        version = content.get("format_version", RESULTS_VERSION)
        if version != RESULTS_VERSION:
            raise InputError(
                f"These results have format_version {version!r}, and this bidibeam reads {RESULTS_VERSION}. "
                f"Write them again with this version."
            )
        seeds = content.get("seeds")
        if seeds is None:
            systems = content.get("systems")
            entries = systems if isinstance(systems, Mapping) else {}
            kept = {
                key: content[key] for key in ("tests", "analyses", "perplexity", "tuned") if key in content
            }
            seeds = [{**kept, "systems": {name: {str(NO_SIZE): one} for name, one in entries.items()}}]
        if not isinstance(seeds, list) or not all(isinstance(seed, Mapping) for seed in seeds):
            raise InputError("These results are damaged: `seeds` must be a list of objects.")
        return cls(content, seeds)

    @cached_property
    def by_seed(self) -> list[Results]:
        """The results of each seed alone."""
        return [Results(self.content, [seed]) for seed in self.seeds]

    @cached_property
    def corpus(self) -> str:
        """The corpus; empty if the results do not name it."""
        name = self.content.get("corpus") or self.content.get("data", {}).get("corpus")
        return name if isinstance(name, str) else ""

    @property
    def paper(self) -> PaperCorpus | None:
        """The numbers that the paper prints for the corpus."""
        return PAPER.get(self.corpus)

    @cached_property
    def metric(self) -> str:
        """The metric that systems are judged by; results that name none are older, and have BLEU."""
        return str(self.content.get("metric") or DEFAULT_METRIC)

    @property
    def label(self) -> str:
        """What tables call that metric."""
        return label_metric(self.metric)

    def is_lower_better(self, metric: str | None = None) -> bool:
        """Whether a metric is better where it is lower; by default that which systems are judged by."""
        return (metric or self.metric) in (self.content.get("lower_is_better") or ())

    @property
    def is_mean(self) -> bool:
        """Whether numbers are means over several seeds."""
        return len(self.seeds) > 1

    @property
    def means_note(self) -> list[str]:
        """The note of a table of means over seeds; empty for one seed."""
        return [f"Means over {len(self.seeds)} seeds."] if self.is_mean else []

    @property
    def interval_label(self) -> str:
        """The head of a column of intervals."""
        return "reach of the 95 % intervals" if self.is_mean else "95 % interval"

    @cached_property
    def systems(self) -> list[str]:
        """All systems with scores, in the order of the settings."""
        found = dict.fromkeys(name for seed in self.seeds for name in seed.get("systems") or {})
        listed = [name for name in self.content.get("settings", {}).get("systems") or () if name in found]
        return list(dict.fromkeys([*listed, *found]))

    @cached_property
    def names(self) -> list[str]:
        """All systems, including those that only an analysis has."""
        found = [*self.systems]
        for analysis in (*self.analyses("ranks"), *self.analyses("diversity")):
            found += analysis.get("systems", {})
        found += [row["system"] for one in self.analyses("sensitivity") for row in one.get("rows") or ()]
        for analysis in self.analyses("headroom"):
            found += [name for shares in analysis.get("by_beam_size", {}).values() for name in shares]
        return list(dict.fromkeys(found))

    @cached_property
    def sizes(self) -> list[int]:
        """Every N_B with scores, rising."""
        systems = [system for seed in self.seeds for system in (seed.get("systems") or {}).values()]
        return sorted({int(size) for system in systems for size in system})

    @property
    def largest(self) -> int:
        """The largest N_B."""
        return self.sizes[-1] if self.sizes else NO_SIZE

    def entries(self, system: str, size: int) -> list[Mapping[str, Any]]:
        """Returns a system's results at an N_B, one per seed that has them."""
        found = [(seed.get("systems") or {}).get(system, {}).get(str(size)) for seed in self.seeds]
        return [entry for entry in found if entry is not None]

    def scores(self, system: str, size: int, metric: str) -> list[Mapping[str, Any]]:
        """Returns a score with its interval, one per seed."""
        return [entry.get("scores", {}).get(metric, {}) for entry in self.entries(system, size)]

    def values(self, system: str, size: int, metric: str) -> list[float]:
        """Returns the value of a score, one per seed."""
        return to_numbers(score.get("value") for score in self.scores(system, size, metric))

    def mean(self, system: str, size: int) -> float | None:
        """Returns the mean over seeds of the metric that systems are judged by."""
        return mean(self.values(system, size, self.metric))

    def gain(self, system: str, other: str, size: int) -> float | None:
        """Returns by how much a system is better than another, as a mean over the seeds that have both."""
        return mean(self.gains(system, other, size))

    def gains(self, system: str, other: str, size: int) -> list[float]:
        """Returns by how much a system is better than another, one per seed that has both."""
        pairs = [(one.mean(system, size), one.mean(other, size)) for one in self.by_seed]
        sign = -1 if self.is_lower_better() else 1
        return [sign * (ours - theirs) for ours, theirs in pairs if ours is not None and theirs is not None]

    def interval(self, system: str, size: int) -> str:
        """Formats the 95 % interval of the metric of `mean`, spanned over seeds; empty if there is none."""
        scores = self.scores(system, size, self.metric)
        interval = span_intervals((score.get("low"), score.get("high")) for score in scores)
        return format_interval(interval, partial(format_metric, self.metric))

    def paper_score(self, system: str, metric: str, size: int) -> str:
        """Formats the score that the paper prints; empty if it prints none."""
        score = self.paper.score(system, metric, size) if self.paper else None
        return "" if score is None else format_fixed(score, 2 if metric == "bleu" else 3)

    def metrics(self, size: int) -> list[str]:
        """Returns the names of all scores at an N_B."""
        entries = [entry for name in self.systems for entry in self.entries(name, size)]
        return list(dict.fromkeys(metric for entry in entries for metric in entry.get("scores", {})))

    def tests(self, size: int) -> list[Mapping[str, Any]]:
        """Returns the significance tests of all seeds at an N_B; all tests where N_B is unknown."""
        found = [test for seed in self.seeds for test in seed.get("tests") or ()]
        return [test for test in found if size == NO_SIZE or int(test.get("beam_size") or size) == size]

    def analyses(self, name: str) -> list[Mapping[str, Any]]:
        """Returns an analysis, one per seed that has it."""
        found = [(seed.get("analyses") or {}).get(name) for seed in self.seeds]
        return [analysis for analysis in found if analysis]

    @property
    def missing(self) -> list[tuple[str, str, str]]:
        """What could not be computed: kind, name and reason. Seeds name analyses only."""
        rows: dict[tuple[str, str, str], None] = {}
        for source in (*self.seeds, self.content):
            for name, reason in (source.get("left_out") or {}).items():
                if isinstance(reason, Mapping):
                    kind = KINDS.get(name, name)
                    rows |= dict.fromkeys((kind, str(one), str(why)) for one, why in reason.items())
                else:
                    rows[KINDS["analyses"], str(name), str(reason)] = None
        return list(rows)

    @property
    def last_step(self) -> str:
        """Says that the last weights were kept and not the best; empty otherwise."""
        settings = self.content.get("settings") or {}
        if (settings.get("training") or {}).get("keep") != "last":
            return ""
        training = [seed.get("training") or {} for seed in self.seeds]
        steps = [(to_number(one.get("best step")), to_number(one.get("steps"))) for one in training]
        known = [(best, last) for best, last in steps if best is not None and last is not None]
        is_past = any(best < last for best, last in known) or not known
        return "trained to its last step" + (", past its best validation loss" if is_past else "")


def judge_by(content: Mapping[str, Any], metric: str) -> dict[str, Any]:
    """Returns results whose systems are judged by another metric that they were scored by."""
    found = Results.of(content)
    known = found.metrics(found.largest) if found.systems else []
    if metric not in known:
        raise SettingsError(f"The results have no {metric!r}. They have: {', '.join(known) or 'no scores'}.")
    return {**content, "metric": metric}


@dataclass(frozen=True)
class Comparison:
    """A difference between two systems, tested on every seed; None where nobody measured it."""

    difference: float | None  # the mean over seeds
    interval: Interval | None  # the lowest and the highest end of its intervals
    p_values: Mapping[str, float]  # by kind of test, the largest p over seeds

    @classmethod
    def of(cls, tests: Sequence[Mapping[str, Any]]) -> Comparison:
        """Summarises the tests of one difference, one per seed."""
        p_values = {kind: to_numbers(test.get(kind) for test in tests) for kind in TESTS}
        return cls(
            mean(test.get("difference") for test in tests),
            span_intervals((test.get("low"), test.get("high")) for test in tests),
            {kind: max(values) for kind, values in p_values.items() if values},
        )

    @property
    def turned(self) -> Comparison:
        """The same with the sign turned, as for a metric of which lower is better."""
        return Comparison(
            None if self.difference is None else -self.difference,
            None if self.interval is None else (-self.interval[1], -self.interval[0]),
            self.p_values,
        )

    def format_p(self, kind: str | None = None) -> str:
        """Formats the p-value of a kind of test, by default of the preferred; empty if there was none."""
        values = [value for each, value in self.p_values.items() if kind in (None, each)]
        return format_p(values[0]) if values else ""
