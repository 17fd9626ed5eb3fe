"""docs/hf.md: its Python runs, and so do its commands, on tiny models in place of those it names."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
from transformers import AutoTokenizer
from transformers.utils import logging

from bidibeam.api.custom_generate import RECORDS
from bidibeam.cli.main import COMMANDS, LazyCommand
from bidibeam.data.prepared import PreparedData
from bidibeam.errors import BidibeamError
from bidibeam.hf import BidiGenerate
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.bases import wrapped
from tests.unit.cli.calls import called, write_lines
from tests.unit.models.huggingface.folders import tokenizer_of, write_joint, write_model
from tests.unit.models.huggingface.tiny import prepared, write_config

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "hf.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
BLOCKS = {
    title: "\n".join(found)
    for title, part in SECTIONS.items()
    if (found := re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL))
}
"""The Python of each section; what stands further down goes on with what stands above."""
(CONFIG,) = re.findall(r"```json\n(.*?)```", PAGE, flags=re.DOTALL)
CALLS = re.findall(r"^(bidibeam .*)$", PAGE, flags=re.MULTILINE)
SLOW = ("prepare", "train")
"""Commands that are read here, not run, as they want a corpus, the Hub, or hours; from a config they run."""


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
            shutil.copytree(ROOT / "custom_generate", folder / name / "custom_generate")
    write_joint(folder / "joint")
    (folder / "bart.json").write_text(CONFIG)
    data = prepared(folder)
    facts = {"data": {"path": str(data.path), "fingerprint": data.fingerprint}}
    (folder / "bart" / "bidibeam.json").write_text(json.dumps(facts))
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
    modules = str(folder / "modules")
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
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
    done, data = 0, PreparedData.open(Path("data"))
    for call in CALLS:
        command, _, target = call.replace("--epochs 10", "--epochs 1").partition(" > ")
        _, name, *arguments = shlex.split(command)
        if name in SLOW and "bart.json" not in arguments:
            continue
        result = called(name, *arguments)
        assert result.status == 0, f"{call}\n{result.err}"
        if target:
            Path(target).write_text(result.out)
            assert len(result.replies) == 3
        done += 1
        if name == "train":
            reader = AutoTokenizer.from_pretrained(arguments[arguments.index("--out") + 1])
            assert reader.get_vocab() == wrapped(data.tokenizer, is_encoder_decoder=True).get_vocab()
    assert done > 15


def test_every_case_that_the_page_names_has_its_section_and_example() -> None:
    linked = re.findall(r"\(#([^)]*)\)", PAGE)
    titles = {
        re.sub(r"[^a-z -]", "", title.lower()).replace(" ", "-")
        for title in re.findall(r"^## (.*)$", PAGE, re.M)
    }

    assert len(linked) == 7
    assert set(linked) <= titles
    assert len(BLOCKS) == 5  # all but the n-best file and the config, which need no Python


def test_a_decoder_from_training_is_asked_as_the_page_asks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_config(tmp_path / "config", "gpt2", n_positions=256)
    for name, direction in (("gpt2", "regular"), ("gpt2-reverse", "reverse")):
        flags = ("--direction", direction, "--out", tmp_path / name, "--set", "max_source_length=100")
        assert called("train", "data", "--base", config, *flags, "--epochs", 1).status == 0
    saved = AutoTokenizer.from_pretrained(tmp_path / "gpt2")
    assert saved.padding_side == "left"
    shutil.copytree("bart", tmp_path / "bart")
    shutil.copytree("bart-reverse", tmp_path / "bart-reverse")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}

    exec(compile(BLOCKS["Inside `generate`"], "docs/hf.md", "exec"), names)

    (end,) = {row[-1] for row in names["prompts"]}
    assert [end] == names["decoder"].config.bidibeam_prompt_end == [saved.bos_token_id]
    assert names["batch"]["attention_mask"][:, -1].tolist() == [1, 1]
    assert names["batch"]["attention_mask"][:, 0].tolist() == [1, 0]  # the shorter one's padding comes first


def test_what_the_page_says_is_refused_is() -> None:
    names: dict[str, Any] = {}
    exec(compile(BLOCKS["Inside `generate`"], "docs/hf.md", "exec"), names)
    told = SECTIONS["Inside `generate`"].partition("Not supported, and refused:")[2]
    model, bidia = names["model"], BidiGenerate(names["reverse"])
    given: dict[str, Any] = {
        "do_sample": True,
        "stop_strings": ["fine"],
        "max_time": 9.0,
        "stopping_criteria": [lambda *_, **__: True],
        **dict.fromkeys(RECORDS, True),
    }

    for name, value in given.items():
        assert f"`{name}" in told
        options = {"num_beams": 4, "max_new_tokens": 4, "return_dict_in_generate": True, name: value}
        with pytest.raises((BidibeamError, ValueError), match=name.replace("stop_strings", "stop string")):
            model.generate(**names["inputs"], custom_generate=bidia, **options)


def test_what_python_left_can_be_decoded_with(folder: Path) -> None:
    exec(compile(BLOCKS["Training the reverse model yourself"], "docs/hf.md", "exec"), {})

    result = called(
        "decode", "--regular", folder / "bart", "--reverse", folder / "mine-reverse", "sources.txt"
    )

    assert len(result.replies) == 3
