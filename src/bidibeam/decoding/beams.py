"""A live model's hypotheses: the door where token ids in writing order become text in reading order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, compress, islice, pairwise
from operator import itemgetter
from typing import Any

import numpy as np
import torch

from bidibeam.data.batching import pad_sources
from bidibeam.data.tokenization import Tokenizer
from bidibeam.decoding.rescoring import contenders, turned
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interpreter import uncollected
from bidibeam.protocols import SequenceScorer, StepScorer
from bidibeam.remembered import Remembered
from bidibeam.search.beam import find
from bidibeam.search.found import Columns
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from bidibeam.turns import Place, Turns, away, first_in_line, in_line, pause, pausing

AT_ONCE = 64
"""Sources whose hypotheses are made before another thread may have its turn."""
MOST_SPELLINGS = 1 << 16
"""Replies whose spelling is kept."""

_Spelling = tuple[str, tuple[str, ...]]
_TEXT, _TOKENS = itemgetter(0), itemgetter(1)


@dataclass(frozen=True)
class Search:
    """One beam search, for one direction or for both side by side.

    Attributes:
        scorer: The model; for several directions it reads every source once for each, the first's first.
        directions: Its writing orders.
        settings: How to search.
    """

    scorer: StepScorer[Any]
    directions: tuple[Direction, ...]
    settings: SearchSettings


@dataclass(frozen=True)
class SearchGenerator:
    """Fills in hypotheses by beam search.

    Args:
        tokenizer: Text to ids and back.
        searches: What to search; each direction at most once.
        opinions: By direction, a model whose opinion of the other direction's hypotheses is wanted
            (`other_log_prob`).
        other_weight: If not None, only the reply is wanted, and it is that of `Requirements.other_weight`: opinions
            are asked for those hypotheses alone that can be it.
        max_source_length: Longer sources keep their last tokens only, as the nearest to the reply.
        device: Where the scorers compute.
    """

    tokenizer: Tokenizer
    searches: tuple[Search, ...]
    opinions: Mapping[Direction, SequenceScorer] = field(default_factory=dict)
    other_weight: float | None = None
    max_source_length: int | None = None
    device: torch.device | str = "cpu"
    _spellings: dict[tuple[int, ...], _Spelling] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _turn: Turns = field(default_factory=Turns, init=False, repr=False, compare=False)

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        """Search for every source in one batch, and keep their order."""
        return self.begin(beams)()

    def begin(self, beams: Sequence[Beams]) -> Callable[[], list[Beams]]:
        """Search; what is returned spells out what was found.

        Several threads may begin at once if the scorers and the tokenizer can; a GPU then searches for one
        after another, in the order of the calls. Each should finish what it began, on a GPU in the stream in
        which it began.
        """
        if not beams:
            return list
        remembered = Remembered()  # what a search reads, whoever is asked for an opinion need not read again
        with self._in_line() as place:
            with away():
                encoded = self.tokenizer.encode_batch([line.source for line in beams])
            if self.max_source_length is not None:
                encoded = [ids[-self.max_source_length :] for ids in encoded]
            sources = pad_sources(encoded).to(self.device)  # (sources, length)
            with _turn_of(place), remembered.active() if self.opinions else nullcontext():
                found = [
                    find(
                        search.scorer,
                        _repeated(sources, len(search.directions)),  # (directions * sources, length)
                        search.settings,
                        self._roles(search.settings),
                    )
                    for search in self.searches
                ]

        def finish() -> list[Beams]:
            count, filled = len(beams), list(beams)
            with uncollected(), remembered.active():
                for search, here in zip(self.searches, found, strict=True):
                    pause()  # the next batch's search has waited for this one's
                    columns = here.columns()
                    pause()
                    for index, direction in enumerate(search.directions):
                        own = columns.of_sources(index * count, (index + 1) * count)
                        nbests = self._nbests(sources, own, direction)
                        filled = [
                            line.with_hypotheses(direction, nbest)
                            for line, nbest in zip(filled, nbests, strict=True)
                        ]
            return filled

        return finish

    def _in_line(self) -> AbstractContextManager[Place | None]:
        """A place in the line of batches that a GPU searches for; CPUs search for all who ask at once.

        Two searches would end together, too, and the GPU have nothing to do while both are spelled out. And
        if a later batch were searched for first, nothing could be made of it before the earlier one.
        """
        return nullcontext() if torch.device(self.device).type == "cpu" else in_line(self._turn)

    def _roles(self, settings: SearchSettings) -> VocabularyRoles:
        tokenizer = self.tokenizer
        forbidden = {tokenizer.pad_id, tokenizer.start_id}
        if not settings.allow_unknown:
            forbidden.add(tokenizer.unknown_id)
        return VocabularyRoles(tokenizer.start_id, tokenizer.end_id, frozenset(forbidden))

    def _nbests(self, sources: torch.Tensor, columns: Columns, own: Direction) -> list[NBest]:
        """The hypotheses, with what the other direction makes of each as a whole reply, if that is wanted."""
        sequences = columns.tokens(backwards=own is Direction.REVERSE)  # in reading order
        pause()
        spelled = self._spelled(sequences)
        pause()
        multiplicities = _multiplicities(list(map(_TEXT, spelled)), columns)
        if multiplicities is not None:
            spelled = list(compress(spelled, multiplicities))
            columns = columns.where(np.array(multiplicities) > 0)
        numbers = (columns.log_probs, columns.lengths, columns.scores, columns.finished)
        rows = zip(
            map(_TEXT, spelled),
            map(_TOKENS, spelled),
            *(column.tolist() for column in numbers),
            self._opinions(sources, columns, own),
            [1] * len(columns) if multiplicities is None else filter(None, multiplicities),
            strict=True,
        )
        hypotheses = map(partial(tuple.__new__, Hypothesis), rows)
        counts = np.diff(columns.ends, prepend=0).tolist()
        return [NBest(tuple(islice(hypotheses, count))) for count in pausing(counts, every=AT_ONCE)]

    def _spelled(self, sequences: Sequence[tuple[int, ...]]) -> list[_Spelling]:
        """Text and tokens of ids in reading order; sources have many replies in common, so they are kept."""
        found = list(map(self._spellings.get, sequences))
        if None in found:
            found = list(map(self._spell, sequences, found))
        return found  # type: ignore[return-value]

    def _spell(self, ids: tuple[int, ...], known: _Spelling | None) -> _Spelling:
        if known is None:
            known = self._spellings.get(ids)  # the same may have come before, or in another thread
        if known is None:
            tokens = self.tokenizer.tokens(ids)
            known = self.tokenizer.text(tokens), tuple(tokens)
            if len(self._spellings) >= MOST_SPELLINGS:
                self._spellings.clear()
            self._spellings[ids] = known
        return known

    def _opinions(self, sources: torch.Tensor, columns: Columns, own: Direction) -> Iterable[float | None]:
        """What the other direction makes of each sequence; None where it is not asked."""
        scorer, end = self.opinions.get(own.other), self.tokenizer.end_id
        if scorer is None:
            return [None] * len(columns)
        if self.other_weight is not None and self.other_weight >= 0:
            return contenders(scorer, sources, columns, self.other_weight, end=end)
        return chain.from_iterable(scorer.log_probs(sources, turned(columns, end=end)))


@contextmanager
def _turn_of(place: Place | None) -> Iterator[None]:
    """The turn at a device, if there is a line for it; whoever has it is first at the interpreter, too."""
    if place is None:
        yield
        return
    with first_in_line():
        place.wait()
        yield


def _repeated(sources: torch.Tensor, times: int) -> torch.Tensor:
    """As often one below the other; once is the same tensor, so that what is made of it is remembered."""
    return sources if times == 1 else sources.repeat(times, 1)


def _multiplicities(texts: Sequence[str], columns: Columns) -> list[int] | None:
    """How many of its source's sequences each one stands for; None if always one.

    Several sequences of subwords may spell the same text. The best of them stands for all, the others for 0.
    """
    found: list[int] | None = None
    for start, end in pairwise((0, *columns.ends.tolist())):
        line = texts[start:end]
        if len(set(line)) == len(line):
            continue
        if found is None:
            found = [1] * len(texts)
        found[start:end] = [0] * len(line)
        first: dict[str, int] = {}
        for place, text in enumerate(line, start):
            found[first.setdefault(text, place)] += 1
    return found
