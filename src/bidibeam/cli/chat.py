"""`bidibeam chat`."""

from __future__ import annotations

import sys
from contextlib import suppress
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli import options
from bidibeam.cli.console import echo, note, show, show_metadata, tell
from bidibeam.cli.inputs import allow_local, load_for_search, take_model, take_strategy
from bidibeam.cli.main import name_flags
from bidibeam.cli.output import join_lines
from bidibeam.errors import BidibeamError, SettingsError, UnknownNameError
from bidibeam.hypotheses import Beams
from bidibeam.registry import suggest
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.ranking import warm_up

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bidibeam.decoding.decoder import Answer
    from bidibeam.models.base import Model
    from bidibeam.search.settings import SearchSettings
    from bidibeam.strategies.settings import StrategySettings

PROMPT = "you> "
COMMANDS = """\
Say something, and the model answers. Every line stands for itself: it has no memory of the lines before.
  /beams                        show or hide the hypotheses behind each reply
  /strategy                     list the strategies: who chooses the reply
  /strategy NAME                switch to another: bidis, vbs, bidia wmd_t ...
  /help                         this text
  /quit                         leave (so does the end of input)"""
TWO_BEAMS = """
The model writes twice: the regular beam holds replies written from the first word to the last, the \
reverse beam replies written from the last word to the first. Neither knows of the other, so what both \
arrive at is more than a common beginning: bidis answers with the regular hypothesis that both score best, \
bidia with the one that has the closest match in the reverse beam."""
HELP = COMMANDS + TWO_BEAMS
USABLE = [name for name in STRATEGIES.names() if name != "oracle"]
"""The strategies on offer: the oracle chooses by a reference, and a conversation has none."""
QUOTES = "\"'\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"
CHOICES = {
    "bidia": "what both beams agree on (BidiA)",
    "bidis": "the best of the regular beam by both scores (BidiS)",
    "loglinear": "the best by both scores, length and agreement, weighted",
    "mbr": "what the regular beam agrees on within itself",
    "vbs": "the most likely of the regular beam",
    "vbs-tuned": "the same with tuned length settings",
    "reverse-vbs": "the most likely of the reverse beam",
    "longest": "the longest of the regular beam",
    "random": "any of the regular beam",
}
"""What answers, in a few words; of a strategy that is not here, its own first line is shown."""


@click.command()
@options.model_argument
@options.model
@options.strategy_option(USABLE)
@options.choice
@options.search
def chat(model: str | None, **flags: Any) -> None:
    """Talk to a model.

    MODEL is a run of `bidibeam train`, a Hugging Face model's folder or name, or a CTranslate2 folder; left
    out, it is the small model that comes with bidibeam. Replies go to stdout, all else to stderr, so a
    conversation can be piped through it; type /help inside.
    """
    if flags["strategy"] is not None:
        _check_known(flags["strategy"])
    strategy, workers = take_strategy(flags)
    loaded, settings, _ = load_for_search(take_model(model, flags), flags)
    conversation = ChatSession(loaded, settings, strategy, workers=workers)
    show(_help_on(loaded), style="dim")
    conversation.run()


def _help_on(model: Model) -> str:
    """What can be typed, and of a model of both directions what its two beams are."""
    return HELP if len(model.directions) > 1 else COMMANDS


class ChatSession:
    """Answers lines until there are no more; commands among them change how.

    What the command line said of its strategy holds for those that are chosen later, where it fits.
    """

    def __init__(
        self, model: Model, settings: SearchSettings, strategy: StrategySettings | None, *, workers: int
    ) -> None:
        self._model, self._settings, self._workers = model, settings, workers
        self._switch(strategy)
        self._given = self._strategy
        if strategy is None:
            tell(f"Strategy: {self._decoder.system} ({self._decoder.reason})")
        self._shows_beams = False
        self._last: Answer | None = None

    def run(self) -> None:
        """Answer every line."""
        if sys.stdin.isatty():
            with suppress(ImportError):
                import readline  # noqa: F401 (line editing and history for `input`)
        numbers = count(1)
        for line in read_typed():
            if line.startswith("/"):
                show(self._obey(line), style="dim")
            elif line:
                (self._last,) = self._decoder.answers([Beams(str(next(numbers)), line)])
                if self._model.find_unknown([line])[0]:
                    note("this has no token that the model knows.")
                if self._shows_beams:
                    show_beams(self._last)
                echo(join_lines(self._last.text))

    def _switch(self, strategy: StrategySettings | None) -> None:
        """Let a strategy answer from now on: the default where it is None."""
        from bidibeam.api import load_decoder
        from bidibeam.strategies.settings import StrategySettings

        decoder = load_decoder(self._model, strategy, settings=self._settings, workers=self._workers)
        strategy = strategy or StrategySettings.named(decoder.system)
        if decoder.ranker.strategy.requirements.reference:
            raise SettingsError(
                f"The strategy {strategy.name} chooses by a reference, and a conversation has none. Choose "
                f"one of: {', '.join(USABLE)}."
            )
        warm_up(decoder.ranker.strategy)
        self._decoder, self._strategy = decoder, strategy

    def _obey(self, line: str) -> str:
        """Carry out a command; say what it did, or why not."""
        name, *argument = line.split(maxsplit=1)
        if name == "/help":
            return _help_on(self._model)
        if name == "/beams":
            self._shows_beams = not self._shows_beams
            if self._shows_beams and self._last is not None:
                show_beams(self._last)
            return f"Hypotheses are {'shown' if self._shows_beams else 'hidden'}."
        if name == "/strategy":
            try:
                return self._choose(argument[0].strip(QUOTES)) if argument else self._list_strategies()
            except BidibeamError as error:
                return name_flags(str(error), chat)
        hint = suggest(name, ["/beams", "/strategy", "/help", "/quit"])
        return f"There is no command {line}; /help lists those there are.{hint}"

    def _list_strategies(self) -> str:
        """Show the strategies, the one in use marked; say what bidia takes besides."""
        now = self._strategy.name
        told = {f"{'*' if each == now else ' '} {each}": describe_strategy(each) for each in USABLE}
        show_metadata("Strategies", told)
        return (
            f"* answers now. bidia, mbr and loglinear take a similarity ({', '.join(SIMILARITIES.names())}) "
            "behind their names; bidia also either, expected or mean, and tuned, loglinear both."
        )

    def _choose(self, name: str) -> str:
        """Choose by another strategy from now on, and say how."""
        strategy = self._read_strategy(name)
        self._switch(strategy)
        settings = dict(self._decoder.ranker.strategy.signature.facts)
        shown = ", ".join(f"{name} {value}" for name, value in settings.items() if name != "strategy")
        told = f"From now on {strategy.name} answers{f' ({shown})' if shown else ''}."
        if settings.get("lambda") != "0":
            return told
        reason = "So" if "lambda_" in strategy.options else "Lambda 0 was tuned, so"
        return (
            f"{told} {reason} it answers as vbs does; above 0 the reverse score counts too: start chat, or "
            "decode, with --strategy bidis --lambda 0.5."
        )

    def _read_strategy(self, name: str) -> StrategySettings:
        """A system by its name, with what the command line said where the name does not say otherwise."""
        from bidibeam.strategies.settings import StrategySettings

        _check_known(name)
        chosen, given = StrategySettings.named(name), self._given
        if chosen.name == given.name:
            chosen = replace(chosen, options={**given.options, **chosen.options})
        if not chosen.compares:
            return chosen
        is_named = chosen.similarity in name.split()
        if given.compares and (not is_named or chosen.similarity == given.similarity):
            options = dict(given.similarity_options)
            if chosen.wants_tuned:
                options.pop("max_length", None)
            is_tuned = chosen.wants_tuned or given.wants_tuned
            chosen = replace(
                chosen, similarity=given.similarity, similarity_options=options, wants_tuned=is_tuned
            )
        chosen = replace(chosen, vectors=given.vectors if chosen.uses_vectors else None)
        allow_local(chosen.similarity)
        chosen.check_similarity()
        return chosen


def show_beams(answer: Answer) -> None:
    """Show both beams and the pair that won, or the one beam as the strategy ranks it."""
    from bidibeam.reporting.tables import beams_table, hypotheses_table

    entries = answer.ranking.entries
    if len(answer.beams.regular) and len(answer.beams.reverse):
        winners = {"pair": entries[0]} if entries else {}
        show(beams_table("The two beams, and the pair that won", answer.beams, winners))
    elif entries:
        ranked = [entry.hypothesis._replace(score=entry.score) for entry in entries]
        show(hypotheses_table(f"The {entries[0].direction.value} beam, as the strategy ranks it", ranked))


def _check_known(name: str) -> None:
    """Refuse a strategy that there is not, offering those of use here."""
    first = (name.split() or [""])[0]
    if first and first not in STRATEGIES.names():
        raise UnknownNameError(
            f"Unknown strategy {first!r}.{suggest(first, USABLE)} Choose one of: {', '.join(USABLE)}."
        )


def describe_strategy(name: str) -> str:
    """What a strategy does, on one line."""
    told = (STRATEGIES.get(name).__doc__ or "").strip().splitlines()
    return CHOICES.get(name, told[0] if told else "")


def read_typed() -> Iterator[str]:
    """Lines until /quit or the end of input. A prompt never goes where replies are piped to."""
    is_interactive = sys.stdin.isatty()
    prompt = PROMPT if is_interactive and sys.stdout.isatty() else ""
    while True:
        if is_interactive and not prompt:
            click.echo(PROMPT, err=True, nl=False)
        try:
            line = input(prompt).strip()
        except EOFError:
            if is_interactive:
                click.echo(err=True)
            return
        if line == "/quit":
            return
        yield line
