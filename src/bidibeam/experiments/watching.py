"""What an experiment tells whoever watches it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

from bidibeam.data.prepare import Progress
from bidibeam.data.prepared import PreparedData
from bidibeam.experiments.stages import Watcher
from bidibeam.training.logs import Silence, TrainingObserver

T = TypeVar("T")


class Audience(Watcher, Protocol):
    """Somebody who watches stages, and what happens in them: a terminal, a notebook, a test."""

    def track(self, items: Iterable[T], total: int | None, what: str) -> Iterator[T]:
        """The same items, counted as they go by."""
        ...

    def preparing(self) -> AbstractContextManager[Progress]:
        """Who is told how far preparation has come."""
        ...

    def prepared(self, data: PreparedData) -> None:
        """What became of the corpus."""
        ...

    def training(self) -> AbstractContextManager[TrainingObserver]:
        """Who watches training."""
        ...

    def note(self, sentence: str) -> None:
        """Something worth knowing."""
        ...


class Nobody:
    """An audience that says nothing."""

    def began(self, name: str, *, number: int, total: int, resumed: bool, why: str) -> None:
        """Nothing."""

    def ended(self, name: str, *, number: int, total: int, took_s: float) -> None:
        """Nothing."""

    def skipped(self, name: str, *, number: int, total: int) -> None:
        """Nothing."""

    def track(self, items: Iterable[T], total: int | None, what: str) -> Iterator[T]:  # noqa: ARG002
        """The same items."""
        return iter(items)

    def preparing(self) -> AbstractContextManager[Progress]:
        """Nobody."""
        return nullcontext(lambda _stage, _done, _total: None)

    def prepared(self, data: PreparedData) -> None:
        """Nothing."""

    def training(self) -> AbstractContextManager[TrainingObserver]:
        """Nobody."""
        return nullcontext(Silence())

    def note(self, sentence: str) -> None:
        """Nothing."""
