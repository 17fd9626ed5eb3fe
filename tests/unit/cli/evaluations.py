"""What `bidibeam evaluate` is tested on, and how it is called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.unit.cli.calls import called, write_lines

REFERENCES = ["See you at noon then.", "I do not know.", "No, not now.", "Yes, at home."]
GOOD = ["See you at noon!", "I do not know.", "No.", "Yes, at home."]
POOR = ["I know.", "I do not know you.", "", "At work."]
FEW = ("--samples", "40", "--trials", "60")


def line(reference: str | None, regular: list[str], reverse: list[str], **more: Any) -> dict[str, Any]:
    """One source's lists, scores falling."""

    def hypotheses(texts: list[str]) -> list[dict[str, Any]]:
        return [
            {"text": text, "log_prob": -2.0 - place, "score": -1.0 - place / 2, "other_log_prob": -3.0}
            for place, text in enumerate(texts)
        ]

    return {"reference": reference, "regular": hypotheses(regular), "reverse": hypotheses(reverse), **more}


def written_texts(folder: Path) -> dict[str, Path]:
    """Replies and references as text."""
    found = {"good": GOOD, "poor": POOR, "references": REFERENCES}
    return {name: write_lines(folder / f"{name}.txt", *lines) for name, lines in found.items()}


def written_beams(folder: Path) -> Path:
    """Four sources with lists and references; at the second place stands what both directions agree on."""
    return write_lines(
        folder / "beams.jsonl",
        *(
            line(reference, [poor or "So.", good], [good], id=f"s{number}")
            for number, (reference, good, poor) in enumerate(zip(REFERENCES, GOOD, POOR, strict=True))
        ),
    )


def results(path: Path, *args: object) -> dict[str, Any]:
    """What a call writes with --out."""
    call = called("evaluate", *args, *FEW, "--out", path)
    assert call.status == 0, call.err
    found: dict[str, Any] = json.loads(path.read_text())
    return found
