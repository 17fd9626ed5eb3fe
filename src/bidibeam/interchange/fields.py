"""The fields of a JSON object, each of the type it must have or named in a message."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, TypeVar

from bidibeam.errors import InputError
from bidibeam.interchange.lines import describe

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")

EXPECTED = {
    str: "a string",
    list: "a list",
    int: "a whole number",
    float: "a finite number",
    bool: "true or false",
}


def field(value: Mapping[str, Any], key: str, kind: type[T], place: str) -> T:
    """What a field holds; a whole number serves for a `float`.

    Raises:
        InputError: If it is missing or of another type.
    """
    if key not in value:
        raise InputError(f'{place}: the field "{key}" is missing; it must be {EXPECTED[kind]}.')
    item = value[key]
    if kind is float and type(item) is int and abs(item) < 2**1023:
        item = float(item)
    if type(item) is not kind or (isinstance(item, float) and not math.isfinite(item)):
        raise InputError(f'{place}: "{key}" must be {EXPECTED[kind]}, received {describe(item)}.')
    return item


def nullable(value: Mapping[str, Any], key: str, kind: type[T], place: str) -> T | None:
    """What a field holds, or None where it is null or missing.

    Raises:
        InputError: If it is of another type.
    """
    return None if value.get(key) is None else field(value, key, kind, place)


def identifier(value: Mapping[str, Any], number: int, place: str) -> str:
    """The field "id", which may be a whole number too; where there is none, the number of the line.

    Raises:
        InputError: If it is of another type.
    """
    found = number if value.get("id") is None else value["id"]
    if type(found) not in (str, int):
        raise InputError(f'{place}: "id" must be a string or a whole number, received {describe(found)}.')
    return str(found)
