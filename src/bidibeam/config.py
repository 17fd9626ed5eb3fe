"""Settings in layers: defaults, a preset, a YAML file, `key=value` flags. Unknown keys fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, make_dataclass
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from bidibeam.errors import SettingsError, UnknownNameError
from bidibeam.fields import build, show_value
from bidibeam.models.networks import NETWORKS
from bidibeam.registry import suggest
from bidibeam.training.settings import HUGGING_FACE, FineTuneSettings, RunSettings, TrainingSettings

DEFAULT_ARCHITECTURE = "gru"

LONGEST_NUMBER = 1000
"""In characters; Python does not even spell numbers that are much longer."""
TAG = "tag:yaml.org,2002:"
PLAIN_TAGS = {"map", "seq", "str", "int", "float", "bool", "null", "merge"}
"""The YAML that settings are made of."""
MOST_VALUES = 10_000
"""More than any settings have; a few lines of aliases can stand for more than fit into memory."""


def resolve(
    *,
    base: Mapping[str, Any] | None = None,
    preset: str | None = None,
    config: Path | None = None,
    overrides: Sequence[str] = (),
    architecture: str | None = None,
) -> RunSettings:
    """The settings of a run, each layer overruling the one before it.

    Args:
        base: What stands under all layers, such as the settings of a run that is resumed.
        preset: Name of a preset that comes with the package. Of one for another network, only what it says
            of training counts.
        config: A YAML file with sections `model` and `training`.
        overrides: Single settings, as `training.epochs=3`.
        architecture: The network, whatever the layers say.

    Raises:
        SettingsError: If a layer is malformed, or a setting is unknown, of the wrong type or out of range.
        UnknownNameError: If there is no such preset or architecture.
    """
    base, begin = base or {}, load_preset(preset) if preset is not None else {}
    layers = [load_yaml(config)] if config is not None else []
    layers.extend(parse_override(override) for override in overrides)
    name = architecture or str(merge(base, begin, *layers).get("architecture", DEFAULT_ARCHITECTURE))
    of_preset = begin.get("architecture", DEFAULT_ARCHITECTURE)
    if base.get("architecture", name) != name:
        base = {}  # another network's settings: training says that the run began with it
    if name != of_preset:
        begin = {} if HUGGING_FACE in (name, of_preset) else {"training": begin.get("training")}
    return build_run(merge(base, begin, *layers, {"architecture": name}))


def build_run(mapping: Mapping[str, Any]) -> RunSettings:
    """A run's settings from plain values: sections `model` and `training`, and the `architecture`.

    Raises:
        SettingsError: If a setting is unknown, of the wrong type or out of range.
        UnknownNameError: If there is no such architecture.
    """
    name = str(mapping.get("architecture", DEFAULT_ARCHITECTURE))
    kinds: dict[str, Any] = {"model": dict, "training": FineTuneSettings}
    if name != HUGGING_FACE:
        network: Any = NETWORKS.get(name)
        kinds = {"model": network.Settings, "training": TrainingSettings}
    sections = [(section, kind, field(default_factory=kind)) for section, kind in kinds.items()]
    built: Any = build(make_dataclass("Sections", [*sections, ("architecture", str, name)]), mapping)
    return RunSettings(built.model, built.training, name)


def preset_names(folder: str = "") -> list[str]:
    """The presets that come with the package: of training runs, or those in a folder among them."""
    paths = (resources.files("bidibeam") / "presets" / folder).iterdir()
    return sorted(path.name.removesuffix(".yaml") for path in paths if path.name.endswith(".yaml"))


def load_preset(name: str, *, folder: str = "") -> dict[str, Any]:
    """A preset's settings, as a mapping; they go over those of the preset that it names as its `base`.

    Raises:
        UnknownNameError: If there is none of that name, or it is one of training runs and a folder was named.
    """
    names = preset_names(folder)
    if name not in names and name in preset_names():
        raise UnknownNameError(
            f"The preset {name!r} is for `bidibeam train`; choose {' or '.join(names)} for "
            f"`bidibeam {folder}`."
        )
    if name not in names:
        hint = suggest(name, names)
        raise UnknownNameError(f"Unknown preset {name!r}.{hint} Choose one of: {', '.join(names)}.")
    path = resources.files("bidibeam") / "presets" / folder / f"{name}.yaml"
    content = _parse_sections(path.read_text(encoding="utf-8"), f"preset {name}")
    base = content.pop("base", None)
    return content if base is None else merge(load_preset(base, folder=folder), content)


def load_yaml(path: Path) -> dict[str, Any]:
    """A settings file, as a mapping.

    Raises:
        SettingsError: If it cannot be read, is not YAML, or is not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"The settings file {path} cannot be read: {error.strerror or error}.") from error
    except UnicodeDecodeError as error:
        raise SettingsError(
            f"The settings file {path} is not UTF-8: byte {error.start + 1} is wrong."
        ) from error
    return _parse_sections(text, str(path))


def parse_override(text: str) -> dict[str, Any]:
    """`training.epochs=3` as the mapping that it stands for; the value is read as YAML."""
    dotted, equals, raw = text.partition("=")
    keys = dotted.strip().split(".")
    if not equals or not all(keys):
        raise SettingsError(
            f"A setting is given as key=value, for example training.epochs=3; received {text!r}."
        )
    value = parse_yaml(raw, f"The value of {dotted.strip()}")
    for key in reversed(keys):
        value = {key: value}
    return dict(value)


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of all layers; of two that clash the later holds, and an empty section changes nothing."""
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            before = merged.get(key)
            if isinstance(before, Mapping) and (value is None or isinstance(value, Mapping)):
                merged[key] = merge(before, value or {})
            else:
                merged[key] = value
    return merged


def _parse_sections(text: str, name: str) -> dict[str, Any]:
    value = parse_yaml(text, name)
    if value is not None and not isinstance(value, dict):
        raise SettingsError(f"{name} holds {show_value(value)}; settings are sections of key: value lines.")
    return value or {}


def parse_yaml(text: str, name: str) -> Any:
    """The plain value that a text spells in YAML; a SettingsError, which begins with `name`, if it is none.

    Dates are the strings that they are written as. Tags for anything else, and aliases that would make
    more than a few thousand values of a few, are refused.
    """
    try:
        loader = _SectionLoader(text)
        node = loader.get_single_node()
        _check_plain(node)
        return None if node is None else loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SettingsError(f"{name}, line {line}: this is not YAML: {error.problem}.") from error
    except RecursionError as error:
        raise SettingsError(f"{name} is nested too deeply for settings.") from error
    except (yaml.YAMLError, ValueError, LookupError) as error:  # the latter two of a tag that does not fit
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise SettingsError(f"{name} is not YAML for settings: {reason}.") from error


def _check_plain(root: yaml.Node | None) -> None:
    """Refuse what is not made of numbers, strings, lists and sections, and what aliases blow up."""
    waiting: list[Any] = [] if root is None else [root]
    count = 0
    while waiting:
        node, count = waiting.pop(), count + 1
        kind = node.tag.removeprefix(TAG)
        if kind not in PLAIN_TAGS:
            raise ValueError(f"the tag {kind!r} stands for no plain value")
        if kind in ("int", "float") and len(node.value) > LONGEST_NUMBER:
            raise ValueError(f"a number of {len(node.value):,} characters")
        if count > MOST_VALUES:
            raise ValueError(f"it holds itself, or more than {MOST_VALUES:,} values")
        if not isinstance(node, yaml.ScalarNode):
            waiting.extend(chain(*node.value) if isinstance(node, yaml.MappingNode) else node.value)


class _SectionLoader(yaml.SafeLoader):
    """YAML as usual, but a section that is written twice is one section, not the second half of it."""

    def section(self, node: yaml.MappingNode) -> dict[str, Any]:
        self.flatten_mapping(node)
        merged: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key = str(self.construct_object(key_node, deep=True))
            merged = merge(merged, {key: self.construct_object(value_node, deep=True)})
        return merged


_SectionLoader.add_constructor(f"{TAG}map", _SectionLoader.section)
_SectionLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in known if tag != f"{TAG}timestamp"]
    for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
