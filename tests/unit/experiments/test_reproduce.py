"""What an experiment repeats when a setting changes: never too little, never more."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError, UnknownNameError
from bidibeam.experiments import reproduce
from bidibeam.experiments.plan import GivenModel, Plan, read_beams
from bidibeam.experiments.reproduce import Experiment, find_unserved
from bidibeam.experiments.seeds import Seed
from bidibeam.experiments.settings import resolve_experiment
from bidibeam.experiments.stages import ExperimentObserver, Stage, run_stages
from bidibeam.hypotheses import Direction
from bidibeam.models.loading import load
from bidibeam.strategies.tuning import Curve, TuningResult
from tests.conftest import copied

BASE = ["beam_sizes=[2,5]", "sources=7", "validation_sources=3"]
SEARCHES = [
    *(f"search seed 0 validation {size}" for size in (1, 2, 3, 5)),
    *(f"search seed 0 test {size}" for size in (1, 2, 3, 5)),
]
LATER = ["tune seed 0", "perplexity seed 0", "cost seed 0", "evaluate seed 0", "gather seed 0", "report"]
FROM_TRAINING = ["train seed 0", *SEARCHES, *LATER]
WITHOUT_PERPLEXITY = [name for name in LATER if name != "perplexity seed 0"]


def experiment(folder: Path, *overrides: str, **options: Any) -> Experiment:
    settings = resolve_experiment(preset="demo", overrides=[*BASE, *overrides])
    return Experiment(folder, settings, preset="demo", **options)


def ran(made: Experiment) -> list[str]:
    """The stages that would run, each of which makes empty files."""

    def faked(stage: Stage) -> Stage:
        def work() -> None:
            for path in stage.outputs:
                folder = path.parent if path.suffix else path
                folder.mkdir(parents=True, exist_ok=True)
                if path.suffix:
                    path.touch()

        return replace(stage, work=work, identity=None)

    return run_stages(made.folder, [faked(stage) for stage in made.stages()], ExperimentObserver())


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("metric=wer", ["constant", *WITHOUT_PERPLEXITY]),
        ("tokenize=13a", ["constant", *WITHOUT_PERPLEXITY]),
        ("prepare.limit=1000", ["prepare", "positions", "constant", *FROM_TRAINING]),
        ("prepare.test_share=0.2", ["prepare", "positions", "constant", *FROM_TRAINING]),
        ("training.epochs=9", FROM_TRAINING),
        ("model.decoder_size=64", FROM_TRAINING),
        ("training.log_every=3", []),
        ("search.max_length=12", [*SEARCHES, *WITHOUT_PERPLEXITY]),
        (
            "sources=6",
            ["constant", *SEARCHES[4:], "perplexity seed 0", "evaluate seed 0", "gather seed 0", "report"],
        ),
        ("validation_sources=2", ["constant", *SEARCHES[:4], *WITHOUT_PERPLEXITY]),
        ("examples=1", ["evaluate seed 0", "gather seed 0", "report"]),
        ("cost_turns=9", ["cost seed 0", "gather seed 0", "report"]),
        (  # the searches that were not there, and all that is made of them
            "beam_sizes=[2,5,6]",
            [
                *(f"search seed 0 {each}" for each in ("validation 3", "validation 6", "test 3", "test 6")),
                *WITHOUT_PERPLEXITY,
            ],
        ),
    ],
)
def test_a_changed_setting_repeats_exactly_what_depends_on_it(
    tmp_path: Path, override: str, expected: list[str]
) -> None:
    assert ran(experiment(tmp_path)) == ["prepare", "positions", "constant", *FROM_TRAINING]

    assert ran(experiment(tmp_path, override)) == expected


def test_strategies_that_are_gone_need_no_search(tmp_path: Path) -> None:
    ran(experiment(tmp_path))

    again = ran(experiment(tmp_path, "systems=[vbs,oracle]"))

    assert not any("validation" in name for name in again)
    assert {"evaluate seed 0", "cost seed 0", "gather seed 0", "report"} <= set(again)


def test_an_experiment_of_an_earlier_version_is_not_run_again() -> None:
    """The stages as they were when they were all in one file: a stamp is made of no more than this."""
    folder = Path("/x")
    overrides = ("systems=[vbs,vbs-tuned,bidis,bidia bleu_t tuned]", "search.max_length=20")
    settings = resolve_experiment(preset="demo", overrides=["beam_sizes=[2,5]", "sources=7", *overrides])
    made = Experiment(folder, settings, preset="demo", command="bidibeam reproduce")

    plan = [
        {
            "name": stage.name,
            "settings": {
                key: value
                for key, value in json.loads(json.dumps(stage.settings, default=str)).items()
                if key != "version"
            },
            "outputs": [str(path.relative_to(folder)) for path in stage.outputs],
            "after": [other.name for other in stage.after],
        }
        for stage in made.stages()
    ]

    assert plan == json.loads((Path(__file__).parent / "stages.json").read_text())


def test_what_is_beside_the_settings_repeats_what_depends_on_it(
    toy_data: PreparedData, tmp_path: Path
) -> None:
    vectors, data = tmp_path / "some.vec", tmp_path / "given"
    out, other = tmp_path / "out", tmp_path / "other"
    ran(experiment(out))

    assert ran(experiment(out, device="cpu", workers=7)) == []
    again = ran(experiment(out, seeds=(0, 1)))
    assert (again[0], again[-1]) == ("train seed 1", "report")
    assert all("seed 1" in name for name in again[:-1])
    assert "cost seed 1" not in again  # one seed's time is enough
    for text in ("1 2\na 0 1\n", "1 2\na 0.5 1\n"):
        vectors.write_text(text)
        assert ran(experiment(out, vectors=vectors)) == FROM_TRAINING

    shutil.copytree(toy_data.path, data)
    ran(experiment(other, data=data))
    assert ran(experiment(other, data=data)) == []
    test = data / "test.jsonl"
    test.write_text(test.read_text().replace("!", "?", 1))
    assert ran(experiment(other, data=data))[0] == "prepare"  # given data are told by their texts too


def test_what_is_there_already_is_not_replaced(tmp_path: Path) -> None:
    for folder in ("data", "stages"):
        (tmp_path / "other" / folder).mkdir(parents=True)
    (tmp_path / "other" / "data" / "data.json").write_text('{"corpus": "cornell"}')
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.html").write_text("mine", encoding="utf-8")

    with pytest.raises(SettingsError, match="holds an experiment on cornell, which one on chitchat would"):
        experiment(tmp_path / "other").run()
    with pytest.raises(SettingsError, match="holds files, but no experiment"):
        experiment(tmp_path / "mine").run()

    assert [path.read_text() for path in (tmp_path / "mine").iterdir()] == ["mine"]


def test_what_is_lost_is_made_again_and_what_is_damaged_is_named(tmp_path: Path) -> None:
    made = experiment(tmp_path)
    ran(made)
    for name in ("run", "run/tuned.json", "tuned/5.json", "beams/test-5.jsonl.gz"):
        lost = tmp_path / "seed-0" / name
        shutil.rmtree(lost) if lost.is_dir() else lost.unlink()
        ran(made)
        assert lost.exists()
        assert (tmp_path / "seed-0" / "run" / "tuned.json").exists()
    lost.write_bytes(b"half")

    with pytest.raises(RunError, match=r"test-5\.jsonl\.gz is damaged .* Remove it and call again"):
        read_beams(lost)


@pytest.fixture
def given(toy_run: Path, toy_data: PreparedData, tmp_path: Path) -> Experiment:
    """An experiment that measures a model instead of training one."""
    overrides = [*BASE, "search.max_length=9", "systems=[vbs,bidis,bidia bleu_t tuned,bidia wmd_t,oracle]"]
    options: dict[str, Any] = {"data": toy_data.path, "device": "cpu", "overrides": overrides}
    options["overrides"] += ["cost_sources=2", "cost_turns=1", "examples=1"]
    return Experiment.create(tmp_path / "out", "demo", model=GivenModel(str(toy_run)), **options)


@pytest.mark.usefixtures("undrawn")
def test_a_given_model_is_measured_and_nothing_is_trained_or_written_beside_it(
    given: Experiment, toy_run: Path
) -> None:
    before = sorted(path.name for path in toy_run.iterdir())

    ran = given.run()

    assert not any(name.startswith("train") for name in ran)
    assert sorted(path.name for path in toy_run.iterdir()) == before
    results = json.loads((given.folder / "results.json").read_text())
    model = load(toy_run, device="cpu")
    assert results["settings"]["model"] == {
        "name": toy_run.name,
        "reverse": None,
        "weights": model.fingerprint,
    }
    (seed,) = results["seeds"]
    assert set(seed["systems"]) == {"vbs", "bidis", "bidia bleu_t tuned", "bidia wmd_t", "oracle"}
    assert f"|model:{model.fingerprint}|" in seed["systems"]["vbs"]["5"]["signature"]
    assert set(seed["perplexity"]) == {"regular", "reverse"}
    assert [row["strategy"] for row in seed["analyses"]["cost"]["rows"]] == ["vbs", "bidis", "bidia wmd_t"]
    assert "left_out" not in results
    assert given.run() == []
    other = replace(given, given=replace(given.given, weights="other"))  # type: ignore[type-var]
    assert other.stages()[3].settings == {"weights": "other"}


def test_other_data_are_searched_and_measured_anew_although_the_weights_are_the_same(
    given: Experiment, toy_data: PreparedData, tmp_path: Path
) -> None:
    data = shutil.copytree(toy_data.path, tmp_path / "data")
    made = replace(given, data=data)
    trained = experiment(tmp_path / "trained", data=data)
    (tmp_path / "trained" / "seed-0").mkdir(parents=True)
    (tmp_path / "trained" / "seed-0" / "model.json").write_text("{}")
    first = ran(made)
    (identity,) = (each.identity for each in trained.stages() if each.name == "train seed 0")
    assert identity is not None
    before = identity()
    assert ran(made) == []

    test = data / "test.jsonl"
    test.write_text(test.read_text().replace("!", "?", 1))

    assert ran(made) == first
    assert identity() != before


@pytest.mark.usefixtures("undrawn")
def test_what_is_tuned_and_what_is_scored_tell_of_the_same_references(
    given: Experiment, referenced_data: Path
) -> None:
    replace(given, data=referenced_data).run()

    tuned = json.loads((given.folder / "seed-0" / "tuned" / "5.json").read_text())["metric"]
    results = json.loads((given.folder / "results.json").read_text())
    scored = results["seeds"][0]["systems"]["vbs"]["5"]["scores"]["bleu"]["signature"]
    assert "|nrefs:var|" in tuned
    assert scored.startswith(tuned)  # and goes on with the interval


@pytest.mark.usefixtures("undrawn")
def test_systems_may_be_judged_by_another_metric(given: Experiment) -> None:
    wer = replace(given, settings=replace(given.settings, metric="wer"))

    wer.run()

    results = wer.results()
    (seed,) = results["seeds"]
    assert (results["metric"], results["lower_is_better"]) == ("wer", ["wer"])
    assert results["settings"]["metric"] == "wer"
    assert results["constant"]["metric"] == seed["analyses"]["diversity"]["metric"] == "wer"
    assert {test["metric"] for test in seed["tests"]} == {"wer"}
    for name, scores in ((name, entry["5"]["scores"]) for name, entry in seed["systems"].items()):
        assert [metric for metric in scores if "low" in scores[metric]] == ["wer"], name
    best, usual = (seed["systems"][name]["5"]["scores"]["wer"]["value"] for name in ("oracle", "vbs"))
    assert best <= usual
    assert "|by:metric:wer,unit:words," in seed["systems"]["oracle"]["5"]["signature"]


class RegularOnly:
    """A model without reverse direction and without word vectors."""

    name = "mine"
    directions = (Direction.REGULAR,)

    def word_vectors(self, _file: Path | None) -> None:
        raise SettingsError("mine writes subwords.")


def test_systems_that_a_given_model_cannot_serve_are_left_out_with_the_reason() -> None:
    systems = ["vbs", "vbs-tuned", "bidis", "bidia bleu_t tuned", "longest", "oracle"]

    missing = find_unserved(RegularOnly(), systems, None)  # type: ignore[arg-type]

    assert list(missing) == ["bidis", "bidia bleu_t tuned"]
    assert all("needs the reverse direction, and mine has only: regular" in why for why in missing.values())
    both = RegularOnly()
    both.directions = tuple(Direction)  # type: ignore[assignment]
    assert find_unserved(both, ["bidia bleu_t", "bidia wmd_t"], None) == {  # type: ignore[arg-type]
        "bidia wmd_t": "mine writes subwords."
    }


class Notes(ExperimentObserver):
    """Remembers the notes."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    def note(self, sentence: str) -> None:
        self.notes.append(sentence)


def test_values_at_the_end_of_a_grid_are_one_note_and_stand_in_the_file(
    toy_data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def curve(system: str, setting: str, values: tuple[float, ...], scores: tuple[float, ...]) -> Curve:
        return Curve(system, setting, {}, values, scores, values[-1])

    grid = (0.0, 1.0, 9.0)
    found = {
        2: TuningResult(
            {"bidis": {"lambda_": 1.0}}, {}, (curve("bidis", "lambda", grid, (1.0, 3.0, 2.0)),), 4
        ),
        5: TuningResult(
            {"bidia wmd_t": {"T": 60.0}}, {}, (curve("bidia wmd_t", "T", (2, 60), (1.0, 3.0)),), 4
        ),
        6: TuningResult(
            {"bidis": {"lambda_": 9.0}}, {}, (curve("bidis", "lambda", grid, (1.0, 2.0, 3.0)),), 4
        ),
    }
    monkeypatch.setattr(Seed, "tune_size", lambda _self, size, _files: found[size])
    settings = resolve_experiment(preset="demo", overrides=["beam_sizes=[2,5,6]", "penalty_length=5"])
    plan = Plan(tmp_path, settings, data=toy_data.path, progress=Notes())
    seed = Seed(0, plan)
    seed.folder.mkdir()
    seed.file("model").write_text(json.dumps({"weights": "abc"}))

    seed.tune()

    told = "At the end of what was tried, so better may lie beyond:"
    assert plan.progress.notes == [  # type: ignore[attr-defined]
        f"N_B = 5: {told} T of bidia wmd_t (60 of 2 to 60). N_B = 6: {told} lambda of bidis (9 of 0 to 9)."
    ]


def test_each_seeds_control_is_the_next_and_follows_the_searches_of_both(tmp_path: Path) -> None:
    def names(*, seeds: range, **options: Any) -> list[str]:
        return [stage.name for stage in experiment(tmp_path, "control=true", seeds=seeds, **options).stages()]

    stages = {each.name: each for each in experiment(tmp_path, "control=true", seeds=range(3)).stages()}
    after = {name: [each.name for each in stages[name].after] for name in stages}
    searches = [name for name in stages if "search" in name and "control" in name]
    for name in searches:
        own, following = re.findall(r"seed (\d)", name)[0], (int(name.split()[2]) + 1) % 3
        found = [each for each in stages if re.match(rf"search seed ({own}|{following}) \w+ \d+$", each)]
        assert sorted(after[name]) == sorted([f"train seed {own}", *found])
    assert set(searches) <= {*after["evaluate seed 0"], *after["evaluate seed 1"], *after["evaluate seed 2"]}
    assert not any("control" in name for name in names(seeds=range(1)))  # there is no second network
    given = GivenModel("other", weights="abc")
    alone = names(seeds=range(1), control=given)
    assert "tune seed 0 control" in alone
    (search, *_) = (
        each
        for each in experiment(tmp_path, seeds=range(1), control=given).stages()
        if "control" in each.name
    )
    assert search.settings["control"] == "abc"


@pytest.mark.parametrize("trains", [False, True])
def test_a_control_of_other_data_is_noted(
    trains: bool, toy_run: Path, toy_data: PreparedData, unsure_run: Path, tmp_path: Path
) -> None:
    other = copied(unsure_run, tmp_path / "other")
    config = json.loads((other / "config.json").read_text())
    config["data"]["fingerprint"] = "0123"
    (other / "config.json").write_text(json.dumps(config))

    def notes(control: Path) -> list[str]:
        made = Experiment.create(
            tmp_path / "out",
            "demo",
            model=None if trains else GivenModel(str(toy_run)),
            data=toy_data.path,
            control=GivenModel(str(control)),
            progress=Notes(),
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reproduce, "run_stages", lambda *_: [])
            made.run()
        return made.progress.notes  # type: ignore[attr-defined, no-any-return]

    (told,) = notes(other)
    assert told.startswith("The control other was trained on other data (fingerprint 0123, not ")
    assert notes(unsure_run) == []


@pytest.mark.parametrize("trains", [False, True])
def test_a_control_of_other_tokens_is_refused_before_anything_is_trained(
    trains: bool, toy_run: Path, toy_data: PreparedData, unsure_run: Path, tmp_path: Path
) -> None:
    """As many tokens, and two of them changed places: ids mean other words, and nothing else tells."""
    other = copied(unsure_run, tmp_path / "other")
    tokenizer = (other / "tokenizer.json").read_text()
    swapped = tokenizer.replace('"red":', '"?":').replace('"cat":', '"red":').replace('"?":', '"cat":')
    (other / "tokenizer.json").write_text(swapped)
    given = None if trains else GivenModel(str(toy_run))
    control = GivenModel(str(other))

    with pytest.raises(
        SettingsError, match=r"^The control other has other tokens: the token '(red|cat)' has id"
    ):
        Experiment.create(
            tmp_path / "out", "demo", model=given, data=toy_data.path, control=control, progress=Notes()
        ).run()
    assert not (tmp_path / "out" / "seed-0").exists()


def test_a_control_of_the_same_weights_is_refused_before_anything_runs(
    toy_run: Path, toy_data: PreparedData, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError, match=r"^The control .* has the same weights as .*: give one that was"):
        Experiment.create(
            tmp_path / "out",
            "demo",
            model=GivenModel(str(toy_run)),
            data=toy_data.path,
            control=GivenModel(str(copied(toy_run, tmp_path / "copy"))),
        )
    assert not (tmp_path / "out").exists()


def test_a_similarity_that_cannot_be_imported_is_refused_before_anything_runs(tmp_path: Path) -> None:
    systems = 'systems=[vbs,"bidia no_such_module:it"]'
    made = Experiment.create(tmp_path / "out", "demo", corpus="chitchat", overrides=[systems])

    with pytest.raises(UnknownNameError, match="The similarity 'no_such_module:it' cannot be imported"):
        made.run()
    assert not (tmp_path / "out").exists()
