"""The recipe that made a number, so that it can be published and repeated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, fields
from typing import Any, ClassVar

FACT, OPTIONAL = "fact", "optional"
"""Keys of a field's metadata: what its fact is called; that it is one only where it is not the default."""


@dataclass(frozen=True, slots=True)
class Signature:
    """How a score was computed: ordered `key:value` facts, printed joined by `|`."""

    facts: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "|".join(f"{key}:{value}" for key, value in self.facts)

    def extended(self, **facts: object) -> Signature:
        """The same signature with more facts behind it."""
        return Signature((*self.facts, *((key, str(value)) for key, value in facts.items())))

    def get(self, key: str) -> str | None:
        """What the signature says of something; None if it says nothing."""
        return dict(self.facts).get(key)

    @classmethod
    def parse(cls, text: str) -> Signature:
        """The signature that was printed as this text."""
        facts = (fact.partition(":") for fact in text.split("|") if fact)
        return cls(tuple((key, value) for key, _, value in facts))

    @classmethod
    def of_settings(cls, settings: Any, **facts: object) -> Signature:
        """Some facts, and behind them every field of a dataclass that its `repr` shows.

        A field whose value has a signature of its own brings that along; one that is None is left out, as
        is an `OPTIONAL` one that is its default. A fact is called as the field is, unless the field's
        metadata have another name under `FACT`.
        """
        collected: list[tuple[str, str]] = [(key, str(value)) for key, value in facts.items()]
        for each in fields(settings):
            value: Any = getattr(settings, each.name)
            if not each.repr or value is None or _is_left_out(each, value):
                continue
            inner = getattr(value, "signature", None)
            if isinstance(inner, cls):
                collected.extend(inner.facts)
            else:
                collected.append((each.metadata.get(FACT, each.name.rstrip("_")), _format(value)))
        return cls(tuple(collected))


class Signed:
    """A dataclass whose signature is its `recipe`, a name above all, and its settings behind that."""

    recipe: ClassVar[Mapping[str, str]]

    @property
    def signature(self) -> Signature:
        """Its name and settings."""
        return Signature.of_settings(self, **self.recipe)


def recorded(settings: Any) -> dict[str, Any]:
    """The fields of a dataclass as JSON has them; an `OPTIONAL` one is there where it is not the default."""
    values = {each: getattr(settings, each.name) for each in fields(settings)}
    return {
        each.name: list(value) if isinstance(value, tuple) else value
        for each, value in values.items()
        if not _is_left_out(each, value)
    }


def _is_left_out(each: Field[Any], value: object) -> bool:
    return bool(each.metadata.get(OPTIONAL)) and value == each.default


def _format(value: object) -> str:
    """A value as a fact: a bar, which ends one, a comma within a list, and % are escaped as in addresses."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(_format(each).replace(",", "%2C") for each in value)
    shown = str(value).removesuffix(".0") if isinstance(value, float) else str(value)
    return shown.replace("%", "%25").replace("|", "%7C")


def read_fact(text: str, default: Any) -> Any:
    """The value that `text` stands for in a signature, of the type that the setting's default has.

    Raises:
        ValueError: If it is none of that type.
    """
    if isinstance(default, tuple):
        return tuple(_unescape(each) for each in text.split(","))
    if isinstance(default, bool):
        if text not in ("True", "False"):
            raise ValueError(f"{text!r} is neither True nor False.")
        return text == "True"
    return type(default)(_unescape(text))


def _unescape(text: str) -> str:
    return text.replace("%2C", ",").replace("%7C", "|").replace("%25", "%")
