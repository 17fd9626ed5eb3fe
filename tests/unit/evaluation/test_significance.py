"""Intervals and tests beside sacreBLEU's own, to the last bit."""

from __future__ import annotations

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
    BleuSamples,
    PairedTest,
    Resampling,
    bootstrap_bleu,
    interval,
    paired_test,
    sample_bleu,
)
from bidibeam.metrics.bleu import corpus_bleu
from bidibeam.metrics.ngrams import count_ngrams

FEW = Resampling(samples=60, trials=100)

Lines = list[list[str]]

sentences = st.lists(st.sampled_from(["a", "b", "c", "the"]), max_size=9)
triples = st.lists(st.tuples(sentences, sentences, sentences), min_size=1, max_size=6)


def sample(replies: list[Lines], references: Lines, resampling: Resampling) -> list[BleuSamples]:
    return sample_bleu([count_ngrams(each, references, 4).statistics for each in replies], resampling)


def run_test(system: Lines, baseline: Lines, references: Lines, resampling: Resampling = FEW) -> PairedTest:
    ours, other = sample([system, baseline], references, resampling)
    return paired_test(ours, other, resampling)


def run_sacrebleu(kind: str, samples: int, replies: list[Lines], references: Lines) -> theirs.Result:
    """sacreBLEU's result for the second list beside the first."""
    systems = [
        (name, list(map(" ".join, each))) for name, each in zip(("first", "second"), replies, strict=True)
    ]
    test = theirs.PairedTest(
        systems,
        {"BLEU": BLEU(tokenize="none", force=True)},
        [list(map(" ".join, references))],
        test_type=kind,
        n_samples=samples,
    )
    found: theirs.Result = test()[1]["BLEU"][1]
    return found


def count_ties(ours: BleuSamples, other: BleuSamples, distance: float) -> int:
    """How many trials make just the difference that was seen; sacreBLEU does not count them."""
    one = corpus_bleu(other.selected + (ours.totals - ours.selected))
    two = corpus_bleu(ours.selected + (other.totals - other.selected))
    shuffled = np.abs(one - two)
    return int(((shuffled <= distance) & (shuffled > distance - 1e-9)).sum())


@given(triples)
@settings(max_examples=25)
def test_p_values_and_intervals_are_sacrebleus_to_the_last_bit(
    triples: list[tuple[list[str], list[str], list[str]]],
) -> None:
    system, baseline, references = (list(each) for each in zip(*triples, strict=True))
    ours, other = sample([system, baseline], references, FEW)
    found = paired_test(ours, other, FEW)
    differences = sorted(ours.resampled - other.resampled)
    assert (found.low, found.high) == (differences[1], differences[-2])  # 60 / 40 are cut off at each end
    assume(found.difference or not (found.low == found.high == 0))  # sacreBLEU calls no difference at all one

    bootstrap = run_sacrebleu("bs", FEW.samples, [baseline, system], references)
    randomised = run_sacrebleu("ar", FEW.trials, [baseline, system], references)

    assert found.paired_bootstrap == bootstrap.p_value
    ties = count_ties(ours, other, abs(found.difference))
    assert found.approximate_randomisation == pytest.approx(randomised.p_value + ties / (FEW.trials + 1))
    assert ours.bleu == bootstrap.score
    low, high = interval(ours.resampled)
    assert (high - low) / 2 == bootstrap.ci
    assert np.sort(ours.resampled).mean() == bootstrap.mean


def test_a_difference_on_few_sources_may_be_random() -> None:
    references = [["a", "b", "c", "d", str(number)] for number in range(10)]

    one = run_test(references, [["x"], *references[1:]], references)
    two = run_test(
        references, [["x"], ["x"], *references[2:]], references, Resampling(samples=10, trials=4000)
    )

    assert one.difference > 5
    assert one.approximate_randomisation == 1
    assert two.approximate_randomisation == pytest.approx(0.5, abs=0.03)


@pytest.mark.parametrize("reply", [["a", "b", "c", "d"], ["x"], []], ids=["right", "wrong", "empty"])
def test_equal_replies_have_p_1(reply: list[str]) -> None:
    """sacreBLEU would have p = 1 / (trials + 1): the surest of all differences."""
    replies, references = [reply, ["y"]], [["a", "b", "c", "d"], ["z"]]

    found = run_test(replies, replies, references)

    assert (found.difference, found.low, found.high) == (0, 0, 0)
    assert (found.paired_bootstrap, found.approximate_randomisation) == (1, 1)


@pytest.mark.parametrize("chunk", [1, 100, 7 * 64])
def test_numbers_depend_on_the_seed_but_not_on_chunks_or_company(
    monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    chooser = np.random.default_rng(0)
    statistics = [chooser.integers(1, 9, size=(7, 10)) for _ in range(3)]
    resampling = Resampling(samples=150, trials=150)
    whole = sample_bleu(statistics, resampling)

    monkeypatch.setattr(significance, "CHUNK", chunk)

    for each, own in zip(whole, statistics, strict=True):
        (alone,) = sample_bleu([own], resampling)
        assert np.array_equal(alone.resampled, each.resampled)
        assert np.array_equal(alone.selected, each.selected)
        assert np.array_equal(bootstrap_bleu([own], resampling)[0], each.resampled)
    (other,) = bootstrap_bleu(statistics[:1], Resampling(150, 150, seed=1))
    assert other.tolist() != whole[0].resampled.tolist()


def test_the_signature_names_tests_numbers_seed_and_version() -> None:
    signature = run_test([["a"]], [["b"]], [["a"]], Resampling(20, 30, 7)).signature

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
