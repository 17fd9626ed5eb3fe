"""The one door to transformers' loaders: code that a folder brings runs only where the caller trusts it.

Left without an answer, transformers asks on stdin whether to run such code, and stdin is where sources come
from. So everything is opened here, where `trust_remote_code` is always said.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import Any

import tokenizers
import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)
from transformers.utils import (
    SAFE_WEIGHTS_INDEX_NAME,
    SAFE_WEIGHTS_NAME,
    cached_file,
    find_adapter_config_file,
    has_file,
)

from bidibeam.data.tokenization import END, PADDING, START, UNKNOWN, Tokenizer
from bidibeam.errors import InputError
from bidibeam.files import read_json_or_empty
from bidibeam.models.checkpoint import SOURCE_TOKENIZER_FILE
from bidibeam.models.huggingface.configs import (
    AUTO_MAP,
    JOINT,
    check_layers,
    had_code,
    names_kernel,
    refuse_adapter,
    remove_code,
)
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq

_LOADING = RLock()


def open_config(where: str, *, is_trusted: bool = False) -> Any:
    """The config of a folder or of a model on the Hub; parts of it bring no code that could not run."""
    file = Path(where) / "config.json"
    if file.is_file():
        check_layers(read_json_or_empty(file), where)
    with _opening(where, "config"):
        config = AutoConfig.from_pretrained(where, trust_remote_code=is_trusted)
    if not is_trusted and names_kernel(config):
        raise InputError(describe_untrusted_code(where, "attention"))
    # Only a model's own code could tell its parts that they are trusted; transformers does not, and asks.
    if not (is_trusted and getattr(config, AUTO_MAP, None)):
        remove_code(config, is_whole=False)
    return config


def open_tokenizer(where: str, *, is_trusted: bool = False, **options: Any) -> Any:
    """The tokenizer of a folder or of a model on the Hub."""
    with _opening(where, "tokenizer"):
        return AutoTokenizer.from_pretrained(where, trust_remote_code=is_trusted, **options)


def open_source_tokenizer(where: str, targets: Any) -> Any:
    """The tokenizer of sources that lies beside that of targets, in a folder or with a model on the Hub."""
    path = Path(cached_file(where, SOURCE_TOKENIZER_FILE))
    first, known = Tokenizer.load(path).first_id, 1 + max(targets.get_vocab().values())
    if first != known:
        raise InputError(
            f"{where} has a {SOURCE_TOKENIZER_FILE} with ids from {first} on, and its tokenizer has {known} "
            "tokens. They do not belong together: restore both from one copy."
        )
    return to_fast(tokenizers.Tokenizer.from_file(str(path)))


def to_fast(backend: tokenizers.Tokenizer) -> Any:
    """One of our tokenizers as transformers' own."""
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=PADDING,
        unk_token=UNKNOWN,
        bos_token=START,
        eos_token=END,
        clean_up_tokenization_spaces=False,
    )


def open_model(
    where: str, config: Any, *, dtype: Any, is_trusted: bool = False, device_map: Any = None
) -> tuple[Any, list[str]]:
    """A model of this config, which `open_config` returned, and which of its weights are not there."""
    if find_adapter_config_file(where) is not None:  # transformers would fetch its base, or forget about it
        refuse_adapter(where)
    check_weights(where, config)
    with _opening(where, "weights", config):
        model, report = find_auto_class(config).from_pretrained(
            where,
            config=config,
            dtype=getattr(torch, dtype, dtype) if isinstance(dtype, str) else dtype,
            output_loading_info=True,
            trust_remote_code=is_trusted,
            device_map=device_map,
        )
    return model, sorted(report["missing_keys"])


def check_weights(where: str, config: Any) -> None:
    """Refuse weights that are a pickle, or of which an index says that they are, or lie in another folder."""
    own = getattr(config, "transformers_weights", None)  # the name of a file, where a config has one
    names = [str(own)] if own else [SAFE_WEIGHTS_NAME, SAFE_WEIGHTS_INDEX_NAME]
    files = [name for name in names if has_file(where, name)][:1]
    if files and files[0].endswith(".json"):
        parts = read_json_or_empty(Path(cached_file(where, files[0]))).get("weight_map")
        files = [str(name) for name in parts.values()] if isinstance(parts, dict) else []
    if not files or any(
        not name.endswith(".safetensors") or ".." in name or name[0] == "/" for name in files
    ):
        raise InputError(
            f"{where} has no weights as safetensors, and pickles (pytorch_model.bin) are not read, since a "
            "pickle can run code: if you trust it, load it by transformers and save it by save_pretrained."
        )


def create_model(config: Any, *, is_trusted: bool = False) -> Any:
    """A model of this config with fresh weights."""
    with _opening(str(config.name_or_path), "config", config):
        return find_auto_class(config).from_config(config, trust_remote_code=is_trusted)


def find_auto_class(config: Any) -> Any:
    """The class whose `from_pretrained` loads a model with this config."""
    if config.model_type == JOINT:
        return BidirectionalSeq2Seq
    usual = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    seeing = AutoModelForImageTextToText._model_mapping  # models that read images too, or text alone
    if type(config) not in seeing:
        return usual
    is_own = seeing[type(config)].__name__ in (config.architectures or ())
    return AutoModelForImageTextToText if is_own or type(config) not in usual._model_mapping else usual


def check_writes_text(config: Any, name: str, *, is_trusted: bool = False) -> None:
    """Refuse a model that is neither an encoder-decoder nor a decoder that writes text."""
    auto_class = find_auto_class(config)
    if config.model_type == JOINT or type(config) in auto_class._model_mapping:
        return
    if auto_class.__name__ in (getattr(config, AUTO_MAP, None) or ()):
        if is_trusted:
            return
        raise InputError(describe_untrusted_code(name, "network"))
    raise InputError(
        f"{name} is a {config.model_type} model, which is neither an encoder-decoder nor a decoder that "
        "writes text: take one like BART, T5, Marian, GPT-2 or Llama."
    )


def describe_untrusted_code(where: str, part: str) -> str:
    """Why something is not opened that needs code of its own, and what the caller can do."""
    return (
        f"{where} brings Python code for its {part}, which runs only where `trust_remote_code` is given: "
        "read the code first, since it can do all that you can."
    )


@contextmanager
def _opening(where: str, part: str, config: Any = None) -> Iterator[None]:
    """One thread at a time, since loaders switch globals of torch; say in our words that code was not run.

    With a config, parts of the model may lack code that `remove_code` took from them.
    """
    try:
        with _LOADING:
            yield
    except ValueError as error:
        if "trust_remote_code" in str(error):
            raise InputError(describe_untrusted_code(where, part)) from error
        if "Unrecognized configuration class" in str(error) and config is not None and had_code(config):
            raise InputError(
                f"A part of {where} brings Python code, which transformers does not run even where "
                "`trust_remote_code` is given: write n-best lists by that code, and rerank them."
            ) from error
        raise
