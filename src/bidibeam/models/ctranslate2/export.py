"""Hugging Face encoder-decoders converted for CTranslate2."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bidibeam.errors import RunError, SettingsError, describe_error
from bidibeam.files import read_json, replacing_folder, write_json
from bidibeam.hypotheses import Direction
from bidibeam.models.checkpoint import SOURCE_TOKENIZER_FILE
from bidibeam.models.ctranslate2.manifest import Manifest
from bidibeam.models.ctranslate2.model import CTranslate2Model
from bidibeam.models.ctranslate2.translator import import_ctranslate2
from bidibeam.models.huggingface.configs import find_max_positions
from bidibeam.models.huggingface.constraints import GenerationConstraints
from bidibeam.models.huggingface.directional import DirectionalModel, prepare_task
from bidibeam.models.huggingface.quiet import quiet_transformers
from bidibeam.models.huggingface.scorer import find_device_of

QUANTIZATIONS = ("int8", "float32")
CONFIG_DEFAULTS = {
    "bart": {"normalize_before": False, "normalize_embedding": True, "static_position_embeddings": False},
    "mbart": {"normalize_before": True, "normalize_embedding": True, "static_position_embeddings": False},
    "pegasus": {"normalize_before": True, "normalize_embedding": False, "static_position_embeddings": True},
}
"""Fields that CTranslate2's converter reads and transformers' configs no longer have, by model type."""
MANIFEST_CONSTRAINTS: dict[str, Callable[[GenerationConstraints], Any]] = {
    "forced_bos_token_id": lambda constraints: constraints.first,
    "forced_eos_token_id": lambda constraints: constraints.last,
    "suppress_tokens or padding": lambda constraints: sorted(constraints.roles.forbidden),
    "min_new_tokens or min_length": lambda constraints: constraints.min_new_tokens,
}
"""What a manifest keeps once for all directions, by the names that a generation config has for it."""


def export_to_ctranslate2(model: Any, out: Path, *, quantization: str = "int8") -> CTranslate2Model:
    """Convert a `HuggingFaceModel`, a pair of encoder-decoders or one with a shared encoder, and load it.

    A folder `out` that is there is replaced, once all is done. `quantization` is "int8" or "float32".
    """
    library = import_ctranslate2()
    if quantization not in QUANTIZATIONS:
        raise SettingsError(f"quantization is {quantization!r}; choose one of: {', '.join(QUANTIZATIONS)}.")
    parts = getattr(model, "models", None)  # by direction: a model and its tokenizer
    if parts is None:
        title = getattr(model, "title", type(model).__name__)
        raise SettingsError(f"{model.name} is a {title}; CTranslate2 converts Hugging Face encoder-decoders.")
    first = next(iter(parts.values()))
    config = first.model.config
    if not config.is_encoder_decoder:
        raise SettingsError(
            f"{model.name} is a {config.model_type} model without an encoder; CTranslate2 serves "
            "encoder-decoders here."
        )
    constraints = _find_shared_constraints(model)
    with replacing_folder(out) as whole:
        for direction, part in parts.items():
            _convert(library, part, whole / direction.value, quantization)
        Manifest(
            directions=tuple(direction.value for direction in parts),
            quantization=quantization,
            model_type=config.model_type,
            vocabulary_size=int(config.vocab_size),
            exported_from=dict(model.signature.facts),
            max_source_length=model.limits.max_source_length,
            max_length=model.limits.max_length,
            positions=find_max_positions(config),
            min_length=constraints.min_new_tokens,
            first=constraints.first,
            last=constraints.last,
            forbidden=tuple(sorted(constraints.roles.forbidden)),
            data={name: value for name, value in model.data.items() if name != "path"},
        ).write(whole)
        try:
            CTranslate2Model(whole, device=torch.device("cpu"))
        except RunError as error:
            reason = str(error).replace(str(whole), str(out))
            raise SettingsError(f"What CTranslate2 made of {model.name} is of no use: {reason}") from error
    return CTranslate2Model(out, device=torch.device("cpu"))


def _convert(library: Any, part: DirectionalModel, out: Path, quantization: str) -> None:
    """Convert one direction, by way of a folder whose config has what the converter reads.

    CTranslate2 knows tokens by name, and the tokenizer of sources has a name for every id.
    """
    model, tokenizer, table = part.model, part.tokenizer, part.reader
    try:
        with quiet_transformers(), tempfile.TemporaryDirectory(dir=out.parent.parent) as folder:
            model.save_pretrained(folder)
            table.save_pretrained(folder)
            content = read_json(Path(folder) / "config.json")
            defaults = CONFIG_DEFAULTS.get(content["model_type"], {})
            write_json(Path(folder) / "config.json", {**defaults, **content})
            library.converters.TransformersConverter(folder).convert(str(out), quantization=quantization)
        start = tokenizer.convert_ids_to_tokens(model.config.decoder_start_token_id)
        content = {**read_json(out / "config.json"), "decoder_start_token": start}
        content |= {
            "add_source_bos": False,
            "add_source_eos": False,
        }  # sources come with their special tokens
        write_json(out / "config.json", content)
        tokenizer.save_pretrained(out / "tokenizer")
        if table is not tokenizer:
            table.backend_tokenizer.save(str(out / "tokenizer" / SOURCE_TOKENIZER_FILE))
    except OSError:  # a full disk
        raise
    except Exception as error:  # the converter raises whatever it meets
        if "os error" in str(error):  # a full disk, in the words of a library in Rust
            raise
        raise SettingsError(
            f"CTranslate2 {library.__version__} cannot convert this {model.config.model_type} model: "
            f"{describe_error(error)}."
        ) from error


def _find_shared_constraints(model: Any) -> GenerationConstraints:
    """Returns the constraints of every direction, which the manifest keeps once.

    Raises:
        SettingsError: If the directions differ in one; the message names it.
    """
    read = {direction: _read_constraints(part, direction) for direction, part in model.models.items()}
    for name, find in MANIFEST_CONSTRAINTS.items():
        values = {direction.value: find(constraints) for direction, constraints in read.items()}
        if len({str(value) for value in values.values()}) > 1:
            listed = ", ".join(f"{direction} {value}" for direction, value in values.items())
            raise SettingsError(
                f"The directions of {model.name} differ in {name} ({listed}), and a CTranslate2 folder has "
                "one for both: make them the same in generation_config.json, or decode the Hugging Face "
                "models themselves."
            )
    return read[next(iter(read))]


def _read_constraints(part: DirectionalModel, direction: Direction) -> GenerationConstraints:
    """The constraints of a model's generation config, if CTranslate2 can follow all of them.

    Raises:
        SettingsError: If it cannot follow one; the message names it.
    """
    end = torch.tensor([[part.tokenizer.eos_token_id]], device=find_device_of(part.model))
    task = prepare_task(part.model, end, torch.ones_like(end))
    constraints = task.constraints.forbid([part.tokenizer.pad_token_id])
    if direction is Direction.REVERSE:
        constraints = constraints.reverse(part.find_special(task))
    unable = [type(one).__name__.removesuffix("LogitsProcessor") for one in task.constraints.processors or ()]
    unable += ["begin_suppress_tokens"] * bool(constraints.roles.forbidden_first)
    unable += ["several end tokens"] * bool(constraints.roles.other_ends)
    if unable:
        raise SettingsError(
            f"The generation config of {part.name} asks for {' and '.join(unable)}, which CTranslate2 does "
            "not follow here: take it out of generation_config.json, or decode the Hugging Face model itself."
        )
    return constraints
