"""Model cards of exported runs. Every number comes from the folder's own files."""

from __future__ import annotations

import json
import math
import re
import shlex
import textwrap
from collections import Counter
from dataclasses import asdict, fields
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from bidibeam.api.tuned import TunedSettings
from bidibeam.config import preset_names, resolve
from bidibeam.data.prepare import PrepareSettings
from bidibeam.errors import InputError
from bidibeam.files import read_json, reading
from bidibeam.models import checkpoint
from bidibeam.models.cards import format_table
from bidibeam.scores import Signature
from bidibeam.search.settings import SearchSettings
from bidibeam.text import escape_markdown, format_value, printable, spell_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

PACKAGES = {"chitchat": "chitchat-dataset"}
"""Corpora that are installed as packages, under a licence that lets models be passed on."""
ORIGINS = {
    "chitchat": "the open-domain conversations of the BYU Chit-Chat Challenge (Perception, Control & "
    "Cognition lab, Brigham Young University), written by people to people, in English; MIT licence"
}
EXCHANGES_FILE = "exchanges.json"
"""What it says to some sources, what the model before it said, and which of the two was judged better."""
TRAINING = (
    "batch_size",
    "epochs",
    "max_steps",
    "learning_rate",
    "weight_decay",
    "label_smoothing",
    "regular_weight",
    "seed",
)
PRESETS = "src/bidibeam/presets"
USE = (
    "`bidibeam chat DIR` and `bidibeam decode DIR`, where DIR is the folder of this file; without DIR, "
    "bidibeam uses the model that comes with it. In Python, `bidibeam.load_decoder(DIR)`, or "
    "`bidibeam.load_decoder()` for that model."
)
LIMITS = """\
- It answers as people do in its corpus, and can do nothing else. What it says is often false; never advice.
- It learnt from unfiltered conversations: it may be rude, biased or offensive, and claim a life of its own.
- It is there to show and to test decoding. People who talk to it should know that it is a small model."""


def find_package(corpus: str) -> str:
    """The package that a corpus is installed as, with its version; empty if it is not one."""
    package = PACKAGES.get(corpus, "")
    try:
        return f"{package} {version(package)}" if package else ""
    except PackageNotFoundError:
        return package


def read_scores(path: Path, fingerprint: str) -> dict[str, Any]:
    """The perplexities of weights, and their scores at the largest N_B, from a results.json that has them."""
    try:
        results = read_json(path)
        for seed in results["seeds"]:
            signatures = [str(each["signature"]) for each in seed["perplexity"].values()]
            if not any(f"model:{fingerprint}" in signature.split("|") for signature in signatures):
                continue
            largest = str(max(map(int, results["settings"]["beam_sizes"])))
            by_name = seed["systems"].items()
            return {
                "command": str(results.get("command", "bidibeam reproduce")),
                "sources": results["sources"],
                "beam_size": int(largest),
                "perplexity": seed["perplexity"],
                "systems": {
                    name: by_size[largest]["scores"] for name, by_size in by_name if largest in by_size
                },
            }
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is not what `bidibeam reproduce` writes ({error!r}).") from error
    raise InputError(
        f"{path} holds no scores of these weights ({fingerprint}). Evaluate them, or leave the results out."
    )


def render_card(folder: Path) -> str:
    """The card of an exported run, as Markdown."""
    config = checkpoint.read_config(folder)
    model, metadata = checkpoint.settings_mapping(config.model), config.metadata
    data, exported, training = (metadata.get(name, {}) for name in ("data", "exported", "training"))
    found = TunedSettings.find(folder)
    tuned = {} if found is None else found.content
    weights = folder / checkpoint.WEIGHTS_FILE
    parameters = sum(math.prod(shape) for shape in checkpoint.tensor_shapes(weights).values())
    files = [weights, folder / checkpoint.TOKENIZER_FILE, folder / checkpoint.SOURCE_TOKENIZER_FILE]
    size = sum(path.stat().st_size for path in files if path.is_file()) / 2**20
    corpus, settings = str(data.get("corpus", "unknown")), data.get("settings", {})
    origin = escape_markdown(str(exported.get("corpus") or f"The corpus {corpus}"))
    origin += f": {ORIGINS[corpus]}" if corpus in ORIGINS else ""
    rows = {f"{split} pairs": count for split, count in data.get("pairs", {}).items()} | settings
    shape = {"vocabulary": config.vocabulary_size} | model | {name: training.get(name) for name in TRAINING}
    if model.get("tied_output"):
        del shape["readout_size"]
    trained = {name: value for name, value in shape.items() if value is not None or name in model}
    length = settings.get("max_source_length")
    commands = "\n".join(_list_commands(model, metadata, tuned))
    licence = " Under the licence of bidibeam, MIT." if corpus in PACKAGES else ""
    parts = [
        "# Model card\n"
        + _wrap(
            f"A response generator of {parameters:,} parameters; decoders: "
            f"{' and '.join(model['directions'])}. Weights ({exported.get('precision', 'float32')}) and "
            f"tokenizer take {size:.1f} MiB."
        ),
        f"## Use\n{_wrap(USE)}",
        f"## Data\n{_wrap(f'{origin}.')}",
        _table("data", [*rows.items(), ("fingerprint", f"`{data.get('fingerprint', 'unknown')}`")]),
        "## Settings\n" + _table("setting", trained.items()),
        *_render_metrics(tuned, exported, training.get("epochs")),
        *_render_exchanges(folder / EXCHANGES_FILE),
        f"## Limits\n{LIMITS}"
        + (f"\n- It reads only the last {length} tokens of a source." if length else ""),
        "## How it was made",
        *(["Run these in a checkout of bidibeam:"] if PRESETS in commands else []),
        f"```\n{commands}\n```",
        _wrap(f"Another machine may round differently and end with somewhat other weights.{licence}"),
    ]
    return "\n\n".join(parts) + "\n"


def _render_metrics(
    tuned: Mapping[str, Any], exported: Mapping[str, Any], most_epochs: int | None
) -> Iterator[str]:
    yield "## Metrics"
    if progress := exported.get("progress"):
        ended = progress.get("epochs", most_epochs) != most_epochs
        told = f"; training ended after {progress['epochs']} of at most {most_epochs} epochs" if ended else ""
        yield f"At the best evaluation of training, on validation pairs{told}:"
        yield _table("training", progress.items())
    if tuned:
        search = tuned["search"]
        yield _wrap(
            f"On {tuned['sources']:,} {tuned['split']} sources, at most {search['max_length']} tokens, N_B = "
            f"{search['beam_size']}, with the settings tuned on the same sources (`{tuned['metric']}`):"
        )
        options = {
            name: ", ".join(f"{spell_name(key)} {format_value(value)}" for key, value in each.items())
            for name, each in tuned["options"].items()
        }
        rows = [
            (f"`{name}`", format_value(value), options.get(name.removesuffix(" tuned"), ""))
            for name, value in tuned["values"].items()
        ]
        metric = dict(Signature.parse(str(tuned["metric"])).facts).get("metric", "value")
        yield format_table(("strategy", metric.upper() if metric == "bleu" else metric, "tuned"), rows)
    if "scores" in exported:
        scores = exported["scores"]
        by_direction = scores["perplexity"].items()
        perplexity = ", ".join(f"{format_value(each['value'])} ({name})" for name, each in by_direction)
        yield _wrap(
            f"On {scores['sources']:,} test sources, which neither training nor tuning saw, by the weights "
            f"`{exported['from']}` before they were exported: perplexity {perplexity}; and with N_B = "
            f"{scores['beam_size']} (95 % intervals in brackets; config.json has every score's signature):"
        )
        names = list(dict.fromkeys(name for values in scores["systems"].values() for name in values))
        yield format_table(
            ("system", *names),
            [
                (f"`{system}`", *(_format_score(values.get(name)) for name in names))
                for system, values in scores["systems"].items()
            ],
        )


def _render_exchanges(path: Path) -> Iterator[str]:
    """A table of exchanges, beside the model before, if there are any."""
    if not path.is_file():
        return
    with reading(path.name, "Mend or remove it."):
        content = read_json(path)
        rows = [
            [str(each[name]) for name in ("source", "before", "now", "better")]
            for each in content["exchanges"]
        ]
        how = content["how"]
    counts = Counter(row[-1] for row in rows)
    told = ", ".join(f"{name} {counts[name]}" for name in ("now", "before", "neither"))
    yield "## Exchanges\n" + _wrap(f"{how} Better: {told}.")
    yield format_table(("source", "the model before", "this model", "better"), rows)


def _list_commands(
    model: Mapping[str, Any], metadata: Mapping[str, Any], tuned: Mapping[str, Any]
) -> Iterator[str]:
    """The commands from corpus to export; defaults and the preset's settings are left out."""
    data, training, exported = (metadata.get(name, {}) for name in ("data", "training", "exported"))
    settings = dict(data.get("settings", {}))
    corpus = str(settings.pop("corpus", "CORPUS"))
    source = [] if corpus == PrepareSettings().corpus else ["--source", "SOURCE"]
    yield _command("prepare", corpus, *source, *_flags(settings, PrepareSettings()), "--out", "data")
    run, command = "run", exported.get("scores", {}).get("command", "")
    ours = "|".join(map(re.escape, preset_names()))
    command = re.sub(rf"(--config )\S*?\b({ours})\.yaml\b", rf"\g<1>{PRESETS}/\g<2>.yaml", command)
    measure = f"{' '.join(printable(command).replace('`', '').split())} --out out"
    is_trained_by_it = bool(command) and "--model" not in command.split()
    if is_trained_by_it:
        yield measure
        run = f"out/seed-{training.get('seed', 0)}/run"
    else:
        vectors = ["--vectors", str(metadata["vectors"])] if "vectors" in metadata else []
        yield _command("train", "data", "--out", run, *_training_flags(model, training), *vectors)
    if tuned:
        flags = _flags(tuned["search"], SearchSettings())
        if tuned["sources"] < data.get("pairs", {}).get(tuned["split"], 0):
            flags += ["--sources", str(tuned["sources"])]
        yield _command("tune", run, *flags)
    if command and not is_trained_by_it:
        yield measure
    half = ["--half"] if exported.get("precision") == "float16" else []
    results = ["--results", "out/results.json"] if command else []
    yield _command("export", run, "--out", "model", *half, "--card", *results)


def _training_flags(model: Mapping[str, Any], training: Mapping[str, Any]) -> list[str]:
    """The preset nearest to a run's settings, and what differs."""
    differing: dict[str, list[str]] = {}
    for name in preset_names():
        preset = json.loads(json.dumps(asdict(resolve(preset=name))))  # tuples become lists, as in the files
        differing[name] = [
            f"{section}.{key}={value if isinstance(value, str) else json.dumps(value)}"
            for section, values in (("model", model), ("training", training))
            for key, value in values.items()
            if preset[section].get(key) != value
        ]
    nearest = min(differing, key=lambda name: len(differing[name]))
    return ["--preset", nearest, *(word for each in differing[nearest] for word in ("--set", each))]


def _flags(values: Mapping[str, Any], defaults: Any) -> list[str]:
    """The flags of the values that differ from the defaults."""
    words: list[str] = []
    for name in [each.name for each in fields(defaults)]:
        value, flag = values.get(name, default := getattr(defaults, name)), name.rstrip("_").replace("_", "-")
        if isinstance(value, bool) and value != default:
            words.append(f"--{'' if value else 'no-'}{flag}")
        elif isinstance(value, list):
            words += [part for each in value for part in (f"--{flag}", str(each))]
        elif value != default:
            words += [f"--{flag}", str(value)]
    return words


def _command(*words: str) -> str:
    return shlex.join(["bidibeam", *words])


def _wrap(text: str) -> str:
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def _table(title: str, rows: Iterable[Sequence[Any]]) -> str:
    return format_table((title, ""), [(spell_name(name), format_value(value)) for name, value in rows])


def _format_score(score: Mapping[str, Any] | None) -> str:
    if score is None:
        return ""
    low, high = score.get("low"), score.get("high")
    interval = "" if low is None or high is None else f" [{format_value(low)}, {format_value(high)}]"
    return format_value(score["value"]) + interval
