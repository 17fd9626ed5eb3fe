"""Replies against references, by every metric asked for, and systems against each other."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict
from math import inf
from typing import TYPE_CHECKING, Any

from bidibeam._version import __version__
from bidibeam.errors import InputError, UnknownNameError
from bidibeam.evaluation import RESULTS_VERSION
from bidibeam.evaluation.significance import paired_test, sample
from bidibeam.evaluation.systems import CONTROL, System
from bidibeam.metrics.ngrams import split_words
from bidibeam.metrics.resampling import Resampling, bootstrap, interval
from bidibeam.metrics.scoring import score, sign_references

if TYPE_CHECKING:
    from bidibeam.protocols import Metric


def evaluate_systems(
    systems: Sequence[System],
    metrics: Sequence[Metric],
    baselines: Sequence[str],
    *,
    controls: Collection[str] = (),
    tested: Collection[str] | None = None,
    resampling: Resampling | None = None,
) -> dict[str, Any]:
    """Returns every score, and tests by all metrics or some, as `bidibeam evaluate --out` writes them."""
    return {
        "format_version": RESULTS_VERSION,
        "bidibeam": __version__,
        **describe_metrics(metrics),
        "sources": len(systems[0].replies),
        "beam_sizes": {system.name: system.beam_size for system in systems if system.beam_size},
        "empty_references": sum(not any(map(split_words, texts)) for texts in systems[0].references),
        "systems": {system.name: score_system(system, metrics, resampling=resampling) for system in systems},
        "tests": [
            test
            for metric in metrics
            if tested is None or metric.name in tested
            for test in compare_all(systems, metric, baselines, controls, resampling=resampling)
        ],
    }


def describe_metrics(metrics: Sequence[Metric]) -> dict[str, Any]:
    """Returns what results say of their metrics: which is the first, and of which lower is better."""
    return {
        "metric": metrics[0].name,
        "lower_is_better": [metric.name for metric in metrics if not metric.higher_is_better],
    }


def score_system(
    system: System,
    metrics: Sequence[Metric],
    *,
    intervals: Collection[str] | None = None,
    resampling: Resampling | None = None,
) -> dict[str, Any]:
    """Returns what results say of a system: signature, number of empty replies, scores with signatures.

    All scores have their 95 % intervals, or those of these names alone.
    """
    scores: dict[str, Any] = {}
    for metric in metrics:
        has_interval = intervals is None or metric.name in intervals
        scores[metric.name] = score_metric(
            system, metric, (resampling or Resampling()) if has_interval else None
        )
    empty = sum(not split_words(reply) for reply in system.replies)
    return {"signature": str(system.signature), "empty": empty, "scores": scores}


def score_metric(system: System, metric: Metric, resampling: Resampling | None) -> dict[str, Any]:
    """Returns a system's value by a metric, its 95 % interval if it is to be resampled, and its signature."""
    measured = system.measure(metric)
    signature = sign_references(metric.signature, system.references)
    value = {"value": score(metric, measured)}
    if resampling is not None:
        drawn = resampling.limit(metric)
        least, most = getattr(metric, "bounds", (-inf, inf))
        low, high = interval(bootstrap(metric, [measured], drawn)[0])
        value["low"], value["high"] = max(least, low), min(most, high)
        signature = signature.extended(interval="95%", samples=drawn.samples, seed=drawn.seed)
    return {**value, "signature": str(signature)}


def compare_all(
    systems: Sequence[System],
    metric: Metric,
    baselines: Sequence[str],
    controls: Collection[str],
    *,
    resampling: Resampling | None = None,
) -> list[dict[str, Any]]:
    """Tests every system against every baseline, and those that have a control, NAME control, against it."""
    tests = compare_systems(systems, metric, baselines, resampling=resampling)
    for control in controls:
        pair = [system for system in systems if system.name in (control, control.removesuffix(CONTROL))]
        if control not in baselines:
            tests += compare_systems(pair, metric, [control], resampling=resampling)
    return tests


def compare_systems(
    systems: Sequence[System],
    metric: Metric,
    baselines: Sequence[str],
    *,
    resampling: Resampling | None = None,
) -> list[dict[str, Any]]:
    """Tests every system against every baseline by a metric: what results list under "tests".

    A system is tested against the baseline at its own N_B, or else against the only system of that name;
    where there are several and none at its N_B, it is not tested.
    """
    resampling = resampling or Resampling()
    pairs = [(system, _baseline_of(system, systems, name)) for name in baselines for system in systems]
    if all(baseline is None for _, baseline in pairs):
        return []
    for system in systems[1:]:
        if system.references != systems[0].references:
            raise InputError(
                f"{system.name!r} and {systems[0].name!r} do not have the same references, and a paired test "
                "needs systems that answered the same sources in the same order."
            )
    sampled = sample(metric, [system.measure(metric) for system in systems], resampling)
    samples = {id(system): each for system, each in zip(systems, sampled, strict=True)}
    known = dict(metric.signature.facts)
    details = {key: known[key] for key in ("tok", "case", "words") if key in known}
    tests = []
    for system, baseline in pairs:
        if baseline is not None:
            test = paired_test(samples[id(system)], samples[id(baseline)], resampling)
            about = {"system": system.name, "baseline": baseline.name, "beam_size": system.beam_size}
            signature = str(test.signature.extended(**details))
            tests.append({**about, "metric": metric.name, **asdict(test), "signature": signature})
    return tests


def _baseline_of(system: System, systems: Sequence[System], name: str) -> System | None:
    """Returns the system of that name to test one against; None if it has that name itself, or none fits."""
    named = [each for each in systems if each.name == name]
    if not named:
        choices = ", ".join(dict.fromkeys(each.name for each in systems))
        raise UnknownNameError(f"No system is called {name!r}. Choose one of: {choices}.")
    if system.name == name:
        return None
    return next((each for each in named if len(named) == 1 or each.beam_size == system.beam_size), None)
