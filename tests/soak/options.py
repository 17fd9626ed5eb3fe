"""Every option of `generate`, alone and with others: ours equals `generate`, or refuses the option by name.

`vbs` is the regular beam alone, so that it must find what `generate` finds; `bidis` ranks the same
hypotheses, `bidia` those of half as many beams; `reverse-vbs` must find what the reverse model's own
`generate` finds with the options in its writing order. `bidibeam.load` follows a folder's generation config.
"""

from __future__ import annotations

import inspect
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from transformers import GenerationConfig, GenerationMixin

from bidibeam.errors import BidibeamError
from tests.soak.option_calls import CLOSE, Caller, Case, Found, attempt
from tests.soak.option_values import TOGETHER, UNTRIED, VALUES, WITH

KINDS = ("bart", "gpt2", "t5", "llama", "mvp", "gemma2")
BY_GENERATE = KINDS[-2:]
"""Those that our own search does not run."""
BEAMS = (1, 2, 4)
COMBINATIONS = 600
"""Random pairs and triples of options, for each seed."""
FAILURES = ("ignored", "wrong", "unnamed", "traceback")
VERDICTS = ("equal", "refused", "generate fails", *FAILURES)
"""Where `generate` itself fails, and we do not, there is nothing to compare."""


def find_untried() -> set[str]:
    """Fields and arguments that this transformers has and this sweep has no value for."""
    fields = {name for name in vars(GenerationConfig()) if not name.startswith("_")}
    return (fields | {*inspect.signature(GenerationMixin.generate).parameters}) - {*VALUES} - UNTRIED


def make_cases(seed: int) -> list[Case]:
    """All options alone, and some known to meddle, by every route; random ones together."""
    chance = Random(seed)
    alone = [{**WITH.get(name, {}), name: value} for name, values in VALUES.items() for value in values]
    known = [(options, kind) for options in (*alone, *TOGETHER) for kind in KINDS[:2]]
    cases = [Case("vbs", kind, beams, options, seed) for options, kind in known for beams in BEAMS]
    cases += [Case("vbs", kind, 4, options, seed) for options in (*alone, *TOGETHER) for kind in BY_GENERATE]
    for _ in range(COMBINATIONS):
        names = chance.sample(sorted(VALUES), chance.choice((2, 2, 3)))
        options = {**WITH.get(names[0], {}), **{name: chance.choice(VALUES[name]) for name in names}}
        cases.append(Case("vbs", chance.choice(KINDS), chance.choice(BEAMS), options, seed))
    ways = ("reverse-vbs", "bidia", "bidis")
    cases += [Case(way, kind, 4, options, seed) for options, kind in known for way in ways]
    saved = [(options, kind) for options, kind in known if is_saved(options)]
    return cases + [Case("folder", kind, beams, options, seed) for options, kind in saved for beams in BEAMS]


def is_saved(options: dict[str, Any]) -> bool:
    """Whether a generation_config.json can have these."""
    text = json.dumps(options, default=lambda _: None)
    return {*options} <= {*vars(GenerationConfig())} and "null" not in text


def judge(caller: Caller, case: Case) -> tuple[str, str]:
    """The verdict on a case, and what was seen."""
    search = caller.load if case.route == "folder" else caller.generate
    ours, theirs = attempt(lambda: search(case, "ours")), attempt(lambda: search(case, "theirs"))
    if isinstance(ours, Exception):
        return judge_refusal(ours, theirs, case)
    if isinstance(theirs, Exception):
        is_refusal = isinstance(theirs, ValueError | NotImplementedError)
        return "ignored" if is_refusal else "generate fails", f"generate says: {theirs}"
    difference = compare(ours, theirs, case.route)
    if not difference or is_tie(search, case, ours):
        return "equal", ""
    plain = attempt(lambda: search(case._replace(options={}), "theirs"))
    is_ignored = isinstance(plain, list) and not compare(ours, plain, case.route)
    return "ignored" if is_ignored else "wrong", difference


def is_tie(search: Callable[[Case, str], Found], case: Case, ours: Found) -> bool:
    """Whether a ranking has what `vbs` has in place of an equal of `generate`'s, at the edge of the beam."""
    if case.route not in ("bidia", "bidis"):
        return False
    beams = case.beams - case.beams // 2 if case.route == "bidia" else case.beams
    same = case._replace(route="vbs", beams=beams)
    found, theirs = attempt(lambda: search(same, "ours")), attempt(lambda: search(same, "theirs"))
    if isinstance(found, Exception) or isinstance(theirs, Exception):
        return False
    return not compare(found, theirs, "vbs") and not compare(ours, found, case.route)


def compare(ours: Found, theirs: Found, route: str) -> str:
    """How the two differ; nothing where they do not, but for ties."""
    if route in ("bidia", "bidis"):  # some of the same hypotheses, in an order of their own
        return str(sorted({ids for ids, _ in ours} - {ids for ids, _ in theirs}) or "")
    for (ids, score), (expected, other) in zip(ours, theirs, strict=False):
        is_close = None not in (score, other) and abs(score - other) <= CLOSE  # type: ignore[operator]
        if not is_close and (ids != expected or None not in (score, other)):
            return f"{ids}, {score}, instead of {expected}, {other}"
    return "" if len(ours) == len(theirs) else f"{len(ours)} hypotheses instead of {len(theirs)}"


def judge_refusal(ours: Exception, theirs: Any, case: Case) -> tuple[str, str]:
    """Whether an exception is a refusal: a message that names an option, or what `generate` itself raises."""
    said = f"{type(ours).__name__}: {ours}"
    message = str(ours).lower().replace("_", " ").replace("`", "")
    names = {*case.options, "num_return_sequences"}  # of which every call asks for all
    is_named = any(name.replace("_", " ") in message for name in names)
    if isinstance(ours, BidibeamError):
        is_ours = "--" in str(ours) or "beam_size" in str(ours)
        is_theirs = isinstance(theirs, Exception) and str(theirs).split(".")[0] in str(ours)
        return ("refused" if (is_named or is_theirs) and not is_ours else "unnamed"), said
    is_same = type(ours) is type(theirs) and str(ours) == str(theirs)
    is_theirs = isinstance(ours, ValueError) and (is_named or isinstance(theirs, ValueError))
    return ("refused" if is_same or is_theirs else "traceback"), said


def run(seeds: Sequence[int], count: int | None, report: Callable[[str], None]) -> dict[str, Any]:
    """Try every option for each seed, or `count` cases of it by chance: verdicts by route, and failures."""
    counts: dict[str, Counter[str]] = {}
    failures = [f"{name}: no value is tried" for name in sorted(find_untried())]
    tried: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        caller = Caller(Path(folder))
        for seed in seeds:
            cases = make_cases(seed)
            chosen = cases if count is None else Random(seed).sample(cases, count)
            for number, case in enumerate(chosen, start=1):
                verdict, seen = judge(caller, case)
                tried.update(case.options)
                counts.setdefault(case.route, Counter())[verdict] += 1
                if verdict in FAILURES:
                    failures.append(f"{verdict}: {case}: {seen[:200]}")
                if number % 200 == 0:
                    report(f"seed {seed}: {number} of {len(chosen)} calls, {len(failures)} failures")
    total = sum(counts.values(), Counter[str]())
    return {
        "options": len(tried),
        "calls": total.total(),
        "verdicts": {name: total[name] for name in VERDICTS},
        "by_route": {route: dict(sorted(found.items())) for route, found in sorted(counts.items())},
        "failures": failures,
    }
