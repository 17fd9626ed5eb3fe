"""`bidibeam chat`."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.options import search_options, strategy_options, strategy_settings

if TYPE_CHECKING:
    from bidibeam.decoding.decoder import Decoder

HELP = """\
Say something, and the model answers. Every line stands for itself: it has no memory of the lines before.
  /beams    show or hide the hypotheses behind each reply
  /help     this text
  /quit     leave (so does the end of input)"""


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@strategy_options
@search_options
def chat(run: Path, device: str | None, **flags: Any) -> None:
    """Talk to a trained run.

    RUN is what `bidibeam train` wrote. Replies go to stdout, all else to stderr, so a conversation can be
    piped through it; type /help inside.
    """
    from bidibeam.assembly import load_decoder, load_run
    from bidibeam.cli.answering import warm_up
    from bidibeam.cli.console import console
    from bidibeam.search.settings import SearchSettings

    strategy, workers = strategy_settings(flags)
    settings = SearchSettings(**flags)
    with console.status("Loading ..."):
        decoder = load_decoder(load_run(run, device=device), strategy, settings=settings, workers=workers)
        warm_up(decoder.ranker.selection)
    console.print(HELP, style="dim")
    Conversation(decoder).run()


class Conversation:
    """Reads lines until there are no more.

    Args:
        decoder: Answers them.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
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
        return f"There is no command {command}; /help lists those there are."

    def _answer(self, line: str) -> None:
        from bidibeam.cli.answering import one_line
        from bidibeam.cli.console import console
        from bidibeam.hypotheses import Beams
        from bidibeam.reporting.tables import beams_table, hypotheses_table

        (answer,) = self._decoder.answers([Beams("1", line)])
        if self._shows_beams:
            directions = self._decoder.ranker.selection.needs.directions
            if len(directions) > 1:
                winners = {"reply": answer.ranking.entries[0]} if len(answer.ranking) else {}
                console.print(beams_table("The two beams, and the pair that won", answer.beams, winners))
            else:
                (direction,) = directions
                console.print(hypotheses_table(f"{direction.value} beam", answer.beams.of(direction)))
        click.echo(one_line(answer.text))
