"""Loads Hugging Face models from folders or from the Hub, and refuses what cannot write or be scored."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM, AutoTokenizer

from bidibeam.errors import BidibeamError, InputError, ScorerError, SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models.checkpoint import describe_unfinished, find_device, is_run
from bidibeam.models.huggingface.bases import TOKENIZERS, WEIGHTS, check_reachable, first_sentence
from bidibeam.models.huggingface.by_generate import find_sequence_scorer
from bidibeam.models.huggingface.directional import DirectionalModel, prepare_task, quiet_transformers
from bidibeam.models.huggingface.directions import JOINT, check_pair, direction_of, read_metadata
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq

HASHED = ("config.json", "generation_config.json", *WEIGHTS, *TOKENIZERS)
"""Files of a folder on which replies depend."""
FINGERPRINT_DIGITS = 12
DTYPES = ("float32", "bfloat16", "float16")


def load_models(
    name: str | Path,
    *,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
) -> dict[Direction, DirectionalModel]:
    """Load a model by its direction; of one with a shared encoder both halves.

    Args:
        name: A folder that `save_pretrained` wrote, or a name on the Hub.
        device: "cpu", "cuda", "cuda:1"; the first GPU, if there is one, by default.
        dtype: "float32", "bfloat16" or "float16"; by default float32 on a CPU, elsewhere as the weights are
            stored.
        trust_remote_code: Whether code that the model brings along may run.

    Raises:
        InputError: If there is no such model, or it is incomplete or of no use.
        SettingsError: If there is no such device or precision.
        ScorerError: If it cannot be searched.
    """
    where, place = str(name), find_device(device)
    if dtype is not None and dtype not in DTYPES:
        raise SettingsError(f"dtype is {dtype!r}; choose one of: {', '.join(DTYPES)}.")
    config = _load_config(where, trust_remote_code=trust_remote_code)
    folder = Path(where) if Path(where).is_dir() else None
    with quiet_transformers(is_local=folder is not None):
        tokenizer = _load_tokenizer(where, trust_remote_code=trust_remote_code)
        precision = dtype or ("float32" if place.type == "cpu" else "auto")
        model = _load_weights(where, config, precision, trust_remote_code=trust_remote_code)
    model = model.to(place).eval()
    shown, fingerprint = _identify(where, model)
    halves = [model.regular, model.reverse] if isinstance(model, BidirectionalSeq2Seq) else [model]
    metadata = read_metadata(folder) if folder else {}
    source_length = _read_length(metadata, "settings", "max_source_length")
    response_length = _read_length(metadata, "data", "settings", "max_response_length")
    loaded = {}
    for half in halves:
        direction = direction_of(half)
        loaded[direction] = DirectionalModel(
            half, tokenizer, direction, shown, fingerprint, source_length, folder, response_length
        )
        check_usable(loaded[direction])
    return loaded


def _read_length(metadata: Any, *keys: str) -> int | None:
    """A length in what training left beside a model; None if there is no such number."""
    for key in keys:
        metadata = metadata.get(key) if isinstance(metadata, dict) else None
    return metadata if isinstance(metadata, int) and metadata > 0 else None


def load_pair(
    regular: str | Path | None,
    reverse: str | Path | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
) -> dict[Direction, DirectionalModel]:
    """Load a regular and a reverse model, or one of the two, each as `load_models` does.

    A model with a shared encoder, given as the regular one, brings its reverse half along.

    Raises:
        BidibeamError: If a model cannot be used, or the two are not a regular and a reverse one.
    """
    if regular is None and reverse is None:
        raise SettingsError("No model was named: give a regular model, a reverse model, or both.")
    how: dict[str, Any] = {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
    first = load_models(regular, **how) if regular is not None else {}
    is_same = (
        regular is not None and reverse is not None and Path(regular).resolve() == Path(reverse).resolve()
    )
    second = {} if reverse is None or (is_same and len(first) == 2) else load_models(reverse, **how)
    found = {
        direction: models.get(direction) or models[direction.other]
        for direction, models in ((Direction.REGULAR, first), (Direction.REVERSE, second))
        if models
    }
    if len(found) == 2:
        check_pair(found[Direction.REGULAR].model, found[Direction.REVERSE].model)
        return found
    ((direction, loaded),) = found.items()
    check_given_as(direction, loaded)
    return first or second


def check_given_as(direction: Direction, loaded: DirectionalModel) -> None:
    """Refuse a model that was given as what it is not."""
    if loaded.direction is not direction:
        raise InputError(
            f"{loaded.name} was given as the {direction.value} model, but it is a {loaded.direction.value} "
            f"model: give it as the {loaded.direction.value} one."
        )


def check_usable(loaded: DirectionalModel) -> None:
    """Ask a model for the probability of some tokens: what is of no use is found out now, not after hours."""
    model = loaded.model
    rows = model.get_input_embeddings().weight.shape[0]
    largest = max(loaded.tokenizer.get_vocab().values())
    if largest >= rows:
        raise InputError(
            f"The tokenizer of {loaded.name} has ids up to {largest:,}, and its weights know only {rows:,} "
            "tokens: they do not belong together."
        )
    ids = torch.tensor([[largest]], device=model.device)
    try:
        task = prepare_task(model, ids, torch.ones_like(ids))
        find_sequence_scorer(model).log_probs_of(task.inputs, [[[largest] * 3]])
    except BidibeamError:
        raise
    except Exception as error:  # models of other makes fail in their own ways
        raise ScorerError(
            f"{loaded.name} is a {model.config.model_type} model, which cannot be searched here "
            f"({first_sentence(error)}); write n-best lists with its generate, and rerank them."
        ) from error


def _load_config(where: str, *, trust_remote_code: bool) -> Any:
    path = Path(where)
    if path.is_dir():
        if is_run(path):
            raise InputError(
                f"{where} is one of bidibeam's own runs, not a Hugging Face model: `bidibeam decode {where}`."
            )
        if said := describe_unfinished(path):
            raise InputError(said)
        if not (path / "config.json").is_file():
            raise InputError(
                f"{where} has no config.json: name a folder that `save_pretrained` wrote, or a Hub model."
            )
        if not any(next(path.glob(pattern), None) for pattern in WEIGHTS):
            raise InputError(
                f"{where} has a config but no weights: train it first, by `bidibeam train DATA --base "
                f"{where}`."
            )
    elif path.exists():
        raise InputError(f"{where} is a file: name a folder that `save_pretrained` wrote, or a Hub model.")
    else:
        check_reachable(where, "model", ("config.json",))
    try:
        config = AutoConfig.from_pretrained(where, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError) as error:
        what = "cannot be read" if path.is_dir() else "is neither a folder nor on the Hugging Face Hub"
        raise InputError(f"The model {where!r} {what} ({first_sentence(error)}).") from error
    own = getattr(config, "auto_map", None) if trust_remote_code else None
    loader = _find_loader(config)
    is_joint = loader is BidirectionalSeq2Seq
    if is_joint or type(config) in loader._model_mapping or loader.__name__ in (own or ()):
        return config
    raise InputError(
        f"{where} is a {config.model_type} model, which is neither an encoder-decoder nor a decoder that "
        "writes text: take one like BART, T5, Marian, GPT-2 or Llama."
    )


def _find_loader(config: Any) -> Any:
    if config.model_type == JOINT:
        return BidirectionalSeq2Seq
    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def _load_weights(where: str, config: Any, dtype: str, *, trust_remote_code: bool) -> Any:
    loader = _find_loader(config)
    remote = {} if loader is BidirectionalSeq2Seq else {"trust_remote_code": trust_remote_code}
    try:
        model, told = loader.from_pretrained(
            where, dtype=getattr(torch, dtype, dtype), output_loading_info=True, **remote
        )
    except Exception as error:  # OSError, SafetensorError, RuntimeError and more
        raise InputError(f"The weights of {where} cannot be loaded ({first_sentence(error)}).") from error
    missing = sorted(told["missing_keys"])
    if missing:
        raise InputError(
            f"The weights of {where} lack {missing[0]!r}"
            + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
            + ": they are those of another model than its config describes."
        )
    return model


def _load_tokenizer(where: str, *, trust_remote_code: bool) -> Any:
    folder, way_out = Path(where), "save it beside the model, with tokenizer.save_pretrained."
    if folder.is_dir() and not any(next(folder.glob(pattern), None) for pattern in TOKENIZERS):
        raise InputError(f"There is no tokenizer in {where}: {way_out}")  # transformers would make one up
    try:
        return AutoTokenizer.from_pretrained(where, trust_remote_code=trust_remote_code)
    except Exception as error:  # the Rust side raises plain Exception, and there are many more
        raise InputError(
            f"The tokenizer of {where} cannot be loaded ({first_sentence(error)}): {way_out}"
        ) from error


def _identify(where: str, model: Any) -> tuple[str, str]:
    """What a signature calls a model, and what tells it from others of that name."""
    folder = Path(where)
    if not folder.is_dir():
        return where, str(getattr(model.config, "_commit_hash", None) or "")[:FINGERPRINT_DIGITS]
    digest = hashlib.blake2b()
    paths = {path for pattern in HASHED for path in folder.glob(pattern) if path.is_file()}
    for path in sorted(paths):
        digest.update(path.name.encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return folder.resolve().name, digest.hexdigest()[:FINGERPRINT_DIGITS]
