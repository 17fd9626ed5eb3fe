"""The JSON of an explanation: what a page needs besides what is shown, so that it can rank again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from bidibeam import Beams, Hypothesis, NBest, StrategySettings
from bidibeam.decoding.documents import MOST_TRANSPORTS
from bidibeam.decoding.explaining import explain_beams
from bidibeam.similarities.bleu import Bleu
from bidibeam.similarities.wmd import Wmd
from bidibeam.similarities.word_vectors import WordVectors

WORDS = ["see", "noon", "midday", "friend"]
SPACE = WordVectors(WORDS, np.array([[0.0, 5, 7, 1]]).T)
SIGNATURE = "strategy:bidia|beam_size:4|length_penalty:0.6|length_formula:gnmt"


def nbest(*texts: str) -> NBest:
    made = [Hypothesis(text, tuple(text.split()), -2.0, 4, -1.0, other_log_prob=-3.0) for text in texts]
    return NBest(tuple(made))


BEAMS = Beams(
    "1", "when?", (), nbest("noon", "see noon friend"), nbest("midday", "see midday", "noon see friend see")
)


def document(
    system: str, beams: Beams = BEAMS, *, signature: str = SIGNATURE, tuned: Any = None, **options: Any
) -> Any:
    settings = StrategySettings.named(system).override(similarity_options=options)
    strategy = settings.build(space=lambda: SPACE)
    known = explain_beams(beams, strategy, tuned=tuned, signature=signature).to_dict()
    assert json.loads(json.dumps(known, allow_nan=False)) == known
    return known


def choice(known: Any, system: str) -> Any:
    return next(each for each in known["choices"] if each["system"] == system)


def test_all_matrices_are_there_without_the_length_term_and_t_for_either_side() -> None:
    similarity = document("bidia bleu_t", order=2, smoothing="add-1")["similarity"]

    regular, reverse = BEAMS.regular.hypotheses, BEAMS.reverse.hypotheses
    plain = Bleu(order=2, smoothing="add-1")
    assert similarity["without_length"] == plain.pairwise(regular, reverse).tolist()
    assert similarity["reverse_by_regular"] == plain.pairwise(reverse, regular).tolist()
    assert similarity["regular_by_regular"] == plain.pairwise(regular, regular).tolist()
    assert similarity["length_term"] == {
        "form": "similarity",
        "T": {"regular": 1, "reverse": 2},
    }  # lower medians
    told = ("order", "smoothing", "transports")
    assert [similarity[name] for name in told] == [2, "add-1", None]


def test_a_similarity_without_a_length_term_has_its_matrices_as_they_are() -> None:
    similarity = document("bidia edit")["similarity"]

    names = ("length_term", "without_length", "order", "smoothing")
    assert [similarity[name] for name in names] == [None] * 4
    assert np.array(similarity["reverse_by_regular"]).shape == (3, 2)


@pytest.mark.parametrize("form", ["similarity", "ratio"])
def test_transports_are_those_of_every_pair(form: str) -> None:
    similarity = document("bidia wmd_t", form=form, max_length=9)["similarity"]

    assert similarity["length_term"] == {"form": form, "T": {"regular": 9, "reverse": 9}}
    assert [pair[:2] for pair in similarity["transports"]] == [
        [row, column] for row in (0, 1) for column in (0, 1, 2)
    ]
    distances = Wmd(SPACE).distances(BEAMS.regular.hypotheses, BEAMS.reverse.hypotheses)
    for row, column, moves in similarity["transports"]:
        assert sum(share * distance for _, _, share, distance in moves) == pytest.approx(
            distances[row, column], abs=1e-4
        )
    assert similarity["transports"][0][2] == [["noon", "midday", 1.0, 2.0]]


def test_of_large_beams_the_chosen_and_the_most_similar_pairs_have_a_transport() -> None:
    texts = [" ".join(WORDS[: 1 + at % 4] + ["x"] * at) for at in range(30)]
    known = document("bidia wmd", Beams("1", "", (), nbest(*texts), nbest(*reversed(texts))))

    transports = known["similarity"]["transports"]
    matrix = np.array(known["similarity"]["matrix"])

    assert len(transports) == MOST_TRANSPORTS < matrix.size
    pairs = {(row, column) for row, column, _ in transports}
    own = known["choices"][0]
    assert (own["rank"] - 1, own["partner"] - 1) in pairs
    left_out = [matrix[row, column] for row, column in np.ndindex(matrix.shape) if (row, column) not in pairs]
    assert max(left_out) <= min(matrix[row, column] for row, column in pairs)


def test_choices_have_the_options_of_their_formulas() -> None:
    tuned = {"bidis": {"lambda_": 0.25}, "vbs-tuned": {"length_exponent": 1.5, "word_reward": 0.5}}

    known = document("bidia bleu either expected", tuned=tuned)

    told = {each["system"]: (each["formula"], each["options"], each["compares"]) for each in known["choices"]}
    assert told == {
        "bidia bleu either expected": ("bidia", {"answer": "either", "agreement": "expected"}, True),
        "bidia bleu": ("bidia", {"answer": "regular", "agreement": "closest"}, True),
        "mbr bleu": ("mbr", {"agreement": "expected"}, True),
        "vbs": ("vbs", {}, False),
        "reverse-vbs": ("reverse-vbs", {}, False),
        "bidis": ("bidis", {"lambda": 0.25}, False),
        "longest": ("longest", {}, False),
        "vbs-tuned": ("vbs-tuned", {"length_exponent": 1.5, "word_reward": 0.5}, False),
    }
    assert all(each["agreement"] is None for each in known["choices"])


def test_a_strategy_with_another_similarity_brings_its_agreement_along() -> None:
    known = document("bidia bleu", tuned={"loglinear token_f1 closest both": {"agreement_weight": 2.0}})

    agreement = choice(known, "loglinear token_f1 closest both")["agreement"]

    assert agreement["similarity"] == "token_f1"
    assert agreement["regular"] == [[0.4, 2], [pytest.approx(6 / 7), 2]]
    assert [partner for _, partner in agreement["reverse"]] == [0, 1, 1]


def test_a_strategy_that_no_page_knows_has_no_formula() -> None:
    assert choice(document("random"), "random")["formula"] is None


@pytest.mark.parametrize(
    ("signature", "expected"),
    [
        (SIGNATURE, {"formula": "gnmt", "exponent": 0.6}),
        ("", None),
        ("length_formula:gnmt|length_penalty:much", None),
        ("length_formula:gnmt", None),
    ],
)
def test_the_length_formula_of_the_search_is_known_where_its_signature_tells(
    signature: str, expected: Any
) -> None:
    assert document("vbs", signature=signature)["length_penalty"] == expected


def test_empty_beams_have_empty_matrices() -> None:
    known = document("bidia wmd_t", Beams("1", ""))

    assert (known["choices"], known["similarity"]["matrix"], known["similarity"]["transports"]) == (
        [],
        [],
        [],
    )
