"""The documentation: every block of code runs, and the site is whole."""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import bidibeam
import bidibeam.distributed
import bidibeam.hf
from bidibeam.registry import Registry
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES
from tests.conftest import make_once
from tests.docs_inputs import write_inputs
from tests.snippets import PAGES, ROOT, RUN, Reader, blocks_of, own_modules

DOCS = ROOT / "docs"
MODULES = (bidibeam, bidibeam.distributed, bidibeam.hf)
BLOCKS = {page: [block for block in blocks_of(page) if block.language in RUN] for page in PAGES}
TRIED = [page for page, blocks in BLOCKS.items() if any(block.mark != "not run" for block in blocks)]
NOT_RUN = {
    "docs/quickstart.md": 1,
    "docs/scaling.md": 4,
    "docs/speed.md": 6,
    "docs/training-on-several-gpus.md": 6,
}
"""How many blocks of a page nothing runs; each says why."""


@pytest.mark.parametrize("page", TRIED, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(
    page: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = make_once(tmp_path_factory, "docs-inputs", write_inputs)
    folder = shutil.copytree(inputs, tmp_path / "reader")
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(folder / "modules"))

    with own_modules(folder), contextlib.closing(Reader()) as reader:
        reader.read(page)


def test_blocks_that_do_not_run_are_few_and_say_why() -> None:
    left_out = [block for blocks in BLOCKS.values() for block in blocks if block.mark == "not run"]

    assert Counter(str(block.page.relative_to(ROOT)) for block in left_out) == NOT_RUN
    assert all(len(block.what.split()) > 3 for block in left_out)
    for page in DOCS.rglob("*.md"):
        fences = re.findall(r"^```(.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert all(fences[::2]), (
            f"{page.name}: a block does not name its language, so nobody knows whether to run it"
        )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\nprint(1)\n```\n```output\n2\n```\n", "shows '2', but this was printed:\n1"),
        ("```console\n$ echo a b\na c\n```\n", "echo a b shows 'a c'"),
        ("```bash\nbidibeam decode nowhere sources.txt\n```\n", "sources.txt cannot be read"),
        ("```bash\necho hello | bidibeam decode --beam-size 0\n```\n", "beam-size"),
    ],
)
def test_a_page_that_is_wrong_fails(
    text: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = tmp_path / "page.md"
    page.write_text(text)

    with pytest.raises(AssertionError, match=re.escape(message)):
        Reader().read(page)


def build(out: Path) -> None:
    """The site, as `make docs` builds it."""
    options = ["-q", "-W", "-n", "--keep-going", "-E", "-c", "docs"]
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", *options, ".", str(out)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_the_site_builds_without_warnings_has_every_page_and_asks_no_other_host(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    site = make_once(tmp_path_factory, "site", build)

    for page in PAGES[1:]:  # warnings tell of one that no contents list
        assert (site / page.relative_to(ROOT)).with_suffix(".html").is_file()
    assert "docs/index.html" in (site / "index.html").read_text(encoding="utf-8")
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert not re.findall(
            r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"(?:https?:)?//[^\"]*", text
        ), page
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\([\"']?(?:https?:)?//|@import", style.read_text(encoding="utf-8")), style


def test_the_api_page_lists_the_public_names_and_no_other() -> None:
    listed = re.findall(r"^\.\. auto\w+:: (\S+)", (DOCS / "api.md").read_text(encoding="utf-8"), re.MULTILINE)

    public = [f"{module.__name__}.{name}" for module in MODULES for name in module.__all__]
    assert sorted(listed) == sorted(public)


@pytest.mark.parametrize(("page", "registry"), [("strategies", STRATEGIES), ("similarities", SIMILARITIES)])
def test_strategies_and_similarities_are_documented(page: str, registry: Registry[Any]) -> None:
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")

    assert set(registry.names()) <= set(re.findall(r"^\| `([\w-]+)` \|", text, re.MULTILINE))


def test_what_extends_takes_thirty_lines() -> None:
    code = [block.code for block in BLOCKS[DOCS / "extending.md"] if block.language == "python"]

    assert len(code) == 4
    assert all(len(part.strip().splitlines()) <= 30 for part in code)
