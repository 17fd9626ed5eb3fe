"""Systems out of n-best lists from anywhere: whatever can choose among what they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bidibeam.errors import BidibeamError, InputError
from bidibeam.evaluation.names import TUNED
from bidibeam.evaluation.systems import SYSTEMS, System, choose_system
from bidibeam.strategies.naming import strategy_named
from bidibeam.strategies.ranking import check_requirements

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams
    from bidibeam.protocols import Requirements, Strategy
    from bidibeam.similarities.word_vectors import WordVectors
    from bidibeam.strategies.settings import StrategySettings


def systems_of(
    lists: Sequence[Sequence[Beams]],
    names: Sequence[str] | None = None,
    *,
    max_length: int,
    space: Callable[[], WordVectors] | None = None,
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
    workers: int = 1,
) -> tuple[dict[str, dict[int, System]], dict[str, str]]:
    """Let every system choose among every list that holds what it needs.

    N_B is the number of hypotheses it can choose from: the longest regular list, and with it the reverse one
    where both are used. Of two lists with the same N_B the first counts.

    Args:
        lists: Lists of the same sources, each with or without either direction.
        names: Names of systems; all of `SYSTEMS` by default, as far as they can be made.
        max_length: T of similarities that have one.
        space: Word vectors for similarities that need some.
        tuned: What was tuned, as `strategy_named` takes it.
        workers: Threads that compare hypotheses.

    Returns:
        Systems by name and N_B; and by name, why one was left out.

    Raises:
        InputError: If a system that was named, or every one, lacks something.
        SettingsError: If a system that was named has settings that cannot be.
        UnknownNameError: If nothing has such a name.
    """
    systems: dict[str, dict[int, System]] = {}
    left_out: dict[str, str] = {}
    for name in SYSTEMS if names is None else names:
        try:
            selection = _settings(name, tuned or {}).build(max_length=max_length, space=space)
            systems[name] = _at_every_size(name, selection, lists, workers)
        except BidibeamError as error:
            if names is not None:
                raise
            left_out[name] = str(error)
    if not systems:
        name, reason = next(iter(left_out.items()))
        raise InputError(f"No system can choose among these lists. {name}: {reason}")
    return systems, left_out


def _settings(name: str, tuned: Mapping[str, Mapping[str, Any]]) -> StrategySettings:
    """A system's strategy.

    Raises:
        InputError: If it is nothing without tuned settings, and there are none.
    """
    settings = strategy_named(name, tuned)
    if settings.name == TUNED and TUNED not in tuned:
        raise InputError(
            "It needs tuned settings: `bidibeam tune RUN` finds them, and `bidibeam analyse --tuned RUN` "
            "takes them."
        )
    return settings


def _at_every_size(
    name: str, selection: Strategy, lists: Sequence[Sequence[Beams]], workers: int
) -> dict[int, System]:
    """A system by N_B.

    Raises:
        InputError: If no list holds what it needs; the message is about the last one.
    """
    found: dict[int, System] = {}
    lacking: InputError | None = None
    for beams in lists:
        beam_size = _beam_size(beams, selection.requirements)
        try:
            for line in beams:
                check_requirements(line, selection.requirements, name)
        except InputError as error:
            lacking = error
            continue
        if beam_size not in found:
            found[beam_size] = choose_system(name, selection, beams, workers=workers)
    if not found and lacking is not None:
        raise InputError(_without_advice(str(lacking))) from lacking
    return found


def _beam_size(beams: Sequence[Beams], requirements: Requirements) -> int:
    return max(sum(len(line.of(direction)) for direction in requirements.directions) for line in beams)


def _without_advice(message: str) -> str:
    """What is missing, without the advice to choose another strategy: here there is none to choose."""
    missing, _, advice = message.rpartition("; ")
    return f"{missing}." if "strategy" in advice else message
