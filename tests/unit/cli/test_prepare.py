from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

from click.testing import CliRunner

from bidibeam.cli.prepare import prepare
from bidibeam.data.corpora import CORPORA
from bidibeam.data.prepare import PrepareSettings
from bidibeam.data.prepared import PreparedData


def corpus(path: Path) -> Path:
    pairs = [{"source": f"tea {i}?", "response": f"yes {i}."} for i in range(50)]
    path.write_text("\n".join(map(json.dumps, [*pairs, {"source": "tea?", "response": "no " * 30}])))
    return path


def test_prepares_and_tells_what_came_of_it(tmp_path: Path) -> None:
    source, out = corpus(tmp_path / "c.jsonl"), tmp_path / "out"

    result = CliRunner().invoke(prepare, ["jsonl", "--source", str(source), "--out", str(out), "--seed", "4"])

    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    assert PreparedData.open(out).info["settings"]["seed"] == 4
    for expected in ("pairs kept", "dropped: response too long", "51 lines read, 0 malformed", "longest 30"):
        assert expected in result.stderr


def test_what_comes_next_fits_what_was_kept(tmp_path: Path) -> None:
    source, out = corpus(tmp_path / "c.jsonl"), tmp_path / "out"

    for flags, following in (
        ([], "--out RUN"),
        (["--keep-text", "--overwrite"], "--base MODEL --out FOLDER"),
    ):
        given = ["jsonl", "--source", str(source), "--out", str(out), *flags]
        told = " ".join(CliRunner().invoke(prepare, given).stderr.split())
        assert told.endswith(f"Next: bidibeam train {out} {following}")


def test_every_setting_is_an_option_with_the_same_default() -> None:
    given = prepare.make_context("prepare", ["--out", "data"]).params

    for field in fields(PrepareSettings):
        assert given[field.name] == field.default, field.name


def test_help_names_every_corpus_and_imports_nothing_heavy() -> None:
    script = (
        "import sys, click\n"
        "from bidibeam.cli.prepare import prepare\n"
        "try: prepare(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'numpy', 'tokenizers', 'torch', 'rich'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )

    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)

    assert result.returncode == 0, result.stderr
    assert "Examples:\n    bidibeam prepare chitchat --out" in result.stdout
    for name in CORPORA.names():
        assert name in result.stdout
