"""An explanation as JSON, from which a page can rank again by itself: what strategies add up, and how."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from bidibeam.hypotheses import Direction
from bidibeam.scores import Signature
from bidibeam.similarities.bleu import Bleu, BleuT, find_length
from bidibeam.similarities.wmd import Wmd, WmdT
from bidibeam.strategies.baselines import Longest, ReverseVbs, Vbs, VbsTuned
from bidibeam.strategies.bidia import BidiA, name_similarity, similarity_matrix
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.loglinear import LogLinear
from bidibeam.strategies.mbr import Mbr

if TYPE_CHECKING:
    from bidibeam.decoding.explaining import Choice, Explanation
    from bidibeam.hypotheses import Hypothesis
    from bidibeam.protocols import Strategy

FORMULAS: tuple[Any, ...] = (Vbs, VbsTuned, ReverseVbs, Longest, BidiS, BidiA, Mbr, LogLinear)
"""The strategies that a page can ask again; of others it keeps the choice that was made."""
MOST_TRANSPORTS = 625
"""So many pairs have their transport of words, all of two beams of 25: of larger ones those that strategies
choose by, and the most similar."""
DIGITS = 5
"""Of shares and distances of a transport, which are looked at and not ranked by."""
HYPOTHESIS = ("text", "tokens", "log_prob", "other_log_prob", "length", "score", "finished")


def make_document(explanation: Explanation) -> dict[str, Any]:
    """Returns all of an explanation as JSON takes it.

    "rank" and "partner" of "choices" are ranks, counted from 1, as people read them. Everywhere else places
    in a beam are counted from 0: rows and columns of matrices, "transports", and partners in "agreement".
    """
    return {
        "source": explanation.source,
        "reply": explanation.reply,
        "system": explanation.system,
        "regular": [_describe_hypothesis(each) for each in explanation.beams.regular],
        "reverse": [_describe_hypothesis(each) for each in explanation.beams.reverse],
        "similarity": _describe_similarity(explanation),
        "length_penalty": _find_length_penalty(explanation.signature),
        "choices": [_describe_choice(choice, explanation) for choice in explanation.choices],
        "notes": [*explanation.notes],
        "signature": explanation.signature,
    }


def _describe_hypothesis(hypothesis: Hypothesis) -> dict[str, Any]:
    """Returns a hypothesis as n-best files have it."""
    values = {name: getattr(hypothesis, name) for name in HYPOTHESIS}
    return {**values, "tokens": [*hypothesis.tokens]}


def _describe_similarity(explanation: Explanation) -> dict[str, Any]:
    """Returns the matrices, the length term that stands apart from some of them, and what pairs share.

    `matrix` is (regular, reverse), and `without_length` the same without BP_T. With a length term, the other
    two are without it too.
    """
    similarity: Any = explanation.similarity
    plain, term = explanation.matrix_without_length, None
    if isinstance(similarity, BleuT | WmdT):
        form = similarity.form if isinstance(similarity, WmdT) else "similarity"
        term, similarity = (
            {"form": form, "T": _find_lengths(explanation, similarity)},
            similarity.without_length,
        )
    regular, reverse = explanation.beams.regular.hypotheses, explanation.beams.reverse.hypotheses
    return {
        "name": explanation.similarity_name,
        "matrix": explanation.matrix.tolist(),
        "without_length": None if plain is None else plain.tolist(),
        "reverse_by_regular": similarity_matrix(similarity, reverse, regular).tolist(),
        "regular_by_regular": similarity_matrix(similarity, regular, regular).tolist(),
        "length_term": term,
        "order": similarity.order if isinstance(similarity, Bleu) else None,
        "smoothing": similarity.smoothing if isinstance(similarity, Bleu) else None,
        "transports": _find_transports(explanation, similarity) if isinstance(similarity, Wmd) else None,
    }


def _find_lengths(explanation: Explanation, similarity: BleuT | WmdT) -> dict[str, int]:
    """Returns T by the beam that hypotheses are compared with, on whose lengths a median depends."""
    lengths = {
        direction: np.array([len(each.tokens) for each in explanation.beams.of(direction)], dtype=np.int32)
        for direction in Direction
    }
    return {
        direction.value: find_length(similarity.max_length, lengths[direction]) for direction in Direction
    }


def _find_transports(explanation: Explanation, similarity: Wmd) -> list[list[Any]]:
    """Returns [regular place, reverse place, moves]; each move is [word, other word, share, distance]."""
    matrix = explanation.matrix
    rows, columns = matrix.shape
    pairs = [*product(range(rows), range(columns))]
    if len(pairs) > MOST_TRANSPORTS:
        best = np.argsort(-matrix, axis=None, kind="stable")[:MOST_TRANSPORTS]
        chosen = [*explanation.pairs(), *(divmod(int(each), columns) for each in best)]
        pairs = [*dict.fromkeys(chosen)][:MOST_TRANSPORTS]
    regular, reverse = explanation.beams.regular, explanation.beams.reverse
    return [
        [
            row,
            column,
            [
                [move.word, move.other, round(move.share, DIGITS), round(move.distance, DIGITS)]
                for move in similarity.moves(regular[row], reverse[column])
            ],
        ]
        for row, column in pairs
    ]


def _find_length_penalty(signature: str) -> dict[str, Any] | None:
    """Returns the formula and the exponent by which the search normalised, where its signature tells."""
    known = Signature.parse(signature)
    formula, exponent = known.get("length_formula"), known.get("length_penalty")
    if formula is None or exponent is None:
        return None
    try:
        return {"formula": formula, "exponent": float(exponent)}
    except ValueError:  # written by hand
        return None


def _describe_choice(choice: Choice, explanation: Explanation) -> dict[str, Any]:
    """Returns a choice, and what a page needs to make it again; `formula` is None where it cannot."""
    ranked, strategy = choice.ranked, choice.strategy
    return {
        "system": choice.system,
        "text": choice.text,
        "direction": ranked.direction.value,
        "rank": ranked.place + 1,
        "partner": None if ranked.partner is None else ranked.partner + 1,
        "score": ranked.score,
        "reason": choice.reason,
        "formula": strategy.recipe["strategy"] if isinstance(strategy, FORMULAS) else None,
        "options": _list_options(strategy),
        "compares": getattr(strategy, "similarity", None) is not None,
        "agreement": _find_agreement(strategy, explanation),
    }


def _list_options(strategy: Strategy) -> dict[str, Any]:
    """Returns a strategy's own numbers and words, by name."""
    known: Any = strategy
    names = [each.name for each in fields(known)] if is_dataclass(known) else []
    values = {name.rstrip("_"): getattr(known, name) for name in names}
    return {name: value for name, value in values.items() if isinstance(value, int | float | str)}


def _find_agreement(strategy: Strategy, explanation: Explanation) -> dict[str, Any] | None:
    """Returns how much candidates agree, and with which place, by a strategy with a similarity of its own.

    None where it compares by that of the explanation, or not at all.
    """
    own = getattr(strategy, "similarity", None)
    if not isinstance(strategy, LogLinear) or own is None or own == explanation.similarity:
        return None
    values: dict[str, Any] = {
        direction.value: [[0.0, None]] * len(explanation.beams.of(direction)) for direction in Direction
    }
    for entry in strategy.rank_by_agreement(explanation.beams):
        values[entry.direction.value][entry.place] = [entry.score, entry.partner]
    return {"similarity": name_similarity(own), **values}
