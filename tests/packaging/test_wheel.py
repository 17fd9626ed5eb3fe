"""The wheel: it carries all it needs, and runs where there is no checkout."""

from __future__ import annotations

import email
import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from bidibeam import __version__

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
LARGEST_MODEL = 12 * 2**20


def run(*command: str | Path, cwd: Path) -> str:
    """Standard output of a command that must succeed, away from this checkout and its settings."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--disable-pip-version-check"]
    run(sys.executable, "-m", "pip", "wheel", *flags, "--wheel-dir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment: bidibeam from the wheel, its dependencies from the one that runs the tests."""
    folder = tmp_path_factory.mktemp("elsewhere") / "environment"
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A path named here is searched, but .pth files in it are not read: an editable install stays unseen.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    flags = ["--no-deps", "--no-index", "--quiet", "--disable-pip-version-check", "--ignore-installed"]
    run(sys.executable, "-m", "pip", "--python", folder, "install", *flags, wheel, cwd=folder)
    return folder


def test_it_carries_its_data_files(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    presets = sorted(path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("presets/**/*.yaml"))

    assert "bidibeam/py.typed" in names
    assert presets
    assert sorted(name for name in names if name.startswith("bidibeam/presets/")) == presets
    assert f"bidibeam-{__version__}.dist-info/licenses/LICENSE" in names


def test_it_carries_a_model_of_at_most_12_mib(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        sizes = {
            Path(entry.filename).name: entry.file_size
            for entry in archive.infolist()
            if entry.filename.startswith("bidibeam/bundled/")
        }

    told = {"MODEL_CARD.md", "exchanges.json"}
    assert set(sizes) == {"config.json", "model.safetensors", "tokenizer.json", "tuned.json", *told}
    assert sizes["model.safetensors"] > 2**20
    assert sum(sizes.values()) <= LARGEST_MODEL


def test_it_carries_every_module_and_nothing_else(wheel: Path) -> None:
    names = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    modules = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*.py")}

    assert {name for name in names if name.endswith(".py")} == modules
    assert {name.split("/")[0] for name in names} == {"bidibeam"}


def test_it_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        info = f"bidibeam-{__version__}.dist-info"
        metadata = email.message_from_bytes(archive.read(f"{info}/METADATA"))
        entry_points = archive.read(f"{info}/entry_points.txt").decode()

    assert metadata["Name"] == "bidibeam"
    assert metadata["Version"] == __version__
    assert metadata["License-Expression"] == "MIT"
    assert metadata["Requires-Python"] == ">=3.11"
    assert "bidibeam = bidibeam.__main__:main" in entry_points


def test_it_is_the_wheel_that_runs_and_not_the_checkout(environment: Path) -> None:
    code = "import bidibeam; print(bidibeam.__file__)"

    location = Path(run(environment / "bin/python", "-c", code, cwd=environment).strip())

    assert location.is_relative_to(environment)


def test_it_answers_without_a_run_outside_the_checkout(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "sources.txt").write_text("how are you?\nwhat do you like?\n", encoding="utf-8")

    replies = run(environment / "bin/bidibeam", "decode", "sources.txt", cwd=tmp_path)
    where = json.loads(run(environment / "bin/bidibeam", "info", "--json", cwd=tmp_path))["run"]

    assert len(replies.splitlines()) == 2
    assert all(replies.splitlines())
    assert Path(where).is_relative_to(environment)


def test_a_corpus_becomes_replies_outside_the_checkout(environment: Path, tmp_path: Path) -> None:
    """Prepare, train, decode and look, all from the wheel; the default corpus and presets come with it."""
    command = environment / "bin/bidibeam"
    sizes = ["embedding_size=8", "encoder_size=8", "decoder_size=8", "attention_size=8", "readout_size=8"]
    flags = [word for size in sizes for word in ("--set", f"model.{size}")]
    (tmp_path / "sources.txt").write_text("how are you?\nwhat do you like?\n", encoding="utf-8")

    few = ("--limit", "30", "--vocabulary-size", "200")
    run(command, "prepare", "chitchat", *few, "--out", "data", cwd=tmp_path)
    run(
        command,
        "train",
        "data",
        "--out",
        "run",
        "--preset",
        "demo",
        "--set",
        "training.max_steps=3",
        *flags,
        cwd=tmp_path,
    )
    replies = run(command, "decode", "run", "sources.txt", "--n-best", "beams.jsonl", cwd=tmp_path)
    facts = run(command, "info", "run", "--json", cwd=tmp_path)

    assert len(replies.splitlines()) == 2
    assert len((tmp_path / "beams.jsonl").read_text(encoding="utf-8").splitlines()) == 2
    assert '"corpus": "chitchat"' in facts
