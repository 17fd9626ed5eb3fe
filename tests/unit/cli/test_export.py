"""`bidibeam export`: a folder to pass on, and a card of which every figure is the run's own."""

from __future__ import annotations

import errno
import json
import os
import shlex
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from bidibeam.api import load_run
from bidibeam.api.cards import render_card
from bidibeam.api.export import FILES
from bidibeam.cli.main import load_command
from bidibeam.config import resolve
from bidibeam.data.prepare import PrepareSettings
from bidibeam.data.prepared import PreparedData
from tests.conftest import copied
from tests.unit.cli.calls import called, refused


def read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def card_of(folder: Path) -> str:
    """The card, which says what the folder does."""
    card = (folder / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert card == render_card(folder)
    return card


@pytest.fixture(scope="module")
def tuned_once(toy_run: Path, toy_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy run, tuned on a few sources with a beam of 4 and with words that it must not say."""
    run = copied(toy_run, tmp_path_factory.mktemp("tuned-run") / "run")
    search = ("--beam-size", "4", "--bad-words", "horse", "--bad-words", "red cat")
    assert called("tune", run, "--data", toy_data.path, *search, "--sources", "5").status == 0
    return run


@pytest.fixture(scope="module")
def half(tuned_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """It exported in half precision, with a card."""
    out = tmp_path_factory.mktemp("half") / "out"
    assert called("export", tuned_once, "--out", out, "--half", "--card").status == 0
    return out


@pytest.fixture
def tuned_run(tuned_once: Path, tmp_path: Path) -> Path:
    """The tuned run, to write into."""
    return copied(tuned_once, tmp_path / "run")


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


def test_it_loads_and_answers_like_the_run(tuned_once: Path, out: Path) -> None:
    call = called("export", tuned_once, "--out", out)

    assert (call.status, call.out) == (0, "")
    assert sorted(path.name for path in out.iterdir()) == sorted(
        set(FILES) - {"MODEL_CARD.md", "exchanges.json", "source_tokenizer.json"}
    )
    before, after = load_run(tuned_once), load_run(out)
    assert before.config.model == after.config.model
    assert before.limits == after.limits
    for name, tensor in before.network.state_dict().items():
        assert torch.equal(after.network.state_dict()[name], tensor)
    for strategy in ("bidia", "bidis", "vbs-tuned"):
        here, there = (
            called("decode", run, "--strategy", strategy, typed="red cat\nblue dog fish\n").replies
            for run in (tuned_once, out)
        )
        assert here == there


def test_the_card_shows_exchanges_beside_those_of_the_model_before(
    half: Path, copied_run: Path, out: Path
) -> None:
    exchanges = [
        {"source": "hello!", "before": "hi | there", "now": "hello!", "better": "neither"},
        {"source": "goodbye.", "before": "what?", "now": "bye!", "better": "now"},
    ]
    content = {"how": "Judged blind.", "exchanges": exchanges}
    (copied_run / "exchanges.json").write_text(json.dumps(content), encoding="utf-8")

    assert called("export", copied_run, "--out", out, "--card").status == 0

    assert read(out / "exchanges.json") == content
    card = card_of(out)

    assert "## Exchanges\nJudged blind. Better: now 1, before 0, neither 1.\n" in card
    assert "| goodbye. | what? | bye! | now |" in card
    assert "hi \\| there" in card
    assert "## Exchanges" not in render_card(half)


def test_exchanges_that_are_damaged_are_named(copied_run: Path, out: Path) -> None:
    for content in (b"\xff", b"[]", b'{"how": "", "exchanges": [{}]}'):
        (copied_run / "exchanges.json").write_bytes(content)

        told = refused("export", copied_run, "--out", out, "--card")

        assert told.startswith("exchanges.json is damaged (")
        assert told.endswith("). Mend or remove it.")


def test_half_stores_rounded_weights_and_what_was_tuned_names_them(tuned_once: Path, half: Path) -> None:
    full, stored = load_file(tuned_once / "model.safetensors"), load_file(half / "model.safetensors")
    assert set(stored) == set(full)
    for name, tensor in stored.items():
        assert tensor.dtype == torch.float16
        assert torch.equal(tensor, full[name].half())
    before, after = read(tuned_once / "tuned.json"), read(half / "tuned.json")
    assert after == {**before, "weights": load_run(half).fingerprint}
    assert after["weights"] != before["weights"]
    call = called("decode", half, "--strategy", "bidis", typed="red cat\n")
    assert "red cat" not in call.replies[0]  # which it was tuned not to say
    assert "|tuned:tuned.json@" in call.signature


def test_it_says_what_it_was_exported_from_and_nothing_of_the_machine(
    tuned_once: Path, toy_data: PreparedData, half: Path, out: Path
) -> None:
    assert read(tuned_once / "config.json")["data"]["path"] == str(toy_data.path.resolve())

    before, after = (load_run(folder).config.metadata for folder in (tuned_once, half))
    assert {**after["data"], "path": before["data"]["path"]} == before["data"]
    assert after["training"] == before["training"]
    for name in ("config.json", "tuned.json", "MODEL_CARD.md", "tokenizer.json"):
        assert str(toy_data.path.parent) not in (half / name).read_text(encoding="utf-8")
    assert called("export", half, "--out", out).status == 0
    first, once, twice = (json.loads(called("info", run, "--json").out) for run in (tuned_once, half, out))
    assert first["progress"]["steps"] > 0
    assert first["progress"] == once["progress"] == twice["progress"]
    assert first["parameters"] == once["parameters"]
    assert "exported" not in first
    assert once["exported"] == {"from": load_run(tuned_once).fingerprint, "precision": "float16"}
    assert twice["exported"] == {"from": load_run(half).fingerprint, "precision": "float32"}
    assert load_run(tuned_once).fingerprint in called("info", half).err


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_is_there_is_never_overwritten_unasked(copied_run: Path, unsure_run: Path, out: Path) -> None:
    mine = out.parent / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")

    for flags in ((), ("--overwrite",)):
        said = refused("export", copied_run, "--out", mine, *flags)
        assert said == f"{mine} holds other things. Name an empty or new directory."
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]
    assert f"{mine / 'thesis.txt'} is a file." in refused("export", copied_run, "--out", mine / "thesis.txt")

    assert called("export", copied_run, "--out", out, "--card").status == 0
    assert not (out / "tuned.json").exists()  # an untuned run is exported too
    assert "BLEU" not in card_of(out)
    itself = refused("export", out, "--out", out / ".." / out.name, "--overwrite")
    assert "holds other things" in itself
    assert refused("export", unsure_run, "--out", out).startswith(f"{out} holds an export already.")
    assert load_run(out).fingerprint == load_run(copied_run).fingerprint
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("bidibeam.api.export.write_config", full_disk)
        assert "No space left" in refused("export", unsure_run, "--out", out, "--overwrite")
    assert load_run(out).fingerprint == load_run(copied_run).fingerprint
    assert not [*out.parent.glob(".*")]
    assert called("export", unsure_run, "--out", out, "--overwrite").status == 0
    kept = {path.name for path in out.iterdir()}
    assert kept == {"config.json", "model.safetensors", "tokenizer.json"}  # nothing of the earlier one
    assert read(out / "config.json")["exported"]["from"] == load_run(unsure_run).fingerprint


def test_what_cannot_be_exported_is_refused(tuned_run: Path, unsure_run: Path, out: Path) -> None:
    weights = load_file(tuned_run / "model.safetensors")
    shutil.copy(unsure_run / "model.safetensors", tuned_run / "model.safetensors")
    assert "was tuned for other weights" in refused("export", tuned_run, "--out", out)

    (tuned_run / "tuned.json").unlink()
    weights["b_output"][0, 0] = 1e5
    save_file(weights, tuned_run / "model.safetensors")
    said = refused("export", tuned_run, "--out", out, "--half")
    assert said.startswith("The tensor 'b_output' holds numbers too large for half precision")
    assert not out.exists()
    assert called("export", tuned_run, "--out", out).status == 0


def test_flags_that_do_not_go_together_are_wrong_usage(
    pair: tuple[Path, Path], toy_run: Path, out: Path
) -> None:
    for arguments, told in (
        ((pair[0],), "is a Hugging Face model: pass it on as it is, or add --to ctranslate2."),
        ((), "Missing argument 'MODEL'."),
        ((toy_run, "--quantization", "int8"), "--quantization goes with --to ctranslate2."),
        ((toy_run, "--reverse", toy_run), "--reverse goes with --to ctranslate2"),
        ((toy_run, "--device", "cpu"), "--device goes with --to ctranslate2: a run is written as it is"),
        ((toy_run, "--dtype", "bfloat16"), "--dtype goes with --to ctranslate2"),
        ((toy_run, "--trust-remote-code"), "--trust-remote-code goes with --to ctranslate2"),
        ((pair[0], "--to", "ctranslate2", "--half"), "--half, --card and --results go with a run"),
    ):
        call = called("export", *arguments, "--out", out)
        assert (call.status, told in call.told) == (2, True), call
    assert not out.exists()


def test_the_card_has_the_figures_of_the_run(half: Path) -> None:
    card, told = card_of(half), read(half / "config.json")
    progress, tuned = told["exported"]["progress"], read(half / "tuned.json")
    parameters = sum(tensor.numel() for tensor in load_file(half / "model.safetensors").values())
    for part in (
        f"{parameters:,} parameters",
        f"| regular validation perplexity | {progress['regular validation perplexity']:.4g} |",
        f"| reverse validation loss | {progress['reverse validation loss']:.4g} |",
        f"| `vbs-tuned` | {tuned['values']['vbs-tuned']:.4g} | length exponent ",
        f"| train pairs | {told['data']['pairs']['train']:,} |",
        "| decoder size | 32 |",
        "The corpus tsv.",
    ):
        assert part in card
    length = tuned["search"]["max_length"]
    assert f"On 5 validation sources, at most {length} tokens, N_B = 4, with" in " ".join(card.split())
    assert "Chit-Chat" not in card  # that is the other corpus
    assert all(len(line) <= 120 for line in card.splitlines() if line[:1] not in "|b")


def test_the_commands_of_the_card_make_such_a_run(half: Path) -> None:
    given: dict[str, dict[str, Any]] = {}
    for line in card_of(half).split("```")[1].strip().splitlines():
        program, name, *arguments = shlex.split(line)
        assert program == "bidibeam"
        given[name] = load_command(name).make_context(name, arguments).params

    config = load_run(half).config
    names = set(asdict(PrepareSettings()))
    prepared = {key: value for key, value in given["prepare"].items() if key in names}
    assert prepared == config.metadata["data"]["settings"]
    settings = resolve(preset=given["train"]["preset"], overrides=given["train"]["overrides"])
    assert settings.model == config.model
    assert asdict(settings.training) == config.metadata["training"]
    assert (given["tune"]["beam_size"], given["tune"]["sources"]) == (4, 5)
    assert given["tune"]["bad_words"] == ("horse", "red cat")
    assert given["export"]["half"]
    assert str(given["train"]["run"]) == str(given["tune"]["model"]) == str(given["export"]["model"])


def results_of(fingerprint: str) -> str:
    """A results.json as `bidibeam reproduce` writes it, as far as it matters here."""

    def seed(number: int, weights: str, bleu: float) -> dict[str, Any]:
        scores: dict[str, dict[str, Any]] = {
            "bleu": {"value": bleu, "low": 1.25, "high": 1.75, "signature": "b"},
            "chrf": {"value": 12.345},
        }
        signature = f"metric:perplexity|model:{weights}|bidibeam:0"
        return {
            "seed": number,
            "perplexity": {"regular": {"value": 51.25, "signature": signature}},
            "systems": {"vbs": {"10": {"scores": {}}, "50": {"scores": scores}}, "oracle": {"10": {}}},
        }

    seeds = [seed(0, "000000000000", 9.5), seed(1, f"{fingerprint}0", 7.5), seed(2, fingerprint, 1.5)]
    return json.dumps({"sources": 3140, "settings": {"beam_sizes": [10, 50]}, "seeds": seeds})


def test_a_card_tells_whether_the_experiment_trained_the_model_or_was_given_it(
    copied_run: Path, tmp_path: Path, out: Path
) -> None:
    results = tmp_path / "results.json"
    for command, wanted in (
        ("bidibeam reproduce --data data --seeds 2", ["prepare", "reproduce", "export out/seed-0/run"]),
        ("bidibeam reproduce --data data --model run", ["prepare", "train", "reproduce", "export run"]),
    ):
        content = json.loads(results_of(load_run(copied_run).fingerprint)) | {"command": command}
        results.write_text(json.dumps(content))
        flags = ("--card", "--overwrite", "--results", results)

        assert called("export", copied_run, "--out", out, *flags).status == 0

        lines = [line for line in card_of(out).splitlines() if line.startswith("bidibeam ")]
        assert len(lines) == len(wanted)
        assert all(line.startswith(f"bidibeam {start}") for line, start in zip(lines, wanted, strict=True))


def test_test_scores_of_these_weights_are_kept_for_the_card(
    copied_run: Path, tmp_path: Path, out: Path
) -> None:
    results = tmp_path / "results.json"
    results.write_text(results_of(load_run(copied_run).fingerprint))

    assert called("export", copied_run, "--out", out, "--card", "--results", results).status == 0

    kept = read(out / "config.json")["exported"]["scores"]
    assert (kept["sources"], kept["beam_size"], set(kept["systems"])) == (3140, 50, {"vbs"})
    card = " ".join(card_of(out).split())
    for part in (
        "On 3,140 test sources",
        "perplexity 51.25 (regular); and with N_B = 50",
        "| system | bleu | chrf |",
        r"| `vbs` | 1.5 \[1.25, 1.75\] | 12.35 |",
    ):
        assert part in card


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read: No such file or directory."),
        ("[", "is not what `bidibeam reproduce` writes ("),
        ("[]", "is not what `bidibeam reproduce` writes ("),
        ('{"seeds": [{}]}', "is not what `bidibeam reproduce` writes (KeyError('perplexity'))."),
        (results_of("111111111111"), "holds no scores of these weights ("),
    ],
    ids=["none", "torn", "a list", "no scores", "of other weights"],
)
def test_results_that_are_no_use_are_refused(
    toy_run: Path, tmp_path: Path, out: Path, content: str | None, message: str
) -> None:
    results = tmp_path / "results.json"
    if content is not None:
        results.write_text(content)

    assert refused("export", toy_run, "--out", out, "--results", results).startswith(f"{results} {message}")
    assert not out.exists()
