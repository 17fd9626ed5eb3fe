"""The seams. Each is all that one part of the system knows of another; none has a base class.

Data flows one way: text, ids, encoder, beams, scores, strategy, reply.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    import numpy as np
    import torch
    from torch import Tensor

    from bidibeam.hypotheses import Beams, Direction, Hypothesis, Ranking
    from bidibeam.scores import Signature

    Array = np.ndarray[tuple[int, ...], np.dtype[Any]]
    Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
    Length = int | Tensor  # of hypotheses; a 0-dim tensor, float64, while a CUDA graph is captured

State = TypeVar("State")
LoadedState = TypeVar("LoadedState", contravariant=True)


class StepScorer(Protocol[State]):
    """All a search knows of a model. The model owns its state; the search never looks inside.

    A state holds rows, grouped by source: the same number of rows for every source, and all rows of a
    source together. What depends on the source alone (encoder states, attention keys) belongs in the
    state once per source, however many rows there are. A scorer whose logits are log-probabilities already,
    some of them perhaps taken out, says so with an attribute `is_normalised = True`; the search then takes
    them as they are.
    """

    def start(self, sources: Tensor) -> State:
        """Read the sources, (sources, length) padded ids; the state has one row for each."""

    def step(self, last_tokens: Tensor, state: State) -> tuple[Tensor, State]:
        """Read one more token per row, (rows,); return next-token logits, (rows, vocabulary), float32.

        The logits need no normalisation: the search takes their log-sum-exp. It leaves them as they are
        and reads them only until the next step, so a scorer may write each step's into the same memory.
        """

    def select(self, state: State, rows: Tensor, sources: Tensor | None = None) -> State:
        """Repeat, reorder and drop rows.

        Args:
            state: The state to choose from.
            rows: (sources, beams), indices of rows of `state`. Every line names rows of one source of
                `state`, and sources keep their order.
            sources: (sources,), which of the state's sources the lines are of; None if all are there. One
                source may have several lines.
        """


class StaticState(Protocol[LoadedState]):
    """A search's state in memory that never moves, so that a CUDA graph can replay steps on it.

    `step` and `reorder` run in Python only while a graph is captured; later searches replay what they asked
    of the device. So everything they read or write stays at its address, every shape is fixed, what changes
    from step to step (the position, say) is a tensor that they advance in place, and nothing waits for the
    device: no `.item()`, no `if` on a tensor, no mask as an index.

    Attributes:
        dtype: The precision of the model. The first replay may differ from an eager step by its rounding.
    """

    dtype: torch.dtype

    def load(self, state: LoadedState) -> None:
        """Copy a state into this memory: all that later steps read, with the position set back.

        It has the same key, sources and rows as the state that the memory was made for, but other sources,
        perhaps shorter ones. It is left as it is, since the search may go on with it.
        """

    def step(self, tokens: Tensor) -> Tensor:
        """Read one more token per row, (rows,); return next-token logits, (rows, vocabulary)."""

    def reorder(self, rows: Tensor) -> None:
        """Put what row `rows[i]` holds into row i, in place: (rows,), each within the rows of its source."""


class StaticScorer(StepScorer[State], Protocol[State]):
    """A step scorer whose steps after the first can be replayed as one CUDA graph.

    A search takes its first step with `step` and `select`, which give every source its B rows. From there on
    it replays, on a GPU, if a search with the same key was captured before.

    Attributes:
        graphs: A `bidibeam.search.graphs.GraphCache`, kept as long as the weights: one for all scorers of a
            model.
    """

    graphs: Any

    def static_key(self, state: State) -> Hashable | None:
        """Return what a graph depends on, after the first step; None if this state needs an eager search.

        Equal for states that `StaticState.load` may copy into the same memory: lengths rounded up to a few
        sizes, the precision, the addresses of the weights. The search itself adds the number of sources,
        its settings and the roles of tokens. This must not wait for the device.
        """

    def static_state(self, state: State, steps: int) -> StaticState[State]:
        """Return memory for states of as many sources and rows, with room for so many more tokens.

        It need not hold the state yet: the search loads it.
        """


class SequenceScorer(Protocol):
    """Log-probabilities of given sequences under one direction of a model, by teacher forcing."""

    @property
    def end_id(self) -> int:
        """The token that ends a sequence."""

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Token ids of texts as the model's targets, in reading order, each with its end token."""

    def log_probs(
        self,
        sources: Sequence[str],
        sequences: Sequence[Sequence[Sequence[int]]],
        *,
        first: int | None = None,
    ) -> list[list[float]]:
        """Score each source's sequences.

        Args:
            sources: The sources.
            sequences: Token ids in reading order, as `encode` and `Hypothesis.ids` have them; the end token
                is scored where it is there.
            first: Score only so many of the tokens that this direction writes first: the log-probability of
                the whole is at most that.
        """


class LengthPenalty(Protocol):
    """How a log-probability becomes a score that is fair to long replies."""

    def score(self, log_prob: Tensor, length: Length) -> Tensor:
        """The scores of hypotheses with |Y| = `length`, in the shape of `log_prob`."""

    def bound(self, log_prob: Tensor, shortest: Length, longest: Length) -> Tensor:
        """The best scores that they can still reach by ending with |Y| between `shortest` and `longest`."""


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """What a stopping rule may look at after a step."""

    beam_size: int  # B
    current: Length  # |Y| of a live hypothesis as it is, at least 1
    shortest: Length  # |Y| of a live hypothesis that ends at the next step
    longest: int  # |Y| of a live hypothesis that ends at T, the last step
    finished: Tensor  # (sources,), how many hypotheses have ended so far
    kept_scores: Tensor  # (sources, B), the best finished scores, best first, -inf where there is none yet
    live_log_probs: Tensor  # (sources, beams), log-probabilities of live hypotheses, -inf in empty slots
    penalty: LengthPenalty  # the one in force


class StoppingRule(Protocol):
    """When a source's search is over, and how wide its live beam is until then."""

    def live_beams(self, beam_size: int, finished: Tensor) -> Tensor:
        """How many hypotheses each source goes on with, (sources,), given how many have ended.

        At most `beam_size`, and never more than when fewer had ended.
        """

    def is_done(self, progress: SearchProgress) -> Tensor:
        """Which sources need no further step, (sources,), boolean."""


class Similarity(Protocol):
    """How alike hypotheses are, as a whole matrix; always higher is closer.

    A similarity is not symmetric in general: hypotheses are judged by references, which are hypotheses too,
    such as those of the other direction. One that is safe to call from several threads at once, and gains by
    it, says so with an attribute `is_parallel = True`. One that can find the highest pair without the whole
    matrix is a `ClosestPairFinder` too.
    """

    def pairwise(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> Matrix:
        """Compares each hypothesis with each reference: (hypotheses, references), float64, finite."""


class ClosestPair(NamedTuple):
    """The most similar pair of two lists: indices, counted from 0, and the similarity."""

    hypothesis: int
    reference: int
    value: float

    @classmethod
    def of(cls, matrix: Matrix) -> ClosestPair:
        """Returns the first highest entry, row by row."""
        row, column = divmod(int(matrix.argmax()), matrix.shape[1])
        return cls(row, column, float(matrix[row, column]))


@runtime_checkable
class ClosestPairFinder(Protocol):
    """A similarity with a shortcut to its highest pair."""

    def closest(self, hypotheses: Sequence[Hypothesis], references: Sequence[Hypothesis]) -> ClosestPair:
        """Returns the first highest entry of `pairwise`, row by row, bit for bit; neither list is empty."""


@dataclass(frozen=True, slots=True)
class Requirements:
    """What a strategy must be given for each source.

    Attributes:
        directions: Whose beams; a total of N_B hypotheses is shared out among them, the first taking the odd.
        log_prob: Whether hypotheses must have their log-probability.
        score: Whether they must have their length-normalised score.
        scored: Directions whose hypotheses must have the other direction's log-probability, every one.
        other_weight: If not None, all of `directions` are `scored`, and the reply is the hypothesis with the
            highest score + other_weight * (the other, normalised as the score is): with a weight of at least
            0, one whose score alone is below another's total cannot be the reply, and need not be scored.
        reference: Whether what a person answered must be known.
    """

    directions: tuple[Direction, ...]
    log_prob: bool = False
    score: bool = False
    scored: tuple[Direction, ...] = ()
    other_weight: float | None = None
    reference: bool = False

    def __post_init__(self) -> None:
        if self.other_weight is not None:
            object.__setattr__(self, "scored", self.directions)

    @property
    def used(self) -> tuple[Direction, ...]:
        """The directions that search, or score what the other wrote, each once."""
        scorers = (direction.other for direction in self.scored)
        return tuple(dict.fromkeys((*self.directions, *scorers)))

    def split(self, beam_size: int) -> dict[Direction, int] | None:
        """Returns each direction's share of N_B; None if there is less than one hypothesis for each."""
        small, larger = divmod(beam_size, len(self.directions))
        sizes = {direction: small + (index < larger) for index, direction in enumerate(self.directions)}
        return sizes if small else None


class Strategy(Protocol):
    """Which of the hypotheses is the answer. Pure; it needs no model.

    One that finds the reply without ranking all has `choose(beams)` too: the first entry of `rank`, None if
    that is empty. One that can say why has `reason(beams, ranking)`: a sentence about the first entry.
    Settings that make a difference stand in `signature`.
    """

    @property
    def requirements(self) -> Requirements:
        """What it must be given."""

    @property
    def signature(self) -> Signature:
        """Its name and settings."""

    def rank(self, beams: Beams) -> Ranking:
        """The hypotheses that may answer, best first."""


class BeamGenerator(Protocol):
    """Where a decoder's hypotheses come from, such as a model that searches for them."""

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        """Fill in the hypotheses of each source, in order."""


class Metric(Protocol):
    """A measure of replies against references: texts in, statistics per item out.

    One that is known for a whole corpus alone has `score(replies, references) -> float` in place of the two
    methods; intervals and tests then compute it anew for every sample, of which there are at most a hundred.
    """

    @property
    def name(self) -> str:
        """As tables show it, such as "bleu"."""

    @property
    def higher_is_better(self) -> bool:
        """Whether it is; False for an error rate."""

    @property
    def signature(self) -> Signature:
        """How it is computed."""

    def statistics(self, replies: Sequence[str], references: Sequence[Sequence[str]]) -> Array:
        """What is summed over items, (items, columns), float64; an item may have several references."""

    def values(self, sums: Array) -> Array:
        """The values of the measure, (rows,), for sums over items, (rows, columns)."""
