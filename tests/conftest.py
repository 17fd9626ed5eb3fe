"""What several suites need: a toy corpus with a rule that a network learns in seconds, and a trained run."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import PreparedData
from bidibeam.evaluation import diversity
from bidibeam.metrics.resampling import Resampling
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.reporting import report
from bidibeam.training.settings import RunSettings, TrainingSettings
from bidibeam.training.train import train

WORDS = ["red", "green", "blue", "black", "white", "cat", "dog", "bird", "fish", "horse"]

TINY_MODEL = ModelSettings(
    embedding_size=16, encoder_size=16, encoder_layers=2, decoder_size=32, attention_size=16, readout_size=24
)

# No test asserts a time, and an example must not fail because the other processes of the suite are busy.
hypothesis.settings.register_profile(
    "untimed", deadline=None, max_examples=40, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave property tests and real corpora out of what coverage counts: examples must reach every line.

    Before Python 3.12 coverage doubles the time of all that is Python, and they are the most of it.
    """
    if not config.pluginmanager.hasplugin("pytest_cov"):
        return
    for item in items:
        is_property = getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        if is_property or item.get_closest_marker("corpus"):
            item.add_marker(pytest.mark.no_cover)


def write_toy_corpus(path: Path, pairs: int) -> None:
    """Pairs in which the response repeats the source: 'red cat' is answered with 'red cat !'."""
    chooser = random.Random(0)
    with path.open("w", encoding="utf-8") as file:
        for number in range(pairs):
            words = [chooser.choice(WORDS) for _ in range(chooser.randint(1, 5))]
            file.write(f"{' '.join(words)}\t{' '.join(words)} !\tc{number}\n")


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """The suite's processes have a thread each; `scripts/check` runs some tests with all threads, too."""
    if os.environ.get("BIDIBEAM_TEST_THREADS") != "default":
        torch.set_num_threads(1)


@pytest.fixture(scope="module")
def few_trials() -> Iterator[None]:
    """Analyses try chance a hundred times in place of ten thousand: enough where no p-value is looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(diversity, "Resampling", partial(Resampling, samples=50, trials=100))
        yield


@pytest.fixture
def undrawn() -> Iterator[None]:
    """The figures of reports are made but not saved, which takes most of the time."""
    with without_drawing():
        yield


@contextmanager
def without_drawing() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "save_figure", lambda _: {"svg": b"<svg></svg>", "png": b""})
        yield


def make_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """A folder that is made by the first of the suite's processes that needs it, and only read by all."""
    base = factory.getbasetemp()
    base = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    done = base / f"{name}.done"
    with (base / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not done.exists():
            (base / name).mkdir()
            make(base / name)
            done.touch()
    return base / name


@pytest.fixture(scope="session")
def toy_data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    settings = PrepareSettings(corpus="tsv", vocabulary_size=100, max_source_length=8, max_response_length=8)

    def make(folder: Path) -> None:
        write_toy_corpus(folder / "pairs.tsv", 1200)
        prepare(settings, folder / "pairs.tsv", folder / "data")

    return PreparedData.open(make_once(tmp_path_factory, "toy", make) / "data")


@pytest.fixture
def referenced_data(toy_data: PreparedData, tmp_path: Path) -> Path:
    """The same data, with a second reference for one source of each split."""
    data = shutil.copytree(toy_data.path, tmp_path / "referenced")
    for name in ("validation.jsonl", "test.jsonl"):
        first, *others = (data / name).read_text(encoding="utf-8").splitlines(keepends=True)
        example = json.loads(first)
        example["references"] = [example["reference"], "red"]
        (data / name).write_text(f"{json.dumps(example)}\n{''.join(others)}", encoding="utf-8")
    return data


def train_once(factory: pytest.TempPathFactory, name: str, data: PreparedData, **settings: Any) -> Path:
    made = RunSettings(TINY_MODEL, TrainingSettings(batch_size=32, learning_rate=0.01, **settings))
    return make_once(factory, name, lambda folder: train(data, folder / "run", made)) / "run"


@pytest.fixture(scope="session")
def toy_run(toy_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt to repeat, in both directions."""
    return train_once(tmp_path_factory, "toy-run", toy_data, epochs=10, early_stopping=0, log_every=10)


@pytest.fixture(scope="session")
def unsure_run(toy_data: PreparedData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has learnt a part of its rule, so that settings make a difference."""
    return train_once(tmp_path_factory, "unsure-run", toy_data, max_steps=90, tensorboard=False)


def copied(run: Path, to: Path) -> Path:
    """A copy of a run without what training left beside it."""
    return shutil.copytree(run, to, ignore=shutil.ignore_patterns("training", "tensorboard"))


@pytest.fixture
def copied_run(toy_run: Path, tmp_path: Path) -> Path:
    """The toy run, to write into."""
    return copied(toy_run, tmp_path / "run")


@pytest.fixture
def copied_unsure_run(unsure_run: Path, tmp_path: Path) -> Path:
    """The unsure run, to write into."""
    return copied(unsure_run, tmp_path / "run")
