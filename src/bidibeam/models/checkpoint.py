"""A model on disk: config.json and model.safetensors, and what to say when they are not right."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from bidibeam._version import __version__
from bidibeam.data.prepared import INFO
from bidibeam.errors import BidibeamError, RunError, SettingsError, check_setting, describe_error
from bidibeam.fields import build, build_known
from bidibeam.files import read_json, read_json_or_empty, reading, replacing, write_json, writing
from bidibeam.models.networks import NETWORKS, create_network

LARGEST_VOCABULARY = 10**12
CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"
SOURCE_TOKENIZER_FILE = "source_tokenizer.json"
"""Only where sources have a tokenizer of their own."""
STARTED_FILE = Path("training", "started.json")
"""What `bidibeam train --base` keeps in a folder until it is done."""
FORMAT_VERSION = 1
FINGERPRINT_DIGITS = 12
GATES = 4
"""How many times its size a tensor of a layer has at most: a GRU has three gates in one, an LSTM four."""
AGAIN = "Restore it from a copy, or train again."


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """What config.json says: the network's architecture and shape, and whatever else was kept beside it.

    Of all tokens, `vocabulary_size`, the first `output_size` are those that are written, where sources have
    others of their own; None where all are written.
    """

    architecture: str
    model: Any
    vocabulary_size: int
    metadata: dict[str, Any] = field(default_factory=dict)
    output_size: int | None = None


@dataclass(frozen=True, slots=True)
class KnownData:
    """What is written beside a model of the data it was trained on."""

    path: str = ""
    corpus: str = ""
    fingerprint: str = ""
    pairs: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StoredConfig:
    """The types of what config.json must have, and of what it may have."""

    architecture: str
    vocabulary_size: int
    model: dict[str, Any]
    output_size: int | None = None
    data: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    exported: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_setting(self.vocabulary_size >= 1, "vocabulary_size", self.vocabulary_size, "at least 1")
        rule = f"at most {LARGEST_VOCABULARY:,}"
        check_setting(
            self.vocabulary_size <= LARGEST_VOCABULARY, "vocabulary_size", self.vocabulary_size, rule
        )
        if (output := self.output_size) is not None:
            rule = f"at least 1, and below vocabulary_size, {self.vocabulary_size}"
            check_setting(1 <= output < self.vocabulary_size, "output_size", output, rule)
        build_known(KnownData, self.data, section="data.")


def write_config(
    folder: Path,
    architecture: str,
    settings: Any,
    vocabulary_size: int,
    metadata: Mapping[str, Any],
    output_size: int | None = None,
) -> None:
    """Write config.json in one step."""
    write_json(
        folder / CONFIG_FILE,
        {
            "format_version": FORMAT_VERSION,
            "bidibeam_version": __version__,
            "architecture": architecture,
            "vocabulary_size": vocabulary_size,
            **({} if output_size is None else {"output_size": output_size}),
            "model": settings_mapping(settings),
            **metadata,
        },
    )


def read_config(folder: Path) -> ModelConfig:
    """Read config.json."""
    path = folder / CONFIG_FILE
    if not path.is_file():
        if message := describe_unfinished(folder):
            raise RunError(message)
        patterns = (f"*/{CONFIG_FILE}", f"*/run/{CONFIG_FILE}")  # the latter where `reproduce` trained
        nested = next((path.parent for each in patterns for path in sorted(folder.glob(each))), None)
        kinds = "that `bidibeam train --out` wrote, a Hugging Face model or a CTranslate2 folder"
        hint = f"Did you mean {nested}?" if nested else f"Give the directory {kinds}."
        if not folder.exists():
            raise RunError(f"There is no {folder}. {hint}")
        if (folder / INFO).is_file():
            hint = "These are prepared data: `bidibeam train` makes a run of them."
        raise RunError(f"{folder} is not a run directory: it has no {CONFIG_FILE}. {hint}")
    if hugging_face_config(folder) is not None:
        raise RunError(
            f"{folder} is a Hugging Face model, not one of bidibeam's own runs: bidibeam.load takes either, "
            "and so do the commands decode, chat, tune, info and score."
        )
    with reading(path, AGAIN):
        content = read_json(path)
        version = content["format_version"]
    if version != FORMAT_VERSION:
        raise RunError(
            f"{path} has format version {version!r}; bidibeam {__version__} reads version {FORMAT_VERSION}. "
            f"Use the bidibeam that wrote it ({content.get('bidibeam_version', 'unknown')}), or train again."
        )
    try:
        stored = build_known(StoredConfig, content)
        network: Any = NETWORKS.get(stored.architecture)
        if "directions" not in stored.model:
            raise SettingsError("The setting model.directions is missing.")
        settings = build(network.Settings, stored.model, section="model.")
    except BidibeamError as error:
        reason = describe_error(error)
        raise RunError(f"{path} does not describe a model ({reason}). {AGAIN}") from error
    known = {"format_version", "bidibeam_version", "architecture", "vocabulary_size", "output_size", "model"}
    metadata = {key: value for key, value in content.items() if key not in known}
    return ModelConfig(stored.architecture, settings, stored.vocabulary_size, metadata, stored.output_size)


def is_run(folder: Path) -> bool:
    """Whether a folder holds one of our own runs."""
    content = read_json_or_empty(folder / CONFIG_FILE)
    return "format_version" in content and "model_type" not in content


def hugging_face_config(folder: Path) -> dict[str, Any] | None:
    """The config of a Hugging Face model, if that is what a folder holds."""
    content = read_json_or_empty(folder / CONFIG_FILE)
    return content if "model_type" in content else None


def describe_unfinished(folder: Path) -> str | None:
    """What to say of a folder in which `bidibeam train --base` has not come to its end; None of any other."""
    if (folder / CONFIG_FILE).is_file() or not (folder / STARTED_FILE).is_file():
        return None
    return f"The training in {folder} is unfinished: `bidibeam train DATA --out {folder} --resume` goes on."


def settings_mapping(settings: Any) -> dict[str, Any]:
    """A network's shape as plain values."""
    return {**asdict(settings), "directions": list(settings.directions)}


def write_weights(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Write a safetensors file in one step."""
    with replacing(path) as partial:
        save_tensors(weights, partial)


def save_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write a safetensors file."""
    with writing(path):
        save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def to_half_precision(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Weights rounded to half precision, float16; a network that takes them over computes in float32."""
    rounded = {name: tensor.detach().half() for name, tensor in weights.items()}
    for name, tensor in rounded.items():
        if not tensor.isfinite().all():
            raise RunError(
                f"The tensor {name!r} holds numbers too large for half precision (above 65,504 in size). "
                "Export it in full precision."
            )
    return rounded


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file, in whatever precision it has."""
    if not path.is_file():
        raise RunError(
            f"{path.parent} has no {path.name}: training has not reached its first evaluation there. "
            "Continue it with `bidibeam train ... --resume`, or choose another run."
        )
    with reading(path, AGAIN):
        weights: dict[str, Tensor] = load_file(path)
    return weights


def tensor_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes in a safetensors file, without reading the tensors; empty if there is no such file."""
    if not path.is_file():
        return {}
    with reading(path, AGAIN), safe_open(path, framework="pt") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118


def check_weights(weights: Mapping[str, Tensor], expected: Mapping[str, Tensor], origin: Path) -> None:
    """Compare names and shapes."""
    wrong = [f"lacks the tensor {name!r}" for name in sorted(set(expected) - set(weights))]
    more = sorted(set(weights) - set(expected))
    wrong += [f"holds a tensor {name!r} that the network lacks" for name in more]
    for name, tensor in expected.items():
        stored, asked = tuple(weights.get(name, tensor).shape), tuple(tensor.shape)
        if stored != asked:
            wrong.append(f"has {name!r} of shape {stored}, but {CONFIG_FILE} asks for {asked}")
    if wrong:
        raise RunError(f"{origin} {wrong[0]}. Its weights and {CONFIG_FILE} do not belong together.")


def load_network(folder: Path) -> tuple[ModelConfig, Any]:
    """What config.json says, and the network with its weights; half precision becomes float32."""
    config = read_config(folder)
    shape = config.architecture, config.model, config.vocabulary_size, config.output_size
    weights = read_weights(folder / WEIGHTS_FILE)
    sizes = [size for size in asdict(config.model).values() if isinstance(size, int)]
    largest = max((size for tensor in weights.values() for size in tensor.shape), default=0)
    if max(config.vocabulary_size, *sizes) > GATES * largest:
        with torch.device("meta"):  # a network of such a size might not fit into memory
            check_weights(weights, create_network(*shape).state_dict(), folder)
    network = create_network(*shape)
    expected = network.state_dict()
    check_weights(weights, expected, folder)
    # Those that are stored as they are computed with stay in the mapped file, which processes share.
    network.load_state_dict(
        {name: tensor.to(expected[name].dtype) for name, tensor in weights.items()}, assign=True
    )
    return config, network


def hash_file(path: Path) -> Any:
    """The blake2b hash of what a file holds."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b")


def fingerprint_of(weights: Path) -> str:
    """A short hash of a file of weights."""
    return str(hash_file(weights).hexdigest()[:FINGERPRINT_DIGITS])


def find_device(name: str | None) -> torch.device:
    """A device by its name, seen to compute; the first GPU, if there is one, by default."""
    if name is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise SettingsError(
            f"There is no device {name!r} here that can compute. Leave the device out, or use cpu."
        ) from error
    return device
