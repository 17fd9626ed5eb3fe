"""A model card: what an exported run is, what it was made of, how good it is, and what to beware of.

Every figure comes from the folder's own files, so that card and weights cannot tell different stories.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from bidibeam.api.recipes import commands
from bidibeam.api.tuned import TUNED_FILE, TunedSettings
from bidibeam.config import preset_names
from bidibeam.errors import InputError
from bidibeam.models import checkpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

WIDTH = 120
PACKAGES = {"chitchat": "chitchat-dataset"}
"""Corpora that are installed as packages."""
ORIGINS = {
    "chitchat": "the open-domain conversations of the BYU Chit-Chat Challenge (Perception, Control & "
    "Cognition lab, Brigham Young University), written by people to people, in English; MIT licence"
}
KNOWS = {"chitchat": "It makes small talk, in English, and nothing else."}
"""What may be expected of a model, by its corpus."""

PARTS = {
    "embedding_size": "embeddings, units",
    "encoder_size": "encoder, units in each reading direction",
    "encoder_layers": "encoder, layers",
    "decoder_size": "decoders, units",
    "attention_size": "attention, units",
    "readout_size": "readout, units",
    "shared_encoder": "one encoder for both decoders",
    "tied_output": "embeddings are the output projection",
    "directions": "decoders",
}
TRAINING = ("batch_size", "epochs", "max_steps", "learning_rate", "weight_decay", "regular_weight", "seed")
"""What the card tells of training; its commands have the rest where that is not the preset's."""

USE = (
    "`bidibeam chat DIR` and `bidibeam decode DIR`, where DIR is the folder of this file; without DIR, "
    "bidibeam uses the model that comes with it. In Python, `bidibeam.load_decoder(DIR)`, or "
    "`bidibeam.load_decoder()` for that model."
)
PRESETS = "src/bidibeam/presets"
CHECKOUT = "From a checkout of bidibeam, where the file that `--config` names is:"
ROUNDING = "Another machine may round differently and end with somewhat other weights."
LICENCE = "Under the licence of bidibeam, MIT."
"""Of models trained on corpora that may be passed on under it."""


def card_facts(folder: Path) -> dict[str, Any]:
    """All that a card needs, from an exported run.

    Raises:
        RunError: If a file is missing or damaged.
    """
    config = checkpoint.read_config(folder)
    weights, tokenizer = folder / checkpoint.WEIGHTS_FILE, folder / checkpoint.TOKENIZER_FILE
    shapes = checkpoint.tensor_shapes(weights)
    tuned = folder / TUNED_FILE
    return {
        "model": checkpoint.settings_mapping(config.model),
        "vocabulary": config.vocabulary_size,
        "parameters": sum(math.prod(shape) for shape in shapes.values()),
        "bytes": weights.stat().st_size + tokenizer.stat().st_size,
        "tuned": TunedSettings(tuned).content if tuned.is_file() else {},
        **config.facts,
    }


def corpus_package(corpus: str) -> str:
    """The package that a corpus is installed as, with its version; empty for one that is not."""
    package = PACKAGES.get(corpus, "")
    try:
        return f"{package} {version(package)}" if package else ""
    except PackageNotFoundError:
        return package


def scores_of(path: Path, fingerprint: str) -> dict[str, Any]:
    """The test scores of some weights, from a results.json that `bidibeam reproduce` wrote.

    Args:
        path: The file.
        fingerprint: That of the weights.

    Raises:
        InputError: If it cannot be read, or is of other weights.
    """
    try:
        results = json.loads(path.read_text(encoding="utf-8"))
        for seed in results["seeds"]:
            signatures = [str(each["signature"]) for each in seed["perplexity"].values()]
            if any(f"model:{fingerprint}" in signature.split("|") for signature in signatures):
                return _scores(results, seed)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not what `bidibeam reproduce` writes ({error!r}).") from error
    raise InputError(
        f"{path} holds no scores of these weights ({fingerprint}). Evaluate them, or leave the results out."
    )


def _scores(results: Mapping[str, Any], seed: Mapping[str, Any]) -> dict[str, Any]:
    """What a card tells of a seed: perplexities, and every system at the largest N_B."""
    largest = str(max(map(int, results["settings"]["beam_sizes"])))
    by_name = seed["systems"].items()
    return {
        "command": str(results.get("command", "bidibeam reproduce")),
        "sources": results["sources"],
        "beam_size": int(largest),
        "perplexity": seed["perplexity"],
        "systems": {name: by_size[largest]["scores"] for name, by_size in by_name if largest in by_size},
    }


def model_card(facts: Mapping[str, Any]) -> str:
    """The card as Markdown.

    Args:
        facts: What `card_facts` found.
    """
    made = "\n".join(["```", *map(_in_a_checkout, commands(facts)), "```"])
    is_free = str(facts.get("data", {}).get("corpus")) in PACKAGES
    sections = {
        "Use": [_wrapped(USE)],
        "Data": _data(facts.get("data", {}), facts.get("exported", {})),
        "Settings": [_settings(facts)],
        "Metrics": _metrics(facts),
        "Limits": ["\n".join(_wrapped(limit, "- ") for limit in _limits(facts))],
        "How it was made": [
            *([_wrapped(CHECKOUT)] if PRESETS in made else []),
            made,
            _wrapped(f"{ROUNDING} {LICENCE}" if is_free else ROUNDING),
        ],
    }
    parts = [f"# Model card\n{_wrapped(_summary(facts))}"]
    parts += [f"## {name}\n" + "\n\n".join(paragraphs) for name, paragraphs in sections.items()]
    return "\n\n".join(parts) + "\n"


def _in_a_checkout(command: str) -> str:
    """A command whose --config, if it is a preset of ours, is named by where that is in a checkout."""
    ours = "|".join(map(re.escape, preset_names()))
    return re.sub(rf"(--config )\S*?\b({ours})\.yaml\b", rf"\g<1>{PRESETS}/\g<2>.yaml", command)


def _summary(facts: Mapping[str, Any]) -> str:
    precision = facts.get("exported", {}).get("precision", "float32")
    decoders = {
        "regular": "a regular decoder writes the reply from its first word to its last",
        "reverse": "a reverse decoder writes it from its last word to its first",
    }
    written = ", and ".join(decoders[direction] for direction in facts["model"]["directions"])
    return (
        f"A small response generator of {facts['parameters']:,} parameters: an encoder reads the source, "
        f"{written}. Weights ({precision}) and tokenizer take {facts['bytes'] / 2**20:.1f} MiB."
    )


def _data(data: Mapping[str, Any], exported: Mapping[str, Any]) -> Iterator[str]:
    corpus = str(data.get("corpus", "unknown"))
    name = exported.get("corpus") or f"The corpus {corpus}"
    yield _wrapped(f"{name}{f': {ORIGINS[corpus]}' if corpus in ORIGINS else ''}.")
    rows = [(f"{split} pairs", f"{count:,}") for split, count in data.get("pairs", {}).items()]
    rows += [(_spaced(name), _shown(value)) for name, value in data.get("settings", {}).items()]
    yield _table(("data", ""), [*rows, ("fingerprint", f"`{data.get('fingerprint', 'unknown')}`")])


def _settings(facts: Mapping[str, Any]) -> str:
    model, training = facts["model"], facts.get("training", {})
    unused = {"readout_size"} if model["tied_output"] else set()
    rows = [("vocabulary", f"{facts['vocabulary']:,}")]
    rows += [(PARTS.get(key, key), _shown(value)) for key, value in model.items() if key not in unused]
    rows += [(_spaced(key), _shown(training[key])) for key in TRAINING if training.get(key) is not None]
    return _table(("setting", ""), rows)


def _metrics(facts: Mapping[str, Any]) -> Iterator[str]:
    exported, tuned = facts.get("exported", {}), facts.get("tuned", {})
    if exported.get("progress"):
        yield "At the best evaluation of training, on validation pairs:"
        rows = [(name, _shown(value)) for name, value in exported["progress"].items()]
        yield _table(("training", ""), rows)
    if tuned:
        search = tuned["search"]
        yield _wrapped(
            f"Corpus BLEU (0 to 100) on {tuned['sources']:,} {tuned['split']} sources, N_B = "
            f"{search['beam_size']}, T = {search['max_length']}, with the settings tuned on the same sources "
            f"(`{tuned['metric']}`):"
        )
        options = {name: _pairs(tuned["options"].get(name, {})) for name in tuned["bleu"]}
        bleu = [(f"`{name}`", _shown(value), options[name]) for name, value in tuned["bleu"].items()]
        yield _table(("strategy", "BLEU", "tuned"), bleu)
    if "scores" in exported:
        yield from _tested(exported["scores"], exported["from"])


def _tested(scores: Mapping[str, Any], weights: str) -> Iterator[str]:
    """The scores on the test split."""
    by_direction = scores["perplexity"].items()
    perplexity = ", ".join(f"{_shown(each['value'])} ({direction})" for direction, each in by_direction)
    yield _wrapped(
        f"On {scores['sources']:,} test sources, which neither training nor tuning saw, by the weights "
        f"`{weights}` before they were exported: perplexity {perplexity}; and with N_B = "
        f"{scores['beam_size']} (95 % intervals in brackets; config.json has every score's signature):"
    )
    names = list(dict.fromkeys(name for found in scores["systems"].values() for name in found))
    rows = [
        (f"`{system}`", *(_interval(found.get(name)) for name in names))
        for system, found in scores["systems"].items()
    ]
    yield _table(("system", *names), rows)


def _limits(facts: Mapping[str, Any]) -> Iterator[str]:
    """What to beware of, an item each."""
    data = facts.get("data", {})
    settings, corpus = data.get("settings", {}), str(data.get("corpus"))
    knows = KNOWS.get(corpus, "It answers as people do in its corpus, and can do nothing else.")
    yield (
        f"{knows} It knows nothing of the world and looks nothing up: what it says is often false, and never "
        "advice."
    )
    yield (
        "It learnt from what people said to each other, unfiltered. It may repeat what is rude, biased or "
        "offensive in it, and claim a life that it does not have."
    )
    length = settings.get("max_source_length")
    read = f" Of a long one only the last {length} tokens are read." if length else ""
    yield f"It has no memory: every source is answered by itself.{read}"
    if settings.get("tokenizer") == "word":
        yield (
            f"Words outside its vocabulary of {facts['vocabulary']:,} look all the same to it, and it writes "
            "in lower case."
        )
    yield (
        "It is there to show and to test decoding from both ends on any machine. Do not put it before people "
        "who do not know that they talk to a small model."
    )


def _wrapped(text: str, bullet: str = "") -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=bullet,
        subsequent_indent=" " * len(bullet),
        break_long_words=False,
        break_on_hyphens=False,
    )


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _spaced(name: str) -> str:
    return name.rstrip("_").replace("_", " ")


def _shown(value: object) -> str:
    """A value as a cell: whole numbers in groups of three, others to four digits."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_shown, value))
    return f"{value:,}" if isinstance(value, int) else "none" if value is None else str(value)


def _interval(score: Mapping[str, Any] | None) -> str:
    if score is None:
        return ""
    low, high = score.get("low"), score.get("high")
    has_interval = low is not None and high is not None
    return _shown(score["value"]) + (f" [{_shown(low)}, {_shown(high)}]" if has_interval else "")


def _pairs(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{_spaced(name)} {_shown(value)}" for name, value in options.items())
