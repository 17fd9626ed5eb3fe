"""Replies against references, by every measure asked for, and systems against each other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar, cast

from bidibeam.errors import InputError, UnknownNameError
from bidibeam.evaluation import significance
from bidibeam.evaluation.significance import Chances, PairedTest, Resampling
from bidibeam.evaluation.systems import System
from bidibeam.interpreter import uncollected
from bidibeam.metrics import METRICS
from bidibeam.metrics.ngrams import NgramCounts, count_ngrams
from bidibeam.scores import Signature

T = TypeVar("T")

WORDS = "lower-cased, by bidibeam"
"""What every signature says of the words that are compared."""


def score_system(
    system: System, metrics: Iterable[str] | None = None, *, resampling: Resampling | None = None
) -> dict[str, Any]:
    """What results say of a system: its signature, how many replies are empty, its scores with signatures.

    Args:
        system: The system, with a reference for every source.
        metrics: Names of metrics; all by default.
        resampling: How the 95 % interval of corpus BLEU is found.

    Raises:
        InputError: If a reference is missing, or there is no source.
        UnknownNameError: If nothing has a metric's name.
    """
    names = METRICS.names() if metrics is None else metrics
    with uncollected():
        scores = {name: _scored(system, name, resampling or Resampling()) for name in names}
    empty = sum(not words for words in system.reply_words)
    return {"signature": str(system.signature), "empty": empty, "scores": scores}


def compare(
    systems: Sequence[System], baselines: Sequence[str], *, resampling: Resampling | None = None
) -> list[dict[str, Any]]:
    """Test every system's corpus BLEU against every baseline's: what results list under "tests".

    A system is tested against the baseline at its own N_B, or else against the only system of that name;
    where there are several and none at its N_B, it is not tested.

    Args:
        systems: All of them, on the same sources; the baselines too.
        baselines: Names of systems.
        resampling: How often chance is tried.

    Raises:
        InputError: If a reference is missing, or two systems have not the same references.
        UnknownNameError: If no system has a baseline's name.
    """
    resampling = resampling or Resampling()
    pairs = [(system, _baseline_of(system, systems, name)) for name in baselines for system in systems]
    tested = [(system, baseline) for system, baseline in pairs if baseline is not None]
    if not tested:
        return []
    with uncollected():
        _check_same_sources(systems)
        chances = _chances(systems, resampling)
        return [
            _tested(
                system,
                baseline,
                significance.paired_test(chances[id(system)], chances[id(baseline)], resampling),
            )
            for system, baseline in tested
        ]


def _tested(system: System, baseline: System, found: PairedTest) -> dict[str, Any]:
    """One test as results have it."""
    about = {"system": system.name, "baseline": baseline.name, "beam_size": system.beam_size}
    values = {**asdict(found), "signature": str(found.signature.extended(words=WORDS))}
    return {**about, "metric": "bleu", **values}


def _scored(system: System, name: str, resampling: Resampling) -> dict[str, Any]:
    """One score as results have it."""
    metric: Any = METRICS.create(name)
    if name == "bleu":
        return _bleu(system, resampling)
    if hasattr(metric, "of_counts"):
        score = metric.of_counts(_counts(system))
    else:
        score = metric.score(system.reply_words, system.reference_words)
    return {"value": score.value, "signature": str(score.signature.extended(words=WORDS))}


def _bleu(system: System, resampling: Resampling) -> dict[str, Any]:
    """Corpus BLEU as the metric computes it, and its interval."""
    totals = significance.statistics_of(_counts(system)).sum(axis=0, keepdims=True)
    low, high = significance.interval(_resampled(system, resampling))
    signature: Signature = METRICS.create("bleu").score([["a"]], [["a"]]).signature
    facts = {"words": WORDS, "interval": "95%", "samples": resampling.samples, "seed": resampling.seed}
    value = float(significance.bleu_of_sums(totals)[0])
    return {"value": value, "low": low, "high": high, "signature": str(signature.extended(**facts))}


def _baseline_of(system: System, systems: Sequence[System], name: str) -> System | None:
    """The system of that name to test one against; None if it is itself of that name, or there is none."""
    named = [each for each in systems if each.name == name]
    if not named:
        choices = ", ".join(dict.fromkeys(each.name for each in systems))
        raise UnknownNameError(f"No system is called {name!r}. Choose one of: {choices}.")
    if system.name == name:
        return None
    return next((each for each in named if len(named) == 1 or each.beam_size == system.beam_size), None)


def _check_same_sources(systems: Sequence[System]) -> None:
    first = systems[0]
    for system in systems[1:]:
        if system.reference_words != first.reference_words:
            raise InputError(
                f"{system.name!r} and {first.name!r} do not have the same references, and a paired test "
                "needs systems that answered the same sources in the same order."
            )


def _chances(systems: Sequence[System], resampling: Resampling) -> dict[int, Chances]:
    """What chance makes of each system, by its identity."""
    statistics = [significance.statistics_of(_counts(system)) for system in systems]
    resampled = [_resampled(system, resampling) for system in systems]
    found = significance.chances_of(statistics, resampling, resampled)
    return {id(system): chances for system, chances in zip(systems, found, strict=True)}


def _counts(system: System) -> NgramCounts:
    order = significance.ORDER
    return _once(system, ("counts",), lambda: count_ngrams(system.reply_words, system.reference_words, order))


def _resampled(system: System, resampling: Resampling) -> Any:
    key = ("resampled", resampling.samples, resampling.seed)
    return _once(
        system,
        key,
        lambda: significance.resampled_bleu(significance.statistics_of(_counts(system)), resampling),
    )


def _once(system: System, key: tuple[object, ...], compute: Callable[[], T]) -> T:
    """What was computed for a system before, or is now; it is kept with the system and goes with it."""
    kept = vars(system).setdefault("_evaluated", {})
    if key not in kept:
        kept[key] = compute()
    return cast("T", kept[key])
