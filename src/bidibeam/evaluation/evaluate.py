"""Replies against references, by every metric asked for, and systems against each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from bidibeam._version import __version__
from bidibeam.errors import InputError, UnknownNameError
from bidibeam.evaluation import RESULTS_VERSION
from bidibeam.evaluation.significance import Resampling, bootstrap_bleu, interval, paired_test, sample_bleu
from bidibeam.evaluation.systems import System
from bidibeam.metrics import METRICS
from bidibeam.metrics.bleu import corpus_bleu

TESTED = "bleu"
"""The metric that systems are tested on."""
WORDS = "lower-cased, by bidibeam"
"""What every signature says of the words that are compared."""


def evaluate_systems(
    systems: Sequence[System],
    metrics: Sequence[str],
    baselines: Sequence[str],
    *,
    resampling: Resampling | None = None,
) -> dict[str, Any]:
    """Returns every score and test, as `bidibeam evaluate --out` writes them; tests only of BLEU."""
    return {
        "format_version": RESULTS_VERSION,
        "bidibeam": __version__,
        "sources": len(systems[0].replies),
        "beam_sizes": {system.name: system.beam_size for system in systems if system.beam_size},
        "empty_references": sum(not words for words in systems[0].reference_words),
        "systems": {system.name: score_system(system, metrics, resampling=resampling) for system in systems},
        "tests": compare_systems(systems, baselines, resampling=resampling) if TESTED in metrics else [],
    }


def score_system(
    system: System, metrics: Iterable[str] | None = None, *, resampling: Resampling | None = None
) -> dict[str, Any]:
    """Returns what results say of a system: signature, number of empty replies, scores with signatures."""
    scores: dict[str, Any] = {}
    for name in METRICS.names() if metrics is None else metrics:
        metric: Any = METRICS.create(name)
        if name == "bleu":
            scores[name] = score_bleu(system.counts.statistics, resampling or Resampling())
            continue
        if hasattr(metric, "of_counts"):
            score = metric.of_counts(system.counts)
        else:
            score = metric.score(system.reply_words, system.reference_words)
        scores[name] = {"value": score.value, "signature": str(score.signature.extended(words=WORDS))}
    empty = sum(not words for words in system.reply_words)
    return {"signature": str(system.signature), "empty": empty, "scores": scores}


def score_bleu(statistics: Any, resampling: Resampling) -> dict[str, Any]:
    """Returns corpus BLEU as the metric computes it, its 95 % interval and its signature."""
    low, high = interval(bootstrap_bleu([statistics], resampling)[0])
    value = float(corpus_bleu(statistics.sum(axis=0, keepdims=True))[0])
    signature = METRICS.create("bleu").score([["a"]], [["a"]]).signature
    settings = {"words": WORDS, "interval": "95%", "samples": resampling.samples, "seed": resampling.seed}
    return {"value": value, "low": low, "high": high, "signature": str(signature.extended(**settings))}


def compare_systems(
    systems: Sequence[System], baselines: Sequence[str], *, resampling: Resampling | None = None
) -> list[dict[str, Any]]:
    """Tests every system's corpus BLEU against every baseline's: what results list under "tests".

    A system is tested against the baseline at its own N_B, or else against the only system of that name;
    where there are several and none at its N_B, it is not tested.
    """
    resampling = resampling or Resampling()
    pairs = [(system, _baseline_of(system, systems, name)) for name in baselines for system in systems]
    if all(baseline is None for _, baseline in pairs):
        return []
    for system in systems[1:]:
        if system.reference_words != systems[0].reference_words:
            raise InputError(
                f"{system.name!r} and {systems[0].name!r} do not have the same references, and a paired test "
                "needs systems that answered the same sources in the same order."
            )
    sampled = sample_bleu([system.counts.statistics for system in systems], resampling)
    samples = {id(system): each for system, each in zip(systems, sampled, strict=True)}
    tests = []
    for system, baseline in pairs:
        if baseline is not None:
            test = paired_test(samples[id(system)], samples[id(baseline)], resampling)
            about = {"system": system.name, "baseline": baseline.name, "beam_size": system.beam_size}
            signature = str(test.signature.extended(words=WORDS))
            tests.append({**about, "metric": "bleu", **asdict(test), "signature": signature})
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
