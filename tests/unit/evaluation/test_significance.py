"""Intervals and tests beside sacreBLEU's own, to the last bit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import sacrebleu
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from sacrebleu import significance as theirs
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from bidibeam.errors import SettingsError
from bidibeam.evaluation.significance import PairedTest, Samples, paired_test, sample
from bidibeam.metrics import METRICS, build_metric
from bidibeam.metrics.bleu import CorpusBleu
from bidibeam.metrics.resampling import Resampling, bootstrap, interval
from bidibeam.metrics.scoring import Texts, measure
from bidibeam.protocols import Metric
from tests.unit.metrics.test_bleu import columns

FEW = Resampling(samples=60, trials=100)
PLAIN = CorpusBleu("none")
PAIRS: list[tuple[Metric, Any]] = [
    (PLAIN, BLEU(tokenize="none", force=True)),
    (CorpusBleu("13a"), BLEU(tokenize="13a", force=True)),
    (build_metric("chrf"), CHRF()),
    (build_metric("ter"), TER()),
]
"""Metrics, and sacreBLEU's own."""

Lines = list[str]
References = list[list[str]]

sentences = st.lists(st.sampled_from(["a", "b", "c", "the"]), max_size=9).map(" ".join)
triples = st.lists(
    st.tuples(sentences, sentences, st.lists(sentences, min_size=1, max_size=2)), min_size=1, max_size=6
)


def sample_texts(
    replies: list[Lines], references: References, resampling: Resampling, metric: Metric = PLAIN
) -> list[Samples]:
    return sample(metric, [measure(metric, each, references) for each in replies], resampling)


def run_test(
    system: Lines,
    baseline: Lines,
    references: References,
    resampling: Resampling = FEW,
    metric: Metric = PLAIN,
) -> PairedTest:
    ours, other = sample_texts([system, baseline], references, resampling, metric)
    return paired_test(ours, other, resampling)


def run_sacrebleu(
    metric: Any, kind: str, samples: int, replies: list[Lines], references: References
) -> theirs.Result:
    """sacreBLEU's result for the second list beside the first."""
    systems = list(zip(("first", "second"), replies, strict=True))
    named = {"it": metric}
    test = theirs.PairedTest(systems, named, columns(references), test_type=kind, n_samples=samples)
    (found,) = (values[1] for name, values in test()[1].items() if name != "System")
    return found


def count_ties(ours: Samples, other: Samples, distance: float) -> int:
    """How many trials make just the difference that was seen; sacreBLEU does not count them."""
    shuffled = ours.swap(other)
    return int(((shuffled <= distance) & (shuffled > distance - 1e-9)).sum())


@pytest.mark.parametrize(("metric", "original"), PAIRS, ids=["none", "13a", "chrf", "ter"])
@given(triples)
@settings(max_examples=25)
def test_p_values_and_intervals_are_sacrebleus_those_of_bleu_to_the_last_bit(
    metric: Metric, original: Any, triples: list[tuple[str, str, list[str]]]
) -> None:
    system, baseline, references = (list(each) for each in zip(*triples, strict=True))
    ours, other = sample_texts([system, baseline], references, FEW, metric)
    found = paired_test(ours, other, FEW)
    differences = sorted(ours.resampled - other.resampled)
    assert (found.low, found.high) == (differences[1], differences[-2])  # 60 / 40 are cut off at each end
    assume(found.difference or not (found.low == found.high == 0))  # sacreBLEU calls no difference at all one

    given: Any = [baseline, system], references
    bootstrapped = run_sacrebleu(original, "bs", FEW.samples, *given)
    randomised = run_sacrebleu(original, "ar", FEW.trials, *given)

    is_bleu = metric.name == "bleu"
    distances = np.abs(ours.resampled - other.resampled)
    near = np.abs(distances - distances.mean() - abs(found.difference)) < 1e-3  # which rounding may decide
    rounded = 0 if is_bleu else int(near.sum())
    assert abs(found.paired_bootstrap - bootstrapped.p_value) <= rounded / (FEW.samples + 1)
    ties = count_ties(ours, other, abs(found.difference))
    assert found.approximate_randomisation == pytest.approx(randomised.p_value + ties / (FEW.trials + 1))
    assert ours.value == bootstrapped.score
    low, high = interval(ours.resampled)
    expected = [(high - low) / 2, np.sort(ours.resampled).mean()]
    told = [bootstrapped.ci, bootstrapped.mean]
    assert expected == (told if is_bleu else pytest.approx(told, rel=1e-5))


def test_a_difference_on_few_sources_may_be_random() -> None:
    right = [f"a b c d {number}" for number in range(10)]
    references = [[text] for text in right]

    one = run_test(right, ["x", *right[1:]], references)
    two = run_test(right, ["x", "x", *right[2:]], references, Resampling(samples=10, trials=4000))

    assert one.difference > 5
    assert one.approximate_randomisation == 1
    assert two.approximate_randomisation == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("name", METRICS.names())
@pytest.mark.parametrize("reply", ["a b c d", "x", ""], ids=["right", "wrong", "empty"])
def test_equal_replies_have_p_1(reply: str, name: str) -> None:
    """sacreBLEU would have p = 1 / (trials + 1): the surest of all differences."""
    replies, references = [reply, "y"], [["a b c d"], ["z"]]

    found = run_test(replies, replies, references, metric=build_metric(name))

    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert (found.paired_bootstrap, found.approximate_randomisation) == (1, 1)


@pytest.mark.parametrize("chunk", [1, 100, 7 * 64])
def test_numbers_depend_on_the_seed_but_not_on_chunks_or_company(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    chooser = np.random.default_rng(0)
    statistics = [chooser.integers(1, 9, size=(7, 10)) for _ in range(3)]
    resampling = Resampling(samples=150, trials=150)
    whole = sample(PLAIN, statistics, resampling)

    monkeypatch.setattr("bidibeam.metrics.resampling.CHUNK", chunk)
    monkeypatch.setattr("bidibeam.metrics.resampling.PIECE", 3)

    for each, own in zip(whole, statistics, strict=True):
        (alone,) = sample(PLAIN, [own], resampling)
        assert np.array_equal(alone.resampled, each.resampled)
        assert np.array_equal(alone.selected, each.selected)
        assert np.array_equal(bootstrap(PLAIN, [own], resampling)[0], each.resampled)
    (other,) = bootstrap(PLAIN, statistics[:1], Resampling(150, 150, seed=1))
    assert other.tolist() != whole[0].resampled.tolist()


def test_the_signature_names_tests_numbers_seed_and_version() -> None:
    signature = run_test(["a"], ["b"], [["a"]], Resampling(20, 30, 7)).signature

    assert str(signature).startswith(
        "tests:paired_bootstrap,approximate_randomisation|metric:bleu|interval:95%|samples:20|trials:30|seed:7|"
        f"sacrebleu:{sacrebleu.__version__}|bidibeam:"
    )


def test_a_metric_of_whole_corpora_is_resampled_as_one_with_statistics_but_less() -> None:
    """Exact match computed anew for every sample is exact match, its resamples moved to its value."""
    metric = build_metric("exact_match")
    chooser = np.random.default_rng(3)
    one, two = (chooser.choice(["a", "b", "c"], size=40).tolist() for _ in range(2))
    references = [["a"]] * 40
    few = Resampling(samples=100, trials=100)

    found = run_test(one, two, references, Resampling(), Anew(metric))  # type: ignore[arg-type]

    expected = run_test(one, two, references, few, metric)
    for field in ("difference", "approximate_randomisation"):
        assert getattr(found, field) == pytest.approx(getattr(expected, field), abs=1e-9)
    moved = found.low - expected.low
    assert found.high - expected.high == pytest.approx(moved, abs=1e-9)
    assert abs(moved) < (expected.high - expected.low) / 10
    assert found.paired_bootstrap == pytest.approx(expected.paired_bootstrap, abs=0.1)
    assert "|samples:100|trials:100|" in str(found.signature)
    distinct = run_test(one, two, references, Resampling(20, 30), build_metric("distinct-1"))
    assert "|metric:distinct-1|interval:95%|samples:20|trials:30|" in str(distinct.signature)
    assert distinct.low <= distinct.difference <= distinct.high


def test_the_interval_of_a_metric_that_counts_repeats_lies_around_its_value() -> None:
    metric = build_metric("distinct-1")
    texts = [f"w{number} w{number // 2}" for number in range(60)]

    (values,) = bootstrap(metric, [Texts(texts, [("",)] * 60)], Resampling())

    low, high = interval(values)
    assert low < metric.score(texts, [("",)] * 60) < high  # type: ignore[attr-defined]
    assert values.std() > 0


def test_where_two_systems_are_alike_the_paired_bootstrap_says_so_less_often_than_it_should() -> None:
    metric, chooser = build_metric("exact_match"), np.random.default_rng(5)
    drawn, found = Resampling(samples=200, trials=400), list[PairedTest]()
    for _ in range(150):
        one, two = (np.column_stack([chooser.random(100) < 0.5, np.ones(100)]).astype(float) for _ in "ab")
        ours, other = sample(metric, [one, two], drawn)
        found.append(paired_test(ours, other, drawn))

    bootstrapped, swapped = (
        sum(getattr(each, test) < 0.05 for each in found) / len(found)
        for test in ("paired_bootstrap", "approximate_randomisation")
    )
    assert swapped < 0.08  # as `evaluate` and docs/reproduce.md tell
    assert bootstrapped > 1.5 * swapped


@dataclass(frozen=True)
class Anew:
    """A metric without its statistics."""

    metric: Metric
    name: str = "anew"

    def score(self, replies: Lines, references: References) -> float:
        sums = self.metric.statistics(replies, references).sum(axis=0, keepdims=True)
        return float(self.metric.values(sums)[0])


def test_whether_lower_is_better_makes_no_difference_to_a_test() -> None:
    one, two, references = ["a", "b", "a", "a"], ["b", "b", "b", "a"], [["a"]] * 4

    metrics = build_metric("exact_match"), build_metric("ser")
    right, wrong = (run_test(one, two, references, metric=metric) for metric in metrics)

    assert (right.difference, wrong.difference) == (50, -50)
    assert right.approximate_randomisation == wrong.approximate_randomisation
    assert right.paired_bootstrap == pytest.approx(wrong.paired_bootstrap, abs=2 / 61)
    assert (right.low, right.high) == pytest.approx((-wrong.high, -wrong.low))


@pytest.mark.parametrize(
    ("name", "value", "least"), [("samples", 0, 1), ("trials", True, 1), ("seed", -1, 0), ("samples", 1.5, 1)]
)
def test_a_number_of_trials_that_cannot_be_is_refused(name: str, value: float, least: int) -> None:
    message = rf"^{name} must be a whole number of at least {least}, not {value!r}\.$"

    with pytest.raises(SettingsError, match=message):
        Resampling(**{name: value})  # type: ignore[arg-type]
