"""Examples: the sources on which systems disagree most, with both beams and how alike they are."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from bidibeam.hypotheses import Direction
from bidibeam.strategies.bidia import compare
from bidibeam.strategies.naming import DEFAULT_SIMILARITY
from bidibeam.strategies.settings import build_similarity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bidibeam.evaluation.analyses.evidence import Evidence
    from bidibeam.hypotheses import Beams, Ranking
    from bidibeam.protocols import Similarity

DIGITS = 3


def examples(evidence: Evidence) -> dict[str, Any]:
    """Sources with the most different replies, the first of equal ones, each system at its largest N_B.

    Raises:
        InputError: If there are no beams of both directions.
    """
    agreeing = evidence.agreeing
    replies = {name: system.replies for name, system in evidence.widest.items()}
    both = [
        source
        for source, (line, ranking) in enumerate(zip(agreeing.beams, agreeing.rankings, strict=True))
        if len(line.reverse) and len(ranking)
    ]
    both.sort(
        key=lambda source: -len({each[source] for each in replies.values()})
    )  # equal ones stay in order
    chosen = islice(_different(both, agreeing.beams), evidence.examples)
    similarity = build_similarity(DEFAULT_SIMILARITY, {}, max_length=evidence.max_length)
    return {
        "beam_size": agreeing.beam_size,
        "examples": [
            {
                **_exchange(agreeing.beams[source]),
                "replies": {name: each[source] for name, each in replies.items()},
                **_agreement(agreeing.beams[source], agreeing.rankings[source], similarity),
            }
            for source in chosen
        ],
    }


def _different(sources: Iterable[int], beams: Sequence[Beams]) -> Iterator[int]:
    """The first of those that ask the same."""
    seen: set[str] = set()
    for source in sources:
        if beams[source].source not in seen:
            seen.add(beams[source].source)
            yield source


def _exchange(line: Beams) -> dict[str, Any]:
    return {"id": line.id, "source": line.source, "reference": line.reference}


def _agreement(line: Beams, ranking: Ranking, similarity: Similarity) -> dict[str, Any]:
    """Both beams, the similarity of each pair, and the pair that answered."""
    matrix = compare(similarity, line.regular.hypotheses, line.reverse.hypotheses)
    row = ranking.entries[0].place
    return {
        **{direction.value: [each.text for each in line.of(direction)] for direction in Direction},
        "similarity": DEFAULT_SIMILARITY,
        "matrix": matrix.round(DIGITS).tolist(),
        "pair": [row, int(matrix[row].argmax())],
    }
