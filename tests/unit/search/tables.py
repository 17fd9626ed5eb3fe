"""Models written by hand: what comes next, and how likely, for each prefix."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from bidibeam.search.backpointers import ScoredSequence
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles

START, END, JUNK = 0, 1, 2
LETTERS = "<.?abcdef"
"""Token ids as characters: start, end, a forbidden token that takes what probability is left, words."""

ROLES = VocabularyRoles(start=START, end=END, forbidden=frozenset({START, JUNK}))

Row = Callable[[int, tuple[int, ...]], Sequence[float]]
"""Source and prefix to the logits of the next token."""

Table = Mapping[str, Mapping[str, float]]
"""Prefix to the log-probabilities of what may follow it; "." is the end."""


@dataclass(frozen=True)
class Prefixes:
    """A state that shows what the search did with it."""

    rows: list[tuple[int, tuple[int, ...]]]  # source, and every token read
    beams: int


class TableScorer:
    """Answers from `row`; sources are told apart by their first token. It insists on the seam's promises."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.steps = 0
        self.rows_seen: list[int] = []

    def start(self, sources: Tensor) -> Prefixes:
        return Prefixes([(source, ()) for source in sources[:, 0].tolist()], beams=1)

    def step(self, last_tokens: Tensor, state: Prefixes) -> tuple[Tensor, Prefixes]:
        assert last_tokens.shape == (len(state.rows),)
        self.steps += 1
        self.rows_seen.append(len(state.rows))
        rows = [
            (source, (*read, token))
            for (source, read), token in zip(state.rows, last_tokens.tolist(), strict=True)
        ]
        assert len({read[0] for _, read in rows}) == 1, "every row read the start token first"
        logits = torch.tensor([list(self.row(source, read[1:])) for source, read in rows])
        return logits.to(last_tokens.device), Prefixes(rows, state.beams)

    def select(self, state: Prefixes, rows: Tensor, sources: Tensor | None = None) -> Prefixes:
        assert rows.dim() == 2
        places = [{row // state.beams for row in line} for line in rows.tolist()]
        assert all(len(place) == 1 for place in places), "a line names rows of one source"
        order = [place.pop() for place in places]
        assert order == sorted(set(order)), "sources keep their order"
        assert order == (
            sources.tolist() if sources is not None else [*range(len(state.rows) // state.beams)]
        )
        return Prefixes([state.rows[row] for row in rows.flatten().tolist()], beams=rows.shape[1])


def ids(text: str) -> tuple[int, ...]:
    return tuple(LETTERS.index(letter) for letter in text)


def text(tokens: Sequence[int]) -> str:
    return "".join(LETTERS[token] for token in tokens)


def rows_of(*tables: Table) -> Row:
    """One table a source. What it leaves over goes to the forbidden token, all of it where it is silent."""
    for table in tables:
        for prefix, following in table.items():
            assert sum(map(math.exp, following.values())) <= 1 + 1e-9, f"{prefix!r} is too likely"

    def row(source: int, prefix: tuple[int, ...]) -> list[float]:
        following = tables[source].get(text(prefix), {})
        left = 1 - sum(map(math.exp, following.values()))
        logits = [following.get(letter, -math.inf) for letter in LETTERS]
        logits[JUNK] = math.log(left) if left > 0 else -math.inf
        return logits

    return row


def uniform_rows(followers: Mapping[str, str]) -> Row:
    """Prefix to letters that may follow it, all equally likely, to the last bit; none where it is silent."""

    def row(source: int, prefix: tuple[int, ...]) -> list[float]:  # noqa: ARG001
        return [0.0 if letter in followers.get(text(prefix), "") else -math.inf for letter in LETTERS]

    return row


def random_rows(seed: int, vocabulary: int, values: Sequence[float]) -> Row:
    """Logits drawn from a few values, so that ties abound; the same ones whenever asked."""

    def row(source: int, prefix: tuple[int, ...]) -> list[float]:
        return random.Random(f"{seed} {source} {prefix}").choices(values, k=vocabulary)

    return row


def source_batch(sources: Sequence[int], padding: int = 0) -> Tensor:
    """(sources, 1 + padding), the number of each and then padding."""
    return torch.tensor([[source] + [0] * padding for source in sources])


def search(
    row: Row, settings: SearchSettings, *, sources: Sequence[int] = (0,), roles: VocabularyRoles = ROLES
) -> list[list[ScoredSequence]]:
    return beam_search(TableScorer(row), source_batch(sources), settings, roles)


def texts(found: Sequence[ScoredSequence]) -> list[str]:
    """What was found, "a." where it finished and "a" where it was cut off."""
    return [text(sequence.tokens) + "." * sequence.finished for sequence in found]
