"""Folders with tiny models and tokenizers, as `from_pretrained` reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from bidibeam.data.tokenization import Tokenizer
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.bases import wrap_tokenizer
from bidibeam.models.huggingface.configs import mark
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq
from bidibeam.models.huggingface.labels import special_ids
from tests.conftest import WORDS
from tests.unit.models.huggingface.tiny import tiny_config, tiny_model

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

STRONG = {
    **{key: {"init_std": 0.3} for key in ("bart", "marian", "mvp")},
    **{key: {"initializer_range": 0.3} for key in ("gpt2", "llama", "mamba", "bloom", "gemma2", "bert")},
    "t5": {"initializer_factor": 2.0},
    "rwkv": {},
}
"""So strong opinions that rounding does not decide."""
IDS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "forced_eos_token_id": None}
SOURCES = ["red cat", "dog dog blue horse", "a fish ?", "white"]


def tokenizer_of(words: Sequence[str] = (*WORDS, "!", "?")) -> Tokenizer:
    """One that knows whole words."""
    return Tokenizer.train([" ".join(words)], kind="word", vocabulary_size=100)


def options_of(kind: str, tokenizer: Tokenizer) -> dict[str, Any]:
    options = {**IDS, **STRONG[kind], "vocab_size": tokenizer.vocabulary_size}
    return options | ({"decoder_start_token_id": 2} if tiny_config(kind).is_encoder_decoder else {})


def write_model(
    folder: Path,
    kind: str,
    direction: Direction | None = Direction.REGULAR,
    *,
    seed: int = 0,
    tokenizer: Tokenizer | None = None,
    generation: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A folder with random weights."""
    tokenizer = tokenizer or tokenizer_of()
    model = tiny_model(kind, seed=seed, **{**options_of(kind, tokenizer), **changes})
    if direction is not None:
        mark(model, direction)
    model.generation_config.update(**(generation or {}))
    model.save_pretrained(folder)
    reader = wrap_tokenizer(tokenizer, is_encoder_decoder=model.config.is_encoder_decoder)
    reader.save_pretrained(folder)
    return folder


def write_pair(folder: Path, kind: str, **options: Any) -> tuple[Path, Path]:
    """Folders of a regular and of a reverse model."""
    return (
        write_model(folder / f"{kind}-regular", kind, Direction.REGULAR, seed=1, **options),
        write_model(folder / f"{kind}-reverse", kind, Direction.REVERSE, seed=2, **options),
    )


def write_joint(folder: Path, kind: str = "bart") -> Path:
    """A folder with a shared encoder."""
    tokenizer = tokenizer_of()
    reader = wrap_tokenizer(tokenizer, is_encoder_decoder=True)
    torch.manual_seed(3)
    config = tiny_config(kind, **options_of(kind, tokenizer))
    model = BidirectionalSeq2Seq.from_encoder_decoder(config, special_ids=special_ids(reader))
    model.save_pretrained(folder)
    reader.save_pretrained(folder)
    return folder
