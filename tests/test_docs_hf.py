"""docs/hf.md: what it says of models and options is so, on tiny models of the names that it uses."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer
from transformers.utils import logging

from bidibeam.api.huggingface import RECORDS
from bidibeam.errors import BidibeamError
from bidibeam.hf import BidiGenerate
from bidibeam.models.huggingface.scorer import MODEL_TYPES
from tests.conftest import make_once
from tests.docs_inputs import write_inputs
from tests.unit.cli.calls import called
from tests.unit.models.huggingface.tiny import write_config

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "hf.md").read_text(encoding="utf-8")
SECTIONS = {part.split("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
BLOCKS = {
    title: "\n".join(found)
    for title, part in SECTIONS.items()
    if (found := re.findall(r"```python\n(.*?)```", part, flags=re.DOTALL))
}
"""The Python of each section; what stands further down continues what stands above."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All that the page names: models, sources, lists."""
    inputs = make_once(tmp_path_factory, "docs-inputs", write_inputs)
    folder = shutil.copytree(inputs, tmp_path_factory.mktemp("page") / "reader")
    shutil.copytree(folder / "custom_generate", folder / "bart" / "custom_generate")
    return folder


@pytest.fixture(autouse=True)
def _there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(folder / "modules"))
    logging.disable_progress_bar()


def test_every_case_that_the_page_names_has_its_section_and_models_are_listed() -> None:
    linked = re.findall(r"\(#([^)]*)\)", PAGE)
    titles = {re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in SECTIONS}

    assert len(linked) == 9
    assert set(linked) <= titles
    listed = re.sub(r"[^a-z0-9]", "", SECTIONS["How models are searched"].lower())
    for kind in MODEL_TYPES:
        assert re.sub(r"[^a-z0-9]", "", kind.removesuffix("-small")) in listed, kind


def test_a_decoder_from_training_reads_prompts_as_the_page_gives_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = write_config(tmp_path / "config", "gpt2", n_positions=256)
    for name, direction in (("gpt2", "regular"), ("gpt2-reverse", "reverse")):
        flags = ("--direction", direction, "--out", tmp_path / name, "--set", "max_source_length=100")
        assert called("train", "data", "--base", config, *flags, "--epochs", 1).status == 0
    saved = AutoTokenizer.from_pretrained(tmp_path / "gpt2")
    for name in ("bart", "bart-reverse"):
        shutil.copytree(name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}

    exec(compile(BLOCKS["Inside generate"], "docs/hf.md", "exec"), names)

    (end,) = {row[-1] for row in names["prompts"]}
    assert saved.padding_side == "left"
    assert [end] == names["decoder"].config.bidibeam_prompt_end == [saved.bos_token_id]
    assert names["batch"]["attention_mask"][:, 0].tolist() == [1, 0]  # the shorter one's padding comes first


def test_what_the_page_says_is_refused_is() -> None:
    names: dict[str, Any] = {}
    exec(compile(BLOCKS["Inside generate"], "docs/hf.md", "exec"), names)
    told = SECTIONS["Inside generate"].partition("Refused are ")[2]
    given: dict[str, Any] = {
        "do_sample": True,
        "stop_strings": ["fine"],
        "max_time": 9.0,
        "penalty_alpha": 0.6,
        "dola_layers": "high",
        "prompt_lookup_num_tokens": 3,
        "assistant_early_exit": 1,
        "synced_gpus": True,
        "prefill_chunk_size": 2,
        "stopping_criteria": [lambda *_, **__: True],
        **dict.fromkeys(RECORDS, True),
    }

    for name, value in given.items():
        assert f"`{name}" in told
        options = {"num_beams": 4, "max_new_tokens": 4, "return_dict_in_generate": True, name: value}
        with pytest.raises((BidibeamError, ValueError), match=name.replace("stop_strings", "stop string")):
            names["model"].generate(
                **names["inputs"], custom_generate=BidiGenerate(names["reverse"]), **options
            )


def test_what_the_pages_training_loop_saves_decodes() -> None:
    exec(compile(BLOCKS["Your own training loop"], "docs/hf.md", "exec"), {})

    assert len(called("decode", "bart", "--reverse", "mine-reverse", "sources.txt").replies) == 3
