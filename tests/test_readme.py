"""README and docs: their commands exist, their links lead somewhere, and what they tell is so."""

from __future__ import annotations

import json
import re
import runpy
import shlex
import sys
import tomllib
import types
from importlib import import_module
from pathlib import Path
from typing import Any

import click
import pytest

from bidibeam.cli.main import load_command
from bidibeam.metrics import METRICS, build_metric
from bidibeam.metrics.scoring import score
from tests.snippets import PAGES, ROOT
from tests.unit.cli.calls import called

README = (ROOT / "README.md").read_text(encoding="utf-8")
CODE = [code for page in PAGES for code in re.findall(r"^```.*?^```", page.read_text("utf-8"), re.M | re.S)]
COMMAND = re.compile(r"^(?:\$ )?(?:echo [^|\n]*\| )?(bidibeam [^\n|]*)", re.M)
CALLS = sorted({re.split(" # | > ", call)[0].strip() for code in CODE for call in COMMAND.findall(code)})


@pytest.mark.parametrize("call", CALLS)
def test_every_command_in_the_documentation_parses(call: str) -> None:
    _, name, *arguments = shlex.split(call)

    context = load_command(name).make_context(name, arguments)

    assert isinstance(context, click.Context)


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= 150
    assert len(README.split()) <= 1300


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "results" / "README.md", ROOT / "benchmarks" / "README.md"]:
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_picture_shows_what_the_bundled_model_finds(tmp_path: Path) -> None:
    picture = (ROOT / "docs" / "images" / "beams.svg").read_text(encoding="utf-8")
    beams = tmp_path / "beams.jsonl"

    assert (
        called("decode", "--strategy", "bidia", "--n-best", beams, typed="i have an exam tomorrow.\n").status
        == 0
    )

    found = json.loads(beams.read_text())
    for text in (each["text"] for side in ("regular", "reverse") for each in found[side]):
        assert f">{text}   -" in picture or f"   {text}   -" in picture
    assert f"→  {found['ranking']['replies'][0]['text']}</text>" in picture


def test_the_metrics_of_the_documentation_can_be_used(monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs" / "reproduce.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    module = types.ModuleType("documented")
    exec(compile(code, "reproduce.md", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, "documented", module)

    for name in ("same_ending", "Agreement"):
        metric = build_metric(f"documented:{name}")
        assert score(metric, metric.statistics(["a", "b"], [("a", "c"), ("d",)])) == 0.5
    for name in METRICS.names():
        assert f"`{name}`" in page


def test_the_page_of_settings_is_up_to_date() -> None:
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")

    assert runpy.run_path(str(ROOT / "scripts" / "settings_page"))["page"]() == page
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| `")]
    assert len(rows) > 80
    for name, *_, meaning in rows:
        assert meaning.endswith("."), name
        assert not meaning.startswith("As in"), name


def test_contributing_names_code_dependencies_and_entry_points_that_exist() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+)\.py:([\w.]+)`", page)
    assert len(named) > 20

    for path, name in named:
        found: Any = import_module("bidibeam." + path.replace("/", "."))
        for part in name.split("."):
            found = getattr(found, part)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [item for items in project["optional-dependencies"].values() for item in items]
    for requirement in (item for item in [*project["dependencies"], *extras] if "[" not in item):
        assert re.split("[>=<]", requirement)[0] in page.split("## Dependencies")[1], requirement
    source = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    groups = set(re.findall(r"group=\"(bidibeam\.\w+)\"", source))
    assert groups == set(re.findall(r"\| `(bidibeam\.\w+)` \|", page))
