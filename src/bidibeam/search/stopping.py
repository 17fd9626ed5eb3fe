"""Stopping rules: when a source's search is over, and how wide its beam is until then."""

from __future__ import annotations

import math
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING

from bidibeam.errors import SettingsError
from bidibeam.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

    from bidibeam.protocols import SearchProgress, StoppingRule

MOST_PATIENCE = 1_000_000
"""Beyond any beam there is; far more overflows."""

STOPPING: Registry[StoppingRule] = Registry(
    "stopping rule",
    group="bidibeam.stopping",
    locations={
        "shrinking": "bidibeam.search.stopping:Shrinking",
        "constant": "bidibeam.search.stopping:Constant",
        "patience": "bidibeam.search.stopping:Patience",
        "heuristic": "bidibeam.search.stopping:Heuristic",
        "optimal": "bidibeam.search.stopping:Optimal",
        "exhaust": "bidibeam.search.stopping:Exhaust",
    },
)


def stopping_rule(spec: str) -> StoppingRule:
    """Returns the rule that `spec` names: "shrinking", or with the rule's argument, "patience=1.5"."""
    if not isinstance(spec, str):
        raise SettingsError(f"stopping must be a name, not {spec!r}.")
    name, equals, argument = spec.partition("=")
    factory = STOPPING.get(name)
    if not equals:
        return factory()
    if not signature(factory).parameters:
        raise SettingsError(f"stopping must be {name!r}, not {spec!r}: the rule takes no argument.")
    try:
        number = float(argument)
    except ValueError:
        raise SettingsError(f"stopping must have a number after '{name}=', not {argument!r}.") from None
    return factory(number)


@dataclass(frozen=True, slots=True)
class Constant:
    """The live beam stays B; over when B have finished, of which the B best are kept.

    What fairseq does, and Hugging Face with `early_stopping=True`.
    """

    def live_beams(self, beam_size: int, finished: Tensor) -> Tensor:
        """Returns B for every source, (sources,)."""
        return finished.new_full(finished.shape, beam_size)

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Tells where B hypotheses have ended, (sources,)."""
        return progress.finished >= progress.beam_size


@dataclass(frozen=True, slots=True)
class Shrinking(Constant):
    """The paper's rule: the live beam is B less the finished hypotheses; over when B have finished.

    The cheapest rule: the beam gets narrower as it goes. It answers with the first B to finish, which
    need not be the best.
    Reference: Bahdanau et al. (2015), arXiv:1409.0473; the reading of Colombo et al. (2021).
    """

    def live_beams(self, beam_size: int, finished: Tensor) -> Tensor:
        """Returns B less those that have ended, (sources,)."""
        return beam_size - finished


@dataclass(frozen=True, slots=True)
class Patience(Constant):
    """Over when `factor` times B have finished.

    A factor of 1 is the constant rule; below 1 fewer than B hypotheses may come back.
    Reference: Kasai et al. (2022), arXiv:2204.05424.
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < self.factor <= MOST_PATIENCE:
            told = f"a factor of patience above 0 and at most {MOST_PATIENCE:,}"
            raise SettingsError(f"stopping must have {told}, not {self.factor:g}.", "stopping")

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Tells where `factor` times B hypotheses have ended, (sources,)."""
        return progress.finished >= math.ceil(self.factor * progress.beam_size)


@dataclass(frozen=True, slots=True)
class Heuristic(Constant):
    """Over when B have finished and the best live hypothesis scores no better as it is.

    A longer reply could still score better where length is rewarded: `optimal` waits for that. What Hugging
    Face does with `early_stopping=False`.
    """

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Tells where B have finished and the best live one is not above the worst of them, (sources,)."""
        best = progress.penalty.score(progress.live_log_probs[:, 0], progress.current)  # (sources,)
        return (progress.finished >= progress.beam_size) & (best <= progress.kept_scores[:, -1])


@dataclass(frozen=True, slots=True)
class Optimal(Constant):
    """Over when no live hypothesis can still enter the B best.

    It answers as `exhaust` does, often much sooner: what a live hypothesis can still reach is bounded
    by its log-probability now and the kindest length penalty to come.
    Reference: Huang et al. (2017), arXiv:1709.04109 (without the penalty).
    """

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Tells where the worst kept score is out of reach, (sources,); a tie would come too late."""
        penalty, live = progress.penalty, progress.live_log_probs
        reachable = penalty.bound(live, progress.shortest, progress.longest)  # (sources, beams)
        return progress.kept_scores[:, -1] >= reachable.amax(1)


@dataclass(frozen=True, slots=True)
class Exhaust(Constant):
    """Over at the maximum length only."""

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Tells that no source is done, (sources,)."""
        return progress.finished < 0
