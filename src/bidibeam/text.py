"""Text from elsewhere, and values, as a terminal, a page or Markdown may show them."""

from __future__ import annotations

import re
from typing import Any

UNPRINTABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, by which text commands a terminal or turns around what stands beside it."""


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
