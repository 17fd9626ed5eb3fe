"""Systems from files: replies as they are, or lists that strategies choose among."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.cli.lists import note_other_model

if TYPE_CHECKING:
    import io

    from bidibeam.assembly.tuned import TunedSettings
    from bidibeam.evaluation.systems import System
    from bidibeam.hypotheses import Beams
    from bidibeam.protocols import Selection
    from bidibeam.scores import Signature
    from bidibeam.selection.settings import StrategySettings


@dataclass(frozen=True)
class Input:
    """A file of replies or of n-best lists, read whole.

    Attributes:
        file: Its name.
        numbers: The line of each source.
        beams: Each source, with all its hypotheses if a strategy is to choose, or else with its reply alone.
        has_lists: Whether it is an n-best file.
        beam_size: N_B, as far as the file says.
        signature: How its replies came about, as far as the file says.
        model: Who wrote its lists, as far as the file says.
    """

    file: str
    numbers: Sequence[int]
    beams: Sequence[Beams]
    has_lists: bool
    beam_size: int
    signature: Signature
    model: str | None = None

    def place(self, index: int) -> str:
        """What a message calls a source."""
        return f"{self.file}, line {self.numbers[index]}"


@dataclass(frozen=True)
class Strategy:
    """A strategy by a system's name.

    Attributes:
        name: That name, "bidia wmd_t".
        settings: What it stands for.
        facts: What else its signature says.
        tuned: Where its settings may come from.
    """

    name: str
    settings: StrategySettings
    facts: dict[str, str]
    tuned: TunedSettings | None = None


def named_file(argument: str) -> tuple[str | None, str]:
    """FILE, or NAME=FILE, as the name, if there is one, and the file.

    Raises:
        SettingsError: If the name or the file is left out.
    """
    from bidibeam.errors import SettingsError

    name, equals, file = argument.partition("=")
    if not equals or Path(argument).exists():
        return None, argument
    if not name.strip() or not file:
        raise SettingsError(f"A system is FILE or NAME=FILE, not {argument!r}.")
    return name.strip(), file


def system_names(files: Sequence[tuple[str | None, str]], strategies: Sequence[Strategy]) -> list[str]:
    """What the systems are called: as the file, as the strategy, or as both where there are several of each.

    Raises:
        SettingsError: If two have the same name.
    """
    from bidibeam.errors import SettingsError

    names = []
    for given, file in files:
        if not strategies:
            names.append(given or _stem(file))
            continue
        prefix = f"{given or _stem(file)}: " if given or len(files) > 1 else ""
        names += [f"{prefix}{strategy.name}" for strategy in strategies]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SettingsError(
            f"Two systems are called {twice!r}. Name the files, NAME=FILE, and give no --strategy twice."
        )
    return names


def named_strategies(names: Sequence[str], tuned_file: Path | None) -> list[Strategy]:
    """The strategies that systems' names stand for.

    Raises:
        UnknownNameError: If there is no such strategy or similarity.
        SettingsError: If a name says more than its strategy has, or less than it needs.
        RunError: If what was tuned cannot be read.
    """
    if tuned_file is None:
        return [_strategy(name, {}, {}) for name in names]
    from bidibeam.assembly.tuned import TunedSettings  # brings PyTorch, which takes seconds

    tuned = TunedSettings.at(tuned_file)
    facts = {"tuned": tuned.name}
    return [replace(_strategy(name, tuned.options, facts), tuned=tuned) for name in names]


def read_input(file: str, *, whole_lists: bool) -> Input:
    """Read a file, or stdin if it is -.

    Args:
        file: Its name.
        whole_lists: Whether all hypotheses are wanted, for strategies to choose among.

    Raises:
        InputError: If it is empty, cannot be read, or has no lists though they are wanted.
    """
    from bidibeam.errors import InputError
    from bidibeam.interchange import nbest, replies

    stream = replies.whole(sys.stdin.buffer if file == "-" else Path(file))
    has_lists = replies.is_nbest(stream)
    if whole_lists and not has_lists and stream.getvalue():
        raise InputError(
            f"{file} holds text, one reply a line, and a --strategy chooses among the lists of an n-best "
            "file. Give such a file, or leave --strategy out."
        )
    if whole_lists:
        stream.seek(0)
        lines = [replies.Reply(number, beams) for number, beams in nbest.read_numbered(stream)]
    else:
        lines = list(replies.read_replies(stream))
    if not lines:
        raise InputError(f"{file} is empty; it must hold one reply a line, or n-best lists.")
    if not has_lists:
        _note_tab(file, stream)
    return Input(
        file,
        [line.number for line in lines],
        [line.beams for line in lines],
        has_lists,
        beam_size=max(line.found for line in lines),
        signature=_signature(file, stream, lines[0].signature),
        model=replies.model_of(stream) if has_lists else None,
    )


def with_references(inputs: Sequence[Input], references_file: str | None) -> list[Input]:
    """The same with a reference for every source: those of a file, or else those of the n-best lines.

    Raises:
        InputError: If one is missing, or all are empty; if there are not as many as replies, or if the
            inputs' sources differ.
    """
    lists = [each for each in inputs if each.has_lists]
    for each in inputs:
        _check_counts((inputs[0].file, len(inputs[0].beams)), (each.file, len(each.beams)))
    for each in lists:
        _check_same("source", each, lists[0])
    if references_file is None:
        references = _own_references(inputs[0].file, lists)
    else:
        references = _read_references(references_file)
        _check_counts(
            (inputs[0].file, len(inputs[0].beams)), (references_file, len(references)), "references"
        )
    _check_words(references_file or lists[0].file, references)
    return [
        replace(
            each,
            beams=[
                replace(beams, reference=reference)
                for beams, reference in zip(each.beams, references, strict=True)
            ],
        )
        for each in inputs
    ]


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
    strategies: Sequence[Strategy],
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


def _stem(file: str) -> str:
    """A file's name without its endings."""
    path = Path(file)
    return Path(path.stem if path.suffix in (".gz", ".xz") else path.name).stem


def _strategy(name: str, tuned: dict[str, dict[str, float]], facts: dict[str, str]) -> Strategy:
    from bidibeam.cli.options import allow_local
    from bidibeam.selection.naming import SystemName, strategy_named

    words, settings = SystemName.of(name), strategy_named(name, tuned)
    allow_local(words.similarity)
    _ = settings.needs  # asked for here, so that what is wrong is said before anything is read
    is_tuned = words.is_tuned or words.strategy in tuned
    return Strategy(" ".join(name.split()), settings, facts if is_tuned else {})


def _signature(file: str, stream: io.StringIO, ranked_by: str | None) -> Signature:
    """How a file's replies came about, where it says so, and which file it is."""
    import hashlib

    from bidibeam.scores import Signature

    facts = [fact.partition(":") for fact in ranked_by.split("|")] if ranked_by else []
    content = stream.getvalue().encode("utf-8", "surrogatepass")
    name = f"{Path(file).name}@{hashlib.blake2b(content).hexdigest()[:8]}"
    return Signature(tuple((key, value) for key, _, value in facts)).extended(file=name)


def _note_tab(file: str, stream: io.StringIO) -> None:
    """Say so if replies hold a tab: they may be a table."""
    from bidibeam.cli.console import console
    from bidibeam.interchange.replies import first_tab

    number = first_tab(stream)
    if number is not None:
        told = f"Note: {file}, line {number} holds a tab; the whole line counts as the reply."
        console.print(told, style="dim", soft_wrap=True)


def _read_references(file: str) -> list[str]:
    from bidibeam.errors import InputError
    from bidibeam.interchange import replies

    references = replies.read_references(replies.whole(sys.stdin.buffer if file == "-" else Path(file)))
    if not references:
        raise InputError(f"{file} is empty; it must hold one reference for each reply.")
    return references


def _own_references(file: str, lists: Sequence[Input]) -> list[str]:
    """Those that the n-best files bring along; it is enough if one of them has a source's."""
    from bidibeam.errors import InputError

    if not lists:
        raise InputError(f"{file} holds replies and no references: give --references FILE, one a line.")
    for each in lists:
        _check_same("reference", each, lists[0])
    references = []
    for index, lines in enumerate(zip(*(each.beams for each in lists), strict=True)):
        found = next((beams.reference for beams in lines if beams.reference is not None), None)
        if found is None:
            raise InputError(
                f'{lists[0].place(index)}: source {lines[0].id!r} has no "reference", so its reply cannot be '
                "scored. Add it, or give --references FILE."
            )
        references.append(found)
    return references


def _check_words(file: str, references: Sequence[str]) -> None:
    """Refuse references without a single word among them; some of them may be empty."""
    from bidibeam.data.words import split
    from bidibeam.errors import InputError

    if not any(map(split, references)):
        raise InputError(
            f"Every reference of {file} is empty, so there is nothing to score replies by. Give --references "
            "FILE, one a line."
        )


def _check_counts(one: tuple[str, int], other: tuple[str, int], what: str = "replies") -> None:
    from bidibeam.cli.console import counted
    from bidibeam.errors import InputError

    if one[1] != other[1]:
        theirs = counted(other[1], "reply" if what == "replies" else what.removesuffix("s"), what)
        raise InputError(
            f"{one[0]} has {counted(one[1], 'reply', 'replies')}, but {other[0]} has {theirs}; line n of "
            "each must belong to the same source."
        )


def _check_same(key: str, one: Input, other: Input) -> None:
    """Refuse n-best files of which a source or reference differs; what is not said cannot differ."""
    from bidibeam.errors import InputError

    for index, (ours, theirs) in enumerate(zip(one.beams, other.beams, strict=True)):
        here, there = getattr(ours, key), getattr(theirs, key)
        if here and there and here != there:
            raise InputError(
                f"{one.place(index)}: its {key} is {here!r}, but {other.place(index)} has {there!r}. Systems "
                "are compared on the same sources in the same order."
            )


def _check_lists(each: Input, strategy: Strategy) -> None:
    """Make sure that every source has what a strategy needs."""
    from bidibeam.errors import InputError
    from bidibeam.selection.ranking import check_needs

    needs = strategy.settings.needs
    for index, beams in enumerate(each.beams):
        try:
            check_needs(beams, needs, strategy.settings.name)
        except InputError as error:
            raise InputError(f"{each.place(index)}: {error}") from error


def _selections(
    inputs: Sequence[Input], strategies: Sequence[Strategy], *, max_length: int, vectors: Path | None
) -> list[Selection]:
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


def _system(name: str, each: Input, strategy: Strategy, selection: Selection, *, workers: int) -> System:
    from bidibeam._version import __version__
    from bidibeam.cli.answering import warm_up, watched
    from bidibeam.cli.rerank import BATCH_SIZE
    from bidibeam.decoding.decoder import Ranker
    from bidibeam.evaluation.systems import System

    warm_up(selection)
    answers = Ranker(selection, workers, replies_only=True).stream(each.beams, BATCH_SIZE)
    rankings = [answer.ranking for answer in watched(answers, len(each.beams), name)]
    directions = selection.needs.directions
    beam_size = max(sum(len(beams.of(direction)) for direction in directions) for beams in each.beams)
    facts: dict[str, Any] = {**strategy.facts, **dict(each.signature.facts)}
    signature = selection.signature.extended(**facts, bidibeam=__version__)
    return System(name, beam_size, each.beams, rankings, signature)
