"""Text from elsewhere as a terminal, a page or Markdown may show it."""

from __future__ import annotations

import re

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
