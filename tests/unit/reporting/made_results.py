"""Results as an experiment writes them: those of results/demo, with what a test asks for."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

DEMO: dict[str, Any] = json.loads(
    (Path(__file__).parents[3] / "results" / "demo" / "results.json").read_text(encoding="utf-8")
)
SYSTEMS = tuple(DEMO["settings"]["systems"])
HOSTILE = "<script>alert('x')</script> & | *not bold* $x^2$"


def made_results(
    *, seeds: int = 1, corpus: str = "cornell", systems: tuple[str, ...] = SYSTEMS
) -> dict[str, Any]:
    """What `bidibeam reproduce` writes; the scores of seeds after the first, and of new systems, are made."""
    results = copy.deepcopy(DEMO)
    results["corpus"] = results["data"]["corpus"] = corpus
    results["settings"]["systems"] = list(systems)
    (first,) = results["seeds"]
    first["analyses"]["examples"]["examples"][0]["source"] = HOSTILE
    known = first["systems"]
    first["systems"] = {name: known.get(name) or copy.deepcopy(known["vbs"]) for name in systems}
    first["tests"] = [test for test in first["tests"] if {test["system"], test["baseline"]} <= {*systems}]
    for name in ("ranks", "diversity"):
        found = first["analyses"][name]["systems"]
        first["analyses"][name]["systems"] = {one: found[one] for one in found if one in systems}
    results["seeds"] += [_vary(first, seed) for seed in range(1, seeds)]
    return results


def _vary(first: dict[str, Any], seed: int) -> dict[str, Any]:
    """A seed with other scores and p-values."""
    rng, other = random.Random(seed), copy.deepcopy(first)
    other["seed"] = seed
    for scores in (entry["scores"] for sizes in other["systems"].values() for entry in sizes.values()):
        for score in scores.values():
            factor = rng.uniform(0.8, 1.2)
            score |= {key: factor * score[key] for key in ("value", "low", "high") if key in score}
    for test in other["tests"]:
        test["approximate_randomisation"] = rng.random()
    return other


def made_evaluation(results: dict[str, Any] | None = None) -> dict[str, Any]:
    """What `bidibeam evaluate --out` writes: the scores have no N_B."""
    (seed,) = (results or made_results())["seeds"]
    tests = [{key: value for key, value in test.items() if key != "beam_size"} for test in seed["tests"]]
    return {"systems": {name: sizes["50"] for name, sizes in seed["systems"].items()}, "tests": tests}


def made_analyses() -> dict[str, Any]:
    """What `bidibeam analyse` writes."""
    content = made_results()
    return {"analyses": {**content["seeds"][0]["analyses"], "positions": content["positions"]}}
