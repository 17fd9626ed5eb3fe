"""Systems out of lists from anywhere, and as evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bidibeam.errors import BidibeamError, InputError, SettingsError, UnknownNameError
from bidibeam.evaluation.systems import SYSTEMS, Evidence, choose_systems
from bidibeam.hypotheses import Beams, Direction, NBest
from bidibeam.strategies import STRATEGIES
from tests.unit.evaluation.evidences import (
    MAX_LENGTH,
    SPACE,
    TUNED,
    answering,
    evidence_of,
    hypothesis,
    random_beams,
    random_evidence,
    system,
    value_of,
    without_scores,
)

WIDE = [
    Beams(str(number), "hi", ("a b",), NBest(tuple(hypothesis(text, -1.0) for text in texts)))
    for number, texts in enumerate([["a", "b", "c", "d"], ["a", "b c"]])
]
BOTH = [
    replace(line, regular=NBest(line.regular.hypotheses[:2]), reverse=NBest(line.regular.hypotheses[:2]))
    for line in WIDE
]
TEXTS_ALONE = [replace(line, references=()) for line in without_scores(BOTH)]


def is_of_both(name: str) -> bool:
    return name.startswith("bidia") or name == "loglinear both"


def test_n_b_is_what_each_system_can_choose_from() -> None:
    found, missing = choose_systems(
        [WIDE, BOTH], max_length=MAX_LENGTH, load_vectors=lambda: SPACE, tuned=TUNED, workers=2
    )

    assert missing == {}
    assert {name.split()[0] for name in SYSTEMS} == set(STRATEGIES.names())
    sizes = {name: list(by_size) for name, by_size in found.items()}
    assert sizes == {
        name: [4] if is_of_both(name) else [2] if name == "reverse-vbs" else [4, 2] for name in SYSTEMS
    }
    for name, by_size in found.items():
        for size, each in by_size.items():
            beams = BOTH if is_of_both(name) or size == 2 else WIDE
            assert each.replies == system(name, beams, size).replies
            assert (each.name, each.beam_size) == (name, size)
            assert str(each.signature).startswith(f"strategy:{name.split()[0]}|")
            assert "|bidibeam:" in str(each.signature)


def test_of_lists_with_the_same_n_b_the_first_counts() -> None:
    backwards = [replace(line, regular=NBest(line.regular.hypotheses[::-1])) for line in WIDE]

    found, _ = choose_systems([backwards, WIDE], ["vbs"], max_length=MAX_LENGTH)

    assert found["vbs"][4].replies == ["d", "b c"]


def test_what_lists_are_not_enough_for_is_missing_with_the_reason() -> None:
    found, missing = choose_systems([TEXTS_ALONE], max_length=MAX_LENGTH)

    assert list(found) == ["bidia bleu_t", "bidia bleu_t either", "longest", "random"]
    reasons = {
        "vbs": "source '0', regular[0] has no \"score\", and vbs needs it.",
        "vbs-tuned": "It needs tuned settings: `bidibeam tune",
        "bidis": "source '0', regular[0] has no \"log_prob\", and bidis needs it; `bidibeam score` adds it",
        "bidia wmd_t": "The similarity wmd_t needs word vectors: give `vectors`",
        "bidia bleu_t tuned": "The system 'bidia bleu_t tuned' must be tuned first: no T was tuned for",
        "bidia wmd_t tuned": "The system 'bidia wmd_t tuned' must be tuned first: no T was tuned for",
        "bidia bleu_t expected": "source '0', regular[0] has no \"log_prob\", and bidia bleu_t expected ",
        "loglinear": "It needs tuned settings: `bidibeam tune",
        "loglinear both": "It needs tuned settings: `bidibeam tune",
        "mbr bleu_t": "source '0', regular[0] has no \"log_prob\", and mbr bleu_t needs it",
        "reverse-vbs": "source '0', reverse[0] has no \"score\", and reverse-vbs needs it.",
        "oracle": "source '0' has no \"reference\", and oracle chooses by it.",
    }
    assert missing.keys() == reasons.keys()
    for name, reason in reasons.items():
        assert missing[name].startswith(reason)
        assert "strategy" not in missing[name]  # there is no other to choose


@pytest.mark.parametrize(
    ("lists", "name", "error", "message"),
    [
        (WIDE, "bidia bleu_t", InputError, "source '0' has no reverse hypotheses, and bidia bleu_t "),
        (BOTH, "bidia wmd_t", SettingsError, "The similarity wmd_t needs word vectors"),
        (BOTH, "vsb", UnknownNameError, "Unknown strategy 'vsb'. Did you mean 'vbs'?"),
        (BOTH, "bidia blue_t", UnknownNameError, "Unknown word 'blue_t'"),
    ],
)
def test_a_system_that_was_named_must_be_possible(
    lists: list[Beams], name: str, error: type[BidibeamError], message: str
) -> None:
    with pytest.raises(error) as caught:
        choose_systems([lists], ["vbs", name], max_length=MAX_LENGTH)
    assert str(caught.value).startswith(message)


def test_if_nothing_is_possible_one_reason_is_given() -> None:
    reverse_only = [line.with_hypotheses(Direction.REGULAR, NBest()) for line in TEXTS_ALONE]

    with pytest.raises(
        InputError, match=r"^No system can choose among these lists\. vbs: source '0' has no regular"
    ):
        choose_systems([reverse_only], max_length=MAX_LENGTH)


sentences = st.lists(st.sampled_from(["a", "b", "c", "d", "don't", "."]), max_size=9).map(" ".join)


@given(st.lists(st.tuples(sentences, sentences, sentences), min_size=1, max_size=6))
def test_every_score_is_the_metrics_own_to_the_last_bit(rows: list[tuple[str, str, str]]) -> None:
    texts = [reference for _, _, reference in rows]
    evidence = evidence_of({"one": {4: answering("one", texts, texts)}})
    for column in (0, 1):
        replies = [row[column] for row in rows]
        expected = {
            name: value_of(name, replies, [(text,) for text in texts])
            for name in ("bleu", "length_ratio", "distinct-1", "distinct-2")
        }
        assert evidence.scores(replies) == expected


def test_what_cannot_be_analysed_is_refused() -> None:
    one = answering("one", ["a", "b"], ["a", "b"])
    with pytest.raises(InputError, match="there are 1 replies and references for 2"):
        evidence_of({"one": {4: one}}).scores(["a"])
    nothing: list[Any] = [{}, {"vbs": {}}, {"x": {4: answering("x", [], [])}}]
    for systems in nothing:
        with pytest.raises(InputError, match="no systems, or no sources, to analyse"):
            Evidence(systems, 20)
    for other in (
        answering("other", ["a"], ["a"]),
        replace(one, beams=one.beams[::-1]),
        replace(one, rankings=one.rankings[:1]),
    ):
        with pytest.raises(InputError, match=r"^The system other at N_B = 2 answered other sources"):
            evidence_of({"one": {4: one}, "other": {2: other}})
    beams = random_beams(3, regular=4, reverse=0)
    with pytest.raises(InputError, match=r"^It needs the system 'bidia bleu_t'"):
        evidence_of({"vbs": {4: system("vbs", beams, 4)}}).agreeing  # noqa: B018
    with pytest.raises(InputError, match=r"^No source has hypotheses of both directions"):
        evidence_of({"bidia bleu_t": {4: system("bidia bleu_t", beams, 4)}}).agreeing  # noqa: B018


def test_a_value_is_computed_where_nobody_knows_it() -> None:
    evidence = random_evidence(known={"vbs": {8: 12.5, 2: 1.0}, "away": {2: 3.0}})

    chosen = evidence.systems["longest"][8]
    assert evidence.value_of("longest", 8) == value_of("bleu", chosen.replies, chosen.references)
    assert (evidence.value_of("vbs", 8), evidence.value_of("away", 2)) == (12.5, 3.0)
    sizes = [evidence.sizes_of(name) for name in ("vbs", "longest", "away", "x")]
    assert sizes == [{2, 4, 8}, {4, 8}, {2}, set()]
