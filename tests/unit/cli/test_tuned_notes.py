"""What is noted of settings that were tuned: for another model, or to nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bidibeam.api import load_run
from tests.unit.cli.calls import called, lines_of, write_lines

COMMANDS: dict[str, tuple[str, ...]] = {
    "rerank": ("--strategy", "bidis"),
    "evaluate": ("--strategy", "bidis"),
    "analyse": ("--analysis", "ranks"),
}


def tuned_for(path: Path, weights: str) -> Path:
    """A tuned.json of a model."""
    options = {"bidis": {"lambda_": 0.5}, "vbs-tuned": {"length_exponent": 1.0, "word_reward": 0.3}}
    path.write_text(json.dumps({"format_version": 1, "weights": weights, "options": options}))
    return path


def named_model(path: Path, beams: Path, model: str) -> Path:
    """The lists, and who wrote them."""
    signature = {"signature": f"strategy:vbs|model:{model}|bidibeam:1", "replies": []}
    return write_lines(path, *({**each, "ranking": signature} for each in lines_of(beams)))


@pytest.mark.parametrize(("command", "flags"), COMMANDS.items())
def test_what_was_tuned_for_another_model_is_noted(
    command: str, flags: tuple[str, ...], beams: Path, tmp_path: Path
) -> None:
    tuned = tuned_for(tmp_path / "tuned.json", "ab12")

    def told(lists: Path, *more: object) -> str:
        call = called(command, lists, *flags, *more)
        assert call.status == 0, call.err
        return call.told

    ours, others = (named_model(tmp_path / f"{name}.jsonl", beams, name) for name in ("ab12", "cd34"))
    note = f"Note: {tuned} was tuned for another model (ab12) than the one that wrote {others} (cd34)."
    assert note in told(others, "--tuned", tuned)
    for silent in (told(others), told(ours, "--tuned", tuned), told(beams, "--tuned", tuned)):
        assert "tuned for another model" not in silent


def test_tuned_settings_that_no_strategy_uses_are_not_judged(beams: Path, tmp_path: Path) -> None:
    tuned, lists = (
        tuned_for(tmp_path / "tuned.json", "ab12"),
        named_model(tmp_path / "l.jsonl", beams, "cd34"),
    )

    for command in ("rerank", "evaluate"):
        call = called(command, lists, "--strategy", "vbs", "--tuned", tuned)
        assert call.status == 0
        assert "another model" not in call.told


def test_a_lambda_of_nothing_is_explained(copied_run: Path) -> None:
    def switched(value: float, *flags: object) -> str:
        weights = json.loads((copied_run / "tuned.json").read_text())["weights"]
        tuned_for(copied_run / "tuned.json", weights)
        content = json.loads((copied_run / "tuned.json").read_text())
        content["options"]["bidis"]["lambda_"] = value
        (copied_run / "tuned.json").write_text(json.dumps(content))
        return called("chat", copied_run, "--beam-size", 3, *flags, typed="/strategy bidis\n").told

    tuned_for(copied_run / "tuned.json", load_run(copied_run).fingerprint)
    told = switched(0.0, "--strategy", "vbs")
    assert (
        "From now on bidis answers (lambda 0). Lambda 0 was tuned, so it answers as vbs does; above 0 the "
        "reverse score counts too: start chat, or decode, with --strategy bidis --lambda 0.5." in told
    )
    assert "answers as vbs" not in switched(0.5, "--strategy", "vbs")
    given = switched(0.5, "--strategy", "bidis", "--lambda", 0)
    assert "(lambda 0). So it answers as vbs does; above 0" in given
