"""Options that commands share are the same option."""

from __future__ import annotations

from importlib import import_module

import click
import pytest

COMMANDS = ("decode", "chat", "rerank", "evaluate", "analyse", "tune")


def options(command: str) -> dict[str, click.Option]:
    """A command's options by their first name."""
    found = getattr(import_module(f"bidibeam.cli.{command}"), command)
    return {each.opts[0]: each for each in found.params if isinstance(each, click.Option)}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("--vectors", {*COMMANDS}),
        ("--workers", {"decode", "chat", "rerank", "evaluate", "analyse"}),
        ("--tuned", {"rerank", "evaluate", "analyse"}),
        ("--max-length", {"rerank", "evaluate", "analyse"}),
        ("--batch-size", {"decode", "tune"}),
        ("--device", {"decode", "chat", "tune", "reproduce"}),
        ("--beam-size", {"decode", "chat", "tune"}),
    ],
)
def test_an_option_says_the_same_wherever_it_is(name: str, expected: set[str]) -> None:
    found = {command: options(command)[name] for command in expected}

    assert len({(option.name, option.help, str(option.default)) for option in found.values()}) == 1
