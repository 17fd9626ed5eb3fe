"""`bidibeam train --base`: Hugging Face models."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bidibeam.cli.training_progress import TrainingProgress
from bidibeam.data.prepared import PreparedData
from bidibeam.models.huggingface.bases import wrap_tokenizer
from tests.unit.cli.calls import called, refused
from tests.unit.models.huggingface.tiny import prepared, write_config

SHORT = ["--set", "max_source_length=20", "--set", "max_response_length=20"]
QUICK = ["--epochs", "2", "--batch-size", "8", "--learning-rate", "0.01", *SHORT]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepared(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_config(tmp_path_factory.mktemp("bart"), "bart")


@contextmanager
def kill_fourth_step() -> Iterator[None]:
    """Interrupts training at its fourth step."""
    on_step = TrainingProgress.on_step

    def dies(self: Any, *, step: int) -> None:
        on_step(self, step=step)
        if step == 4:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingProgress, "on_step", dies)
        yield


def config_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "config.json").read_text()))


@pytest.mark.parametrize("direction", ["regular", "reverse", "both"])
def test_a_model_is_trained_into_a_folder(
    direction: str, data: PreparedData, bart: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    call = called("train", data.path, "--base", bart, "--direction", direction, "--out", out, *QUICK)

    assert (call.status, call.out) == (0, ""), call.err
    assert "Epoch 1, step 3: validation loss" in call.told
    assert "Stopped by epochs after step 6" in call.told
    assert f"direction {direction}, from {bart}, validation loss" in call.told
    model = {"regular": f"{out} --strategy vbs", "reverse": f"REGULAR_MODEL --reverse {out}"}
    assert call.told.endswith(f"Next: bidibeam chat {model.get(direction, out)}")
    if direction == "both":
        assert config_of(out)["model_type"] == "bidibeam-joint"
    else:
        assert config_of(out)["bidibeam_direction"] == direction


def test_settings_come_from_a_file_flags_and_set(data: PreparedData, bart: Path, tmp_path: Path) -> None:
    settings = tmp_path / "settings.yaml"
    settings.write_text("epochs: 7\nwarmup: 0.5\nmax_source_length: 20\nmax_response_length: 20\n")
    out = tmp_path / "out"

    flags = ["--config", settings, "--epochs", "1", "--seed", "3", "--set", "seed=4"]
    call = called("train", data.path, "--base", bart, "--out", out, *flags)

    assert call.status == 0, call.err
    used = json.loads((out / "bidibeam.json").read_text())["settings"]
    assert (used["epochs"], used["warmup"], used["seed"]) == (1, 0.5, 4)


def test_resumed_it_knows_what_it_began_with(data: PreparedData, bart: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    with kill_fourth_step():
        call = called("train", data.path, "--base", bart, "--direction", "reverse", "--out", out, *QUICK)
    assert call.status == 130

    assert "already holds a run. Go on with it by --resume" in refused(
        "train", data.path, "--base", bart, "--out", out, *QUICK
    )
    call = called("train", data.path, "--out", out, "--resume")

    assert call.status == 0, call.err
    assert "from step 3." in call.told
    assert config_of(out)["bidibeam_direction"] == "reverse"


def test_there_may_be_nothing_to_resume_and_a_finished_model_is_not_resumed(
    data: PreparedData, bart: Path, toy_data: PreparedData, regular_run: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    call = called("train", data.path, "--base", bart, "--out", out, "--resume", *QUICK)
    assert call.status == 0, call.err
    assert "There is no run in" in call.told

    for flags in (["--base", bart, *QUICK], []):
        said = refused("train", data.path, "--out", out, "--resume", *flags)
        assert said.startswith(f"{out} is finished already: there is nothing to resume. To train it further")
    said = refused("train", toy_data.path, "--out", regular_run, "--resume", "--base", bart, *QUICK)
    assert "run began with architecture='gru', not 'huggingface'." in said


def test_what_does_not_go_together_is_said(data: PreparedData, bart: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    for flags, message in (
        (["--direction", "reverse"], "--direction goes with --base: name a Hugging Face model or a config."),
        (["--tokenizer", "x"], "--tokenizer goes with --base: name a Hugging Face model or a config."),
        (
            ["--base", bart, "--preset", "demo"],
            "--preset does not go with a Hugging Face model: it is for the network that bidibeam trains",
        ),
    ):
        call = called("train", data.path, "--out", out, *flags)
        assert call.status == 2
        assert message in call.told
    gpt2 = write_config(tmp_path / "gpt2", "gpt2")
    assert refused("train", data.path, "--out", out, "--base", gpt2, "--direction", "both").startswith(
        "Direction both shares an encoder, and "
    )
    said = refused("train", data.path, "--out", out, "--base", bart, "--set", "warmpu=1")
    assert said.startswith("Unknown setting warmpu. Did you mean warmup?")
    assert not out.exists()


def test_data_prepared_without_text_are_refused(bart: Path, tmp_path: Path) -> None:
    data, other = prepared(tmp_path, keep_text=False), tmp_path / "other"
    wrap_tokenizer(data.tokenizer, is_encoder_decoder=True).save_pretrained(other)

    flags = ["--base", bart, "--tokenizer", other, *QUICK]
    said = refused("train", data.path, "--out", tmp_path / "out", *flags)

    assert "their text is needed: prepare again with keep_text, as `bidibeam prepare --keep-text`" in said
    assert not (tmp_path / "out").exists()


def test_transformers_is_not_imported_in_vain_and_where_it_is_missing_the_way_to_install_it_is_told(
    data: PreparedData, bart: Path, tmp_path: Path
) -> None:
    command = ["train", str(data.path), "--base", str(bart), "--out", str(tmp_path / "out"), *QUICK]
    script = (
        "import sys\n"
        "from bidibeam.cli.train import train\n"
        "import bidibeam.hf, bidibeam.training.train\n"
        "from bidibeam.hf import reverse_labels, direction_of\n"
        "try: train(['--help'])\n"
        "except SystemExit: pass\n"
        "assert 'transformers' not in sys.modules\n"
        "sys.modules['transformers'] = None\n"
        "try: from bidibeam.hf import fine_tune\n"
        "except ImportError as error: print(error)\n"
        "from bidibeam.cli.main import main\n"
        f"main({command})"
    )

    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    told = "fine_tune needs transformers, which is not installed: pip install 'bidibeam[hf]'\n"
    assert ended.returncode == 1, ended.stderr
    assert "--base MODEL_OR_CONFIG" in ended.stdout
    assert ended.stdout.endswith(told)
    assert ended.stderr.endswith(told)
    assert "Traceback" not in ended.stderr


TINY = ["model.d_model=16", "model.encoder_ffn_dim=16", "model.decoder_ffn_dim=16", "training.batch_size=8"]


def test_a_preset_trains_a_model_with_two_decoders_without_text(tmp_path: Path) -> None:
    data, out = prepared(tmp_path, keep_text=False), tmp_path / "out"
    flags = [word for each in TINY for word in ("--set", each)] + ["--epochs", "2"]

    with kill_fourth_step():
        call = called("train", data.path, "--preset", "transformer", "--out", out, "--resume", *flags)
    assert call.status == 130
    assert "There is no run in" in call.told
    assert "starting one with the preset transformer" in call.told
    call = called("train", data.path, "--out", out, "--resume", "--epochs", "3")

    assert call.status == 0, call.err
    assert "from step 3." in call.told
    assert "Stopped by epochs after step 9" in call.told
    metadata = json.loads((out / "bidibeam.json").read_text())
    assert (metadata["direction"], metadata["base"]["d_model"]) == ("both", 16)
    limits = [metadata["settings"][f"max_{name}_length"] for name in ("source", "response")]
    assert limits == [data.info["settings"][f"max_{name}_length"] + 1 for name in ("source", "response")]
    again = ["--preset", "transformer", "--resume", *flags]
    assert "is finished already" in refused("train", data.path, "--out", out, *again)
    assert called("decode", out, typed="red cat\n").status == 0


def test_settings_that_a_config_does_not_have_are_refused(data: PreparedData, tmp_path: Path) -> None:
    flags = ["--out", tmp_path / "out", "--preset", "transformer", "--set"]

    said = refused("train", data.path, *flags, "model.d_modl=8")
    assert said == "The config of a bart model has no d_modl. Did you mean 'd_model'?"
    assert "transformers does not know" in refused("train", data.path, *flags, "model.model_type=tofu")
    assert "model.directions is 'up'" in refused("train", data.path, *flags, "model.directions=up")
    said = refused("train", data.path, *flags, "model.d_model=8", "--vectors", "none.vec")
    assert said.endswith("starts from no vectors: leave them out.")


def test_short_flags_are_settings_of_our_own_network_too(data: PreparedData, tmp_path: Path) -> None:
    flags = {"preset": "demo", "epochs": 1, "batch-size": 16, "seed": 5, "learning-rate": 0.5}
    words = [word for name, value in flags.items() for word in (f"--{name}", value)]

    call = called("train", data.path, "--out", tmp_path / "run", *words)

    assert call.status == 0, call.err
    training = config_of(tmp_path / "run")["training"]
    assert [training[name] for name in ("epochs", "batch_size", "seed", "learning_rate")] == [1, 16, 5, 0.5]
