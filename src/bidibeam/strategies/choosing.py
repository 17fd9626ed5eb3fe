"""The reply alone, by a strategy's shortcut where it has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam.hypotheses import Beams, Hypothesis, NBest, Ranked, Ranking
from bidibeam.workers import shared_out

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.protocols import Strategy

EXAMPLE = Hypothesis("a b", ("a", "b"), log_prob=-1.0, length=3, score=-1.0, other_log_prob=-1.0)


def choose(selection: Strategy, beams: Beams) -> Ranking:
    """The first entry of the strategy's ranking, alone; none where nothing may answer."""
    shortcut = getattr(selection, "choose", None)  # isinstance would take as long as choosing
    if shortcut is not None:
        best: Ranked | None = shortcut(beams)
        return Ranking((best,) if best is not None else ())
    return Ranking(selection.rank(beams).entries[:1])


def choose_many(selection: Strategy, batch: Sequence[Beams]) -> list[Ranking]:
    """What `choose` makes of each source; all at once where the strategy gains by it."""
    shortcut = getattr(selection, "choose_many", None)
    if shortcut is None:
        return shared_out(lambda beams: choose(selection, beams), batch, least=least_share(selection))
    found: list[Ranked | None] = shortcut(batch)
    return [Ranking((best,) if best is not None else ()) for best in found]


def is_parallel(selection: Strategy) -> bool:
    """Whether ranking in several threads at once is safe and worth it: where the similarity says so."""
    return bool(getattr(getattr(selection, "similarity", None), "is_parallel", False))


def least_share(selection: Strategy) -> int:
    """How many sources are worth a thread; one, unless the similarity says more."""
    return int(getattr(getattr(selection, "similarity", None), "least_share", 1))


def warm_up(selection: Strategy) -> None:
    """Rank two short beams in every way, so that what is compiled when first used is compiled now.

    A similarity of somebody else's is left alone: it may not expect such a call.
    """
    if hasattr(selection, "similarity") and not is_parallel(selection):
        return
    beams = Beams("", "", "a b", regular=NBest((EXAMPLE, EXAMPLE)), reverse=NBest((EXAMPLE, EXAMPLE)))
    selection.rank(beams)
    choose(selection, beams)
    choose_many(selection, [beams, beams])
