"""`bidibeam export`: a folder to pass on, and a card of which every figure is the run's own."""

from __future__ import annotations

import json
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bidibeam.api import load_run
from bidibeam.api.cards import read_metadata, render_card
from bidibeam.api.export import FILES
from bidibeam.cli.main import COMMANDS, LazyCommand
from bidibeam.config import resolve
from bidibeam.data.prepare import PrepareSettings
from bidibeam.data.prepared import PreparedData
from tests.unit.cli.calls import called, refused
from tests.unit.cli.conftest import copied

SCORES: dict[str, dict[str, Any]] = {
    "bleu": {"value": 1.5, "low": 1.25, "high": 1.75, "signature": "b"},
    "chrf": {"value": 12.345},
}


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def tuned_once(toy_run: Path, toy_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy run, tuned on a few sources with a beam of 4."""
    run = copied(toy_run, tmp_path_factory.mktemp("tuned-run") / "run")
    assert called("tune", run, "--data", toy_data.path, "--beam-size", "4", "--sources", "5").status == 0
    return run


@pytest.fixture
def tuned_run(tuned_once: Path, tmp_path: Path) -> Path:
    """The same, to write into."""
    return copied(tuned_once, tmp_path / "run")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_it_loads_and_answers_like_the_run(tuned_run: Path, out: Path) -> None:
    call = called("export", tuned_run, "--out", out)

    assert (call.status, call.out) == (0, "")
    assert sorted(path.name for path in out.iterdir()) == sorted(set(FILES) - {"MODEL_CARD.md"})
    before, after = load_run(tuned_run), load_run(out)
    assert before.config.model == after.config.model
    assert before.limits == after.limits
    for name, tensor in before.network.state_dict().items():
        assert torch.equal(after.network.state_dict()[name], tensor)
    typed = "red cat\nblue dog fish\n"
    for strategy in ("bidia", "bidis", "vbs-tuned"):
        here, there = (called("decode", run, "--strategy", strategy, typed=typed) for run in (tuned_run, out))
        assert here.replies == there.replies


def test_half_stores_rounded_weights(tuned_run: Path, out: Path) -> None:
    assert called("export", tuned_run, "--out", out, "--half").status == 0

    full, stored = load_file(tuned_run / "model.safetensors"), load_file(out / "model.safetensors")
    assert set(stored) == set(full)
    for name, tensor in stored.items():
        assert tensor.dtype == torch.float16
        assert torch.equal(tensor, full[name].half())
    assert read(out / "config.json")["exported"]["precision"] == "float16"
    assert called("decode", out, "--strategy", "bidis", typed="red cat\n").replies == ["red cat!"]


def test_tuned_settings_go_along_and_name_the_exported_weights(tuned_run: Path, out: Path) -> None:
    assert called("export", tuned_run, "--out", out, "--half").status == 0

    before, after = read(tuned_run / "tuned.json"), read(out / "tuned.json")
    assert after == {**before, "weights": load_run(out).fingerprint}
    assert after["weights"] != before["weights"]
    assert "|tuned:tuned.json@" in called("decode", out, "--strategy", "bidis", typed="red\n").signature


def test_it_says_what_it_was_exported_from_and_nothing_of_the_machine(
    tuned_run: Path, toy_data: PreparedData, out: Path
) -> None:
    assert read(tuned_run / "config.json")["data"]["path"] == str(toy_data.path.resolve())

    assert called("export", tuned_run, "--out", out, "--card").status == 0

    before, after = (load_run(folder).config.facts for folder in (tuned_run, out))
    assert after["exported"]["from"] == load_run(tuned_run).fingerprint
    assert after["exported"]["precision"] == "float32"
    assert {**after["data"], "path": before["data"]["path"]} == before["data"]
    assert after["training"] == before["training"]
    for name in ("config.json", "tuned.json", "MODEL_CARD.md", "tokenizer.json"):
        assert str(toy_data.path.parent) not in (out / name).read_text(encoding="utf-8")


def test_info_tells_how_far_training_came(tuned_run: Path, out: Path) -> None:
    assert called("export", tuned_run, "--out", out / "once", "--half").status == 0
    assert called("export", out / "once", "--out", out / "twice").status == 0

    first, once, twice = (
        json.loads(called("info", run, "--json").out) for run in (tuned_run, out / "once", out / "twice")
    )

    assert first["progress"]["steps"] > 0
    assert first["progress"] == once["progress"] == twice["progress"]
    assert first["parameters"] == once["parameters"]
    assert "exported" not in first
    assert once["exported"] == {"from": load_run(tuned_run).fingerprint, "precision": "float16"}
    assert twice["exported"] == {"from": load_run(out / "once").fingerprint, "precision": "float32"}
    assert load_run(tuned_run).fingerprint in called("info", out / "once").err


def test_info_without_a_run_shows_the_model_that_comes_along() -> None:
    call = called("info", "--json")

    facts = json.loads(call.out)
    assert facts["data"]["corpus"] == "chitchat"
    assert facts["progress"]["best step"] > 0
    assert call.told == "No run was named: this is the small model that comes with bidibeam."


def test_an_untuned_run_is_exported_too(copied_run: Path, out: Path) -> None:
    assert called("export", copied_run, "--out", out, "--card").status == 0

    assert not (out / "tuned.json").exists()
    assert "BLEU" not in (out / "MODEL_CARD.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", ["run", "data"])
def test_what_is_no_run_is_refused(tmp_path: Path, toy_data: PreparedData, out: Path, kind: str) -> None:
    folder = tmp_path / "nowhere" if kind == "run" else toy_data.path

    assert refused("export", folder, "--out", out).startswith(
        f"{folder} is not a run directory: it has no config.json."
    )
    assert not out.exists()


def test_a_folder_that_holds_something_is_left_alone(copied_run: Path, out: Path) -> None:
    out.mkdir()
    (out / "thesis.txt").write_text("mine")

    for flags in ((), ("--overwrite",)):
        assert refused("export", copied_run, "--out", out, *flags) == (
            f"{out} holds other things. Name an empty or new directory."
        )
    assert [path.name for path in out.iterdir()] == ["thesis.txt"]
    assert refused("export", copied_run, "--out", out / "thesis.txt") == (
        f"{out / 'thesis.txt'} is a file. Name an empty or new directory."
    )


def test_a_run_is_never_exported_onto_itself(copied_run: Path, out: Path) -> None:
    assert called("export", copied_run, "--out", out).status == 0

    assert refused("export", out, "--out", out / ".." / out.name, "--overwrite").endswith(
        "holds other things. Name an empty or new directory."
    )
    assert load_run(out).fingerprint


def test_an_earlier_export_is_replaced_only_if_asked_for(
    tuned_run: Path, unsure_run: Path, out: Path
) -> None:
    assert called("export", tuned_run, "--out", out, "--card").status == 0

    assert refused("export", unsure_run, "--out", out) == (
        f"{out} holds an exported run already. Name an empty or new directory, or pass overwrite."
    )
    assert load_run(out).fingerprint == load_run(tuned_run).fingerprint
    (out / ".model.safetensors.77.partial").touch()  # an export was killed
    assert called("export", unsure_run, "--out", out, "--overwrite").status == 0

    kept = {path.name for path in out.iterdir()}
    assert kept == {"config.json", "model.safetensors", "tokenizer.json"}  # nothing of the earlier one
    assert read(out / "config.json")["exported"]["from"] == load_run(unsure_run).fingerprint


def test_settings_tuned_for_other_weights_are_refused(tuned_run: Path, unsure_run: Path, out: Path) -> None:
    shutil.copy(unsure_run / "model.safetensors", tuned_run / "model.safetensors")

    assert "was tuned for other weights" in refused("export", tuned_run, "--out", out)
    assert not out.exists()


def test_weights_too_large_for_half_precision_are_refused(copied_run: Path, out: Path) -> None:
    weights = load_file(copied_run / "model.safetensors")
    weights["b_output"][0, 0] = 1e5
    save_file(weights, copied_run / "model.safetensors")

    assert refused("export", copied_run, "--out", out, "--half").startswith(
        "The tensor 'b_output' holds numbers too large for half precision"
    )
    assert not out.exists()
    assert called("export", copied_run, "--out", out).status == 0


def test_the_card_has_the_figures_of_the_run(tuned_run: Path, out: Path) -> None:
    assert called("export", tuned_run, "--out", out, "--half", "--card").status == 0

    card = (out / "MODEL_CARD.md").read_text(encoding="utf-8")
    progress, tuned = read(out / "config.json")["exported"]["progress"], read(out / "tuned.json")
    parameters = sum(tensor.numel() for tensor in load_file(out / "model.safetensors").values())
    assert f"{parameters:,} parameters" in card
    assert f"| regular validation perplexity | {progress['regular validation perplexity']:.4g} |" in card
    assert f"| reverse validation loss | {progress['reverse validation loss']:.4g} |" in card
    assert f"| `vbs-tuned` | {tuned['bleu']['vbs-tuned']:.4g} | length exponent " in card
    assert f"on 5 validation sources, N_B = 4, T = {tuned['search']['max_length']}" in " ".join(card.split())
    assert f"| train pairs | {read(out / 'config.json')['data']['pairs']['train']:,} |" in card
    assert "| decoder size | 32 |" in card
    assert "The corpus tsv." in card
    assert "Chit-Chat" not in card  # that is the other corpus
    assert all(len(line) <= 120 for line in card.splitlines() if line[:1] not in "|b")
    assert card == render_card(read_metadata(out))


def test_the_commands_of_the_card_make_such_a_run(tuned_run: Path, out: Path) -> None:
    assert called("export", tuned_run, "--out", out, "--half", "--card").status == 0
    card = (out / "MODEL_CARD.md").read_text(encoding="utf-8")

    given: dict[str, dict[str, Any]] = {}
    for line in card.split("```")[1].strip().splitlines():
        program, name, *arguments = shlex.split(line)
        assert program == "bidibeam"
        given[name] = LazyCommand(name, *COMMANDS[name]).load().make_context(name, arguments).params

    config = load_run(out).config
    names = set(asdict(PrepareSettings()))
    prepared = {key: value for key, value in given["prepare"].items() if key in names}
    assert prepared == config.facts["data"]["settings"]
    settings = resolve(preset=given["train"]["preset"], overrides=given["train"]["overrides"])
    assert settings.model == config.model
    assert asdict(settings.training) == config.facts["training"]
    assert (given["tune"]["beam_size"], given["tune"]["sources"]) == (4, 5)
    assert given["export"]["half"]
    assert str(given["train"]["run"]) == str(given["tune"]["model"]) == str(given["export"]["model"])


def results_of(fingerprint: str) -> dict[str, Any]:
    """A results.json as `bidibeam reproduce` writes it, as far as it matters here."""

    def seed(number: int, weights: str, bleu: float) -> dict[str, Any]:
        scores = {**SCORES, "bleu": {**SCORES["bleu"], "value": bleu}}
        signature = f"metric:perplexity|model:{weights}|bidibeam:0"
        return {
            "seed": number,
            "perplexity": {"regular": {"value": 51.25, "signature": signature}},
            "systems": {"vbs": {"10": {"scores": SCORES}, "50": {"scores": scores}}, "oracle": {"10": {}}},
        }

    seeds = [seed(0, "000000000000", 9.5), seed(1, f"{fingerprint}0", 7.5), seed(2, fingerprint, 1.5)]
    return {"sources": 3140, "settings": {"beam_sizes": [10, 50]}, "seeds": seeds}


def test_test_read_scores_these_weights_are_kept_for_the_card(
    copied_run: Path, tmp_path: Path, out: Path
) -> None:
    results = tmp_path / "results.json"
    results.write_text(json.dumps(results_of(load_run(copied_run).fingerprint)))

    assert called("export", copied_run, "--out", out, "--card", "--results", results).status == 0

    kept = read(out / "config.json")["exported"]["scores"]
    assert (kept["sources"], kept["beam_size"], set(kept["systems"])) == (3140, 50, {"vbs"})
    card = (out / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "On 3,140 test sources" in card
    assert "perplexity 51.25 (regular); and with N_B = 50" in " ".join(card.split())
    assert "| system | bleu | chrf |" in card
    assert "| `vbs` | 1.5 [1.25, 1.75] | 12.35 |" in card
    assert card == render_card(read_metadata(out))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory."),
        ("[", "is not what `bidibeam reproduce` writes ("),
        ("[]", "is not what `bidibeam reproduce` writes ("),
        ('{"seeds": [{}]}', "is not what `bidibeam reproduce` writes (KeyError('perplexity'))."),
        ("other", "holds no scores of these weights ("),
    ],
)
def test_results_that_are_no_use_are_refused(
    copied_run: Path, tmp_path: Path, out: Path, content: str | None, message: str
) -> None:
    results = tmp_path / "results.json"
    if content is not None:
        results.write_text(json.dumps(results_of("111111111111")) if content == "other" else content)

    said = refused("export", copied_run, "--out", out, "--results", results)

    assert said.startswith(f"{results} {message}")
    assert not out.exists()
