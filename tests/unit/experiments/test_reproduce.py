"""What an experiment repeats when a setting changes: never too little, never more."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError, SettingsError
from bidibeam.experiments.layout import read_beams
from bidibeam.experiments.plan import GivenModel
from bidibeam.experiments.reproduce import Experiment, find_unserved
from bidibeam.experiments.settings import resolve
from bidibeam.experiments.stages import Progress, Stage, Stages
from bidibeam.hypotheses import Direction
from bidibeam.models.loading import load

BASE = ["beam_sizes=[2,5]", "sources=7", "validation_sources=3"]
SEARCHES = [
    *(f"search seed 0 validation {size}" for size in (1, 2, 3, 5)),
    *(f"search seed 0 test {size}" for size in (1, 2, 3, 5)),
]
LATER = ["tune seed 0", "perplexity seed 0", "cost seed 0", "evaluate seed 0", "gather seed 0", "report"]
FROM_TRAINING = ["train seed 0", *SEARCHES, *LATER]
WITHOUT_PERPLEXITY = [name for name in LATER if name != "perplexity seed 0"]


def experiment(folder: Path, *overrides: str, **options: Any) -> Experiment:
    settings = resolve(preset="demo", overrides=[*BASE, *overrides])
    return Experiment(folder, settings, "demo", **options)


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

    return Stages(made.folder).run(map(faked, made.stages()), Progress())


def test_everything_runs_once_in_order(tmp_path: Path) -> None:
    assert ran(experiment(tmp_path)) == ["prepare", "positions", "constant", *FROM_TRAINING]
    assert ran(experiment(tmp_path)) == []


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("prepare.limit=1000", ["prepare", "positions", "constant", *FROM_TRAINING]),
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
        (
            "beam_sizes=[2,5,6]",
            [f"search seed 0 {each}" for each in ("validation 3", "validation 6", "test 3", "test 6")],
        ),
        ("systems=[vbs,oracle]", ["evaluate seed 0", "cost seed 0", "gather seed 0", "report"]),
    ],
)
def test_a_changed_setting_repeats_exactly_what_depends_on_it(
    tmp_path: Path, override: str, expected: list[str]
) -> None:
    ran(experiment(tmp_path))

    again = ran(experiment(tmp_path, override))

    if override.startswith("beam_sizes"):  # the searches that were not there, and all that is made of them
        assert again == [*expected, *WITHOUT_PERPLEXITY]
    elif override.startswith("systems"):  # no search for strategies that are gone
        assert not any("validation" in name for name in again)
        assert set(expected) <= set(again)
    else:
        assert again == expected


def test_an_experiment_of_an_earlier_version_is_not_run_again() -> None:
    """The stages as they were when they were all in one file: a stamp is made of no more than this."""
    folder = Path("/x")
    overrides = ("systems=[vbs,vbs-tuned,bidis,bidia bleu_t tuned]",)
    settings = resolve(preset="demo", overrides=["beam_sizes=[2,5]", "sources=7", *overrides])
    made = Experiment(folder, settings, "demo", command="bidibeam reproduce")

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


@pytest.mark.parametrize(("name", "value"), [("validation_share", 0.05), ("test_share", 0.2)])
def test_a_setting_of_preparation_that_came_later_counts_once_it_is_used(
    tmp_path: Path, name: str, value: float
) -> None:
    ran(experiment(tmp_path))

    assert ran(experiment(tmp_path, f"prepare.{name}={value}"))[0] == "prepare"


def test_another_seed_leaves_the_first_alone(tmp_path: Path) -> None:
    ran(experiment(tmp_path))

    again = ran(experiment(tmp_path, seeds=(0, 1)))

    assert again[0] == "train seed 1"
    assert again[-1] == "report"
    assert all("seed 1" in name for name in again[:-1])
    assert "cost seed 1" not in again  # one seed's time is enough


def test_what_computes_and_how_many_help_changes_nothing(tmp_path: Path) -> None:
    ran(experiment(tmp_path))

    assert ran(experiment(tmp_path, device="cpu", workers=7)) == []


def test_other_vectors_train_and_measure_again(tmp_path: Path) -> None:
    vectors = tmp_path / "some.vec"
    vectors.write_text("1 2\na 0 1\n")
    ran(experiment(tmp_path))

    assert ran(experiment(tmp_path, vectors=vectors)) == FROM_TRAINING
    vectors.write_text("1 2\na 0.5 1\n")
    assert ran(experiment(tmp_path, vectors=vectors)) == FROM_TRAINING


def test_another_corpus_does_not_replace_what_is_there(tmp_path: Path) -> None:
    for folder in ("data", "stages"):
        (tmp_path / folder).mkdir()
    (tmp_path / "data" / "data.json").write_text('{"corpus": "cornell"}')

    with pytest.raises(SettingsError, match="holds an experiment on cornell, which one on chitchat would"):
        experiment(tmp_path).run()


def test_given_data_are_told_by_their_texts_too(toy_data: PreparedData, tmp_path: Path) -> None:
    data = tmp_path / "given"
    shutil.copytree(toy_data.path, data)
    ran(experiment(tmp_path / "out", data=data))

    assert ran(experiment(tmp_path / "out", data=data)) == []
    test = data / "test.jsonl"
    test.write_text(test.read_text().replace("!", "?", 1))
    assert ran(experiment(tmp_path / "out", data=data))[0] == "prepare"


@pytest.mark.parametrize("name", ["run", "run/tuned.json", "tuned/5.json", "beams/test-5.jsonl.gz"])
def test_what_is_lost_is_made_again(tmp_path: Path, name: str) -> None:
    made = experiment(tmp_path)
    ran(made)
    lost = tmp_path / "seed-0" / name
    shutil.rmtree(lost) if lost.is_dir() else lost.unlink()

    ran(made)

    assert lost.exists()
    assert (tmp_path / "seed-0" / "run" / "tuned.json").exists()


def test_a_damaged_file_is_named_with_the_way_out(tmp_path: Path) -> None:
    beams = tmp_path / "test-5.jsonl.gz"
    beams.write_bytes(b"half")

    with pytest.raises(RunError, match=r"test-5\.jsonl\.gz is damaged .* Remove it and call again"):
        read_beams(beams)


def test_files_that_are_no_experiments_are_not_written_among(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.html").write_text("mine", encoding="utf-8")
    experiment = Experiment(tmp_path / "out", resolve(preset="demo", corpus="chitchat"), "demo")

    with pytest.raises(SettingsError, match="holds files, but no experiment"):
        experiment.run()

    assert (tmp_path / "out" / "report.html").read_text(encoding="utf-8") == "mine"
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]


@pytest.fixture
def given(toy_run: Path, toy_data: PreparedData, tmp_path: Path) -> Experiment:
    """An experiment that measures a model instead of training one."""
    overrides = [*BASE, "search.max_length=9", "systems=[vbs,bidis,bidia bleu_t tuned,bidia wmd_t,oracle]"]
    options: dict[str, Any] = {"data": toy_data.path, "device": "cpu", "overrides": overrides}
    options["overrides"] += ["cost_sources=2", "cost_turns=1", "examples=1"]
    return Experiment.create(tmp_path / "out", "demo", model=GivenModel(str(toy_run)), **options)


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


class RegularOnly:
    """A model without reverse direction and without word vectors."""

    name = "mine"
    directions = (Direction.REGULAR,)

    def word_vectors(self, _file: Path | None) -> None:
        raise SettingsError("mine writes subwords.")


def test_systems_that_a_given_model_cannot_serve_are_left_out_with_the_reason() -> None:
    systems = ["vbs", "vbs-tuned", "bidis", "bidia bleu_t tuned", "longest", "oracle"]

    left_out = find_unserved(RegularOnly(), systems, None)  # type: ignore[arg-type]

    assert list(left_out) == ["bidis", "bidia bleu_t tuned"]
    assert all("needs the reverse direction, and mine has only: regular" in why for why in left_out.values())
    both = RegularOnly()
    both.directions = tuple(Direction)  # type: ignore[assignment]
    assert find_unserved(both, ["bidia bleu_t", "bidia wmd_t"], None) == {  # type: ignore[arg-type]
        "bidia wmd_t": "mine writes subwords."
    }
