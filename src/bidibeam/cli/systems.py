"""Systems from files: replies as they are, or lists that strategies choose among."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.cli.lists import note_other_model

if TYPE_CHECKING:
    from bidibeam.cli.inputs import Input
    from bidibeam.cli.system_names import NamedStrategy
    from bidibeam.evaluation.systems import System
    from bidibeam.protocols import Strategy


def replied(inputs: Sequence[Input], names: Sequence[str]) -> list[System]:
    """A system for each file, its replies as they are."""
    from bidibeam._version import __version__
    from bidibeam.evaluation.systems import System
    from bidibeam.hypotheses import Direction, Ranked, Ranking

    systems = []
    for name, each in zip(names, inputs, strict=True):
        rankings = [
            Ranking(tuple(Ranked(reply, Direction.REGULAR, 0, 0.0) for reply in beams.regular))
            for beams in each.beams
        ]
        keys = [key for key, _ in each.signature.facts]
        signature = each.signature if "bidibeam" in keys else each.signature.extended(bidibeam=__version__)
        systems.append(System(name, each.beam_size, each.beams, rankings, signature))
    return systems


def chosen(
    inputs: Sequence[Input],
    names: Sequence[str],
    strategies: Sequence[NamedStrategy],
    *,
    max_length: int,
    vectors: Path | None,
    workers: int,
) -> list[System]:
    """A system for each file and strategy: what the strategy chooses among the file's lists.

    Raises:
        InputError: With file and line, if a source has not what a strategy needs.
        SettingsError: If word vectors are missing, or of no use.
    """
    for each in inputs:
        for strategy in strategies:
            _check_lists(each, strategy)
        used = next((strategy.tuned for strategy in strategies if strategy.tuned and strategy.facts), None)
        if used is not None:
            note_other_model(used, each.file, each.model)
    selections = _selections(inputs, strategies, max_length=max_length, vectors=vectors)
    choices = [
        (each, strategy, selection)
        for each in inputs
        for strategy, selection in zip(strategies, selections, strict=True)
    ]
    return [_system(name, *choice, workers=workers) for name, choice in zip(names, choices, strict=True)]


def _check_lists(each: Input, strategy: NamedStrategy) -> None:
    """Make sure that every source has what a strategy needs."""
    from bidibeam.errors import InputError
    from bidibeam.strategies.ranking import check_requirements

    requirements = strategy.settings.requirements
    for index, beams in enumerate(each.beams):
        try:
            check_requirements(beams, requirements, strategy.settings.name)
        except InputError as error:
            raise InputError(f"{each.place(index)}: {error}") from error


def _selections(
    inputs: Sequence[Input], strategies: Sequence[NamedStrategy], *, max_length: int, vectors: Path | None
) -> list[Strategy]:
    """The strategies, ready to choose."""
    from bidibeam.cli.rerank import note_length, word_space
    from bidibeam.errors import SettingsError

    tokens = {
        hypothesis.tokens
        for each in inputs
        for beams in each.beams
        for hypothesis in (*beams.regular, *beams.reverse)
    }
    reading = word_space(vectors, set().union(*tokens) if vectors is not None else set())
    space = None if reading is None else cache(reading)
    selections = [strategy.settings.build(max_length=max_length, space=space) for strategy in strategies]
    if space is not None and not space.cache_info().misses:
        raise SettingsError("No --strategy uses word vectors: leave --vectors out.")
    for selection in selections:
        if hasattr(getattr(selection, "similarity", None), "max_length"):
            note_length(selection, max(map(len, tokens)))
            break
    return selections


def _system(name: str, each: Input, strategy: NamedStrategy, selection: Strategy, *, workers: int) -> System:
    from bidibeam._version import __version__
    from bidibeam.cli.answering import warm_up, watched
    from bidibeam.cli.rerank import BATCH_SIZE
    from bidibeam.decoding.decoder import Ranker
    from bidibeam.evaluation.systems import System

    warm_up(selection)
    answers = Ranker(selection, workers, replies_only=True).stream(each.beams, BATCH_SIZE)
    rankings = [answer.ranking for answer in watched(answers, len(each.beams), name)]
    directions = selection.requirements.directions
    beam_size = max(sum(len(beams.of(direction)) for direction in directions) for beams in each.beams)
    facts: dict[str, Any] = {**strategy.facts, **dict(each.signature.facts)}
    signature = selection.signature.extended(**facts, bidibeam=__version__)
    return System(name, beam_size, each.beams, rankings, signature)
