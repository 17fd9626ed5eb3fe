"""Results as an experiment writes them, made of random numbers."""

from __future__ import annotations

import math
import random
from typing import Any

SYSTEMS = {
    "vbs": 0.5,
    "vbs-tuned": 2.05,
    "bidis": 0.47,
    "bidia bleu_t": 2.76,
    "bidia wmd_t": 2.3,
    "bidia bleu_t either": 2.99,
    "bidia bleu_t expected": 2.6,
    "longest": 1.99,
    "reverse-vbs": 0.4,
    "random": 0.9,
    "oracle": 5.06,
}
"""By system, about the BLEU at N_B = 50."""
RANKED = ("bidia bleu_t", "bidia wmd_t", "oracle")
SIZES = (1, 2, 5, 6, 10, 20, 30, 40, 50)
WORDS = (
    *("i", "you", "what", "the", "no", "yes", "it", "that", "don't", "know", "and", "to", "a", "is", "of"),
    *("we", "he", "$", "<s>", "_", "*", "|", "&", "do", "me", "so", "well", "oh", "there"),
)
HOSTILE = "<script>alert('x')</script> & | *not bold* $x^2$"


def made_results(
    *, seeds: int = 1, corpus: str = "cornell", systems: tuple[str, ...] = tuple(SYSTEMS), chance: int = 0
) -> dict[str, Any]:
    """Everything that `bidibeam reproduce` writes, of plausible size."""
    rng = random.Random(chance)
    return {
        "format_version": 1,
        "bidibeam": "0.4.0",
        "corpus": corpus,
        "preset": "paper",
        "command": f"bidibeam reproduce --corpus {corpus} --preset paper --seeds {seeds}",
        "data": {
            "corpus": corpus,
            "settings": {"lowercase": True, "max_words": 20},
            "fingerprint": "0f1e2d3c4b5a6978",
            "vocabulary_size": 20000,
            "pairs": {"train": 163101, "validation": 1570, "test": 3140},
            "tokens": 2512345,
        },
        "settings": {
            "beam_sizes": list(SIZES),
            "max_length": 20,
            "search": {"length_exponent": 0.6, "stopping": "shrinking"},
            "systems": list(systems),
            "vectors": "en-300d.vec.xz",
            "model": {"embedding_size": 300, "directions": ["regular", "reverse"]},
            "training": {"epochs": 14, "learning_rate": 0.001},
        },
        "sources": 3140,
        "positions": made_positions(rng),
        "constant": made_constant(),
        "seeds": [_seed(seed, systems, rng) for seed in range(seeds)],
    }


def made_evaluation(results: dict[str, Any] | None = None, size: str = "50") -> dict[str, Any]:
    """What `bidibeam evaluate --out` writes: the scores have no N_B."""
    (seed,) = (results or made_results())["seeds"]
    tests = [{key: value for key, value in test.items() if key != "beam_size"} for test in seed["tests"]]
    return {"systems": {name: sizes[size] for name, sizes in seed["systems"].items()}, "tests": tests}


def made_analyses(results: dict[str, Any] | None = None) -> dict[str, Any]:
    """What `bidibeam analyse` writes."""
    content = results or made_results()
    return {"analyses": {**content["seeds"][0]["analyses"], "positions": content["positions"]}}


def _seed(seed: int, systems: tuple[str, ...], rng: random.Random) -> dict[str, Any]:
    scored = {name: _sizes(name, rng) for name in systems}
    return {
        "seed": seed,
        "training": {"epochs": 14, "steps": 20311, "best validation loss": 4.1 + rng.random() / 10},
        "perplexity": {
            name: {"value": 50 + 5 * rng.random(), "signature": f"metric:perplexity|direction:{name}"}
            for name in ("regular", "reverse")
        },
        "tuned": {
            str(size): {
                "bidis": {"lambda_": round(rng.random(), 2)},
                "vbs-tuned": {"length_exponent": 1.2, "word_reward": round(rng.random(), 1)},
            }
            for size in SIZES
        },
        "systems": scored,
        "tests": _tests(scored, rng),
        "analyses": _analyses(systems, scored, rng),
    }


def _sizes(name: str, rng: random.Random) -> dict[str, Any]:
    sizes = [size for size in SIZES if size > 1 or not name.startswith("bidia")]
    return {str(size): _entry(name, size, rng) for size in sizes}


def _entry(name: str, size: int, rng: random.Random) -> dict[str, Any]:
    share = (math.log(size) / math.log(50)) ** 0.7
    bleu = 0.75 + share * (SYSTEMS.get(name, 1.5) - 0.75) + share * rng.uniform(-0.05, 0.05)
    measures = {
        "bleu": bleu,
        "sentence_bleu": bleu + 1.1,
        "chrf": 8 + bleu,
        "distinct-1": 0.008 + rng.random() / 500,
        "distinct-2": 0.015 + rng.random() / 100,
        "length_ratio": 0.3 + 0.2 * bleu,
    }
    scores: dict[str, Any] = {
        metric: {"value": value, "signature": f"metric:{metric}|words:lower-cased"}
        for metric, value in measures.items()
    }
    scores["bleu"] |= {"low": bleu - 0.2, "high": bleu + 0.21}
    empty = 3 if name == "vbs" else 0
    return {"signature": f"strategy:{name}|beam_size:{size}", "empty": empty, "scores": scores}


def _tests(scored: dict[str, Any], rng: random.Random) -> list[dict[str, Any]]:
    tests = []
    for system in scored:
        for baseline in ("vbs-tuned", "vbs"):
            if system == baseline or baseline not in scored:
                continue
            ours, theirs = (scored[name]["50"]["scores"]["bleu"]["value"] for name in (system, baseline))
            tests.append(
                {
                    "system": system,
                    "baseline": baseline,
                    "beam_size": 50,
                    "metric": "bleu",
                    "difference": ours - theirs,
                    "low": ours - theirs - 0.3,
                    "high": ours - theirs + 0.3,
                    "paired_bootstrap": round(rng.random() / 10, 4),
                    "approximate_randomisation": round(rng.random() / 10, 4),
                    "signature": "test:paired|samples:1000",
                }
            )
    return tests


def _analyses(systems: tuple[str, ...], scored: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    return {
        "ranks": {"beam_size": 25, "systems": {name: _ranks(rng) for name in RANKED if name in systems}},
        "headroom": _headroom(scored),
        "diversity": _diversity(scored, rng),
        "sensitivity": made_sensitivity(rng),
        "examples": {"beam_size": 50, "examples": [_example(index, systems, rng) for index in range(20)]},
        "cost": made_cost(rng),
    }


def _ranks(rng: random.Random) -> dict[str, Any]:
    counts = [0] * 25
    for _ in range(3140):
        counts[min(24, int(rng.expovariate(0.12)))] += 1
    mass = [round(0.8 * count + 0.2 * 3140 / 25, 3) for count in counts]
    mean = sum(place * count for place, count in enumerate(counts, start=1)) / 3140
    return {"counts": counts, "mean": mean, "median": 6, "tied": 1.3, "tie_mass": mass}


def _headroom(scored: dict[str, Any]) -> dict[str, Any]:
    if not {"vbs-tuned", "oracle"} <= scored.keys():
        return {}
    shares: dict[str, dict[str, float | None]] = {}
    for size in map(str, SIZES):
        bleu = {
            name: sizes[size]["scores"]["bleu"]["value"] for name, sizes in scored.items() if size in sizes
        }
        room = bleu["oracle"] - bleu["vbs-tuned"]
        shares[size] = {
            name: (value - bleu["vbs-tuned"]) / room if room > 0.1 else None
            for name, value in bleu.items()
            if name not in ("vbs-tuned", "oracle")
        }
    return {"baseline": "vbs-tuned", "by_beam_size": shares}


def _diversity(scored: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    systems = {}
    for name, sizes in scored.items():
        own = {metric: score["value"] for metric, score in sizes["50"]["scores"].items()}
        systems[name] = {
            **{metric: own[metric] for metric in ("distinct-1", "distinct-2", "length_ratio", "bleu")},
            "matched": {
                "word_reward": 0.4,
                "length_ratio": own["length_ratio"] + 0.01,
                "bleu": 0.8 * own["bleu"],
                "distinct-1": 0.9 * own["distinct-1"],
                "distinct-2": 0.9 * own["distinct-2"],
            },
            "same_words": {"words": 9000, "distinct-1": rng.random() / 50, "distinct-2": rng.random() / 20},
        }
    return {"beam_size": 50, "systems": systems}


def made_sensitivity(rng: random.Random) -> dict[str, Any]:
    options = {  # the first value is the default, but T's is 20
        "T": "5 10 15 20 25 30 40 none",
        "smoothing": "floor none add-1",
        "order": "4 1 2 3",
        "form": "similarity ratio literal-max literal-min",
        "remove_stop_words": "true false",
        "answer": "regular either",
        "agreement": "closest expected",
    }
    only = {"smoothing": "bleu_t", "order": "bleu_t", "form": "wmd_t", "remove_stop_words": "wmd_t"}
    rows = [
        {
            "system": f"bidia {similarity}",
            "option": option,
            "value": value,
            "is_default": value == "20" if option == "T" else index == 0,
            "bleu": 1.5 + rng.random(),
            "length_ratio": 0.6 + 0.1 * index * (option == "T"),
            "distinct-2": 0.02 + rng.random() / 100,
        }
        for option, values in options.items()
        for similarity in ("bleu_t", "wmd_t")
        if only.get(option, similarity) == similarity
        for index, value in enumerate(values.split())
    ]
    for name, bleu, ratio in (("longest", 1.9, 1.2), ("random", 0.9, 0.5)):
        scores = {"bleu": bleu, "length_ratio": ratio, "distinct-2": 0.01}
        rows.append({"system": name, "option": "baseline", "value": name, "is_default": False, **scores})
    return {"beam_size": 50, "rows": rows}


def _example(index: int, systems: tuple[str, ...], rng: random.Random) -> dict[str, Any]:
    def text() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(3, 20)))

    return {
        "id": f"t-{index}",
        "source": HOSTILE if index == 0 else text(),
        "reference": text(),
        "replies": {name: text() if name != "vbs" else "" for name in systems},
        "regular": [text() for _ in range(25)],
        "reverse": [text() for _ in range(25)],
        "similarity": "bleu_t",
        "matrix": [[round(rng.random() ** 3, 3) for _ in range(25)] for _ in range(25)],
        "pair": [rng.randrange(25), rng.randrange(25)],
    }


def made_cost(rng: random.Random) -> dict[str, Any]:
    strategies = {"vbs": 1.0, "bidis": 1.0, "bidia bleu_t": 0.95, "bidia wmd_t": 1.2}
    return {
        "N_B": 50,
        "T": 20,
        "V": 20000,
        "device": "NVIDIA H200",
        "sources": 256,
        "turns": 3,
        "rows": [
            {
                "strategy": name,
                "ratio": ratio * 1.1,
                "ms_a_source": 3 * ratio + rng.random(),
                "projected_rows": 612.5,
                "compared_pairs": 625.0 if name.startswith("bidia") else 0.0,
                "exact_transports": 12.0 if "wmd" in name else 0.0,
            }
            for name, ratio in strategies.items()
        ],
        "formulas": [
            {"strategy": name, "formula": "T * B V log(B V)", "value": 2.8e8 * ratio, "ratio": ratio}
            for name, ratio in strategies.items()
        ],
    }


def made_constant() -> dict[str, Any]:
    def reply(text: str, validation: float, bleu: float, exact: int) -> dict[str, Any]:
        scores = {"validation_bleu": validation, "bleu": bleu, "low": bleu - 0.2, "high": bleu + 0.2}
        return {"reply": text, "words": 6, "training_count": 7, "length_ratio": 0.8, "exact": exact, **scores}

    return {
        "candidates": {"tried": 500, "commonest": 100, "parts": 20},
        "validation_sources": 1570,
        "chosen": reply("no. <i> don't know.", 1.5, 1.25, 0),
        "runners_up": [reply("i don't | know.", 1.4, 1.3, 12)],
        "most_common": reply("what?", 0.0, 0.0, 26),
        "references": {"sources": 3140, "words": 26743, "short": 4, "share_short": 0.24},
        "signature": "metric:bleu|tok:none",
    }


def made_positions(rng: random.Random) -> dict[str, Any]:
    def position(number: int, top: int) -> dict[str, Any]:
        words = (WORDS * 2)[:50]
        counts = sorted((int(top / rank**1.1) + rng.randint(0, 9) for rank in range(1, 51)), reverse=True)
        above = sum(count > 1000 for count in counts)
        return {
            "position": number,
            "words": words,
            "counts": counts,
            "different": 7000 + number,
            "entropy_bits": 6.1 + number / 10,
            "above_1000": above,
        }

    sides = {
        "left": [position(n, 30000) for n in (1, 2, 3)],
        "right": [position(n, 90000 // n) for n in (1, 2, 3)],
    }
    return {"words_shown": 50, "pairs": 163101, "from": sides}
