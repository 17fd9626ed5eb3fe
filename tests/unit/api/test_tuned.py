"""tuned.json: written once, used from then on, and refused where it does not belong."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bidibeam import __version__
from bidibeam.api import load_decoder, load_run
from bidibeam.api.decoders import choose_default, default_search
from bidibeam.api.tuned import TUNED_FILE, Conditions, TunedSettings, merge_with_earlier, write_tuned
from bidibeam.api.tuning import TuningPlan
from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.metrics import build_metric
from bidibeam.models.base import usual_length
from bidibeam.models.run import RunModel as Run
from bidibeam.search.settings import SearchSettings
from bidibeam.similarities.bleu import BleuT
from bidibeam.similarities.overlap import Edit
from bidibeam.strategies.baselines import Vbs, VbsTuned
from bidibeam.strategies.bidia import BidiA
from bidibeam.strategies.bidis import BidiS
from bidibeam.strategies.loglinear import LogLinear
from bidibeam.strategies.settings import StrategySettings
from bidibeam.strategies.tuning import Compared, Curve, TuningResult

METRIC = build_metric("bleu", tokenize="words").signature
FOUND = TuningResult(
    options={
        "bidis": {"lambda_": 0.3},
        "vbs-tuned": {"length_exponent": 1.5, "word_reward": 0.4},
        "bidia bleu_t": {"T": 8.0},
    },
    values={"vbs": 1.0, "vbs-tuned": 2.5, "bidis": 1.25},
    curves=(
        Curve("bidis", "lambda", {}, (0.0, 0.3), (1.0, 1.25), 0.3),
        Curve("vbs-tuned", "length_exponent", {"word_reward": 0.4}, (1.0, 1.5, 4.0), (1.0, 2.5, 1.0), 1.5),
        Curve("vbs-tuned", "word_reward", {"length_exponent": 1.5}, (0.4, 4.0), (2.5, 1.0), 0.4),
        Curve("bidia bleu_t", "T", {}, (5, 8, 20), (1.0, 1.5, 1.0), 8),
    ),
    sources=17,
    ranking=(
        Compared("vbs-tuned", 2.5, 2.25, 2.0, 2.75),
        Compared("bidis", 1.25, 1.0, 0.5, 1.5, -1.25, -2.0, -0.5),
    ),
    recommended="bidis",
)


def write(path: Path, weights: str) -> None:
    write_tuned(path, FOUND, Conditions(METRIC, SearchSettings(beam_size=7), weights))


@pytest.fixture
def run(copied_run: Path) -> Run:
    """A copy of the toy run, so that the others stay untuned."""
    return load_run(copied_run)


@pytest.fixture
def tuned_run(run: Run) -> Run:
    write(run.path / TUNED_FILE, run.fingerprint)
    return run


def strategy_of(run: Run, name: str, **options: Any) -> object:
    return load_decoder(run, StrategySettings(name, options)).ranker.strategy


def test_what_is_written_is_read(tmp_path: Path) -> None:
    write(tmp_path / TUNED_FILE, "abc")

    tuned = TunedSettings(tmp_path / TUNED_FILE)

    assert tuned.options == FOUND.options
    assert tuned.content == {
        "format_version": 2,
        "bidibeam_version": __version__,
        "weights": "abc",
        "split": "validation",
        "sources": 17,
        "search": {
            "beam_size": 7,
            "max_length": 20,
            "min_length": 1,
            "length_penalty": 0.6,
            "length_formula": "gnmt",
            "count_end": True,
            "stopping": "shrinking",
            "unfinished": "keep",
            "allow_unknown": False,
        },
        "metric": str(METRIC),
        "penalty_length": None,
        "recommended": "bidis",
        "options": FOUND.options,
        "values": FOUND.values,
        "ranking": json.loads(json.dumps([asdict(each) for each in FOUND.ranking])),
        "curves": json.loads(json.dumps([asdict(curve) for curve in FOUND.curves])),
    }
    tuned.check_weights("abc")
    assert tuned.recommended == "bidis"


def test_a_model_is_searched_and_compared_as_it_was_when_it_was_tuned(run: Run) -> None:
    search = SearchSettings(max_length=7, no_repeat_ngram_size=2, bad_words=("red",))
    write_tuned(run.path / TUNED_FILE, FOUND, Conditions(METRIC, search, run.fingerprint, 17))

    decoder = load_decoder(run, "bidia bleu_t")

    facts, strategy = dict(decoder.signature.facts), decoder.ranker.strategy
    assert (facts["no_repeat_ngram_size"], facts["bad_words"]) == ("2", "red")
    assert strategy == BidiA(BleuT(max_length=17))
    assert default_search(run, TunedSettings.known_for(run), no_repeat_ngram_size=0) == replace(
        default_search(run), max_length=7, bad_words=("red",)
    )
    write_tuned(run.path / TUNED_FILE, FOUND, Conditions(METRIC, search, "0123456789ab", 17))
    assert TunedSettings.known_for(run) is None
    assert "no_repeat_ngram_size" not in dict(load_decoder(run, "vbs").signature.facts)


@pytest.mark.parametrize(
    "wrong",
    [
        {"search": None},
        {"search": {"no_repeat_ngram_size": "3"}},
        {"search": {"repetition_penalty": None}},
        {"search": {"bad_words": "hello"}},
        {"penalty_length": 0},
        {"penalty_length": "x"},
    ],
)
def test_conditions_that_make_no_sense_are_damage_to_the_file(tuned_run: Run, wrong: dict[str, Any]) -> None:
    path = tuned_run.path / TUNED_FILE
    path.write_text(json.dumps({**json.loads(path.read_text()), **wrong}))

    with pytest.raises(RunError, match=r"tuned\.json is damaged \(.*`bidibeam tune RUN`"):
        load_decoder(tuned_run)
    assert load_decoder(tuned_run, "vbs").ranker.strategy == Vbs()  # which takes nothing from it


def test_what_was_compared_with_another_t_is_lost(tuned_run: Run) -> None:
    path = tuned_run.path / TUNED_FILE
    known = Conditions(METRIC, SearchSettings(beam_size=7), tuned_run.fingerprint)
    fewer = replace(FOUND, options={"bidis": {"lambda_": 0.3}}, ranking=FOUND.ranking[1:], recommended=None)

    assert merge_with_earlier(path, fewer, known)[0].recommended == "bidis"
    alone, lost = merge_with_earlier(path, fewer, replace(known, penalty_length=17))

    assert alone.recommended is None
    assert lost == "what tuned.json had for vbs-tuned, bidia bleu_t is gone: it was tuned for another T."


def test_a_beam_too_narrow_for_what_is_recommended_is_answered_by_the_default(run: Run) -> None:
    found = replace(FOUND, recommended="bidia bleu_t")
    write_tuned(run.path / TUNED_FILE, found, Conditions(METRIC, SearchSettings(), run.fingerprint))
    tuned = TunedSettings.find(run)

    narrow, wide = (choose_default(run, tuned, SearchSettings(beam_size=size))[0].system for size in (1, 2))

    assert (narrow, wide) == ("bidis lambda=1", "bidia bleu_t")
    assert load_decoder(run, settings=SearchSettings(beam_size=1)).ranker.strategy == BidiS(1.0)


def test_the_recommended_system_answers_where_none_is_named(run: Run) -> None:
    assert load_decoder(run).ranker.strategy == BidiS(1.0)  # nobody has tuned it
    write(run.path / TUNED_FILE, run.fingerprint)
    assert load_decoder(run).ranker.strategy == BidiS(0.3)
    assert load_decoder(run, "vbs").ranker.strategy == Vbs()
    write_tuned(
        run.path / TUNED_FILE,
        replace(FOUND, recommended=None),
        Conditions(METRIC, SearchSettings(), run.fingerprint),
    )
    assert choose_default(run, TunedSettings.find(run), SearchSettings())[0] == StrategySettings("bidis")
    assert load_decoder(run).ranker.strategy == BidiS(0.3)
    write(run.path / TUNED_FILE, "0123456789ab")  # for other weights: as if nobody had tuned it
    default, _ = choose_default(run, TunedSettings.find(run), SearchSettings())
    assert default == StrategySettings("bidis", {"lambda_": 1.0})
    assert load_decoder(run).ranker.strategy == BidiS(1.0)


def test_a_strategy_is_tuned_if_something_of_it_came_from_the_file(tmp_path: Path) -> None:
    options = {"bidis": {"lambda_": 0.3}, "loglinear both": {"reverse_weight": 0.5}, "bidia bleu_t": {"T": 8}}
    assert TunedSettings.find(tmp_path) is None
    content = {"format_version": 2, "options": options}
    (tmp_path / TUNED_FILE).write_text(json.dumps(content), encoding="utf-8")
    tuned = TunedSettings.find(tmp_path)
    assert tuned is not None

    for name in ("bidis", "loglinear both", "bidia bleu_t tuned"):
        assert tuned.apply(StrategySettings.named(name))[1] is tuned, name
    for name in ("bidis lambda=1", "loglinear", "bidia bleu_t", "bidia bleu", "vbs"):
        settings = StrategySettings.named(name)
        assert tuned.apply(settings) == (settings, None), name


def test_weights_of_loglinear_are_known_by_the_whole_name(run: Run) -> None:
    options = {
        "loglinear": {"regular_weight": 1.0, "reverse_weight": 0.5},
        "loglinear edit both": {"agreement_weight": 7.0},
    }
    content = {"format_version": 2, "options": options, "weights": run.fingerprint}
    (run.path / TUNED_FILE).write_text(json.dumps(content), encoding="utf-8")

    assert load_decoder(run, "loglinear").ranker.strategy == LogLinear(1.0, 0.5)
    agreed = load_decoder(run, "loglinear edit both").ranker.strategy
    assert agreed == LogLinear(agreement_weight=7.0, candidates="both", similarity=Edit())
    assert load_decoder(run, "loglinear both").ranker.strategy == LogLinear(candidates="both")


def test_t_is_the_median_length_of_what_training_saw(run: Run, toy_data: PreparedData) -> None:
    lengths = sorted(toy_data.split("train").response_length.tolist())
    facts = dict(load_decoder(run, "bidia bleu_t").signature.facts)
    assert facts["T"] == str(lengths[(len(lengths) - 1) // 2]) == str(usual_length(run))
    run.data.pop("lengths")
    assert dict(load_decoder(run, "bidia bleu_t").signature.facts)["T"] == "median"


def test_search_options_are_conditions_where_they_are_used(tmp_path: Path) -> None:
    path, search = tmp_path / TUNED_FILE, SearchSettings(bad_words=("a", "b c"), no_repeat_ngram_size=3)
    write_tuned(path, FOUND, Conditions(METRIC, search, "abc"))
    rest = replace(FOUND, options={name: FOUND.options[name] for name in FOUND.options if name != "bidis"})

    content = TunedSettings(path).content["search"]
    same, nothing = merge_with_earlier(path, rest, Conditions(METRIC, search, "abc"))
    _, lost = merge_with_earlier(path, rest, Conditions(METRIC, SearchSettings(), "abc"))

    assert (content["bad_words"], content["no_repeat_ngram_size"]) == (["a", "b c"], 3)
    assert "repetition_penalty" not in content
    assert (same.options, nothing) == (FOUND.options, "")
    assert lost == "what tuned.json had for bidis is gone: it was tuned for another search."


def test_its_name_tells_its_content(tmp_path: Path) -> None:
    names = []
    for weights in ("abc", "abc", "abd"):
        write(tmp_path / TUNED_FILE, weights)
        names.append(TunedSettings(tmp_path / TUNED_FILE).name)

    assert names[0] == names[1] != names[2]
    assert re.fullmatch(r"tuned\.json@[0-9a-f]{8}", names[0])


def test_it_is_used_and_named_in_the_signature(tuned_run: Run) -> None:
    name = TunedSettings(tuned_run.path / TUNED_FILE).name

    assert strategy_of(tuned_run, "bidis") == BidiS(0.3)
    assert strategy_of(tuned_run, "vbs-tuned") == VbsTuned(1.5, 0.4)
    signature = load_decoder(tuned_run, "bidis").signature
    assert ("lambda", "0.3") in signature.facts
    assert ("tuned", name) in signature.facts
    assert [key for key, _ in signature.facts[-3:]] == ["tuned", "model", "bidibeam"]


def test_a_tuned_t_is_used_where_the_systems_name_asks_for_it(tuned_run: Run) -> None:
    tuned, plain = (
        dict(load_decoder(tuned_run, name, settings=SearchSettings()).signature.facts)
        for name in ("bidia bleu_t tuned", "bidia bleu_t")
    )

    assert (tuned["T"], plain["T"]) == ("8", str(usual_length(tuned_run)))
    assert tuned["tuned"] == TunedSettings(tuned_run.path / TUNED_FILE).name
    assert "tuned" not in plain


def test_a_t_that_nobody_tuned_is_missed(run: Run) -> None:
    with pytest.raises(SettingsError, match=r"^The system 'bidia bleu_t tuned' must be tuned first"):
        load_decoder(run, "bidia bleu_t tuned")
    write(run.path / TUNED_FILE, run.fingerprint)
    with pytest.raises(SettingsError, match=r"^The system 'bidia wmd_t tuned' must be tuned first"):
        load_decoder(run, "bidia wmd_t tuned")


def test_a_strategys_own_options_win(tuned_run: Run) -> None:
    assert strategy_of(tuned_run, "bidis", lambda_=2.0) == BidiS(2.0)
    assert strategy_of(tuned_run, "vbs-tuned", word_reward=0.0) == VbsTuned(1.5, 0.0)
    own = load_decoder(tuned_run, StrategySettings("bidis", {"lambda_": 2.0}))
    assert "tuned" not in dict(own.signature.facts)
    partly = load_decoder(tuned_run, StrategySettings("vbs-tuned", {"word_reward": 0.0}))
    assert "tuned" in dict(partly.signature.facts)


@pytest.mark.parametrize(
    ("weights", "lambda_"), [("own", "0.3"), ("0123456789ab", "1"), (None, "1")], ids=["own", "other", "none"]
)
def test_an_explanation_asks_others_with_what_was_tuned_for_these_weights(
    run: Run, weights: str | None, lambda_: str
) -> None:
    decoder = load_decoder(run, "vbs")
    if weights is None:
        (run.path / TUNED_FILE).write_text("{", encoding="utf-8")
    else:
        write(run.path / TUNED_FILE, run.fingerprint if weights == "own" else weights)

    explanation = decoder.explain("red blue")

    reason = next(each.reason for each in explanation.choices if each.system == "bidis")
    assert f" + {lambda_} * " in reason
    own = load_decoder(run, StrategySettings("bidis", {"lambda_": float(lambda_)}))
    assert own.explain("red blue").choices[0].reason == reason


def test_an_untuned_run_has_defaults_or_says_what_is_missing(run: Run) -> None:
    assert strategy_of(run, "bidis") == BidiS(1.0)
    with pytest.raises(SettingsError, match=r"^The strategy vbs-tuned needs length_exponent and word_re"):
        load_decoder(run, "vbs-tuned")


def test_what_was_tuned_for_other_weights_is_refused_where_it_would_be_used(run: Run) -> None:
    write(run.path / TUNED_FILE, "0123456789ab")

    for name in ("bidis", "vbs-tuned"):
        message = rf"was tuned for other weights \(0123456789ab, not {run.fingerprint}\)\. Run `bidibeam"
        with pytest.raises(SettingsError, match=message):
            load_decoder(run, name)
    assert strategy_of(run, "bidis", lambda_=0.5) == BidiS(0.5)
    load_decoder(run, "bidia")


def test_a_number_that_is_written_as_a_string_is_a_number(tuned_run: Run) -> None:
    path = tuned_run.path / TUNED_FILE
    content = json.loads(path.read_text(encoding="utf-8"))
    content["options"]["bidis"]["lambda_"] = "0.5"
    path.write_text(json.dumps(content), encoding="utf-8")

    assert strategy_of(tuned_run, "bidis") == BidiS(0.5)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "There is no .*: `bidibeam tune RUN` writes it"),
        ("{", r"is damaged \(Expecting property name"),
        ("[1]", r"is damaged \(an object is needed, not list\)"),
        ('{"format_version": 2}', r"is damaged \(The setting options is missing\)"),
        ('{"format_version": 2, "options": [1]}', r"is damaged \(The setting options is \[1\]"),
        (
            '{"format_version": 2, "options": {"bidis": {"lambda_": "much"}}}',
            r"is damaged \(.*lambda_ is .much.",
        ),
        (
            "\udcff",
            r"is damaged \(.utf-8. codec can.t decode byte 0xff.*Make it again with `bidibeam tune RUN`",
        ),
        (
            '{"format_version": 3}',
            r"has format version 3; bidibeam .* reads version 2\. Make it again",
        ),
        ('{"format_version": 1, "options": {"bidis": 0.3}}', r"has format version 1; bidibeam"),
        (
            '{"format_version": 2, "options": {}, "recommended": 3}',
            r"is damaged \(The setting recommended is 3",
        ),
    ],
)
def test_a_file_that_is_of_no_use_is_one_sentence(tmp_path: Path, content: str | None, reason: str) -> None:
    path = tmp_path / TUNED_FILE
    if content is not None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))

    with pytest.raises(RunError, match=reason) as caught:
        TunedSettings(path)
    assert str(path) in str(caught.value)


def test_a_damaged_file_is_no_hindrance_to_whoever_tunes_again(run: Run) -> None:
    (run.path / TUNED_FILE).write_text("{", encoding="utf-8")

    assert strategy_of(run, "bidis", lambda_=1.0) == BidiS(1.0)
    with pytest.raises(RunError, match="is damaged"):
        load_decoder(run, "bidis")


def test_a_recommended_system_for_which_the_beam_is_too_small_does_not_stand_in_the_way(run: Run) -> None:
    content = {"format_version": 2, "options": {}, "weights": run.fingerprint, "recommended": "bidia edit"}
    (run.path / TUNED_FILE).write_text(json.dumps(content), encoding="utf-8")

    assert load_decoder(run).ranker.strategy.requirements.directions == tuple(Direction)
    assert load_decoder(run, settings=SearchSettings(beam_size=1)).ranker.strategy == BidiS(1.0)
    with pytest.raises(SettingsError, match="must be at least 2 for bidia"):
        load_decoder(run, "bidia", settings=SearchSettings(beam_size=1))


def test_a_model_of_one_direction_is_compared_by_what_that_serves() -> None:
    regular, reverse = (SimpleNamespace(directions=(direction,)) for direction in Direction)

    plans = [TuningPlan.all_of(each, SearchSettings(), quick=True) for each in (regular, reverse)]

    assert plans[0].systems == ("vbs", "vbs-tuned", "mbr bleu_t", "mbr edit")
    assert plans[1].systems == ("reverse-vbs",)
    assert plans[0].left_out["reverse-vbs"] == "It needs the reverse direction too."
    assert plans[1].left_out["vbs"] == "It needs the regular direction too."
