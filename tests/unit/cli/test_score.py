"""`bidibeam score`: a model's log-probabilities, added to lists from anywhere."""

from __future__ import annotations

import json
import math
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from bidibeam import registry
from bidibeam.api import load_run
from bidibeam.data.batching import pad_sources
from bidibeam.data.prepared import PreparedData
from bidibeam.hypotheses import Direction
from bidibeam.models.gru.scorer import GRUScorer
from tests.unit.cli.calls import QUICK, called, fill, lines_of, refused, refused_line, write_lines
from tests.unit.models.huggingface.folders import write_joint, write_model, write_pair

SCORES = ("log_prob", "other_log_prob", "score")


@pytest.fixture(scope="module", params=["bart", "t5", "gpt2"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Models that write no start token, which a text would not tell."""
    generation = {"suppress_tokens": [2]}
    return write_pair(tmp_path_factory.mktemp("pair"), request.param, generation=generation)


def bare(path: Path, target: Path) -> Path:
    """The same lists without numbers."""
    lines = lines_of(path)
    for line in lines:
        line.pop("ranking", None)
        for one in (*line["regular"], *line["reverse"]):
            for name in (*SCORES, "length"):
                one[name] = None
    return write_lines(target, *lines)


def numbers(path: Path, name: str) -> list[list[float]]:
    return [[one[name] for direction in Direction for one in line[direction]] for line in lines_of(path)]


def close(one: list[list[float]], other: list[list[float]]) -> None:
    assert len(one) == len(other)
    for line, expected in zip(one, other, strict=True):
        assert line == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("strategy", ["bidis", "bidia"])
def test_both_models_say_of_texts_what_the_search_said(
    pair: tuple[Path, Path], hf_sources: Path, tmp_path: Path, strategy: str
) -> None:
    live, half, whole = (tmp_path / name for name in ("live.jsonl", "half.jsonl", "whole.jsonl"))
    models = ("--regular", pair[0], "--reverse", pair[1])
    assert called("decode", *models, hf_sources, *QUICK, "--strategy", strategy, "--n-best", live).status == 0

    call = called("score", bare(live, tmp_path / "bare.jsonl"), "--model", pair[0], "--out", half)
    assert (call.status, call.out) == (0, ""), call.err
    assert called("score", half, "--model", pair[1], "--out", whole).status == 0

    assert sum(map(len, numbers(live, "log_prob"))) > 8
    for name in (*SCORES, "length"):
        close(numbers(whole, name), numbers(live, name))
    for line in lines_of(half):
        assert all(one["log_prob"] is not None and one["other_log_prob"] is None for one in line["regular"])
        assert all(one["log_prob"] is None and one["other_log_prob"] is not None for one in line["reverse"])


def test_bidis_needs_no_model_once_a_reverse_one_has_scored(
    pair: tuple[Path, Path], hf_sources: Path, tmp_path: Path
) -> None:
    beams, scored, live = (tmp_path / name for name in ("beams.jsonl", "scored.jsonl", "live.jsonl"))
    bidis = ("--strategy", "bidis", "--lambda", "0.7")
    models = ("--regular", pair[0], "--reverse", pair[1])
    expected = called("decode", *models, hf_sources, *QUICK, *bidis, "--n-best", live)
    vbs = ("--strategy", "vbs", "--n-best", beams)
    assert called("decode", "--regular", pair[0], hf_sources, *QUICK, *vbs).status == 0
    assert 'has no "other_log_prob", and bidis needs it' in refused("rerank", beams, *bidis)

    call = called("score", beams, "--model", pair[1], "--out", scored)
    again = called("rerank", scored, *bidis, "--n-best", tmp_path / "reranked.jsonl")

    assert call.status == 0, call.err
    count = sum(len(line["regular"]) for line in lines_of(beams))
    assert f": other_log_prob of {count} regular hypotheses, by " in call.told
    assert again.replies == expected.replies
    for line, other in zip(lines_of(tmp_path / "reranked.jsonl"), lines_of(live), strict=True):
        ours, theirs = (each["ranking"]["replies"] for each in (line, other))
        assert [one["text"] for one in ours] == [one["text"] for one in theirs]
        assert [one["score"] for one in ours] == pytest.approx([one["score"] for one in theirs], abs=1e-4)


def test_a_run_scores_too_in_both_directions_or_one(
    toy_run: Path, toy_data: PreparedData, tmp_path: Path
) -> None:
    live, given, out = (tmp_path / name for name in ("live.jsonl", "bare.jsonl", "out.jsonl"))
    assert called("decode", toy_run, toy_data.path / "test.jsonl", *QUICK, "--n-best", live).status == 0
    bare(live, given)

    both = called("score", given, "--model", toy_run, "--out", out, "--batch-size", "5")
    assert both.status == 0, both.err
    for name in (*SCORES, "length"):
        close(numbers(out, name), numbers(live, name))
    one = called("score", given, "--model", toy_run, "--direction", "reverse")

    assert "(reverse)" in one.told
    assert "(regular)" not in one.told
    for line in map(json.loads, one.out.splitlines()):
        assert all(each["log_prob"] is None for each in line["regular"])
        assert all(each["score"] is not None for each in line["reverse"])
    bidis = ("--strategy", "bidis")
    expected = called("rerank", live, *bidis).replies
    assert called("rerank", out, *bidis).replies == expected


def test_a_log_probability_is_that_of_the_model_itself(toy_run: Path, tmp_path: Path) -> None:
    given = write_lines(tmp_path / "in.jsonl", {"source": "red cat", "regular": [{"text": "Red cat!"}]})
    run = load_run(toy_run)
    ids = [*run.tokenizer.encode("red cat !"), run.tokenizer.end_id]
    source = pad_sources([run.tokenizer.encode("red cat")])
    (expected,) = GRUScorer(run.network, Direction.REGULAR).log_probs(source, [[ids]])

    call = called("score", given, "--model", toy_run, "--direction", "regular", "--length-penalty", "1")

    (one,) = json.loads(call.out)["regular"]
    assert one["log_prob"] == pytest.approx(expected[0], abs=1e-5)
    assert one["length"] == 4
    assert one["score"] == pytest.approx(expected[0] * 6 / 9, abs=1e-5)
    formula = ("--length-penalty", "1", "--length-formula", "power")
    (one,) = json.loads(called("score", given, "--model", toy_run, *formula).out)["regular"]
    assert one["score"] == pytest.approx(expected[0] / 4, abs=1e-5)


def test_a_length_formula_may_come_from_another_package(
    toy_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = EntryPoint("mean", "bidibeam.search.length:PowerPenalty", "bidibeam.length_penalties")
    monkeypatch.setattr(registry, "entry_points", lambda group: [point] if group == point.group else [])
    given = write_lines(tmp_path / "in.jsonl", {"source": "red cat", "regular": [{"text": "red"}]})
    power, mean = (
        called("score", given, "--model", toy_run, "--length-formula", name) for name in ("power", "mean")
    )

    assert mean.out == power.out
    assert called(
        "decode", toy_run, *QUICK, "--strategy", "vbs", "--length-formula", "mean", typed="red\n"
    ).out
    for command in (("score", given, "--model", toy_run), ("decode", toy_run)):
        call = called(*command, "--length-formula", "men", typed="red\n")
        assert call.status == 2
        assert "Invalid value for '--length-formula': Unknown length formula 'men'." in call.told
        assert "Did you mean 'mean'? Choose one of: gnmt, power, mean." in call.told


def test_a_reply_that_was_cut_off_has_no_end_for_its_own_model(tmp_path: Path) -> None:
    folder = write_joint(tmp_path / "joint")
    texts = [{"text": "red cat dog", "finished": finished} for finished in (True, False)]
    given = write_lines(tmp_path / "in.jsonl", {"source": "red", "regular": texts, "reverse": texts})

    line = json.loads(called("score", given, "--model", folder).out)

    for direction in Direction:
        whole, cut = line[direction]
        assert (whole["length"], cut["length"]) == (4, 3)
        assert cut["log_prob"] > whole["log_prob"]
        assert cut["other_log_prob"] == pytest.approx(whole["other_log_prob"], abs=1e-5)


def test_texts_that_a_model_does_not_know_are_noted(toy_run: Path, tmp_path: Path) -> None:
    texts = [{"text": "red"}, {"text": "qqqq"}, {"text": "wwww"}]
    given = write_lines(tmp_path / "in.jsonl", {"id": "7", "source": "zzzz", "regular": texts})

    told = called("score", given, "--model", toy_run).told

    assert 'Note: source 7 has no token that the model knows: "zzzz".' in told
    first = "the first of them regular[1] of source 7"
    assert f'Note: 2 hypotheses have no token that the model knows, {first}: "qqqq".' in told
    write_lines(given, {"source": "red", "regular": texts[:1]})
    assert "Note" not in called("score", given, "--model", toy_run).told


def test_what_is_there_stays_unless_it_is_to_be_overwritten(toy_run: Path, tmp_path: Path) -> None:
    known = {"text": "red", "log_prob": -1.5, "score": -1.0, "length": 2, "other_log_prob": -7.0}
    given = write_lines(tmp_path / "in.jsonl", {"source": "red", "regular": [known, {"text": "cat"}]})

    kept = called("score", given, "--model", toy_run)
    replaced = called("score", given, "--model", toy_run, "--overwrite")

    first, second = json.loads(kept.out)["regular"]
    assert {name: first[name] for name in known} == known
    assert all(second[name] is not None for name in SCORES)
    assert "log_prob and score of 1 regular hypothesis, other_log_prob of 1 regular hypothesis" in kept.told
    assert all(json.loads(replaced.out)["regular"][0][name] != known[name] for name in SCORES)
    write_lines(given, {"source": "red", "regular": [known]})
    assert "Nothing was missing that " in called("score", given, "--model", toy_run).told


def test_without_a_model_it_is_the_one_in_the_box_and_lists_come_through_a_pipe() -> None:
    call = called("score", "-", typed='{"source": "how are you?", "reverse": [{"text": "I am fine."}]}\n')

    assert "this is the small one that comes with bidibeam" in call.told
    (one,) = json.loads(call.out)["reverse"]
    assert all(math.isfinite(one[name]) and one[name] < 0 for name in SCORES)


def test_a_model_whose_config_says_nothing_is_what_it_is_called(tmp_path: Path) -> None:
    unmarked = write_model(tmp_path / "unmarked", "bart", None)
    marked = write_model(tmp_path / "marked", "bart", Direction.REVERSE)
    given = write_lines(tmp_path / "in.jsonl", {"source": "red", "regular": [{"text": "cat dog"}]})

    values = [
        json.loads(called("score", given, "--model", folder, *more).out)["regular"][0]["other_log_prob"]
        for folder, more in ((unmarked, ("--direction", "reverse")), (marked, ()))
    ]

    assert values[0] == pytest.approx(values[1], abs=1e-6)
    assert json.loads(called("score", given, "--model", unmarked).out)["regular"][0]["other_log_prob"] is None
    said = refused("score", given, "--model", marked, "--direction", "regular")
    assert said == "marked is a reverse model by its config: leave out --direction regular."


@pytest.fixture
def given(toy_run: Path, regular_run: Path, tmp_path: Path) -> dict[str, Path]:
    """Models, lists that can be scored, and such that cannot."""
    made: dict[str, list[dict[str, object]]] = {
        "good": [{"source": "red", "regular": [{"text": "red"}]}],
        "unread": [{"id": "7", "regular": [{"text": "red"}]}],
        "blank": [{"source": "red", "regular": [{"text": "red"}, {"text": " "}]}],
        "hollow": [{"source": "red", "regular": [], "reverse": []}],
        "nothing": [],
        "special": [{"id": "a", "source": "red", "regular": [{"text": "red"}, {"text": "</s>"}]}],
        "long": [{"source": "red", "regular": [{"text": "red " * 64}]}],
    }
    files = {name: write_lines(tmp_path / f"{name}.jsonl", *lines) for name, lines in made.items()}
    models = {"run": toy_run, "one": regular_run, "bart": write_model(tmp_path / "bart", "bart")}
    return {**files, **models, "no": tmp_path / "no.jsonl", "out": tmp_path / "out.jsonl"}


NO_TOKEN = "has no token under the tokenizer of"
REFUSED = {
    "{unread} --model {run}": "{unread}: the list with the id '7' has no source, and a model reads that",
    "{blank} --model {run}": f"Source '1': the hypothesis regular[1], ' ', {NO_TOKEN}",
    "{hollow} --model {run}": '{hollow}, line 1: the source with the id "1" has no hypotheses.',
    "{nothing} --model {run} --from jsonl": "{nothing} holds no lists, so there is nothing to score.",
    "{good} --model no/such": "The model 'no/such' is neither a folder nor on the Hugging Face Hub",
    "{good} --model {run} --length-penalty nan": "--length-penalty must be a finite number",
    "{good} --model {run} --list-direction reverse": "The format jsonl says itself whose its lists are",
    "{good} --model {run} --device abacus": "There is no device 'abacus' here that can compute.",
    "{no} --model {run}": "{no} cannot be read",
    "{good} --model {one} --direction reverse": "{one} has no reverse decoder, only: regular.",
    "{special} --model {bart}": f"Source 'a': the hypothesis regular[1], '</s>', {NO_TOKEN} bart@",
    "{long} --model {bart}": "bart has 64 positions, too few for a reply of 65 tokens: shorten it",
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_scored_is_said(
    line: str, given: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    for out in ("--out {out}", ""):  # stdout gets nothing either
        said = refused_line(f"score {line} {out}", given)
        assert said.startswith(fill(REFUSED[line], given))
    assert not given["out"].exists()


def test_the_input_is_never_overwritten(given: dict[str, Path]) -> None:
    said = refused_line("score {good} --model {run} --out {good}", given)

    assert said == fill("--out would overwrite the input, {good}. Name another file.", given)
