"""What a report says at one glance: what won, by how much, and how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bidibeam.evaluation.systems import BASE, CONTROL, ORACLE
from bidibeam.reporting.numbers import (
    Interval,
    format_fixed,
    format_interval,
    format_metric,
    format_p,
    format_signed,
    join_words,
    mean,
    to_number,
)
from bidibeam.reporting.results import NO_SIZE, Comparison, Results
from bidibeam.strategies.settings import TUNED_VBS
from bidibeam.text import format_value

WON, GAIN, CERTAINTY = "What won", "By how much", "How sure"
CONTROLLED, RECOMMENDED = "Over its control", "What validation chose"
CONSTANT = "One reply to every source"
SIGNIFICANT = 0.05
"""A difference is sure if p, times the systems that the test set picked from, is below with each seed."""
MOST_NAMES = 3
"""So many systems of the same value are named."""
NEVER_BEST = ("length_ratio",)
"""Metrics that are better neither where they are higher nor where they are lower."""


@dataclass(frozen=True)
class Glance:
    """Short answers by what they answer, and the file that they are about if there are several."""

    answers: Mapping[str, str]
    file: str = ""


class Outcome(NamedTuple):
    """By how much one system is better than another with one seed; p and interval where it was tested."""

    gain: float
    p: float | None = None
    interval: Interval | None = None


def make_glance(results: Results, file: str = "") -> Glance:
    """Makes the glance at a file of results."""
    size = results.largest
    values = _rate_systems(results, size)
    if not results.systems:
        told = "Nothing: these are analyses; no systems were compared, and nothing was tested."
        return Glance({WON: told}, file)
    if not values:
        return Glance({WON: f"Not known: no system can be judged by {results.label}."}, file)
    ranked = sorted(values, key=lambda name: values[name], reverse=not results.is_lower_better())
    shown = [format_metric(results.metric, values[name]) for name in ranked]
    best = ranked[: shown.count(shown[0])]
    value = f"{shown[0]} {results.label}{f' at N_B = {size}' if size != NO_SIZE else ''}"
    value += f", mean of {len(results.seeds)} seeds" if results.is_mean else ""
    if len(best) == len(ranked):
        who = f"all {len(best)} systems are equal" if len(best) > 1 else f"{best[0]} is the only system"
        return Glance({WON: f"Nothing: {who}, with {value}."}, file)
    named = [*best[:MOST_NAMES], *([f"{len(best) - MOST_NAMES} more"] if len(best) > MOST_NAMES else [])]
    each = " each" if len(best) > 1 else ""
    won = f"{join_words(named)}, with {value}{each}: best of {len(ranked)} systems on the test set."
    answers = {
        WON: won,
        **_compare_best(results, ranked, best, size),
        **_quote_constant(results, values[best[0]]),
        **_quote_recommended(results, size),
    }
    return Glance(answers, file)


def _rate_systems(results: Results, size: int) -> dict[str, float]:
    """Returns the mean of every system that may win; those that some seeds lack cannot be compared."""
    names = [
        name for name in results.systems if name.partition(" ")[0] != ORACLE and not name.endswith(CONTROL)
    ]
    order = sorted(names, key=lambda name: name not in (BASE, TUNED_VBS))  # of equals, the simplest first
    values = {name: results.values(name, size, results.metric) for name in order}
    most = max(map(len, values.values()), default=0)
    found = {name: mean(each) for name, each in values.items() if len(each) == most}
    known = {name: value for name, value in found.items() if value is not None}
    return {} if results.metric in NEVER_BEST else known


def _compare_best(results: Results, ranked: Sequence[str], best: Sequence[str], size: int) -> dict[str, str]:
    """Says how much better the best is than its baseline, vbs and its control, and how sure that is."""
    other, control = _find_opponent(results, ranked, best, size), f"{best[0]}{CONTROL}"
    outcomes = _compare(results, best[0], other, size)
    next_best = "the next best, " if other == ranked[len(best)] and other not in (TUNED_VBS, BASE) else ""
    gain = f"{_format_gain(results, outcomes)} over {next_best}{other}"
    if BASE in ranked and BASE not in (*best, other):
        gain += f"; {_format_gain(results, _compare(results, best[0], BASE, size))} over {BASE}"
    if results.is_lower_better():
        gain += f". Lower {results.label} is better: a gain is by how much it is lower"
    sources, is_single = results.content.get("sources"), "seeds" in results.content and not results.is_mean
    is_trained = "training" in (results.content.get("settings") or {})
    once = f"with one seed{'; another training may differ' if is_trained else ''}"
    facts = [*([f"on {format_value(sources)} sources"] if sources else []), *([once] * is_single)]
    certainty = _format_certainty(outcomes, len(ranked))
    answers = {GAIN: f"{gain}.", CERTAINTY: f"{', '.join([certainty, *facts])}."}
    if outcomes := _compare(results, best[0], control, size):
        told = f"{_format_gain(results, outcomes)}. {_format_certainty(outcomes, len(ranked))}."
        caveat = results.content.get("caveat")
        answers[CONTROLLED] = f"{told} {caveat}" if caveat else told
    return answers


def _find_opponent(results: Results, ranked: Sequence[str], best: Sequence[str], size: int) -> str:
    """Returns whom the best is compared with: the baseline, or the next best where a baseline itself won."""
    tested = [str(test.get("baseline")) for test in results.tests(size)]
    baselines = [name for name in dict.fromkeys([TUNED_VBS, BASE, *tested]) if name in ranked]
    main = next((name for name in baselines if name in tested), next(iter(baselines), best[0]))
    return ranked[len(best)] if {*best} & {*baselines} else main


def _compare(results: Results, system: str, other: str, size: int) -> list[Outcome]:
    """Compares two systems with every seed that has both."""
    outcomes = []
    for one in results.by_seed:
        if (gain := one.gain(system, other, size)) is None:
            continue
        tests = [
            test
            for test in one.tests(size)
            if {test.get("system"), test.get("baseline")} == {system, other}
            and test.get("metric", one.metric) == one.metric
        ]
        direct = [test for test in tests if test.get("system") == system]
        compared = Comparison.of(direct or tests)
        is_turned = one.is_lower_better() != (not direct)
        interval = (compared.turned if is_turned else compared).interval
        outcomes.append(Outcome(gain, next(iter(compared.p_values.values()), None), interval))
    return outcomes


def _format_gain(results: Results, outcomes: Sequence[Outcome]) -> str:
    """Formats a mean gain with its interval, or with the least and the greatest of several seeds."""
    gains = [outcome.gain for outcome in outcomes]
    text = f"{format_signed(mean(gains))} {results.label}"
    if len(gains) > 1:
        return f"{text} (by seed {format_signed(min(gains))} to {format_signed(max(gains))})"
    interval = outcomes[0].interval if outcomes else None
    return f"{text} (95 % interval {format_interval(interval, format_signed)})" if interval else text


def _format_certainty(outcomes: Sequence[Outcome], picked_from: int = 1) -> str:
    """Says whether a gain may be chance, of a system that the test set picked from so many."""
    known = [outcome.p for outcome in outcomes if outcome.p is not None]
    if not known:
        return "Not known: the difference was not tested"
    better, worse = (
        sum(
            sign * one.gain > 0 and one.p is not None and one.p * picked_from < SIGNIFICANT
            for one in outcomes
        )
        for sign in (1, -1)
    )
    count, largest = len(outcomes), format_p(max(known))
    p = f"p {largest}" if largest.startswith("<") else f"p {'≤' if count > 1 else '='} {largest}"
    times = f" times the {picked_from} systems it was picked from" if picked_from > 1 else ""
    if count in (better, worse):
        with_all = f" with each of {count} seeds" if count > 1 else ""
        still = f",{times} still below {SIGNIFICANT}" if times else ""
        return f"{'Sure' if better else 'Surely worse'}: {p}{with_all}{still}"
    if count == 1:
        product = format_fixed(min(1.0, known[0] * picked_from), 2)
        corrected = f",{times} {product}" if times and known[0] < SIGNIFICANT else ""
        return f"Not sure: {p}{corrected}, so it may be chance"
    return f"Not sure: p{times} < {SIGNIFICANT} with {better or 'none'} of {count} seeds"


def _quote_constant(results: Results, best: float) -> dict[str, str]:
    """Says that one reply to every source is as good as what won, or better, where it is."""
    found = results.content.get("constant") or {}
    value = to_number((found.get("chosen") or {}).get(results.metric))
    if value is None or found.get("metric") != results.metric:
        return {}
    shown, won = (format_metric(results.metric, one) for one in (value, best))
    is_better = value < best if results.is_lower_better() else value > best
    if shown != won and not is_better:
        return {}
    than = "better than" if shown != won else "as good as"
    return {CONSTANT: f"“{found['chosen']['reply']}” has {shown} {results.label}, {than} what won."}


def _quote_recommended(results: Results, size: int) -> dict[str, str]:
    """Says what validation recommended, which is a fairer choice than the best on the test set."""
    named = [(one, one.seeds[0].get("recommended")) for one in results.by_seed]
    chosen = [(one, str(name)) for one, name in named if name]
    outcomes = [outcome for one, name in chosen for outcome in _compare(one, name, TUNED_VBS, size)]
    counts = Counter(name for _, name in chosen)
    if not outcomes:
        return {}
    if {*counts} == {TUNED_VBS}:
        return {RECOMMENDED: f"{TUNED_VBS}: nothing else promised more."}
    seeds = {name: f" ({count} seeds)" if 1 < count < len(chosen) else "" for name, count in counts.items()}
    names = join_words([f"{name}{of}" for name, of in seeds.items()])
    told = f"{names}: {_format_gain(results, outcomes)} over {TUNED_VBS} on the test set"
    return {RECOMMENDED: f"{told}. {_format_certainty(outcomes)}."}
