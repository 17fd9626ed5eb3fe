"""Hugging Face models as they are loaded to write or to judge: from a folder, or from the Hub."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    PreTrainedModel,
)
from transformers.utils import logging

from bidibeam.errors import BidibeamError, InputError, ScorerError, SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models.checkpoint import find_device, unfinished
from bidibeam.models.huggingface.bases import TOKENIZERS, WEIGHTS, check_reachable, first_sentence
from bidibeam.models.huggingface.directions import JOINT, check_pair, direction_of
from bidibeam.models.huggingface.folders import training_facts as training_facts
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq
from bidibeam.models.huggingface.scoring import HFScorer
from bidibeam.models.huggingface.sides import Task, prepared
from bidibeam.models.huggingface.texts import is_run

HASHED = ("config.json", "generation_config.json", *WEIGHTS, *TOKENIZERS)
"""Files of a folder on which replies depend."""
FINGERPRINT_DIGITS = 12
ANY_LENGTH = 1 << 16
"""So many new tokens that no least number of a generation config is more."""
DTYPES = ("float32", "bfloat16", "float16")


@dataclass(frozen=True)
class LoadedModel:
    """A model that writes in one direction, ready to be asked.

    Attributes:
        model: The model, in evaluation mode.
        tokenizer: Its tokenizer.
        direction: In which order it writes.
        name: What messages and signatures call it.
        fingerprint: Tells it from any other of that name.
        max_source_length: The longest source that training saw, where that is known.
        folder: Where it lies; None if it came from the Hub.
    """

    model: PreTrainedModel
    tokenizer: Any
    direction: Direction
    name: str = "model"
    fingerprint: str = ""
    max_source_length: int | None = None
    folder: Path | None = None

    @property
    def label(self) -> str:
        """Its name and fingerprint."""
        return f"{self.name}@{self.fingerprint}" if self.fingerprint else self.name


def load_models(
    name: str | Path, *, device: str | None = None, dtype: str | None = None
) -> dict[Direction, LoadedModel]:
    """Load a model by its direction; of one with a shared encoder both halves.

    Args:
        name: A folder that `save_pretrained` wrote, or a name on the Hub.
        device: "cpu", "cuda", "cuda:1"; the first GPU, if there is one, by default.
        dtype: "float32", "bfloat16" or "float16"; by default float32 on a CPU, elsewhere as the weights are
            stored.

    Raises:
        InputError: If there is no such model, or it is incomplete or of no use.
        SettingsError: If there is no such device or precision.
        ScorerError: If it cannot be searched.
    """
    where, place = str(name), find_device(device)
    if dtype is not None and dtype not in DTYPES:
        raise SettingsError(f"--dtype is {dtype!r}; choose one of: {', '.join(DTYPES)}.")
    config = _config(where)
    with _quiet(is_local=Path(where).is_dir()):
        tokenizer = _tokenizer(where)
        model = _model(where, config, dtype or ("float32" if place.type == "cpu" else "auto"))
    model = model.to(place).eval()
    shown, fingerprint = _identity(where, model)
    halves = [model.regular, model.reverse] if isinstance(model, BidirectionalSeq2Seq) else [model]
    folder = Path(where) if Path(where).is_dir() else None
    longest = _longest_source(folder) if folder else None
    loaded = {
        direction: LoadedModel(half, tokenizer, direction, shown, fingerprint, longest, folder)
        for direction, half in ((direction_of(half), half) for half in halves)
    }
    for each in loaded.values():
        check_usable(each)
    return loaded


def load_pair(
    regular: str | Path | None,
    reverse: str | Path | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
) -> dict[Direction, LoadedModel]:
    """Load a regular and a reverse model, or one of the two.

    Args:
        regular: The regular model. One with a shared encoder brings its reverse half along.
        reverse: The reverse model, or the model with a shared encoder again.
        device: As in `load_models`.
        dtype: As in `load_models`.

    Raises:
        BidibeamError: If a model cannot be used, or the two are not a regular and a reverse one.
    """
    first = load_models(regular, device=device, dtype=dtype) if regular is not None else {}
    if reverse is None or (regular is not None and _is_same(regular, reverse) and len(first) == 2):
        second = dict[Direction, LoadedModel]()
    else:
        second = load_models(reverse, device=device, dtype=dtype)
    given = {Direction.REGULAR: first, Direction.REVERSE: second}
    if not first and not second:
        raise SettingsError("No model was named: give --regular MODEL and --reverse MODEL.")
    found: dict[Direction, LoadedModel] = {}
    for direction, models in given.items():
        if models:
            found[direction] = models.get(direction) or models[direction.other]
    if len(found) == 2:
        check_pair(found[Direction.REGULAR].model, found[Direction.REVERSE].model)
        return found
    return _alone(found, first or second)


def weights_of(models: Mapping[Direction, LoadedModel]) -> str:
    """What tells a pair from any other: the fingerprints of its models, those of a shared folder once."""
    return "+".join(dict.fromkeys(models[each].fingerprint for each in Direction if each in models))


def _alone(
    found: Mapping[Direction, LoadedModel], models: dict[Direction, LoadedModel]
) -> dict[Direction, LoadedModel]:
    """All that a model holds that was named alone.

    Raises:
        InputError: If it was named as what it is not.
    """
    ((direction, loaded),) = found.items()
    if loaded.direction is not direction:
        raise InputError(
            f"{loaded.name} was given as --{direction.value}, but it is a {loaded.direction.value} model: "
            f"give it as --{loaded.direction.value}."
        )
    return models


def check_usable(loaded: LoadedModel) -> None:
    """Ask a model for the probability of some tokens, lest it be found of no use after hours.

    Raises:
        ScorerError: If it cannot be searched.
        InputError: If its tokenizer has ids that it does not know.
        SettingsError: If its generation config cannot be followed.
    """
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
        scorer = HFScorer(model)
        task = prepared_quietly(model, ids, torch.ones_like(ids))
        scorer.log_probs_after(scorer.start_with(task.inputs), [[[largest] * 3]])
    except BidibeamError:
        raise
    except Exception as error:  # models of other makes fail in their own ways
        raise ScorerError(
            f"{loaded.name} is a {model.config.model_type} model, which cannot be searched here "
            f"({first_sentence(error)}); write n-best lists with its generate, and rerank them."
        ) from error


def prepared_quietly(
    model: PreTrainedModel, ids: Tensor, mask: Tensor, *, max_new_tokens: int = ANY_LENGTH, **options: Any
) -> Task:
    """What `prepared` makes of sources, without notes on lengths of a generation config that are replaced."""
    with _quiet(is_local=True):
        return prepared(model, ids, mask, max_new_tokens=max_new_tokens, num_return_sequences=1, **options)


def _config(where: str) -> Any:
    path = Path(where)
    if path.is_dir():
        if is_run(path):
            raise InputError(
                f"{where} is one of bidibeam's own runs, not a Hugging Face model: `bidibeam decode {where}`."
            )
        if said := unfinished(path):
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
        config = AutoConfig.from_pretrained(where)
    except (OSError, ValueError, KeyError) as error:
        what = "cannot be read" if path.is_dir() else "is neither a folder nor on the Hugging Face Hub"
        raise InputError(f"The model {where!r} {what} ({first_sentence(error)}).") from error
    _check_kind(where, config)
    return config


def _check_kind(where: str, config: Any) -> None:
    if config.model_type == JOINT:
        return
    if type(config) not in _loader(config)._model_mapping:
        raise InputError(
            f"{where} is a {config.model_type} model, which is neither an encoder-decoder nor a decoder that "
            "writes text: take one like BART, T5, Marian, GPT-2 or Llama."
        )


def _loader(config: Any) -> Any:
    if config.model_type == JOINT:
        return BidirectionalSeq2Seq
    return AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM


def _model(where: str, config: Any, dtype: str) -> Any:
    chosen = getattr(torch, dtype, dtype)
    try:
        model, told = _loader(config).from_pretrained(where, dtype=chosen, output_loading_info=True)
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


def _tokenizer(where: str) -> Any:
    folder, way_out = Path(where), "save it beside the model, with tokenizer.save_pretrained."
    if folder.is_dir() and not any(next(folder.glob(pattern), None) for pattern in TOKENIZERS):
        raise InputError(f"There is no tokenizer in {where}: {way_out}")  # transformers would make one up
    try:
        return AutoTokenizer.from_pretrained(where)
    except Exception as error:  # the Rust side raises plain Exception, and there are many more
        raise InputError(
            f"The tokenizer of {where} cannot be loaded ({first_sentence(error)}): {way_out}"
        ) from error


def _identity(where: str, model: Any) -> tuple[str, str]:
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


def _longest_source(folder: Path) -> int | None:
    """The longest source that training saw, if that was ours and said so."""
    try:
        value = training_facts(folder)["settings"]["max_source_length"]
    except (KeyError, TypeError):
        return None
    return value if isinstance(value, int) and value > 0 else None


def _is_same(one: str | Path, other: str | Path) -> bool:
    paths = Path(one), Path(other)
    return str(one) == str(other) or (all(path.is_dir() for path in paths) and paths[0].samefile(paths[1]))


@contextmanager
def _quiet(*, is_local: bool) -> Iterator[None]:
    """No reports of transformers' own; bars only where something is downloaded."""
    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    if is_local:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()
