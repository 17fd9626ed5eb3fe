"""Loads Hugging Face models from folders or from the Hub, and refuses what cannot write or be scored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from huggingface_hub import HfApi, constants, try_to_load_from_cache
from huggingface_hub.errors import HfHubHTTPError, HFValidationError

from bidibeam.errors import BidibeamError, InputError, SettingsError, is_panic
from bidibeam.hypotheses import Direction
from bidibeam.models.base import longest_search, read_length
from bidibeam.models.checkpoint import (
    FINGERPRINT_DIGITS,
    SOURCE_TOKENIZER_FILE,
    describe_unfinished,
    find_device,
    hash_file,
    is_run,
)
from bidibeam.models.huggingface.by_generate import check_agreement, score_sequences
from bidibeam.models.huggingface.configs import (
    ADAPTER_FILE,
    check_pair,
    direction_of,
    has_source_tokenizer,
    read_metadata,
    refuse_adapter,
)
from bidibeam.models.huggingface.directional import DirectionalModel, prepare_task
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq
from bidibeam.models.huggingface.opening import (
    check_writes_text,
    open_config,
    open_model,
    open_source_tokenizer,
    open_tokenizer,
)
from bidibeam.models.huggingface.pairs import source_ids
from bidibeam.models.huggingface.quiet import quiet_transformers
from bidibeam.models.huggingface.scorer import (
    check_eval_mode,
    find_device_of,
    find_obstacle,
    is_spread,
    refusal,
)

if TYPE_CHECKING:
    from bidibeam.models.base import LoadOptions

SAFETENSORS = ("*.safetensors", "*.safetensors.index.json")
WEIGHTS = (*SAFETENSORS, "*.bin*", "*.pt", "*.pth", "*.ckpt*", "*.h5", "*.msgpack")
"""Files of weights, read or refused."""
TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "vocab*", "*.model", "*.spm")
HASHED = ("config.json", "generation_config.json", *SAFETENSORS, *TOKENIZERS, SOURCE_TOKENIZER_FILE)
"""Files of a folder on which replies depend."""
DTYPES = ("float32", "bfloat16", "float16")
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
"""How transformers spreads a model by itself."""
WAIT = 10.0
"""Seconds for the Hub to answer."""
CONFIG_ERRORS = (OSError, ValueError, KeyError)
"""What transformers raises where there is no config, or none that it knows."""


def load_models(
    name: str | Path,
    *,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    device_map: str | Mapping[str, Any] | None = None,
) -> dict[Direction, DirectionalModel]:
    """Load a model by its direction; of one with a shared encoder both halves.

    Args:
        name: A folder that `save_pretrained` wrote, or a name on the Hub.
        device: As `bidibeam.load` has it, like what follows.
        dtype: By default float32 on a CPU, elsewhere as the weights are stored.
        trust_remote_code: Whether code that comes with the model may run.
        device_map: How to spread it over devices, in place of `device`.

    Raises:
        InputError: If there is no such model, or it is incomplete or of no use.
        SettingsError: If there is no such device or precision.
        ScorerError: If it cannot be searched.
    """
    where, placed, is_trusted = str(name), find_device(device), trust_remote_code
    if dtype is not None and dtype not in DTYPES:
        raise SettingsError(f"`dtype` is {dtype!r}; choose one of: {', '.join(DTYPES)}.")
    _check_device_map(device_map, device)
    with explain_errors(f"The config of {where} cannot be used"):
        config = _load_config(where, is_trusted=is_trusted)
    folder = Path(where) if Path(where).is_dir() else None
    with quiet_transformers(is_local=folder is not None):
        tokenizer = _load_tokenizer(where, is_trusted=is_trusted)
        source_tokenizer = _load_source_tokenizer(where, tokenizer) if has_source_tokenizer(config) else None
        precision = dtype or ("float32" if placed.type == "cpu" else "auto")
        model, missing = load_weights(
            where, config, dtype=precision, is_trusted=is_trusted, device_map=device_map
        )
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InputError(
            f"The weights of {where} lack {missing[0]!r}{more}: they are those of another model than its "
            "config describes."
        )
    model = (model.to(placed) if device_map is None else model).eval()
    shown, fingerprint = _identify(where, model)
    metadata = read_metadata(folder) if folder else {}
    source_length = read_length(metadata, "settings", "max_source_length")
    trained_length = read_length(metadata, "settings", "max_response_length")  # the end counted
    lengths = source_length, folder, longest_search(metadata.get("data"), trained_length)
    return _by_direction(model, tokenizer, shown, fingerprint, *lengths, source_tokenizer)


def _check_device_map(device_map: str | Mapping[str, Any] | None, device: str | None) -> None:
    if isinstance(device_map, str) and device_map not in DEVICE_MAPS:
        raise SettingsError(
            f"`device_map` is {device_map!r}; choose one of: {', '.join(DEVICE_MAPS)}. One device is named "
            "by `device`."
        )
    if device_map is not None and device is not None:
        raise SettingsError(
            f"`device` is {device!r}, and `device_map` spreads a model over devices: give one of the two."
        )


def wrap_loaded(model: Any, tokenizer: Any) -> dict[Direction, DirectionalModel]:
    """A model that is loaded already by its direction; of one with a shared encoder both halves."""
    check_eval_mode(model)
    name = Path(getattr(model, "name_or_path", "") or "").name or type(model).__name__
    with explain_errors(f"The tokenizer that was given for {name} cannot be used", "."):
        source_ids(["a"], tokenizer)
    return _by_direction(model, tokenizer, name)


def _by_direction(model: Any, tokenizer: Any, *known: Any) -> dict[Direction, DirectionalModel]:
    if isinstance(model, BidirectionalSeq2Seq) and is_spread(model):
        raise SettingsError(
            f"{known[0]} has a shared encoder, and such a model computes on one device: leave out "
            "`device_map`, or save model.regular and model.reverse each by itself, and give both."
        )
    loaded = {}
    for half in [model.regular, model.reverse] if isinstance(model, BidirectionalSeq2Seq) else [model]:
        direction = direction_of(half)
        loaded[direction] = DirectionalModel(half, tokenizer, direction, *known)
        check_usable(loaded[direction])
    return loaded


def load_pair(
    regular: str | Path | None,
    reverse: str | Path | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    device_map: str | Mapping[str, Any] | None = None,
) -> dict[Direction, DirectionalModel]:
    """Load a regular and a reverse model, or one of the two, each as `load_models` does.

    A model with a shared encoder, given as the regular one, brings its reverse half along. Two that are not a
    regular and a reverse one are refused.
    """
    if regular is None and reverse is None:
        raise SettingsError("No model was named: give a regular model, a reverse model, or both.")
    options: LoadOptions = {
        "device": device,
        "dtype": dtype,
        "trust_remote_code": trust_remote_code,
        "device_map": device_map,
    }
    first = load_models(regular, **options) if regular is not None else {}
    is_same = (
        regular is not None and reverse is not None and Path(regular).resolve() == Path(reverse).resolve()
    )
    second = {} if reverse is None or (is_same and len(first) == 2) else load_models(reverse, **options)
    return combine_pair(first, second)


def combine_pair(
    first: dict[Direction, DirectionalModel], second: dict[Direction, DirectionalModel]
) -> dict[Direction, DirectionalModel]:
    """Put together what was given as the regular model and as the reverse one, of which one may be empty."""
    models = {
        direction: loaded.get(direction) or loaded[direction.other]
        for direction, loaded in ((Direction.REGULAR, first), (Direction.REVERSE, second))
        if loaded
    }
    if len(models) == 2:
        check_pair(models[Direction.REGULAR].model, models[Direction.REVERSE].model)
        return models
    check_given_as(*models.popitem())
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
    known = {*loaded.reader.get_vocab().values()}
    largest, plain = max(known), sorted(known - {*loaded.tokenizer.all_special_ids})
    if largest >= rows:
        raise InputError(
            f"The tokenizer of {loaded.name} has ids up to {largest:,}, and its weights know only {rows:,} "
            "tokens: they do not belong together."
        )
    ids = torch.tensor([plain[:: len(plain) // 5 + 1] or [largest]], device=find_device_of(model))
    try:
        task = prepare_task(model, ids, torch.ones_like(ids))
        score_sequences(model, task.inputs, [[[largest] * 3]])
        if find_obstacle(model):
            check_agreement(model, task)
    except BidibeamError:
        raise
    except Exception as error:  # models of other makes fail in their own ways
        reason = ("spread over devices, it fails: " if is_spread(model) else "") + first_sentence(error)
        raise refusal(model, reason) from error


def _load_config(where: str, *, is_trusted: bool) -> Any:
    path, what = Path(where), "is neither a folder nor on the Hugging Face Hub"
    if path.is_dir():
        what = "cannot be read"
        if is_run(path):
            raise InputError(
                f"{where} is one of bidibeam's own runs, not a Hugging Face model: `bidibeam decode {where}`."
            )
        check_whole(path)
        if not (path / "config.json").is_file():
            raise InputError(
                f"{where} has no config.json: name a folder that `save_pretrained` wrote, or a Hub model."
            )
        if not has_files(path, WEIGHTS):
            raise InputError(
                f"{where} has a config but no weights: train it first, by `bidibeam train DATA --base "
                f"{where}`."
            )
    elif path.exists():
        raise InputError(f"{where} is a file: name a folder that `save_pretrained` wrote, or a Hub model.")
    else:
        check_reachable(where, "model", ("config.json",))
    with explain_errors(f"The model {where!r} {what}", ".", kinds=CONFIG_ERRORS):
        config = open_config(where, is_trusted=is_trusted)
    check_writes_text(config, where, is_trusted=is_trusted)
    return config


def check_whole(folder: Path) -> None:
    """Refuse a folder in which a training has not ended, or that holds an adapter."""
    if said := describe_unfinished(folder):
        raise InputError(said)
    if (folder / ADAPTER_FILE).is_file():
        refuse_adapter(str(folder))


def load_weights(
    where: str,
    config: Any,
    *,
    dtype: str,
    is_trusted: bool = False,
    device_map: str | Mapping[str, Any] | None = None,
) -> tuple[Any, Sequence[str]]:
    """A model, and the names of those of its weights that are not there."""
    with explain_errors(f"The weights of {where} cannot be loaded", "."):
        model, missing = open_model(where, config, dtype=dtype, is_trusted=is_trusted, device_map=device_map)
    if hasattr(model, "hf_device_map"):  # some may be fetched as it computes
        return model, missing
    # Transformers need not count weights as missing that nothing was loaded into.
    return model, missing or [name for name, weight in model.named_parameters() if weight.is_meta]


def _load_tokenizer(where: str, *, is_trusted: bool) -> Any:
    folder, way_out = Path(where), "save it beside the model, with tokenizer.save_pretrained."
    if folder.is_dir() and not has_files(folder, TOKENIZERS):
        raise InputError(f"There is no tokenizer in {where}: {way_out}")  # transformers would make one up
    with explain_errors(f"The tokenizer of {where} cannot be loaded", f": {way_out}"):
        tokenizer = open_tokenizer(where, is_trusted=is_trusted)
    with explain_errors(f"The tokenizer of {where} cannot be used"):
        source_ids(["a"], tokenizer)  # one that loads may still be of no use, and that is found out now
    return tokenizer


def _load_source_tokenizer(where: str, tokenizer: Any) -> Any:
    told, way_out = f"The {SOURCE_TOKENIZER_FILE} of {where} cannot be loaded", ": restore it from a copy."
    with explain_errors(told, way_out):
        return open_source_tokenizer(where, tokenizer)


def has_files(folder: Path, patterns: Sequence[str]) -> bool:
    """Whether a folder holds a file of one of these names."""
    return any(next(folder.glob(pattern), None) for pattern in patterns)


def _identify(where: str, model: Any) -> tuple[str, str]:
    """What a signature calls a model, and what tells it from others of that name."""
    folder = Path(where)
    if not folder.is_dir():
        return where, str(getattr(model.config, "_commit_hash", None) or "")[:FINGERPRINT_DIGITS]
    digest = hashlib.blake2b()
    for path in sorted({path for pattern in HASHED for path in folder.glob(pattern) if path.is_file()}):
        digest.update(path.name.encode())
        digest.update(hash_file(path).digest())
    return folder.resolve().name, digest.hexdigest()[:FINGERPRINT_DIGITS]


def check_reachable(name: str, what: str, files: Sequence[str]) -> None:
    """Refuse a name at once where the Hub does not answer, which transformers would ask again for long.

    There is no such folder here; what has one of the `files` in the Hub's cache needs no answer.
    """
    if constants.HF_HUB_OFFLINE:  # nothing is tried then
        return
    told = (
        f"There is no folder {name}, and the Hugging Face Hub, where there may be a {what} of that name, "
        "cannot be reached"
    )
    # What the Hub answers with an error, loading will say more about.
    with explain_errors(told, "."), suppress(HfHubHTTPError, HFValidationError):
        if not any(isinstance(try_to_load_from_cache(name, file), str) for file in files):
            HfApi().model_info(name, timeout=WAIT)


@contextmanager
def explain_errors(
    told: str, way_out: str = ": save it again.", *, kinds: tuple[type[Exception], ...] = (Exception,)
) -> Iterator[None]:
    """Turn what other libraries raise in the block into one sentence: `told`, their own words, `way_out`.

    Over a damaged file they raise exceptions of many kinds, those in Rust even a plain Exception.
    """
    try:
        yield
    except (BidibeamError, MemoryError):
        raise
    except BaseException as error:
        if not (isinstance(error, kinds) or is_panic(error)):
            raise
        raise InputError(f"{told} ({first_sentence(error)}){way_out}") from error


def first_sentence(error: BaseException) -> str:
    """What an error of another library says, in one sentence."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.split(". ")[0].rstrip(".")[:200]
