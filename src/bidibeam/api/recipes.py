"""The commands that make a run, told from the settings that its own files hold."""

from __future__ import annotations

import json
import shlex
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Any

from bidibeam.config import preset_names, resolve
from bidibeam.data.prepare import PrepareSettings
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.settings import flag_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


def commands(facts: Mapping[str, Any]) -> Iterator[str]:
    """From corpus to exported folder; what is the default, or the preset's, is left unsaid.

    Args:
        facts: "model", "training" and "data" as config.json has them, "tuned" as tuned.json, and "exported".
    """
    data, tuned = facts.get("data", {}), facts.get("tuned", {})
    settings = dict(data.get("settings", {}))
    corpus = str(settings.pop("corpus", "CORPUS"))
    source = [] if corpus == PrepareSettings().corpus else ["--source", "SOURCE"]
    yield _command("prepare", corpus, *source, *_flags(settings, PrepareSettings()), "--out", "data")
    scores = facts.get("exported", {}).get("scores", {})
    run = "run"
    if "command" in scores:  # training was a part of the experiment that scored it
        yield f"{scores['command']} --out out"
        run = f"out/seed-{facts.get('training', {}).get('seed', 0)}/run"
    else:
        vectors = ["--vectors", str(facts["vectors"])] if "vectors" in facts else []
        yield _command("train", "data", "--out", run, *_training_flags(facts), *vectors)
    if tuned:
        flags = _flags(tuned["search"], SearchSettings())
        if tuned["sources"] < data.get("pairs", {}).get(tuned["split"], 0):
            flags += ["--sources", str(tuned["sources"])]
        yield _command("tune", run, *flags)
    half = ["--half"] if facts.get("exported", {}).get("precision") == "float16" else []
    results = ["--results", "out/results.json"] if "command" in scores else []
    yield _command("export", run, "--out", "model", *half, "--card", *results)


def _training_flags(facts: Mapping[str, Any]) -> list[str]:
    """The preset that is nearest to a run's settings, and what differs."""
    wanted = {"model": facts["model"], "training": facts.get("training", {})}
    differing: dict[str, list[str]] = {}
    for name in preset_names():
        preset = json.loads(json.dumps(asdict(resolve(preset=name))))  # tuples become lists, as in the files
        differing[name] = [
            f"{section}.{key}={value if isinstance(value, str) else json.dumps(value)}"
            for section, values in wanted.items()
            for key, value in values.items()
            if preset[section].get(key) != value
        ]
    nearest = min(differing, key=lambda name: len(differing[name]))
    return ["--preset", nearest, *(word for each in differing[nearest] for word in ("--set", each))]


def _flags(values: Mapping[str, Any], defaults: Any) -> list[str]:
    """The flags that turn the defaults into these values."""
    words: list[str] = []
    for each in fields(defaults):
        default = getattr(defaults, each.name)
        value = values.get(each.name, default)
        flag = flag_of(each.name)
        if value == default:
            continue
        if isinstance(value, bool):
            words.append(flag if value else f"--no-{flag.removeprefix('--')}")
        else:
            words += [flag, str(value)]
    return words


def _command(*words: str) -> str:
    return shlex.join(["bidibeam", *words])
