"""Replies are scored by every metric, and systems are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import sacrebleu

from bidibeam.data.words import split
from bidibeam.errors import InputError, UnknownNameError
from bidibeam.evaluation.evaluate import compare_systems, evaluate_systems, score_system
from bidibeam.evaluation.systems import System
from bidibeam.metrics import METRICS, build_metric
from bidibeam.metrics.bleu import CorpusBleu
from bidibeam.metrics.resampling import Resampling
from bidibeam.metrics.scoring import measure, score
from tests.unit.evaluation.evidences import answering

REFERENCES = ["see you at noon then", "i do not know", "no", "yes , at home"]


def system(
    name: str, *replies: str, beam_size: int = 10, references: Sequence[str | None] = REFERENCES
) -> System:
    return answering(name, replies, references, beam_size)


GOOD = ("See you at noon then!", "I do not know.", "yes", "Yes, at home.")
POOR = ("see you", "i do not know", "no", "")


METRICS_OF_ALL = [build_metric(name) for name in METRICS.names()]
BLEU = CorpusBleu("words")


def test_a_system_is_scored_by_every_metric_as_the_metric_itself_does() -> None:
    poor = system("poor", *POOR)

    scored = score_system(poor, METRICS_OF_ALL)

    assert (scored["signature"], scored["empty"]) == (str(poor.signature), 1)
    assert list(scored["scores"]) == METRICS.names()
    for metric in METRICS_OF_ALL:
        found = scored["scores"][metric.name]
        assert found["value"] == score(metric, measure(metric, list(POOR), [(text,) for text in REFERENCES]))
        assert found["low"] <= found["value"] <= found["high"]
        samples = 100 if metric.name.startswith("distinct") else 1000
        assert found["signature"] == f"{metric.signature}|interval:95%|samples:{samples}|seed:12345"


def test_only_what_is_asked_for_has_an_interval() -> None:
    scores = score_system(system("good", *GOOD), METRICS_OF_ALL, intervals=["wer"])["scores"]

    assert {name for name, found in scores.items() if "low" in found or "high" in found} == {"wer"}
    assert "interval" not in scores["bleu"]["signature"]


def test_the_interval_of_bleu_is_sacrebleus() -> None:
    few = Resampling(samples=200)
    scores = score_system(system("good", *GOOD), [CorpusBleu(), BLEU], resampling=few)["scores"]

    words = [" ".join(split(reply)) for reply in GOOD]
    metric = sacrebleu.BLEU(tokenize="none", force=True)
    told = metric.corpus_score(words, [REFERENCES], n_bootstrap=200).format(width=6)
    bleu = scores["bleu"]
    assert f" ± {(bleu['high'] - bleu['low']) / 2:.6f}" in told
    assert bleu["low"] <= bleu["value"] <= bleu["high"]
    assert bleu["signature"].endswith("|interval:95%|samples:200|seed:12345")


def test_several_references_count_and_are_signed() -> None:
    beams = [replace(line, references=(*line.references, "yes")) for line in system("good", *GOOD).beams]
    several = replace(system("good", *GOOD), beams=beams)

    scores = score_system(several, METRICS_OF_ALL)["scores"]

    single = score_system(system("good", *GOOD), METRICS_OF_ALL)["scores"]
    assert scores["exact_match"]["value"] == single["exact_match"]["value"] + 25  # "yes" is right now
    assert all("nrefs:2" in found["signature"] for found in scores.values())
    results = evaluate_systems([several], [build_metric("ser"), BLEU], ["good"])
    assert (results["metric"], results["lower_is_better"]) == ("ser", ["ser"])
    assert results["empty_references"] == 0


def test_an_interval_stays_within_a_metrics_bounds_and_that_of_a_difference_is_whole() -> None:
    metric = build_metric("distinct-1")
    varied, poor = system("varied", "a b", "c d", "e f", "g h"), system("poor", "a b", "a d", "e f", "g h")

    value = score_system(varied, [metric])["scores"]["distinct-1"]

    assert value["low"] < value["value"] == value["high"] == 1
    (test,) = compare_systems([varied, poor], metric, ["poor"])
    assert test["low"] < test["difference"] < test["high"]


def test_every_system_is_tested_against_every_baseline_but_itself() -> None:
    systems = [system("vbs", *POOR), system("bidia", *GOOD), system("random", "a", "b", "c", "d")]

    tests = compare_systems(systems, BLEU, ["vbs", "bidia"], resampling=Resampling(50, 60, 7))

    pairs = [(test["system"], test["baseline"]) for test in tests]
    assert pairs == [("bidia", "vbs"), ("random", "vbs"), ("vbs", "bidia"), ("random", "bidia")]
    bleu = {each.name: score_system(each, [BLEU])["scores"]["bleu"]["value"] for each in systems}
    for test in tests:
        assert test["difference"] == bleu[test["system"]] - bleu[test["baseline"]]
        assert test["low"] <= test["high"]
        assert test["signature"].startswith("tests:paired_bootstrap,approximate_randomisation|metric:bleu|")
        assert "|samples:50|trials:60|seed:7|" in test["signature"]
        assert test["signature"].endswith("|tok:none|case:mixed|words:lower-cased, by bidibeam")
    keys = "system baseline beam_size metric difference low high paired_bootstrap approximate_randomisation"
    assert list(tests[0]) == [*keys.split(), "signature"]


def test_the_baseline_is_that_of_the_same_beam_size() -> None:
    few = Resampling(20, 20)
    systems = [
        system("vbs", *POOR, beam_size=10),
        system("vbs", *GOOD, beam_size=50),
        *(system("bidia", *GOOD, beam_size=size) for size in (50, 10, 20)),
    ]

    tests = compare_systems(systems, BLEU, ["vbs"], resampling=few)

    assert [test["beam_size"] for test in tests] == [50, 10]
    assert tests[0]["difference"] == 0 < tests[1]["difference"]
    assert [
        test["beam_size"] for test in compare_systems([systems[0], systems[2]], BLEU, ["vbs"], resampling=few)
    ] == [50]
    assert compare_systems(systems[:1], BLEU, ["vbs"]) == []  # one system alone is not tested


def test_what_cannot_be_scored_or_compared_is_named() -> None:
    other = system("other", *GOOD, references=[*REFERENCES[:3], "no"])

    with pytest.raises(InputError, match=r"^Source '1' has no reference, so its reply cannot be scored\.$"):
        score_system(system("good", "a", "b", references=["a", None]), [BLEU])
    with pytest.raises(InputError, match=r"^There are no replies to score"):
        score_system(system("good", references=[]), [BLEU])
    with pytest.raises(UnknownNameError, match=r"^No system is called 'x'\. Choose one of: vbs, bidia\.$"):
        compare_systems([system("vbs", *POOR), system("bidia", *GOOD)], BLEU, ["x"])
    with pytest.raises(InputError, match=r"^'other' and 'vbs' do not have the same references, and a paired"):
        compare_systems([system("vbs", *POOR), other], BLEU, ["vbs"])
