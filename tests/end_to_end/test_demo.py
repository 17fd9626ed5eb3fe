"""The demo, on a smaller slice."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from bidibeam.cli import demo
from bidibeam.cli.main import run


def test_the_demo_runs_from_corpus_to_samples_and_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "CONVERSATIONS", 40)
    monkeypatch.setattr(demo, "SOURCES", 12)

    assert run(["demo", "--out", str(tmp_path / "demo")]) == 0

    told = capsys.readouterr().err
    for heading in ("1. Prepare", "2. Train", "3. Tune", "4. Decode", "The two beams", "What to try next"):
        assert heading in told
    for number in (
        "regular validation perplexity",
        "reverse validation loss",
        "bleu",
        "length_ratio",
        "distinct-2",
    ):
        assert number in told
    results = json.loads((tmp_path / "demo" / "results.json").read_text())
    assert len(re.findall(r"│ +reference ", told)) == min(demo.SAMPLES, results["sources"]) > 0
    assert set(results["systems"]) == {name for names in demo.SYSTEMS.values() for name in names}
    assert "tok:none" in results["systems"]["bidis"]["scores"]["bleu"]["signature"]
    assert "|tuned:tuned.json@" in results["systems"]["vbs-tuned"]["signature"]
    assert "similarity:wmd_t|vectors:model|" in results["systems"]["bidia wmd_t"]["signature"]
    marked = re.findall("◀ bleu_t|◀ wmd_t", told)  # the winning pairs
    assert len(marked) >= 2 * min(demo.SAMPLES, results["sources"])

    assert run(["demo", "--out", str(tmp_path / "demo")]) == 0  # nothing is done twice
    assert "from step" in capsys.readouterr().err
    assert json.loads((tmp_path / "demo" / "results.json").read_text()) == results
