"""Settings in layers: defaults, a preset, a YAML file, `key=value` flags. Unknown keys fail."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import types
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, make_dataclass
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import yaml

from bidibeam.errors import SettingsError, UnknownNameError
from bidibeam.models.networks import NETWORKS
from bidibeam.registry import suggest
from bidibeam.training.settings import HUGGING_FACE, FineTuneSettings, RunSettings, TrainingSettings

S = TypeVar("S")

DEFAULT_ARCHITECTURE = "gru"

PLAIN_KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a string",
    types.NoneType: "null",
    dict: "a section of settings",
}
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
    """A preset's settings, as a mapping.

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
    return _parse_sections(path.read_text(encoding="utf-8"), f"preset {name}")


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


def build(cls: type[S], mapping: Mapping[str, Any], *, section: str = "") -> S:
    """A settings dataclass from plain values, each checked against its field's type.

    Args:
        cls: The dataclass; fields of dataclass type are sections. Every field has a default.
        mapping: Field names to values. What is left out keeps its default.
        section: Where in the whole the mapping stands, for messages: empty, or with a dot behind it.

    Raises:
        SettingsError: If a key is unknown, or a value is not of its field's type.
    """
    kinds = _kinds(cls)
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        if key not in kinds:
            raise SettingsError(_unknown(f"{section}{key}", list(_leaves(cls, section))))
        if value is not None or not dataclasses.is_dataclass(kinds[key]):  # an empty section is none
            values[key] = _convert(value, kinds[key], f"{section}{key}")
    return cls(**values)


def _convert(value: Any, kind: Any, key: str) -> Any:
    """The value as `kind`, or a SettingsError that says what it should have been; other kinds pass."""
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        if isinstance(value, Mapping):
            return build(kind, value, section=f"{key}.")
    elif get_origin(kind) in (Union, types.UnionType):
        for option in get_args(kind):
            with suppress(SettingsError):
                return _convert(value, option, key)
    elif get_origin(kind) is tuple:
        if isinstance(value, list | tuple):
            item = get_args(kind)[0]
            return tuple(_convert(each, item, f"{key}[{index}]") for index, each in enumerate(value))
    elif kind is float:
        with suppress(ValueError, OverflowError, TypeError):
            number = float(value)  # YAML 1.1 reads 1e-3, which has no point, as a string
            if math.isfinite(number) and not isinstance(value, bool):
                return number
    elif kind not in PLAIN_KINDS or type(value) is kind:
        return value
    elif kind is dict and value is None:
        return {}
    raise SettingsError(f"The setting {key} is {_show(value)}; it must be {_describe(kind)}.")


def _describe(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"a list, each item {_describe(get_args(kind)[0])}"
    options = get_args(kind)
    return " or ".join(map(_describe, options)) or PLAIN_KINDS.get(kind, PLAIN_KINDS[dict])


def _show(value: Any) -> str:
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _kinds(cls: Any) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {item.name: hints[item.name] for item in dataclasses.fields(cls)}


def _leaves(cls: Any, section: str) -> Iterator[str]:
    """Every setting's full name."""
    for name, kind in _kinds(cls).items():
        if dataclasses.is_dataclass(kind):
            yield from _leaves(kind, f"{section}{name}.")
        else:
            yield f"{section}{name}"


def _unknown(key: str, valid: list[str]) -> str:
    by_last = {name.rpartition(".")[2]: name for name in valid}
    close = difflib.get_close_matches(key, valid, n=1) or [
        by_last[last] for last in difflib.get_close_matches(key.rpartition(".")[2], by_last, n=1)
    ]
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"Unknown setting {key}.{hint} Valid settings: {', '.join(valid)}."


def _parse_sections(text: str, name: str) -> dict[str, Any]:
    value = parse_yaml(text, name)
    if value is not None and not isinstance(value, dict):
        raise SettingsError(f"{name} holds {_show(value)}; settings are sections of key: value lines.")
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
