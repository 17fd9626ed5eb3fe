"""What training starts from: a model of the Hub or of a folder, or a config for fresh weights."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tokenizers
import torch
from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, HFValidationError
from safetensors import SafetensorError
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
    set_seed,
)

from bidibeam.data.tokenization import END, PADDING, START, UNKNOWN, Tokenizer
from bidibeam.errors import InputError, RunError, SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models.checkpoint import describe_unfinished
from bidibeam.models.huggingface.directions import JOINT, mark
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq
from bidibeam.models.huggingface.labels import special_ids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.data.prepared import PreparedData

WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "pytorch_model*.bin*")
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab*", "*.model", "*.spm")
WAIT = 10.0
"""Seconds for the Hub to answer."""


@dataclass(frozen=True, slots=True)
class Base:
    """A model to train, and its tokenizer.

    Attributes:
        model: In float32, its direction marked.
        tokenizer: The one it reads and writes with.
        is_fresh: Whether its weights are new.
        has_data_tokenizer: Whether the tokenizer is that of the data, so that prepared ids are its own.
    """

    model: Any
    tokenizer: Any
    is_fresh: bool
    has_data_tokenizer: bool


def open_base(
    name: str | Mapping[str, Any], direction: str, *, tokenizer: str | None, data: PreparedData, seed: int
) -> Base:
    """Load, or make, a model to train.

    Args:
        name: A name on the Hub, a folder with weights, a folder or file with a config alone, or the values
            of a config.
        direction: "regular", "reverse" or "both".
        tokenizer: Where the tokenizer is; None for the base's own, or the data's where it has none.
        data: Their tokenizer stands in for a fresh model's.
        seed: Of fresh weights.

    Raises:
        InputError: If the base or the tokenizer is not found, or of no use.
        SettingsError: If it cannot be trained in this direction, or does not fit the tokenizer.
    """
    if isinstance(name, Mapping):
        _check_settings(name)
        config, is_fresh, where = _make_config(name, "The model's config"), True, "config"
    else:
        (config, is_fresh), where = _find_config(name), name
    _check_kind(config, where, direction)
    reader, has_data_tokenizer = _find_tokenizer(name, tokenizer, config, is_fresh=is_fresh, data=data)
    set_seed(seed)
    if is_fresh:
        _fit_config(config, reader)
        model = _auto_class(config).from_config(config)
    else:
        model = _load_weights(where, config)
        _check_vocabulary(model, reader, where)
    if direction != "both":
        mark(model, Direction(direction))
    elif not isinstance(model, BidirectionalSeq2Seq):
        model = BidirectionalSeq2Seq.from_encoder_decoder(
            config if is_fresh else model, special_ids=special_ids(reader)
        )
    return Base(model, reader, is_fresh, has_data_tokenizer)


def _find_config(name: str) -> tuple[Any, bool]:
    """The base's config, and whether there is nothing else."""
    path = Path(name)
    if path.is_dir():
        if said := describe_unfinished(path):
            raise InputError(said)
        if not (path / "config.json").is_file():
            raise InputError(
                f"The base {name} has no config.json: name a folder that has one, or a Hub model."
            )
        is_fresh = not any(next(path.glob(pattern), None) for pattern in WEIGHTS)
        return _read_config(path / "config.json"), is_fresh
    if path.is_file():
        return _read_config(path), True
    check_reachable(name, "base", ("config.json",))
    try:
        return AutoConfig.from_pretrained(name), False
    except (OSError, ValueError, KeyError) as error:
        raise InputError(
            f"The base {name!r} is neither a folder, nor a config file, nor a model on the Hugging Face Hub "
            f"({first_sentence(error)})."
        ) from error


def _read_config(path: Path) -> Any:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        values = None
    config = _make_config(values, str(path))
    config.name_or_path = str(path.parent)
    return config


def _make_config(values: Any, name: str) -> Any:
    """A config from its values; one of a model type that transformers knows."""
    if not isinstance(values, Mapping) or "model_type" not in values:
        raise InputError(
            f"{name} is no model's config: it must be a JSON object with a model_type, such as bart, t5, "
            "marian, gpt2 or llama."
        )
    others = {key: value for key, value in values.items() if key != "model_type"}
    try:
        return AutoConfig.for_model(values["model_type"], **others)
    except ValueError as error:
        raise InputError(
            f"{name} has the model_type {values['model_type']!r}, which transformers does not know."
        ) from error


def _check_settings(values: Mapping[str, Any]) -> None:
    """Refuse values of settings that a model's config does not have, which transformers would keep."""
    known = _make_config({"model_type": values.get("model_type")}, "The model's config")
    for name in values:
        if not hasattr(known, name):
            close = difflib.get_close_matches(name, known.to_dict(), n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise SettingsError(f"The config of a {known.model_type} model has no {name}.{hint}")


def _check_kind(config: Any, name: str, direction: str) -> None:
    kind = config.model_type
    if kind == JOINT:
        if direction != "both":
            raise SettingsError(
                f"The base {name} holds both directions: train it with direction both, or save one half of "
                "it (`model.regular.save_pretrained(folder)`) and train that."
            )
        return
    known = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    if type(config) not in known._model_mapping:
        raise SettingsError(
            f"The base {name} is a {kind} model, which is neither an encoder-decoder nor a decoder that "
            "writes text: take one like BART, T5, Marian, GPT-2 or Llama."
        )
    if direction == "both" and not config.is_encoder_decoder:
        raise SettingsError(
            f"Direction both shares an encoder, and {name} is a {kind} model, which has none: train regular "
            "and reverse one by one."
        )


def _auto_class(config: Any) -> Any:
    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def _load_weights(name: str, config: Any) -> Any:
    loader = BidirectionalSeq2Seq if config.model_type == JOINT else _auto_class(config)
    try:
        return loader.from_pretrained(name, dtype=torch.float32)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        raise InputError(f"The weights of {name} cannot be loaded ({first_sentence(error)}).") from error


def _find_tokenizer(
    name: str | Mapping[str, Any],
    tokenizer: str | None,
    config: Any,
    *,
    is_fresh: bool,
    data: PreparedData,
) -> tuple[Any, bool]:
    """The tokenizer of a base, and whether it is that of the data."""
    is_config, path = isinstance(name, Mapping), Path("" if isinstance(name, Mapping) else name)
    folder = path if path.is_dir() else path.parent
    is_local = is_config or path.exists()
    has_own = not is_local or any(next(folder.glob(pattern), None) for pattern in TOKENIZERS)
    if tokenizer is None and is_local and (is_config or not has_own):
        if is_fresh:
            return wrap_tokenizer(data.tokenizer, is_encoder_decoder=config.is_encoder_decoder), True
        raise InputError(f"The base {name} has weights but no tokenizer: name its tokenizer.")
    where = tokenizer if tokenizer is not None else str(folder) if is_local else str(name)
    own = _prepared_tokenizer(Path(where))
    if own is not None:
        is_data = own.to_json() == data.tokenizer.to_json()
        return wrap_tokenizer(own, is_encoder_decoder=config.is_encoder_decoder), is_data
    if not Path(where).exists():
        check_reachable(where, "tokenizer", TOKENIZERS[:2])
    try:
        return AutoTokenizer.from_pretrained(where), False
    except Exception as error:  # the Rust side raises plain Exception, and there are many more
        raise InputError(
            f"There is no tokenizer in {where} ({first_sentence(error)}): name one, a folder or a model of "
            "the Hub."
        ) from error


def _prepared_tokenizer(folder: Path) -> Tokenizer | None:
    """The tokenizer of prepared data, or of a run, if that is what a folder holds."""
    if not (folder / "tokenizer.json").is_file() or (folder / "tokenizer_config.json").is_file():
        return None
    try:
        return Tokenizer.load(folder / "tokenizer.json")
    except RunError:
        return None


def wrap_tokenizer(tokenizer: Tokenizer, *, is_encoder_decoder: bool) -> Any:
    """One of our tokenizers as transformers' own: the same ids, an end after what an encoder reads."""
    backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    if is_encoder_decoder:
        backend.post_processor = TemplateProcessing(
            single=f"$A {END}", special_tokens=[(END, tokenizer.end_id)]
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PADDING,
        unk_token=UNKNOWN,
        bos_token=START,
        eos_token=END,
        clean_up_tokenization_spaces=False,
    )


def _fit_config(config: Any, tokenizer: Any) -> None:
    """Make a fresh model's config that of its tokenizer."""
    pad, start, end = tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id
    config.vocab_size = len(tokenizer)
    if getattr(config, "decoder_vocab_size", None) is not None:
        config.decoder_vocab_size = len(tokenizer)
    config.pad_token_id, config.bos_token_id, config.eos_token_id = pad, start, end
    if config.is_encoder_decoder:
        config.decoder_start_token_id = start if start is not None else pad
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        if getattr(config, name, None) is not None:  # ids of the tokenizer that the config was made for
            setattr(config, name, None)


def _check_vocabulary(model: Any, tokenizer: Any, name: str) -> None:
    one = model.regular if isinstance(model, BidirectionalSeq2Seq) else model
    rows = one.get_input_embeddings().weight.shape[0]
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise SettingsError(
            f"The tokenizer has ids up to {largest:,}, and the weights of {name} know only {rows:,} tokens. "
            "Name a tokenizer that goes with the weights."
        )


def check_reachable(name: str, what: str, files: Sequence[str]) -> None:
    """Refuse a name that is no folder at once where the Hub does not answer, which is tried again for long.

    Args:
        name: The name, of something that is not here.
        what: What it should be, for the message.
        files: One of them must be in the Hub's cache, if the Hub does not answer.

    Raises:
        InputError: If nothing of that name is in the cache, and the Hub cannot be reached.
    """
    if constants.HF_HUB_OFFLINE:  # nothing is tried then
        return
    try:
        if not any(isinstance(try_to_load_from_cache(name, file), str) for file in files):
            HfApi().model_info(name, timeout=WAIT)
    except (HfHubHTTPError, HFValidationError):
        return  # loading will say what is wrong with it
    except Exception as error:  # each version of the Hub's library has its own for networks
        raise InputError(
            f"There is no folder {name}, and the Hugging Face Hub, where there may be a {what} of that name, "
            f"cannot be reached ({first_sentence(error)})."
        ) from error


def first_sentence(error: Exception) -> str:
    """What an error of another library says, in one sentence."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.split(". ")[0].rstrip(".")[:200]
