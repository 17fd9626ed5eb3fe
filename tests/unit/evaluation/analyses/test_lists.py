"""Systems out of lists from anywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bidibeam.errors import InputError, SettingsError, UnknownNameError
from bidibeam.evaluation.analyses.lists import systems_of
from bidibeam.evaluation.systems import SYSTEMS
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.strategies import STRATEGIES
from tests.unit.evaluation.analyses.evidences import MAX_LENGTH, SPACE, TUNED, hypothesis, system

WIDE = [
    Beams(str(number), "hi", "a b", NBest(tuple(hypothesis(text, -1.0) for text in texts)))
    for number, texts in enumerate([["a", "b", "c", "d"], ["a", "b c"]])
]
BOTH = [
    replace(line, regular=NBest(line.regular.hypotheses[:2]), reverse=NBest(line.regular.hypotheses[:2]))
    for line in WIDE
]


def texts_alone(beams: list[Beams]) -> list[Beams]:
    def bare(found: NBest) -> NBest:
        return NBest(tuple(Hypothesis(each.text, each.tokens, None, each.length, None) for each in found))

    return [
        replace(line, reference=None, regular=bare(line.regular), reverse=bare(line.reverse))
        for line in beams
    ]


def test_n_b_is_what_each_system_can_choose_from() -> None:
    found, left_out = systems_of(
        [WIDE, BOTH], max_length=MAX_LENGTH, space=lambda: SPACE, tuned=TUNED, workers=2
    )

    assert left_out == {}
    sizes = {name: list(by_size) for name, by_size in found.items()}
    assert sizes == {
        name: [4] if name.startswith("bidia") else [2] if name == "reverse-vbs" else [4, 2]
        for name in SYSTEMS
    }
    for name, by_size in found.items():
        for size, each in by_size.items():
            beams = BOTH if name.startswith("bidia") or size == 2 else WIDE
            assert each.replies == system(name, beams, size).replies
            assert (each.name, each.beam_size) == (name, size)
            assert str(each.signature).startswith(f"strategy:{name.split()[0]}|")
            assert "|bidibeam:" in str(each.signature)


def test_of_lists_with_the_same_n_b_the_first_counts() -> None:
    turned = [replace(line, regular=NBest(line.regular.hypotheses[::-1])) for line in WIDE]

    found, _ = systems_of([turned, WIDE], ["vbs"], max_length=MAX_LENGTH)

    assert found["vbs"][4].replies == ["d", "b c"]


def test_what_lists_are_not_enough_for_is_left_out_with_the_reason() -> None:
    found, left_out = systems_of([texts_alone(BOTH)], max_length=MAX_LENGTH)

    assert list(found) == ["bidia bleu_t", "bidia bleu_t either", "longest", "random"]
    assert left_out == {
        "vbs": "source '0', regular[0] has no \"score\", and vbs needs it.",
        "vbs-tuned": "It needs tuned settings: `bidibeam tune RUN` finds them, and `bidibeam "
        "analyse --tuned RUN` takes them.",
        "bidis": "source '0', regular[0] has no \"log_prob\", and bidis needs it; `bidibeam score` adds "
        "it, given the model.",
        "bidia wmd_t": "The similarity wmd_t needs word vectors: give vectors, a file of them.",
        **{
            f"{name} tuned": f"The system '{name} tuned' must be tuned first: no T was tuned for {name!r}. "
            "`bidibeam tune` does so, for a run or for Hugging Face models; rerank, evaluate and analyse "
            "take its result as tuned."
            for name in ("bidia bleu_t", "bidia wmd_t")
        },
        "bidia bleu_t expected": "source '0', regular[0] has no \"log_prob\", and bidia bleu_t expected "
        "needs it; `bidibeam score` adds it, given the model.",
        "reverse-vbs": "source '0', reverse[0] has no \"score\", and reverse-vbs needs it.",
        "oracle": "source '0' has no \"reference\", and oracle chooses by it.",
    }


def test_a_system_that_was_named_must_be_possible() -> None:
    with pytest.raises(
        InputError, match=r"^source '0' has no reverse hypotheses, and bidia bleu_t needs them\.$"
    ):
        systems_of([WIDE], ["vbs", "bidia bleu_t"], max_length=MAX_LENGTH)
    with pytest.raises(SettingsError, match="needs word vectors"):
        systems_of([BOTH], ["bidia wmd_t"], max_length=MAX_LENGTH)
    with pytest.raises(UnknownNameError, match=r"^Unknown strategy 'vsb'\. Did you mean 'vbs'\?"):
        systems_of([BOTH], ["vsb"], max_length=MAX_LENGTH)
    with pytest.raises(UnknownNameError, match="Unknown word 'blue_t'"):
        systems_of([BOTH], ["bidia blue_t"], max_length=MAX_LENGTH)


def test_if_nothing_is_possible_one_reason_is_given() -> None:
    reverse_only = [line.with_hypotheses(Direction.REGULAR, NBest()) for line in texts_alone(BOTH)]

    with pytest.raises(
        InputError, match=r"^No system can choose among these lists\. vbs: source '0' has no regular"
    ):
        systems_of([reverse_only], max_length=MAX_LENGTH)


def test_every_strategy_of_ours_is_among_the_systems() -> None:
    ours = {name.split()[0] for name in SYSTEMS}

    assert ours == set(STRATEGIES.names())
