"""Dataclasses from plain values, each checked against its field's type: all settings and files come here."""

from __future__ import annotations

import dataclasses
import difflib
import json
import math
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from bidibeam.errors import SettingsError

S = TypeVar("S")

PLAIN_KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
    str: "a string",
    types.NoneType: "null",
    dict: "a section of settings",
}


def build(cls: type[S], mapping: Mapping[str, Any], *, section: str = "") -> S:
    """A settings dataclass from plain values, each checked against its field's type.

    Args:
        cls: The dataclass; fields of dataclass type are sections.
        mapping: Field names to values. What is left out keeps its default, if it has one.
        section: Where in the whole the mapping stands, for messages: empty, or with a dot behind it.

    Raises:
        SettingsError: If a key is unknown or missing, or a value is not of its field's type.
    """
    known: Any = cls
    kinds = _kinds(known)
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        if key not in kinds:
            raise SettingsError(_unknown(f"{section}{key}", list(_leaves(cls, section))))
        if value is not None or not dataclasses.is_dataclass(kinds[key]):  # an empty section is none
            values[key] = _convert(value, kinds[key], f"{section}{key}")
    for item in dataclasses.fields(known):
        is_needed = item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING
        if is_needed and item.name not in values:
            raise SettingsError(f"The setting {section}{item.name} is missing.")
    return cls(**values)


def build_known(cls: type[S], mapping: Mapping[str, Any], *, section: str = "") -> S:
    """A dataclass from those values of a mapping that it has fields for; others are left out."""
    known: Any = cls
    return build(cls, {key: mapping[key] for key in mapping if key in _kinds(known)}, section=section)


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
    elif get_origin(kind) is dict:
        if isinstance(value, Mapping):
            return {name: _convert(each, get_args(kind)[1], f"{key}.{name}") for name, each in value.items()}
    elif kind not in PLAIN_KINDS or type(value) is kind:
        return value
    elif kind is dict and value is None:
        return {}
    raise SettingsError(f"The setting {key} is {show_value(value)}; it must be {_describe(kind)}.")


def _describe(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return f"a list, each item {_describe(get_args(kind)[0])}"
    options = get_args(kind) if get_origin(kind) is not dict else ()
    return " or ".join(map(_describe, options)) or PLAIN_KINDS.get(kind, PLAIN_KINDS[dict])


def show_value(value: Any) -> str:
    """A value as messages show it: the beginning of a long one."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except (ValueError, RecursionError):  # a number of thousands of digits, or a list that holds itself
        return "a value that cannot be shown"
    return text if len(text) <= 60 else f"{text[:57]}..."


def flatten(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of nested mappings by their keys, joined with points."""
    flat: dict[str, Any] = {}
    for key, value in mapping.items():
        nested = isinstance(value, Mapping)
        flat |= flatten(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value}
    return flat


@lru_cache
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
