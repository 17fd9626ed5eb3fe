"""Tiny models of every family that is supported, and data to train them on."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, set_seed

from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import PreparedData
from tests.conftest import WORDS

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

_BART = {
    "d_model": 32,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": 64,
    "dropout": 0.0,
    "init_std": 0.1,
}
_LLAMA = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 64,
}
_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 1, "num_heads": 4, "dropout_rate": 0.0}
_T5 |= {"decoder_start_token_id": 0}
_GROUPED = {**_LLAMA, "num_attention_heads": 4, "num_key_value_heads": 2}
SHAPES: dict[str, dict[str, Any]] = {
    "bart": _BART,
    "mbart": _BART,
    "m2m_100": {**_BART, "max_position_embeddings": 100},
    "pegasus": _BART,
    "plbart": _BART,
    "blenderbot": _BART,
    "blenderbot-small": _BART,
    "marian": {**_BART, "pad_token_id": 3, "decoder_start_token_id": 3, "eos_token_id": 2},
    "t5": _T5,
    "mt5": _T5,
    "umt5": _T5,
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
    | {f"{name}_pdrop": 0.0 for name in ("attn", "embd", "resid")},
    "llama": _LLAMA,
    "qwen2": {**_LLAMA, "num_key_value_heads": 1},
    "mistral": {**_LLAMA, "num_key_value_heads": 1, "sliding_window": None},
    "biogpt": _LLAMA,
    "gemma": {**_GROUPED, "head_dim": 16},
    "gpt_neox": _LLAMA,
    "granite": _GROUPED,
    "mixtral": {**_GROUPED, "num_local_experts": 4},
    "olmo": _GROUPED,
    "opt": {**_LLAMA, "ffn_dim": 64, "word_embed_proj_dim": 32},
    "phi": _LLAMA,
    "phi3": {**_GROUPED, "pad_token_id": 1},
    "qwen3": {**_GROUPED, "head_dim": 16},
    "stablelm": _GROUPED,
    "starcoder2": _GROUPED,
    "mamba": {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4},
    "bloom": {"hidden_size": 32, "n_layer": 2, "n_head": 2},
    "gemma2": {**_GROUPED, "head_dim": 16, "sliding_window": 4},
    "mvp": _BART,
    "bert": _LLAMA,
    "rwkv": {"hidden_size": 32, "num_hidden_layers": 2, "attention_hidden_size": 32},
    "xglm": {"d_model": 32, "ffn_dim": 64, "num_layers": 2, "attention_heads": 2},
}
ENCODER_DECODERS = ("bart", "marian", "t5")
DECODERS = ("gpt2", "llama")
FAMILIES = (*ENCODER_DECODERS, *DECODERS)
"""One of each kind; the other shapes are variations."""
VOCABULARY = 40
LIMITS: dict[str, Any] = {"max_source_length": 20, "max_response_length": 20}


def tiny_config(kind: str, **changes: Any) -> Any:
    return AutoConfig.for_model(kind, **{**SHAPES[kind], "vocab_size": VOCABULARY, **changes})


def tiny_model(kind: str, *, seed: int = 0, **changes: Any) -> Any:
    set_seed(seed)
    config = tiny_config(kind, **changes)
    auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    return auto.from_config(config).eval()


def model_of(kind: str, seed: int, vocabulary: int = VOCABULARY, **changes: Any) -> Any:
    """One whose opinions are strong enough that rounding does not decide."""
    ids: dict[str, Any] = {
        "pad_token_id": 1,
        "bos_token_id": 0,
        "eos_token_id": 2,
        "forced_eos_token_id": None,
        "decoder_start_token_id": 2,
    }
    config = tiny_config(kind)
    strong = {"init_std": 0.3, "initializer_factor": 2.0, "initializer_range": 0.3}
    ids |= {name: value for name, value in strong.items() if hasattr(config, name)}
    if not config.is_encoder_decoder:
        del ids["decoder_start_token_id"], ids["forced_eos_token_id"]
    return tiny_model(kind, seed=seed, vocab_size=vocabulary, **{**ids, **changes})


def random_inputs(model: Any, chance: random.Random) -> dict[str, Tensor]:
    """Sources of different lengths, padded where the model wants it."""
    lengths = [chance.randint(1, 9) for _ in range(chance.choice((1, 2, 5)))]
    longest = max(lengths) + chance.choice((0, 0, 3))
    ids = torch.full((len(lengths), longest), 1)
    for row, length in zip(ids, lengths, strict=True):
        words = torch.tensor([chance.randrange(3, VOCABULARY) for _ in range(length)])
        if model.config.is_encoder_decoder:
            row[:length] = words
        else:
            row[longest - length :] = words
    return {"input_ids": ids, "attention_mask": (ids != 1).long()}


def write_config(folder: Path, kind: str, **changes: Any) -> Path:
    """A folder with a config alone."""
    tiny_config(kind, **changes).save_pretrained(folder)
    return folder


def prepared(folder: Path, *, pairs: int = 24, **changes: Any) -> PreparedData:
    """Pairs in which the response repeats the source."""
    chooser = random.Random(1)
    with (folder / "pairs.tsv").open("w", encoding="utf-8") as file:
        for number in range(pairs):
            words = " ".join(chooser.choice(WORDS) for _ in range(chooser.randint(2, 4)))
            file.write(f"{words}\t{words} !\tc{number}\n")
    options = {"corpus": "tsv", "vocabulary_size": 100, "keep_text": True, "validation_share": 0.1, **changes}
    return prepare(PrepareSettings(**options), folder / "pairs.tsv", folder / "data")
