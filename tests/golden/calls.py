"""Call `bidibeam` as a user does, and compare what it writes with what it wrote before."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

import bidibeam
from tests.unit.cli.calls import Call, called

DATA = Path(__file__).parent / "data"
EXPECTED = Path(__file__).parent / "expected"


def call_line(line: str, folder: Path) -> Call:
    """Call a line that must succeed; `{tmp}` in it is a folder to write to."""
    done = called(*shlex.split(line.format(tmp=folder)))
    assert done.status == 0, done.err
    return done


def rows(printed: str) -> list[str]:
    """The rows of the tables that were printed, without the prose around them."""
    lines = [line.strip() for line in printed.splitlines()]
    return [" ".join(line.split()) for line in lines if re.search(r"\S {2,}\S", line) or line[:1] == "│"]


def without_versions(text: str) -> str:
    """Take out what another release may change: versions of bidibeam and of sacreBLEU."""
    import sacrebleu

    return text.replace(bidibeam.__version__, "VERSION").replace(sacrebleu.__version__, "VERSION")


def parse_lists(path: Path) -> list[dict[str, Any]]:
    """The objects of an n-best file, which must be written as such files always were."""
    lines = path.read_text(encoding="utf-8").splitlines()
    found = [json.loads(line) for line in lines]
    for line, each in zip(lines, found, strict=True):
        assert line == json.dumps(each, ensure_ascii=False)
        assert list(each)[:5] == ["id", "source", "reference", "regular", "reverse"]
    return found


def short_ranking(line: dict[str, Any]) -> list[Any]:
    """A ranking in short: places and partners in order, and the first scores; the texts are checked here."""
    replies = line["ranking"]["replies"]
    for each in replies:
        assert list(each) == ["text", "score", "direction", "place", "partner"]
        assert each["text"] == line[each["direction"]][each["place"]]["text"]
    order = (f"{each['direction'][:3]}{each['place']}/{each['partner']}" for each in replies)
    return [" ".join(order).replace("/None", ""), *(each["score"] for each in replies[:3])]


def short_list(hypotheses: list[dict[str, Any]]) -> list[Any]:
    """Each hypothesis in short: text, log-probability, score, and a mark if it was cut off."""
    return [
        [each["text"], each["log_prob"], each["score"], *([] if each["finished"] else ["cut off"])]
        for each in hypotheses
    ]


def expected_of(command: str) -> dict[str, Any]:
    """What the command wrote before, by its arguments."""
    content: dict[str, Any] = json.loads((EXPECTED / f"{command}.json").read_text(encoding="utf-8"))
    return content


def check_same(found: Any, expected: Any, *, tolerance: float = 0.0, where: str = "") -> None:
    """Fail with the place where two contents differ.

    Numbers may differ by `tolerance`, or by its share of large ones, and always in their tenth digit.
    """
    if isinstance(expected, float) and isinstance(found, float | int):
        near = pytest.approx(expected, rel=max(tolerance, 1e-9), abs=max(tolerance, 1e-12))
        assert found == near, f"{where}: {found} is not {expected}"
    elif isinstance(expected, dict) and isinstance(found, dict):
        assert list(found) == list(expected), where
        for key, value in expected.items():
            check_same(found[key], value, tolerance=tolerance, where=f"{where}/{key}")
    elif isinstance(expected, list) and isinstance(found, list):
        assert len(found) == len(expected), where
        for place, pair in enumerate(zip(found, expected, strict=True)):
            check_same(*pair, tolerance=tolerance, where=f"{where}/{place}")
    else:
        assert found == expected, where
