"""A number and the recipe that made it, so that it can be published and repeated."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Signature:
    """How a score was computed: ordered `key:value` facts, printed joined by `|`."""

    facts: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return "|".join(f"{key}:{value}" for key, value in self.facts)

    def extended(self, **facts: object) -> Signature:
        """The same signature with more facts behind it."""
        return Signature((*self.facts, *((key, str(value)) for key, value in facts.items())))


@dataclass(frozen=True, slots=True)
class Score:
    """A metric's value and its signature."""

    name: str
    value: float
    signature: Signature

    def __str__(self) -> str:
        return f"{self.name} = {self.value:.4g} ({self.signature})"
