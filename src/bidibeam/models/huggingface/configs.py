"""What configs and folders say of Hugging Face models: directions, positions, and whether two fit together.

Nothing here imports transformers, which takes seconds and may be missing.
"""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import TYPE_CHECKING, Any, NoReturn

from bidibeam.errors import InputError, SettingsError
from bidibeam.files import read_json_or_empty
from bidibeam.hypotheses import Direction
from bidibeam.models.base import compare_tokens
from bidibeam.models.checkpoint import hugging_face_config, tensor_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import Unpack

    from bidibeam.models.base import LoadOptions, Model

FIELD = "bidibeam_direction"
"""The config's field; a model without it writes as everybody does."""
JOINT = "bidibeam-joint"
"""The model type of a model that holds both directions."""
SOURCE_FIELD = "bidibeam_source_tokenizer"
"""The config's field that is true where sources have a tokenizer of their own, source_tokenizer.json."""
METADATA_FILE = "bidibeam.json"
"""What `bidibeam train --base` leaves beside a model."""
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")
ADAPTER_FILE = "adapter_config.json"
"""What peft writes beside the weights of an adapter."""
MOST_LAYERS = 10_000
AUTO_MAP = "auto_map"
"""The config's field that names classes in Python files of its folder or of another one."""


class HuggingFaceFolder:
    """Hugging Face models as `models.loading` knows them."""

    title = "Hugging Face model"
    spreads = True

    @staticmethod
    def recognises(path: Path) -> bool:
        """Whether a folder holds a Hugging Face model; what is no folder may be a name on the Hub."""
        if path.is_dir():
            return hugging_face_config(path) is not None or (path / ADAPTER_FILE).is_file()
        return HUB_NAME.fullmatch(str(path)) is not None

    @staticmethod
    def load(
        name: Path | str | None, reverse: Path | str | None = None, **options: Unpack[LoadOptions]
    ) -> Model:
        """Load a pair of models, one with a shared encoder, or one alone."""
        from bidibeam.models.huggingface.adapter import HuggingFaceModel

        return HuggingFaceModel.load(name, reverse, **options)

    @staticmethod
    def describe(folder: Path) -> dict[str, Any]:
        """What `bidibeam info` shows of a model, its data and training where that was ours."""
        if (folder / ADAPTER_FILE).is_file():
            refuse_adapter(str(folder))
        config, metadata = hugging_face_config(folder) or {}, read_metadata(folder)
        is_joint = config["model_type"] == JOINT
        shapes = [tensor_shapes(path) for path in sorted(folder.glob("*.safetensors"))]
        parameters = sum(math.prod(shape) for each in shapes for shape in each.values())
        known = ("trained_on", "steps", "best")
        content = {
            "folder": str(folder),
            "kind": config["model_type"],
            "direction": "both" if is_joint else config.get(FIELD, Direction.REGULAR.value),
            "parameters": metadata.get("parameters", parameters) or None,
            "vocabulary": config.get("vocab_size"),
            "base": metadata.get("base"),
            "progress": {name: metadata[name] for name in known if metadata.get(name)},
            "data": metadata.get("data"),
            "training": metadata.get("settings"),
        }
        return {name: value for name, value in content.items() if value}


def read_metadata(folder: Path) -> dict[str, Any]:
    """What `bidibeam train --base` left beside a model; nothing where it was trained elsewhere."""
    metadata = read_json_or_empty(folder / METADATA_FILE)
    sections = {name for name in ("data", "settings") if not isinstance(metadata.get(name, {}), dict)}
    return {name: value for name, value in metadata.items() if name not in sections}


def refuse_adapter(where: str) -> NoReturn:
    """Say that an adapter is not loaded: its base may be anything, from anywhere, and nobody named it."""
    raise InputError(
        f"{where} holds an adapter of peft, and the base that it names is not fetched unasked: load both by "
        "peft, and save the whole model, `model.merge_and_unload().save_pretrained(folder)`."
    )


def remove_code(config: Any, *, is_whole: bool = True) -> None:
    """Forget the classes of its own that a config names; if it is not the whole, only those of its parts.

    Transformers builds the parts of a model without being told whether their code is trusted, and asks.
    """
    for fields in islice(_walk(config), 0 if is_whole else 1, None):
        if AUTO_MAP in fields:
            fields[AUTO_MAP] = {}  # by which `had_code` knows


def had_code(config: Any) -> bool:
    """Whether `remove_code` found any."""
    return any(fields.get(AUTO_MAP) == {} for fields in _walk(config))


def names_kernel(config: Any) -> bool:
    """Whether a config, or a part of it, asks for a kernel of the Hub in place of layers of transformers."""
    named = [item for fields in _walk(config) for item in fields.items() if not _is_part(item[1])]
    return any("_implementation" in str(name) and "/" in str(value) for name, value in named)


def check_layers(config: Any, name: str) -> None:
    """Refuse a config that asks for more layers than any network has: they would be made one by one."""
    for field, value in [item for fields in _walk(config) for item in fields.items()]:
        if "layer" in field and isinstance(value, int) and value > MOST_LAYERS:
            raise InputError(
                f"{name} has {field} {value:,}; no network has more than {MOST_LAYERS:,} layers."
            )


def _walk(config: Any) -> Iterator[dict[str, Any]]:
    """The fields of a config, and then those of all that may be configs of parts of its model."""
    fields = config if isinstance(config, dict) else vars(config)
    yield fields
    for value in fields.values():
        if _is_part(value):
            yield from _walk(value)


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) or hasattr(value, "model_type")


def mark(model: Any, direction: Direction) -> None:
    """Write into a model's config, or into a config, which way the model writes; saving keeps it."""
    setattr(_config(model), FIELD, Direction(direction).value)


def has_source_tokenizer(config: Any) -> bool:
    """Whether sources have a tokenizer of their own, by the config of a model or of a joint one."""
    parts = (config, getattr(config, "base", None))
    return any(
        part.get(SOURCE_FIELD) if isinstance(part, dict) else getattr(part, SOURCE_FIELD, False)
        for part in parts
    )


def direction_of(model: Any) -> Direction:
    """Which way a model writes, by its config, or by a config itself."""
    config = _config(model)
    if getattr(config, "model_type", None) == JOINT:
        raise InputError(
            f"{_name(model)} holds both directions: take one of them, `model.regular` or `model.reverse`."
        )
    value = getattr(config, FIELD, None)
    if value is None:
        return Direction.REGULAR
    try:
        return Direction(value)
    except ValueError:
        raise InputError(
            f"The config of {_name(model)} has {FIELD} {value!r}; it must be regular or reverse. Correct its "
            "config.json."
        ) from None


def check_pair(regular: Any, reverse: Any) -> None:
    """Refuse two models, or configs, that are not a regular and a reverse one, in this order."""
    given = direction_of(regular), direction_of(reverse)
    if given == (Direction.REGULAR, Direction.REVERSE):
        return
    if given == (Direction.REVERSE, Direction.REGULAR):
        raise InputError(
            f"The models are swapped: {_name(regular)}, given as the regular one, writes in reverse, and "
            f"{_name(reverse)}, given as the reverse one, does not. Give them the other way round."
        )
    way = given[0].value
    raise InputError(
        f"Both {_name(regular)} and {_name(reverse)} are {way} models, and a pair needs one of each "
        f"direction. Train the other with `bidibeam train DATA --base MODEL --direction "
        f"{given[0].other.value}`; a model trained elsewhere says so by "
        f'"{FIELD}": "{given[0].other.value}" in its config.json.'
    )


def check_same_ids(regular: Any, reverse: Any, tokenizers: tuple[Any, Any] = (None, None)) -> None:
    """Refuse two models, or configs, that cannot read the same ids and write after the same ones.

    They may differ in kind, in vocabulary, in how replies start and end, or in the token that an id stands
    for, where their tokenizers are known.
    """
    for difference in _find_differences(regular, reverse, tokenizers):
        raise SettingsError(
            f"The two models cannot share the ids that generate is given: {difference}. Train the reverse "
            "one from the regular one's base, or search both by `bidibeam decode`, which knows their "
            "tokenizers."
        )


def _find_differences(regular: Any, reverse: Any, tokenizers: tuple[Any, Any]) -> Iterator[str]:
    """What makes ids of two models, or configs, mean different things."""
    one, other = _name(regular), _name(reverse)
    configs = _config(regular), _config(reverse)
    kinds = ["an encoder-decoder" if each.is_encoder_decoder else "a decoder alone" for each in configs]
    if kinds[0] != kinds[1]:
        yield f"{one} is {kinds[0]} and {other} {kinds[1]}"
    vocabularies = [each.get_text_config(decoder=True).vocab_size for each in configs]
    if vocabularies[0] != vocabularies[1]:
        yield f"{one} knows {vocabularies[0]:,} tokens and {other} {vocabularies[1]:,}"
    for field in ("eos_token_id", "decoder_start_token_id"):
        ours, theirs = token_ids(regular, field), token_ids(reverse, field)
        if ours and theirs and not {*ours} & {*theirs}:
            yield f"{field} is {min(ours)} in {one} and {min(theirs)} in {other}"
    if None in tokenizers:
        return
    tokens: tuple[dict[int, set[str]], ...] = ({}, {})
    for tokenizer, known in zip(tokenizers, tokens, strict=True):
        special = {*tokenizer.all_special_ids}  # which are known by their roles
        for token, number in tokenizer.get_vocab().items():
            if number not in special:
                known.setdefault(number, set()).add(token)
    for number in sorted(tokens[0].keys() & tokens[1].keys()):
        if number < vocabularies[0] and tokens[0][number].isdisjoint(tokens[1][number]):
            yield f"{number} is {min(tokens[0][number])!r} in {one} and {min(tokens[1][number])!r} in {other}"


def check_same_tokens(first: Any, second: Any) -> None:
    """Refuse two tokenizers that do not give every token the same id: scores of ids would mean nothing."""
    if (difference := compare_tokens(first, second)) is not None:
        raise SettingsError(
            f"The two models have different tokenizers: {difference}. Scoring each other's tokens needs the "
            "same vocabulary; use a strategy that compares texts, such as bidia, or train the second model "
            "with the tokenizer of the first."
        )


def find_rope_types(config: Any) -> set[str]:
    """The types of a model's rotary embeddings; some have one for each type of layer."""
    config = config.get_text_config(decoder=True)
    ropes = getattr(config, "rope_parameters", None) or {}
    layers = [each for each in ropes.values() if isinstance(each, dict)] or [ropes]
    return {each.get("rope_type", "default") for each in layers}


def find_max_positions(config: Any) -> int | None:
    """How many tokens a model has positions for; None if any number."""
    parts = [config, config.get_text_config(decoder=True), config.get_text_config(encoder=True)]
    if any(hasattr(part, "relative_attention_num_buckets") for part in parts):
        return None
    if "dynamic" in find_rope_types(config):
        return None
    known = [getattr(part, "max_position_embeddings", None) for part in parts]
    return min((most for most in known if isinstance(most, int) and most >= 0), default=None)


def _config(model: Any) -> Any:
    return getattr(model, "config", model)


def token_ids(model: Any, field: str) -> tuple[int, ...]:
    """The ids of a special token, as the generation config has them, or else the config."""
    for config in (getattr(model, "generation_config", None), _config(model)):
        value = getattr(config, field, None)
        if value is not None:
            return tuple(to_ids(value))
    return ()


def special_token_ids(config: Any) -> set[int]:
    """The ids that a config gives a role."""
    roles = ("pad", "bos", "eos", "decoder_start", "forced_bos", "sep")
    return {token for role in roles for token in to_ids(getattr(config, f"{role}_token_id", None))}


def to_ids(value: Any) -> list[int]:
    """The ids that a field holds: none, one, or several, as a list or a tensor."""
    if value is None:
        return []
    if hasattr(value, "tolist"):
        value = value.flatten().tolist()
    return [int(one) for one in value] if isinstance(value, list | tuple | set) else [int(value)]


def _name(model: Any) -> str:
    config = _config(model)
    return str(getattr(config, "name_or_path", "") or f"the {getattr(config, 'model_type', 'unnamed')} model")
