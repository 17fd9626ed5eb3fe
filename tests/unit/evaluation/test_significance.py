"""Intervals and tests beside sacreBLEU's own, to the last bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
import sacrebleu
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sacrebleu import significance as theirs
from sacrebleu.metrics.bleu import BLEU

from bidibeam.errors import SettingsError
from bidibeam.evaluation import significance
from bidibeam.evaluation.significance import (
    COLUMNS,
    Chances,
    PairedTest,
    Resampling,
    bleu_of_sums,
    chances_of,
    interval,
    paired_test,
    resampled_bleu,
    resampled_bleus,
    selected_sums,
    statistics_of,
)
from bidibeam.metrics.bleu import CorpusBleu as Bleu
from bidibeam.metrics.ngrams import count_ngrams

FEW = Resampling(samples=60, trials=100)

sentences = st.lists(st.sampled_from(["a", "b", "c", "the"]), max_size=9)
triples = st.lists(st.tuples(sentences, sentences, sentences), min_size=1, max_size=6)
Triples = list[tuple[list[str], list[str], list[str]]]


def lines(sequences: list[list[str]]) -> list[str]:
    return [" ".join(tokens) for tokens in sequences]


def chances(
    replies: list[list[list[str]]], references: list[list[str]], resampling: Resampling
) -> list[Chances]:
    return chances_of([statistics_of(count_ngrams(each, references, 4)) for each in replies], resampling)


def result_of(
    system: list[list[str]],
    baseline: list[list[str]],
    references: list[list[str]],
    resampling: Resampling = FEW,
) -> PairedTest:
    ours, other = chances([system, baseline], references, resampling)
    return paired_test(ours, other, resampling)


def sacrebleus(
    kind: str, samples: int, replies: list[list[list[str]]], references: list[list[str]]
) -> list[theirs.Result]:
    """sacreBLEU's results for the first list, its baseline, and for the second."""
    systems = [("first", lines(replies[0])), ("second", lines(replies[1]))]
    metrics = {"BLEU": BLEU(tokenize="none", force=True)}
    test = theirs.PairedTest(systems, metrics, [lines(references)], test_type=kind, n_samples=samples)
    found: list[theirs.Result] = test()[1]["BLEU"]
    return found


def shuffles_as_large(ours: Chances, other: Chances, distance: float) -> int:
    """How many trials make just the difference that was seen; sacreBLEU does not count them."""
    one = bleu_of_sums(other.selected + (ours.totals - ours.selected))
    two = bleu_of_sums(ours.selected + (other.totals - other.selected))
    shuffled = np.abs(one - two)
    return int(((shuffled <= distance) & (shuffled > distance - 1e-9)).sum())


def test_a_difference_on_one_source_alone_may_always_be_chance() -> None:
    references = [["a", "b", "c", "d", str(number)] for number in range(10)]
    other = [["x"], *references[1:]]

    found = result_of(references, other, references)

    assert found.difference > 5
    assert found.approximate_randomisation == 1


def test_two_sources_that_differ_alike_cannot_be_surer_than_one_half() -> None:
    references = [["a", "b", "c", "d", str(number)] for number in range(10)]
    other = [["x"], ["x"], *references[2:]]

    found = result_of(references, other, references, Resampling(samples=10, trials=4000))

    assert found.approximate_randomisation == pytest.approx(0.5, abs=0.03)


@given(triples)
@settings(max_examples=60, deadline=None)
def test_p_values_and_intervals_are_sacrebleus_to_the_last_bit(triples: Triples) -> None:
    system, baseline, references = (list(each) for each in zip(*triples, strict=True))
    ours, other = chances([system, baseline], references, FEW)
    found = paired_test(ours, other, FEW)
    assume(found.difference or not (found.low == found.high == 0))  # sacreBLEU calls no difference at all one

    _, bootstrap = sacrebleus("bs", FEW.samples, [baseline, system], references)
    _, randomised = sacrebleus("ar", FEW.trials, [baseline, system], references)

    assert found.paired_bootstrap == bootstrap.p_value
    ties = shuffles_as_large(ours, other, abs(found.difference))
    assert found.approximate_randomisation == pytest.approx(randomised.p_value + ties / (FEW.trials + 1))
    assert ours.bleu == bootstrap.score
    low, high = interval(ours.resampled)
    assert (high - low) / 2 == bootstrap.ci
    assert np.sort(ours.resampled).mean() == bootstrap.mean


def test_so_are_they_with_the_default_numbers_of_trials() -> None:
    chooser = random.Random(3)
    references = [chooser.choices("abcdefgh", k=chooser.randint(3, 12)) for _ in range(50)]
    system, baseline = (
        [[word if chooser.random() < kept else "x" for word in reference] for reference in references]
        for kept in (0.84, 0.8)
    )

    found = result_of(system, baseline, references, Resampling())

    assert found.paired_bootstrap == sacrebleus("bs", 0, [baseline, system], references)[1].p_value
    randomised = sacrebleus("ar", 0, [baseline, system], references)[1]
    assert found.approximate_randomisation == pytest.approx(randomised.p_value, abs=1e-3)  # ties count here
    assert 0.001 < found.approximate_randomisation < 0.999


@given(triples)
def test_bleu_of_sums_is_the_metrics_own(triples: Triples) -> None:
    replies, _, references = (list(each) for each in zip(*triples, strict=True))
    sums = statistics_of(count_ngrams(replies, references, 4)).sum(axis=0, keepdims=True)

    assert sums.shape == (1, COLUMNS)
    assert bleu_of_sums(sums)[0] == Bleu().score(replies, references).value


@given(triples)
@settings(deadline=None)
def test_the_interval_of_the_difference_holds_95_of_100_resampled_differences(triples: Triples) -> None:
    system, baseline, references = (list(each) for each in zip(*triples, strict=True))
    ours, other = chances([system, baseline], references, Resampling(samples=80, trials=1))

    found = paired_test(ours, other, FEW)

    differences = sorted(ours.resampled - other.resampled)
    assert (found.low, found.high) == (differences[2], differences[-3])  # 80 / 40 are cut off at each end


def test_turning_the_pair_around_turns_the_difference_and_leaves_the_p_values() -> None:
    references = [["a", "b", "c", "d", "e"], ["b", "c", "a", "a"], ["d", "d", "e", "f"]]
    good, bad = [*references[:2], ["x"]], [["a", "b", "x"], *references[1:2], ["d", "d"]]

    there, back = result_of(good, bad, references), result_of(bad, good, references)

    assert there.difference == -back.difference > 0
    assert (there.low, there.high) == (-back.high, -back.low)
    assert there.paired_bootstrap == back.paired_bootstrap
    assert there.approximate_randomisation == back.approximate_randomisation


@pytest.mark.parametrize("reply", [["a", "b", "c", "d"], ["x"], []], ids=["right", "wrong", "empty"])
def test_where_chance_makes_no_difference_there_is_none(reply: list[str]) -> None:
    """sacreBLEU would have p = 1 / (trials + 1): the surest of all differences."""
    replies, references = [reply, ["y"]], [["a", "b", "c", "d"], ["z"]]

    found = result_of(replies, replies, references)

    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert (found.paired_bootstrap, found.approximate_randomisation) == (1, 1)


def test_a_clear_difference_is_found_and_no_difference_is_not() -> None:
    chooser = random.Random(0)
    references = [chooser.choices("abcdefgh", k=10) for _ in range(60)]
    spoiled = [[*reference[:-3], "x", "y", "z"] for reference in references]
    twin = [[*reference[:-3], "u", "v", "w"] for reference in references]

    clear, none = (
        result_of(references, spoiled, references),
        result_of(twin[:30] + spoiled[30:], spoiled, references),
    )

    assert max(clear.paired_bootstrap, clear.approximate_randomisation) < 0.02
    assert clear.low > 0
    assert none.difference == 0


@pytest.mark.parametrize("chunk", [1, 100, 7 * 64])
def test_the_numbers_do_not_depend_on_how_many_are_held_at_once(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    chooser = np.random.default_rng(0)
    statistics = [chooser.integers(1, 9, size=(7, COLUMNS)) for _ in range(3)]
    resampling = Resampling(samples=150, trials=150)
    whole = resampled_bleu(statistics[0], resampling), selected_sums(statistics, resampling)

    monkeypatch.setattr(significance, "CHUNK", chunk)

    assert (resampled_bleu(statistics[0], resampling) == whole[0]).all()
    assert all(map(np.array_equal, selected_sums(statistics, resampling), whole[1]))


def test_systems_are_resampled_together_as_each_is_alone() -> None:
    chooser = np.random.default_rng(0)
    statistics = [chooser.integers(1, 9, size=(7, COLUMNS)) for _ in range(3)]
    resampling = Resampling(samples=50)

    together = resampled_bleus(statistics, resampling)

    assert [each.tolist() for each in together] == [
        resampled_bleu(each, resampling).tolist() for each in statistics
    ]


def test_another_seed_gives_other_samples() -> None:
    statistics = np.random.default_rng(0).integers(1, 9, size=(7, COLUMNS))

    one, other = (resampled_bleu(statistics, Resampling(50, 50, seed)) for seed in (1, 2))

    assert one.tolist() != other.tolist()


def test_the_signature_names_tests_numbers_seed_and_version() -> None:
    signature = result_of([["a"]], [["b"]], [["a"]], Resampling(20, 30, 7)).signature

    assert str(signature).startswith(
        "tests:paired_bootstrap,approximate_randomisation|metric:bleu|interval:95%|samples:20|trials:30|seed:7|"
        f"sacrebleu:{sacrebleu.__version__}|bidibeam:"
    )


@pytest.mark.parametrize(
    ("name", "value", "least"), [("samples", 0, 1), ("trials", True, 1), ("seed", -1, 0), ("samples", 1.5, 1)]
)
def test_a_number_of_trials_that_cannot_be_is_refused(name: str, value: float, least: int) -> None:
    message = rf"^{name} must be a whole number of at least {least}, not {value!r}\.$"

    with pytest.raises(SettingsError, match=message):
        Resampling(**{name: value})  # type: ignore[arg-type]
