"""Text from elsewhere, and values, as a terminal, a page or Markdown may show them; texts, packed."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Sequence
from operator import eq
from typing import Any, overload

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, by which text commands a terminal or turns around what stands beside it."""


class PackedTexts(Sequence[str]):
    """Texts in one buffer: 8 bytes each besides their letters, where a list of strings takes 57."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self._letters, self._ends = bytearray(), array("Q", [0])
        for text in texts:
            self.append(text)

    def append(self, text: str) -> None:
        """Add a text."""
        self._letters += text.encode("utf-8", "surrogatepass")
        self._ends.append(len(self._letters))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> PackedTexts: ...
    def __getitem__(self, place: int | slice) -> str | PackedTexts:
        places = range(len(self))[place]
        if isinstance(places, range):
            return PackedTexts(map(self.__getitem__, places))
        return self._letters[self._ends[places] : self._ends[places + 1]].decode("utf-8", "surrogatepass")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedTexts):
            return self._ends == other._ends and self._letters == other._letters
        if not isinstance(other, list):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]


class PackedGroups(Sequence[tuple[str, ...]]):
    """Groups of texts likewise, such as the references of each source."""

    def __init__(self, groups: Iterable[Iterable[str]] = ()) -> None:
        self._texts, self._ends = PackedTexts(), array("I", [0])
        for group in groups:
            for text in group:
                self._texts.append(text)
            self._ends.append(len(self._texts))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> tuple[str, ...]: ...
    @overload
    def __getitem__(self, place: slice) -> PackedGroups: ...
    def __getitem__(self, place: int | slice) -> tuple[str, ...] | PackedGroups:
        places = range(len(self))[place]
        if isinstance(places, range):
            return PackedGroups(map(self.__getitem__, places))
        return tuple(self._texts[at] for at in range(self._ends[places], self._ends[places + 1]))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedGroups):
            return self._ends == other._ends and self._texts == other._texts
        if not isinstance(other, list):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]


def printable(text: str) -> str:
    """The text without control characters, but for tabs and line breaks."""
    return UNPRINTABLE.sub("", text)


def escape_markdown(text: object) -> str:
    """Text escaped so that Markdown shows it unchanged, in a cell of a table too."""
    line = " ".join(printable(str(text)).split())
    line = re.sub(r"([\\`*\[\]|~$])", r"\\\1", line)
    line = re.sub(r"(?<![^\W_])_|_(?![^\W_])", r"\\_", line)  # between letters it means nothing
    line = re.sub(r"^(#+ |[+-] |>)", r"\\\1", line)
    line = re.sub(r"^(\d+)([.)] )", r"\1\\\2", line)
    return line.replace("&", "&amp;").replace("<", "&lt;")


def format_value(value: Any) -> str:
    """Formats any fact: whole numbers in groups of three, others to four digits, lists with commas."""
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: "none"}[value]
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value))
    return str(value)


def spell_name(name: str) -> str:
    """A setting's name as words."""
    return name.rstrip("_").replace("_", " ")
