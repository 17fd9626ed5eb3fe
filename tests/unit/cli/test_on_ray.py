"""`--executor ray`: what is refused before Ray does anything, each in one sentence."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bidibeam.cli.main import name_flags, way_on
from bidibeam.distributed import cluster
from tests.soak.kills import ENVIRONMENT
from tests.unit.cli.calls import refused, refused_line, write_lines

pytest.importorskip("ray")

LISTS = {"regular": [{"text": "a"}], "reverse": [{"text": "b"}]}
BLOCKED = """
import sys
sys.modules["ray"] = None
from bidibeam.cli.main import main
main(sys.argv[1:])
"""


@pytest.fixture
def files(tmp_path: Path, toy_run: Path) -> dict[str, Path]:
    """A folder of shards and others that are none, an empty one for answers, and a model."""
    shards = tmp_path / "shards"
    shards.mkdir()
    write_lines(shards / "a.jsonl", LISTS)
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    for name in ("a.txt", "b.jsonl"):
        write_lines(mixed / name, LISTS)
    (tmp_path / "empty").mkdir()
    return {
        "in": shards,
        "mixed": mixed,
        "empty": tmp_path / "empty",
        "out": tmp_path / "out",
        "run": toy_run,
    }


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("decode {run} {in}", "--executor ray needs --out FOLDER: the answers go there"),
        ("decode {run} {gone} --out {out}", "gone is no file, and no folder with shards"),
        ("decode {run} {empty} --out {out}", "empty is no file, and no folder with shards"),
        ("decode {run} {mixed} --out {out}", "has shards of several kinds, such as a.txt and b.jsonl"),
        ("decode {run} - --out {out}", "not stdin: name it."),
        ("decode --out {out}", "not stdin: name it."),
        ("decode {run} --out {out}", "is a model: name the shards, too."),
        ("decode {run} {in} --out {in}", "lies in what is read: name another folder."),
        ("decode {run} {in} --out {in}/out", "lies in what is read: name another folder."),
        ("decode {run} {in}/ --out file://{in}/out", "lies in what is read: name another folder."),
        ("decode {run} {in}/a.jsonl --out {in}/a.jsonl", "lies in what is read: name another folder."),
        ("decode {run} {in} --out {run}", "holds other things, such as "),
        ("decode {run} {in} --out {out} --n-best x", "--n-best is not for --executor ray: leave it out."),
        (
            "decode {run} {in} --out {out} --devices cpu,cpu",
            "--devices is not for --executor ray: leave it out.",
        ),
        ("decode {run} {in} --out {out} --device cpu", "--device is not for --executor ray: leave it out."),
        ("decode {run} {in} --out {out} --line-buffered", "--line-buffered is not for --executor ray"),
        (
            "decode {run} {in} --out {out} --ray-address ray://a:1",
            "is for Ray's client, which Ray Data does not",
        ),
        ("rerank {in} --out {out} --from moses", "--from is not for --executor ray: leave it out."),
        ("rerank {in} --out {out} --reverse x", "--reverse is not for --executor ray: leave it out."),
        ("rerank {in} --out {out} --n-best x", "--n-best is not for --executor ray: leave it out."),
        ("rerank - --out {out} --strategy bidia", "not stdin: name it."),
        ("rerank {gone} --out {out}", "gone is no file, and no folder with shards"),
        ("rerank {in} --out {out} --strategy 'bidia tuned'", "tuned"),
        ("rerank nosuch://a/b --out {out}", "nosuch://a/b cannot be reached: "),
    ],
)
def test_what_cannot_be_a_job_is_refused(
    line: str, told: str, files: dict[str, Path], tmp_path: Path
) -> None:
    said = refused_line(f"{line} --executor ray", {**files, "gone": tmp_path / "gone"})

    assert told in said.removeprefix("Strategy: ")
    assert not files["out"].exists()
    assert [path.name for path in files["in"].iterdir()] == ["a.jsonl"]


@pytest.mark.parametrize(
    "words",
    ["--out x", "--to parquet", "--replies-only", "--max-rejected 3", "--ray-address auto", "--gpus 1"],
)
@pytest.mark.parametrize("command", ["decode {run} {in}/a.jsonl", "rerank {in}/a.jsonl"])
def test_what_is_said_of_ray_needs_it(command: str, words: str, files: dict[str, Path]) -> None:
    flag = words.split()[0]

    assert (
        refused_line(f"{command} {words} --executor local", files)
        == f"{flag} is for --executor ray: add that, or leave it out."
    )


def test_without_ray_the_install_command_is_told(files: dict[str, Path]) -> None:
    for words in (["decode", files["run"], files["in"]], ["rerank", files["in"]]):
        flags = ["--executor", "ray", "--out", files["out"]]
        command = [sys.executable, "-c", BLOCKED, *map(str, [*words, *flags])]
        done = subprocess.run(command, check=False, env=ENVIRONMENT, capture_output=True, text=True)

        told = "Error: Work on many machines needs Ray, which is not installed: pip install 'bidibeam[ray]'\n"
        assert (done.returncode, done.stdout, done.stderr) == (1, "", told)
        assert not files["out"].exists()


def refused_address(address: str, files: dict[str, Path]) -> str:
    flags = ("--strategy", "bidia", "--executor", "ray", "--out", files["out"])
    return refused("rerank", files["in"], *flags, "--ray-address", address)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:6379", "127.0.0.1:99999"])
def test_an_address_where_nothing_is_is_refused(address: str, files: dict[str, Path]) -> None:
    told = refused_address(address, files)

    assert told.startswith(f"There is no Ray cluster at {address} (")
    assert told.endswith(
        "Start one by `ray start --head`, or leave the address out to use this machine alone."
    )
    assert not files["out"].exists()


@pytest.fixture
def silent() -> Iterator[str]:
    """An address where something listens and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_an_address_that_never_answers_is_given_up(
    silent: str, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "WAIT_S", 2.0)

    assert f"There is no Ray cluster at {silent}: nothing answered within 2 s. " in refused_address(
        silent, files
    )


def test_a_cluster_that_refuses_may_want_a_token(
    silent: str, files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT", "raise ConnectionError('Failed to connect.')")
    told = refused_address(silent, files)

    assert (
        f"at {silent} that this process may use (ConnectionError: Failed to connect). If it wants a" in told
    )
    assert "as those of `ray start` do, set RAY_AUTH_MODE=token here." in told


def test_the_address_may_come_from_the_environment(
    files: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    told = refused_line("rerank {in} --strategy bidia --executor ray --out {out}", files)

    assert told.startswith("There is no Ray cluster at 127.0.0.1:1 (")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("decode a b --executor ray --out c", " The same command goes on from what is done."),
        ("rerank a --executor=ray --out c", " The same command goes on from what is done."),
        ("rerank a --executor local", " The same command begins again."),
    ],
)
def test_who_is_interrupted_learns_that_the_job_goes_on(words: str, told: str) -> None:
    assert way_on(words.split()) == told


def test_messages_name_the_flags() -> None:
    from bidibeam.cli.decode import decode

    told = "`processes` 2 with `gpus` 1, max_rejected, which is 3. Name another folder in `out`."
    assert name_flags(told, decode) == (
        "--processes 2 with --gpus 1, --max-rejected, which is 3. Name another folder in --out."
    )
