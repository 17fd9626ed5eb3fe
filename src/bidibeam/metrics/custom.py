"""Metrics that users write, by their Python names; what they answer is checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.errors import MetricError, wrapping
from bidibeam.metrics.ngrams import check_paired, sign
from bidibeam.scores import Signature

if TYPE_CHECKING:
    from bidibeam.protocols import Array, Metric


FORM = (
    "A metric has higher_is_better, and either statistics(replies, references) with values(sums), or "
    "score(replies, references); a function of a reply and its references becomes one by the decorator "
    "bidibeam.metrics.custom.per_reply"
)


def per_reply(*, higher_is_better: bool = True) -> Callable[[Callable[[str, Sequence[str]], float]], Any]:
    """Makes a function of a reply and its references a metric, their mean: the simplest way to one.

    @per_reply(higher_is_better=True)
    def same_ending(reply: str, references: Sequence[str]) -> float:
        return float(any(reply[-1:] == reference[-1:] for reference in references))
    """

    def make(function: Callable[[str, Sequence[str]], float]) -> MeanMetric:
        return MeanMetric(function, getattr(function, "__name__", "per_reply"), higher_is_better)

    return make


@dataclass(frozen=True)
class MeanMetric:
    """The mean over replies of what a function says of each."""

    function: Callable[[str, Sequence[str]], float] = field(repr=False)
    name: str
    higher_is_better: bool

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """Returns each reply's number, and 1, (items, 2)."""
        numbers = [self.function(reply, each) for reply, each in zip(replies, references, strict=True)]
        return np.column_stack([np.array(numbers, dtype=np.float64), np.ones(len(numbers))])

    def values(self, sums: Array) -> Array:
        """Returns the mean of each row."""
        means: Array = sums[:, 0] / sums[:, 1]
        return means


@dataclass(frozen=True, eq=False)
class CheckedMetric:
    """A metric that anybody may have written: what it answers is checked, and an error is one sentence."""

    metric: Any = field(repr=False)
    name: str
    higher_is_better: bool
    signature: Signature

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """Returns the metric's statistics: finite numbers, a row for each reply."""
        check_paired(replies, references)
        array = self._numbers("statistics", replies, references)
        if array.ndim != 2 or len(array) != len(replies) or not array.shape[1]:
            raise MetricError(
                f"The metric {self.name} answered with statistics of shape {array.shape} for {len(replies)} "
                "replies. It must return a row for each of them, as many columns for all."
            )
        if not np.isfinite(array).all():
            row, column = (int(index) for index in np.argwhere(~np.isfinite(array))[0])
            raise MetricError(
                f"The metric {self.name} answered with {array[row, column]} for the reply {replies[row]!r}. "
                "Its statistics must be finite numbers."
            )
        return array

    def values(self, sums: Array) -> Array:
        """Returns the metric's values: a finite number for each row of sums."""
        array = self._numbers("values", sums)
        if array.shape != (len(sums),):
            raise MetricError(
                f"The metric {self.name} answered with values of shape {array.shape} for {len(sums)} rows of "
                "sums. It must return one number for each row."
            )
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array))[0])
            told = ", ".join(f"{number:g}" for number in sums[row])
            raise MetricError(
                f"The metric {self.name} answered with {array[row]} for the sums {told}. Its values must be "
                "finite numbers, also where nothing matches or a length is 0."
            )
        return array

    def _numbers(self, method: str, *given: Any) -> Array:
        answer = call_metric(self.metric, method, self.name, *given)
        try:
            array: Array = np.asarray(answer, dtype=np.float64)
        except (TypeError, ValueError, OverflowError, RuntimeError) as error:
            raise MetricError(
                f"The metric {self.name} answered its {method} with {type(answer).__name__}, which is no "
                f"array of numbers ({error})."
            ) from error
        return array


@dataclass(frozen=True, eq=False)
class CheckedCorpusMetric:
    """The same of a metric that is known for a whole corpus alone."""

    metric: Any = field(repr=False)
    name: str
    higher_is_better: bool
    signature: Signature

    def score(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> float:
        """Returns the metric's score, a finite number."""
        check_paired(replies, references)
        answer = call_metric(self.metric, "score", self.name, [*replies], [*references])
        try:
            value = float(answer)
        except (TypeError, ValueError) as error:
            raise MetricError(
                f"The metric {self.name} answered with {type(answer).__name__}. Its score must be a number."
            ) from error
        if not np.isfinite(value):
            raise MetricError(
                f"The metric {self.name} answered with {value} for {len(replies)} replies. Its score must be "
                "a finite number."
            )
        return value


def call_metric(metric: Any, method: str, name: str, *given: Any) -> Any:
    """Calls a metric that anybody may have written."""

    def tell(error: Exception) -> str:
        failure = f"The metric {name} failed in {method} with {type(error).__name__}: {error}."
        return f"{failure} The traceback, which `bidibeam --debug` prints, shows where."

    with wrapping(MetricError, tell), np.errstate(all="ignore"):  # what is not finite is refused
        return getattr(metric, method)(*given)


def as_metric(given: Any, location: str, options: Mapping[str, Any]) -> Metric:
    """Makes a checked metric of an object, or of a class or function that makes one with these options."""
    if isinstance(given, type) or (callable(given) and not _has_methods(given)):
        try:
            given = given(**options)
        except Exception as error:  # whatever it runs into
            raise MetricError(f"The metric {location} cannot be made: {error}. {FORM}.") from error
    is_better = getattr(given, "higher_is_better", None)
    if not _has_methods(given) or not isinstance(is_better, bool):
        lacks = "no higher_is_better, True or False" if _has_methods(given) else "none of these methods"
        raise MetricError(f"The metric {location}, of type {type(given).__name__}, has {lacks}. {FORM}.")
    name = getattr(given, "name", None)
    name = name if isinstance(name, str) and name else location
    signature = getattr(given, "signature", None)
    if not isinstance(signature, Signature):
        signature = sign(metric=location)
    kind = CheckedMetric if hasattr(given, "statistics") else CheckedCorpusMetric
    metric: Any = kind(given, name, is_better, signature)
    checked: Metric = metric
    return checked


def _has_methods(given: Any) -> bool:
    return (hasattr(given, "statistics") and hasattr(given, "values")) or hasattr(given, "score")
