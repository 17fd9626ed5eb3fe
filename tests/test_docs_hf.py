"""docs/hf.md: its Python runs, and so do its commands, on tiny models in place of those it names."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest
from transformers.utils import logging

from bidibeam.cli.main import COMMANDS, LazyCommand
from bidibeam.hypotheses import Direction
from tests.unit.cli.calls import called, write_lines
from tests.unit.hf.folders import tokenizer_of, write_joint, write_model

PAGE = (Path(__file__).parents[1] / "docs" / "hf.md").read_text(encoding="utf-8")
BLOCKS = {
    PAGE[: match.start()].rsplit("\n## ", 1)[1].split("\n")[0]: match[1]
    for match in re.finditer(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
}
CALLS = re.findall(r"^(bidibeam .*)$", PAGE, flags=re.MULTILINE)
SLOW = ("prepare", "train")
"""Commands that are read here, not run: they want a corpus, the Hub, or hours."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that the page finds: models, sources, lists."""
    folder = tmp_path_factory.mktemp("page")
    words = tokenizer_of(["how", "are", "you", "fine", "hello", "there", ".", "?", "!", "i", "live"])
    for kind in ("bart", "gpt2"):
        for name, direction in ((kind, Direction.REGULAR), (f"{kind}-reverse", Direction.REVERSE)):
            only_words = {"suppress_tokens": [2]}
            write_model(
                folder / name, kind, direction, tokenizer=words, seed=len(name), generation=only_words
            )
    write_joint(folder / "joint")
    (folder / "data").mkdir()
    pairs = [("how are you?", "fine."), ("hello!", "hello there."), ("where?", "there.")]
    examples = [{"source": source, "reference": reference} for source, reference in pairs]
    write_lines(folder / "data" / "test.jsonl", *examples)
    (folder / "sources.txt").write_text("".join(f"{source}\n" for source, _ in pairs))
    texts = ("fine", "fine there", "hello you")
    rows = [
        f"{n} ||| {text} ||| F0= -1 ||| -{place + 1}" for n in range(3) for place, text in enumerate(texts)
    ]
    for name in ("l2r", "r2l"):
        (folder / f"{name}.nbest").write_text("".join(f"{row}\n" for row in rows))
    return folder


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    logging.disable_progress_bar()


@pytest.mark.parametrize("title", BLOCKS)
def test_the_pages_python_runs(title: str, capsys: pytest.CaptureFixture[str]) -> None:
    exec(compile(BLOCKS[title], f"docs/hf.md, {title}", "exec"), {})

    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("call", CALLS)
def test_the_pages_commands_are_understood(call: str) -> None:
    _, name, *arguments = shlex.split(call.split(" > ")[0])

    context = LazyCommand(name, *COMMANDS[name]).load().make_context(name, arguments)

    assert isinstance(context, click.Context)


def test_the_pages_commands_run_one_after_the_other() -> None:
    done = 0
    for call in CALLS:
        command, _, target = call.partition(" > ")
        _, name, *arguments = shlex.split(command)
        if name in SLOW:
            continue
        result = called(name, *arguments)
        assert result.status == 0, f"{call}\n{result.err}"
        if target:
            Path(target).write_text(result.out)
            assert len(result.replies) == 3
        done += 1
    assert done > 8


def test_every_case_that_the_page_names_has_its_section_and_example() -> None:
    linked = re.findall(r"\(#([^)]*)\)", PAGE)
    titles = {
        re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^## (.*)$", PAGE, re.M)
    }

    assert len(linked) == 6
    assert set(linked) <= titles
    assert len(BLOCKS) == 5  # all but the n-best file, which needs no Python


def test_what_python_left_can_be_decoded_with(folder: Path) -> None:
    exec(compile(BLOCKS["Training the reverse model yourself"], "docs/hf.md", "exec"), {})

    result = called(
        "decode", "--regular", folder / "bart", "--reverse", folder / "mine-reverse", "sources.txt"
    )

    assert len(result.replies) == 3


def test_the_table_of_speeds_is_that_of_the_committed_benchmark() -> None:
    cells = json.loads(
        (Path(__file__).parents[1] / "results" / "hf" / "cpu.json").read_text(encoding="utf-8")
    )["cells"]
    page = (Path(__file__).parents[1] / "docs" / "hf.md").read_text(encoding="utf-8")

    for label, name in (
        ("`generate`", "generate"),
        ("CTranslate2, float32", "ctranslate2"),
        ("matrix products alone", "products"),
    ):
        row = " | ".join(f"{cell['times_ours'][name]:.2f}" for cell in cells)
        assert f"| {label} | {row} |" in page
