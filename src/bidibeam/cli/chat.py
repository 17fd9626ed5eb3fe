"""`bidibeam chat`."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.decode import search_options

if TYPE_CHECKING:
    from bidibeam.decoding.decoder import Decoder

HELP = """\
Say something, and the model answers. Every line stands for itself: it has no memory of the lines before.
  /beams    show or hide the hypotheses behind each reply
  /reverse  let the reverse decoder answer, or the regular one again
  /help     this text
  /quit     leave (so does the end of input)"""


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@search_options
def chat(run: Path, device: str | None, **search: Any) -> None:
    """Talk to a trained run.

    RUN is what `bidibeam train` wrote. Replies go to stdout, all else to stderr, so a conversation can be
    piped through it; type /help inside.
    """
    from bidibeam.assembly import load_decoder, load_run
    from bidibeam.cli.console import console
    from bidibeam.search.settings import SearchSettings

    settings = SearchSettings(**search)
    with console.status("Loading ..."):
        loaded = load_run(run, device=device)
        decoders = {
            direction.value: load_decoder(loaded, direction=direction, settings=settings)
            for direction in loaded.model.directions
        }
    console.print(HELP, style="dim")
    Conversation(decoders).run()


class Conversation:
    """Reads lines until there are no more.

    Args:
        decoders: One for each direction that the run has.
    """

    def __init__(self, decoders: dict[str, Decoder]) -> None:
        self._decoders = decoders
        self._direction = next(iter(decoders))
        self._shows_beams = False

    def run(self) -> None:
        """Answer every line."""
        from bidibeam.cli.console import console

        is_interactive = sys.stdin.isatty()
        if is_interactive:
            with suppress(ImportError):
                import readline  # noqa: F401 (line editing and history for `input`)
        while True:
            try:
                line = input("you> " if is_interactive else "").strip()
            except EOFError:
                return
            if line == "/quit":
                return
            if line.startswith("/"):
                console.print(self._obey(line), style="dim")
            elif line:
                self._answer(line)

    def _obey(self, command: str) -> str:
        """Carry out a command; say what it did."""
        if command == "/help":
            return HELP
        if command == "/beams":
            self._shows_beams = not self._shows_beams
            return f"Hypotheses are {'shown' if self._shows_beams else 'hidden'}."
        if command == "/reverse":
            others = [name for name in self._decoders if name != self._direction]
            if not others:
                return f"This run has only the {self._direction} decoder."
            self._direction = others[0]
            return f"The {self._direction} decoder answers now."
        return f"There is no command {command}; /help lists those there are."

    def _answer(self, line: str) -> None:
        from bidibeam.cli.console import console
        from bidibeam.reporting.tables import hypotheses_table

        ranking = self._decoders[self._direction].decode([line])[0]
        if self._shows_beams:
            console.print(hypotheses_table(f"{self._direction} beam", ranking))
        click.echo(ranking.best.text if len(ranking) else "")
