"""A job: which shards it has, what its folder says is done, and with whom it does not go on."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bidibeam.distributed.job import BEGUN, MANIFEST, Job, Manifest, Outcome, find_shards
from bidibeam.distributed.tasks import RankTask
from bidibeam.errors import InputError, SettingsError
from bidibeam.strategies.settings import StrategySettings

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SIGNATURE = "strategy:bidia|T:20"


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job on three shards."""
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    for name in ("a.jsonl", "b.jsonl", "deep/c.jsonl.gz"):
        (folder / name).write_text("12345")
    return Job("rerank", str(folder), str(tmp_path / "out"), RankTask(StrategySettings.named("bidia")))


def begin(job: Job) -> Manifest:
    return Manifest(job, find_shards(job.source))


def perform(job: Job, *names: str, rejected: int = 0) -> Manifest:
    """Do some of its shards."""
    manifest = begin(job)
    manifest.agree(SIGNATURE, 32)
    for name in names:
        Path(job.out, job.output_of(name)).parent.mkdir(exist_ok=True)
        Path(job.out, job.output_of(name)).write_text("answers")
        manifest.add(Outcome(name, rows=4, rejected=rejected, seconds=1.5))
    manifest.write()
    return manifest


def content(job: Job) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(job.out, MANIFEST).read_text())
    return found


def test_shards_are_found_in_folders_with_their_sizes_but_not_hidden_ones(job: Job) -> None:
    for name in (
        "_manifest.json",
        ".c.jsonl",
        "_rejected/a.jsonl",
        "deep/.x/a.jsonl",
        "README.md",
        "_SUCCESS",
    ):
        path = Path(job.source, name)
        path.parent.mkdir(exist_ok=True)
        path.touch()

    assert find_shards(job.source) == {"a.jsonl": 5, "b.jsonl": 5, "deep/c.jsonl.gz": 5}
    assert find_shards(f"{job.source}/a.jsonl") == {"a.jsonl": 5}
    assert job.output_of("deep/c.jsonl.gz") == "deep/c.jsonl"
    assert replace(job, format_name="parquet").output_of("a.jsonl") == "a.parquet"
    assert job.rejected_of("deep/c.jsonl.gz") == "_rejected/deep/c.jsonl"


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ([], "/in is no file, and no folder with shards: their names end in .jsonl, .json, .tsv,"),
        (["a.csv"], "/in is no folder with shards: their names end in"),
        (["a.parquet.gz"], "/in is no folder with shards"),
        (
            ["a.txt", "b.tsv"],
            "shards of several kinds, such as a.txt and b.tsv: let each have its own folder",
        ),
        (["a.txt", "a.txt.gz"], "a.txt and a.txt.gz differ by their endings alone: rename one."),
    ],
)
def test_what_is_no_folder_of_shards_is_refused(names: list[str], told: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in names:
        (tmp_path / "in" / name).touch()

    with pytest.raises(InputError) as raised:
        find_shards(str(tmp_path / "in"))
    assert told in str(raised.value)


def test_a_file_or_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    for name, told in (
        ("a.csv", "a.csv is no shard: "),
        ("gone", "gone is no file, and no folder with shards"),
    ):
        with pytest.raises(InputError, match=told):
            find_shards(str(tmp_path / name))


def test_parquet_shards_with_different_columns_are_refused_and_damaged_ones_left_for_later(
    tmp_path: Path,
) -> None:
    (tmp_path / "a.parquet").write_text("damaged")
    for name, table in (("b", {"source": ["x"], "id": [1]}), ("c", {"id": [1], "source": ["x"]})):
        parquet.write_table(pa.table(table), tmp_path / f"{name}.parquet")
    assert len(find_shards(str(tmp_path))) == 3

    parquet.write_table(pa.table({"text": ["x"]}), tmp_path / "d.parquet")
    with pytest.raises(
        InputError, match=r"b.parquet has id, source, and d.parquet has text. Give all of them"
    ):
        find_shards(str(tmp_path))


def test_what_is_done_is_not_done_again(job: Job) -> None:
    perform(job, "b.jsonl", rejected=1)

    manifest = begin(job)

    assert manifest.missing == ["a.jsonl", "deep/c.jsonl.gz"]
    assert manifest.rejected == 1
    assert not content(job)["is_done"]
    done = perform(job, *manifest.missing)
    assert done.missing == []
    assert begin(job).missing == []
    found = content(job)
    assert (found["is_done"], found["rows"], found["rejected"], found["seconds"]) == (True, 12, 1, 4.5)
    assert found["shards"]["b.jsonl"] == {"bytes": 5, "rows": 4, "rejected": 1, "seconds": 1.5}
    assert (found["signature"], found["batch_size"]) == (SIGNATURE, 32)


def test_answers_that_were_removed_are_missing(job: Job) -> None:
    perform(job, "a.jsonl", "b.jsonl", "deep/c.jsonl.gz")
    Path(job.out, "b.jsonl").unlink()

    manifest = begin(job)
    manifest.write()

    assert manifest.missing == ["b.jsonl"]
    assert not content(job)["is_done"]
    assert content(job)["rows"] == 8


def test_a_failure_is_noted_and_forgotten_when_the_job_goes_on(job: Job) -> None:
    manifest = perform(job, "a.jsonl")
    manifest.add(Outcome("b.jsonl", failed="It is damaged."))
    manifest.write()

    assert content(job)["failed"] == {"b.jsonl": "It is damaged."}
    assert begin(job).content.failed == {}
    assert begin(job).missing == ["b.jsonl", "deep/c.jsonl.gz"]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"command": "decode"}, "command is 'rerank', and here it is 'decode'"),
        ({"source": "{in}/a.jsonl"}, "input is "),
        ({"format_name": "parquet"}, "format is 'jsonl', and here it is 'parquet'"),
        ({"replies_only": True}, "replies_only is False, and here it is True"),
    ],
)
def test_another_job_is_refused_by_what_is_different(job: Job, changes: dict[str, Any], key: str) -> None:
    perform(job, "a.jsonl")
    changes = {
        name: value.format_map({"in": job.source}) if isinstance(value, str) else value
        for name, value in changes.items()
    }

    with pytest.raises(SettingsError) as raised:
        begin(replace(job, **changes))
    assert f"{job.out} holds another job: its {key}" in str(raised.value)
    assert str(raised.value).endswith("Name another folder in `out`.")


@pytest.mark.parametrize("is_noted", [True, False])
def test_answers_that_came_about_in_another_way_are_refused_noted_or_not(job: Job, *, is_noted: bool) -> None:
    """A driver that is killed may not have noted what workers wrote."""
    perform(job, *(["a.jsonl"] if is_noted else []))
    Path(job.out, "a.jsonl").write_text("answers")

    for signature, batch_size, told in (
        ("strategy:bidia|T:10", 32, "written with T:20, where now there is T:10"),
        (SIGNATURE, 16, "written with batch_size:32, where now there is batch_size:16"),
        (f"{SIGNATURE}|tuned:x", 32, "written with nothing, where now there is tuned:x"),
    ):
        with pytest.raises(SettingsError, match=told):
            begin(job).agree(signature, batch_size)
    begin(job).agree(SIGNATURE, 32)


def test_a_job_without_answers_may_become_another_strategys(job: Job) -> None:
    perform(job)

    begin(job).agree("strategy:vbs", 8)

    assert content(job)["signature"] == "strategy:vbs"


def test_a_shard_that_has_changed_since_it_was_read_is_refused_until_its_answers_are_removed(
    job: Job,
) -> None:
    perform(job, "a.jsonl", "b.jsonl")
    Path(job.source, "a.jsonl").write_text("123456")

    with pytest.raises(
        SettingsError, match=r"a.jsonl had 5 bytes .* and has 6 now. Remove .*/a.jsonl to do it"
    ):
        begin(job)
    Path(job.out, "a.jsonl").unlink()
    assert begin(job).missing == ["a.jsonl", "deep/c.jsonl.gz"]


def test_a_shard_that_is_gone_keeps_its_answers(job: Job) -> None:
    perform(job, "a.jsonl")
    Path(job.source, "a.jsonl").unlink()

    manifest = begin(job)

    assert manifest.missing == ["b.jsonl", "deep/c.jsonl.gz"]
    assert "a.jsonl" in manifest.content.shards


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"shards": []}',
        '{"shards": {"a.jsonl": 1}}',
        '{"shards": {"a.jsonl": {"rows": "x"}}}',
        '{"rows": "x"}',
        '{"shards": null}',
    ],
)
def test_a_damaged_manifest_is_told(job: Job, text: str) -> None:
    perform(job)
    whole = content(job)
    text = json.dumps({**whole, **json.loads(text)}) if text.endswith("}") else text
    Path(job.out, MANIFEST).write_text(text)

    with pytest.raises(SettingsError, match=r"_manifest.json is damaged .* Name another folder in `out`."):
        begin(job)


def test_a_manifest_of_another_format_is_refused(job: Job) -> None:
    perform(job)
    Path(job.out, MANIFEST).write_text(json.dumps({**content(job), "format_version": 2}))

    with pytest.raises(SettingsError, match="its format_version is 2, and here it is 1"):
        begin(job)


def test_a_folder_that_holds_other_things_is_refused(job: Job) -> None:
    Path(job.out).mkdir()
    Path(job.out, ".hidden").touch()
    begin(job)
    Path(job.out, "thesis.txt").touch()

    with pytest.raises(
        SettingsError, match=r"holds other things, such as thesis.txt. Name an empty or new folder"
    ):
        begin(job)
    with pytest.raises(SettingsError, match=r"holds other things, such as thesis.txt"):
        begin(replace(job, out=f"{job.out}/thesis.txt"))


def test_what_killed_workers_left_is_removed(job: Job) -> None:
    perform(job, "a.jsonl")
    (Path(job.out) / BEGUN).mkdir()
    for name in (f"{BEGUN}/b.jsonl.1", ".b.jsonl.0123.partial", "deep/.c.jsonl.0123.partial"):
        Path(job.out, name).parent.mkdir(exist_ok=True)
        Path(job.out, name).touch()

    begin(job)

    assert sorted(str(path.relative_to(job.out)) for path in Path(job.out).rglob("*")) == [
        MANIFEST,
        "a.jsonl",
        "deep",
    ]
