"""What systems are called: by their files, by the strategies that choose, or by both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.strategies.settings import StrategySettings


@dataclass(frozen=True)
class NamedStrategy:
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


def named_strategies(names: Sequence[str], tuned_file: Path | None) -> list[NamedStrategy]:
    """The strategies that systems' names stand for.

    Raises:
        UnknownNameError: If there is no such strategy or similarity.
        SettingsError: If a name says more than its strategy has, or less than it needs.
        RunError: If what was tuned cannot be read.
    """
    if tuned_file is None:
        return [_strategy(name, {}, {}) for name in names]
    from bidibeam.api.tuned import TunedSettings  # brings PyTorch, which takes seconds

    tuned = TunedSettings.at(tuned_file)
    facts = {"tuned": tuned.name}
    return [replace(_strategy(name, tuned.options, facts), tuned=tuned) for name in names]


def system_names(files: Sequence[tuple[str | None, str]], strategies: Sequence[NamedStrategy]) -> list[str]:
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


def _stem(file: str) -> str:
    """A file's name without its endings."""
    path = Path(file)
    return Path(path.stem if path.suffix in (".gz", ".xz") else path.name).stem


def _strategy(name: str, tuned: dict[str, dict[str, float]], facts: dict[str, str]) -> NamedStrategy:
    from bidibeam.cli.options import allow_local
    from bidibeam.strategies.naming import SystemName, strategy_named

    words, settings = SystemName.of(name), strategy_named(name, tuned)
    allow_local(words.similarity)
    _ = settings.requirements  # asked for here, so that what is wrong is said before anything is read
    is_tuned = words.is_tuned or words.strategy in tuned
    return NamedStrategy(" ".join(name.split()), settings, facts if is_tuned else {})
