"""A number and its recipe, as they are printed."""

from __future__ import annotations

from bidibeam.scores import Score, Signature


def test_a_signature_prints_its_facts_in_order() -> None:
    assert str(Signature((("metric", "bleu"), ("order", "4")))) == "metric:bleu|order:4"


def test_more_facts_go_behind_and_the_first_signature_stays() -> None:
    short = Signature((("metric", "bleu"),))

    assert str(short.extended(order=4, smooth="exp")) == "metric:bleu|order:4|smooth:exp"
    assert str(short) == "metric:bleu"


def test_a_score_prints_with_its_recipe() -> None:
    assert str(Score("bleu", 12.34567, Signature((("order", "4"),)))) == "bleu = 12.35 (order:4)"
