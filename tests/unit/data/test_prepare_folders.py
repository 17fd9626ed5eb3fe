"""Where prepared data are written: what is replaced, what is refused, and what stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepare import prepare
from bidibeam.data.prepared import FILES, PreparedData
from bidibeam.errors import SettingsError
from tests.unit.data.made_corpora import corpus, settings


def test_prepared_data_is_replaced_on_demand_and_other_files_stay(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl")
    first = prepare(settings(), source, tmp_path / "out")
    tokens = first.split("train").tokens[:10].tolist()
    (tmp_path / "out" / "notes.txt").write_text("mine")

    with pytest.raises(SettingsError, match=r"holds prepared data already; name another directory, or pass"):
        prepare(settings(limit=100), source, tmp_path / "out")
    second = prepare(settings(limit=100), source, tmp_path / "out", overwrite=True)

    assert second.fingerprint != first.fingerprint
    assert first.split("train").tokens[:10].tolist() == tokens  # what was open stays whole
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"


def test_a_directory_of_other_things_is_refused_unless_told(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl")

    with pytest.raises(
        SettingsError, match=r"holds other things; name an empty or new directory, or pass overw"
    ):
        prepare(settings(), source, tmp_path)
    assert prepare(settings(), source, tmp_path, overwrite=True).path == tmp_path
    with pytest.raises(SettingsError, match=r"c\.jsonl is a file; name a directory for the prepared data\.$"):
        prepare(settings(), source, source)


def test_what_an_interrupted_replacement_left_is_ours(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl")
    first = prepare(settings(), source, tmp_path / "out")
    (tmp_path / "out" / "data.json").unlink()

    assert prepare(settings(), source, tmp_path / "out").fingerprint == first.fingerprint


def test_the_current_directory_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = corpus(tmp_path / "c.jsonl")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    prepare(settings(), source, Path())

    assert sorted(path.name for path in (tmp_path / "here").iterdir()) == sorted(FILES)


def test_a_failure_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bidibeam.data import prepare as module

    def fail(*_: Any) -> None:
        raise KeyboardInterrupt

    source = corpus(tmp_path / "c.jsonl")
    before = prepare(settings(limit=50), source, tmp_path / "out").fingerprint
    monkeypatch.setattr(module, "_write_texts", fail)

    for out in ("out", "new"):
        with pytest.raises(KeyboardInterrupt):
            prepare(settings(), source, tmp_path / out, overwrite=True)

    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.jsonl", "out"]
    assert PreparedData.open(tmp_path / "out").fingerprint == before


def test_replaced_data_take_their_training_text_along_and_nobody_elses(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl")
    out = tmp_path / "out"
    prepare(settings(keep_text=True), source, out)

    prepare(settings(), source, out, overwrite=True)
    assert not (out / "train.jsonl").exists()

    (out / "train.jsonl").write_text("mine")
    prepare(settings(), source, out, overwrite=True)
    assert (out / "train.jsonl").read_text() == "mine"


def test_a_directory_with_somebody_elses_train_jsonl_is_refused(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "train.jsonl").write_text("mine")

    with pytest.raises(SettingsError, match=r"holds other things"):
        prepare(settings(keep_text=True), source, tmp_path / "out")
