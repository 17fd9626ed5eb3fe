"""Data that Hugging Face models are trained on, and folders that hold no model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file
from transformers import ViTConfig, ViTModel

from bidibeam.data.prepared import PreparedData
from bidibeam.models.huggingface.bases import wrap_tokenizer
from tests.unit.models.huggingface.folders import tokenizer_of, write_joint, write_model
from tests.unit.models.huggingface.tiny import prepared, tiny_model, write_config

PIECES = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "</s>", "type_id": 0}}]
TEMPLATE = {"type": "TemplateProcessing", "single": PIECES, "pair": PIECES, "special_tokens": {}}
"""A post-processor that names a token which it does not have: tokenizers panics over it."""


@pytest.fixture(scope="session")
def copies(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    """24 pairs in which the response repeats the source, with their text."""
    return prepared(tmp_path_factory.mktemp("copies"))


@pytest.fixture(scope="session")
def unusable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of folders that cannot be loaded or trained, each for another reason."""
    folder = tmp_path_factory.mktemp("unusable")
    for name, text in {
        "file": "",
        "empty/.x": "",
        "killed/training/started.json": "{}",
        "half/config.json": "{",
        "list/config.json": "[]",
        "untyped/config.json": "{}",
        "nonsense/config.json": '{"model_type": "nonsense"}',
        "nonsense/model.safetensors": "",
        "odd/tokenizer.json": "{",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    for kind in ("bart", "gpt2"):
        write_config(folder / f"{kind}-config", kind)
    for name in ("bare", "odd"):
        tiny_model("bart", vocab_size=10, pad_token_id=0, eos_token_id=3).save_pretrained(folder / name)
    write_joint(folder / "joint")
    unfilled = write_joint(folder / "unfilled") / "model.safetensors"
    tensors = {
        name.replace("layernorm_embedding.weight", "x"): each for name, each in load_file(unfilled).items()
    }
    save_file(tensors, unfilled, {"format": "pt"})
    write_model(folder / "small", "gpt2", vocab_size=6)
    deep = write_model(folder / "deep", "bart") / "config.json"
    deep.write_text(json.dumps({**json.loads(deep.read_text()), "decoder_layers": 2}))
    (write_model(folder / "damaged", "bart") / "model.safetensors").write_bytes(b"half of")
    for name, file, changes in (
        ("typeless", "config.json", {"d_model": "a"}),
        ("endless", "tokenizer_config.json", {"model_max_length": {"x": []}}),
        ("tall", "config.json", {"encoder_layers": 10**19}),
        ("panicking", "tokenizer.json", {"post_processor": TEMPLATE}),
    ):
        changed = write_model(folder / name, "bart") / file
        changed.write_text(json.dumps({**json.loads(changed.read_text()), **changes}))
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    ViTModel(ViTConfig(**sizes, image_size=8, patch_size=4)).save_pretrained(folder / "vit")
    wrap_tokenizer(tokenizer_of(), is_encoder_decoder=False).save_pretrained(folder / "vit")
    return folder
