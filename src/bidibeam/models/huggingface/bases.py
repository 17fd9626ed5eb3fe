"""What training starts from: a model of the Hub or of a folder, or a config for fresh weights."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tokenizers
from tokenizers.processors import TemplateProcessing
from transformers import CONFIG_MAPPING, AutoConfig, set_seed

from bidibeam.data.tokenization import END, Tokenizer, load_tokenizers
from bidibeam.errors import InputError, RunError, SettingsError
from bidibeam.files import parse_json
from bidibeam.hypotheses import Direction
from bidibeam.models.checkpoint import SOURCE_TOKENIZER_FILE
from bidibeam.models.huggingface.configs import (
    AUTO_MAP,
    JOINT,
    SOURCE_FIELD,
    check_layers,
    has_source_tokenizer,
    mark,
    remove_code,
)
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq
from bidibeam.models.huggingface.labels import special_ids
from bidibeam.models.huggingface.loading import (
    CONFIG_ERRORS,
    TOKENIZERS,
    WEIGHTS,
    check_reachable,
    check_whole,
    explain_errors,
    has_files,
    load_weights,
)
from bidibeam.models.huggingface.opening import (
    check_writes_text,
    create_model,
    describe_untrusted_code,
    open_config,
    open_source_tokenizer,
    open_tokenizer,
    to_fast,
)
from bidibeam.models.huggingface.pairs import source_ids
from bidibeam.registry import suggest

if TYPE_CHECKING:
    from bidibeam.data.prepared import PreparedData


@dataclass(frozen=True, slots=True)
class Base:
    """A model to train, and its tokenizer.

    Attributes:
        model: In float32, its direction marked.
        tokenizer: The one it writes with.
        source_tokenizer: The one it reads with, which is the same as a rule.
        is_fresh: Whether its weights are new.
        has_data_tokenizer: Whether the tokenizer is that of the data, so that prepared ids are its own.
    """

    model: Any
    tokenizer: Any
    source_tokenizer: Any
    is_fresh: bool
    has_data_tokenizer: bool

    @property
    def has_two_tokenizers(self) -> bool:
        """Whether it reads with another tokenizer than it writes with."""
        return self.source_tokenizer is not self.tokenizer


def open_base(
    name: str | Mapping[str, Any],
    direction: str,
    *,
    tokenizer: str | None,
    data: PreparedData,
    seed: int,
    trust_remote_code: bool = False,
) -> Base:
    """Load, or make, a model to train.

    Args:
        name: A name on the Hub, a folder with weights, a folder or file with a config alone, or the values
            of a config.
        direction: "regular", "reverse" or "both".
        tokenizer: Where the tokenizer is; None for the base's own, or the data's for a fresh model.
        data: What it will be trained on.
        seed: Of fresh weights.
        trust_remote_code: Whether code that comes with the base, or with the tokenizer, may run.
    """
    is_trusted = trust_remote_code
    told = f"The base {name}" if isinstance(name, str) else "The model's config"
    with explain_errors(f"{told} cannot be used"):
        if isinstance(name, Mapping):
            config, is_fresh, where = _config_from_settings(name), True, "config"
        else:
            (config, is_fresh), where = _find_config(name, is_trusted=is_trusted), name
        _check_direction(config, where, direction, is_trusted=is_trusted)
        writer, reader, has_data_tokenizer = _find_tokenizers(
            name, tokenizer, config, is_fresh=is_fresh, data=data, is_trusted=is_trusted
        )
        set_seed(seed)
        if is_fresh:
            _fit_config(config, writer, reader)
            model = create_model(config, is_trusted=is_trusted)
        else:
            model, missing = load_weights(where, config, dtype="float32", is_trusted=is_trusted)
            if missing:
                raise InputError(f"The weights of {where} lack {missing[0]!r}: save the model again.")
            _check_vocabulary(model, reader, where)  # whose ids are the highest
        if direction != "both":
            mark(model, Direction(direction))
        elif not isinstance(model, BidirectionalSeq2Seq):
            model = BidirectionalSeq2Seq.from_encoder_decoder(
                config if is_fresh else model, special_ids=special_ids(writer)
            )
        if is_fresh and reader is not writer:
            _forbid_sources(model, range(len(writer), len(reader)))
        source_ids(["a"], reader)  # a tokenizer that loads may still be of no use
    return Base(model, writer, reader, is_fresh, has_data_tokenizer)


def _forbid_sources(model: Any, ids: Iterable[int]) -> None:
    """Have `generate`, and so our own search, never write the tokens of sources."""
    is_joint = isinstance(model, BidirectionalSeq2Seq)
    for one in (model.regular, model.reverse) if is_joint else (model,):
        one.generation_config.suppress_tokens = [*ids]
    if is_joint:
        model.config.generation = model.regular.generation_config.to_dict()


def _check_vocabulary(model: Any, tokenizer: Any, name: str) -> None:
    """Refuse a tokenizer that has ids which the weights do not know."""
    one = model.regular if isinstance(model, BidirectionalSeq2Seq) else model
    rows = one.get_input_embeddings().weight.shape[0]
    largest = max(tokenizer.get_vocab().values())
    if largest >= rows:
        raise SettingsError(
            f"The tokenizer has ids up to {largest:,}, and the weights of {name} know only {rows:,} "
            "tokens. Name a tokenizer that goes with the weights."
        )


def _find_config(name: str, *, is_trusted: bool) -> tuple[Any, bool]:
    """The base's config, and whether there is nothing else."""
    path = Path(name)
    file = path / "config.json" if path.is_dir() else path
    if path.is_dir():
        check_whole(path)
        if not file.is_file():
            raise InputError(
                f"The base {name} has no config.json: name a folder that has one, or a Hub model."
            )
    if file.is_file():
        try:
            values = parse_json(file.read_bytes())
        except ValueError:
            values = None
        is_fresh = path == file or not has_files(path, WEIGHTS)
        if is_trusted and isinstance(values, dict) and values.get(AUTO_MAP):
            return open_config(str(file.parent), is_trusted=True), is_fresh
        config = _make_config(values, str(file))
        config.name_or_path = str(file.parent)
        return config if is_fresh else open_config(name), is_fresh
    check_reachable(name, "base", ("config.json",))
    told = f"The base {name!r} is neither a folder, nor a config file, nor a model on the Hugging Face Hub"
    with explain_errors(told, ".", kinds=CONFIG_ERRORS):
        return open_config(name, is_trusted=is_trusted), False


def _make_config(values: Any, name: str) -> Any:
    """A config from its values; one of a model type that transformers knows."""
    if not isinstance(values, Mapping) or "model_type" not in values:
        raise InputError(
            f"{name} is no model's config: it must be a JSON object with a model_type, such as bart, t5, "
            "marian, gpt2 or llama."
        )
    check_layers(values, name)
    options = {key: value for key, value in values.items() if key != "model_type"}
    try:
        config = AutoConfig.for_model(values["model_type"], **options)
    except ValueError as error:
        if values.get(AUTO_MAP):
            raise InputError(describe_untrusted_code(name, "network")) from error
        raise InputError(
            f"{name} has the model_type {values['model_type']!r}, which transformers does not know."
        ) from error
    remove_code(config, is_whole=False)
    return config


def _config_from_settings(values: Mapping[str, Any]) -> Any:
    """A config from its values, if a config has them all: transformers would keep options without a word."""
    known = _make_config({"model_type": values.get("model_type")}, "The model's config")
    for name in values:
        if not hasattr(known, name):
            hint = suggest(name, known.to_dict())
            raise SettingsError(f"The config of a {known.model_type} model has no {name}.{hint}")
    return _make_config(values, "The model's config")


def _check_direction(config: Any, name: str, direction: str, *, is_trusted: bool) -> None:
    """Refuse a base that writes no text, or that cannot be trained in this direction."""
    check_writes_text(config, f"The base {name}", is_trusted=is_trusted)
    if direction == "both" and config.model_type not in CONFIG_MAPPING:
        raise SettingsError(
            f"Direction both is made of transformers' own networks, and the base {name} brings code for its "
            "own: train regular and reverse one by one."
        )
    if config.model_type == JOINT and direction != "both":
        raise SettingsError(
            f"The base {name} holds both directions: train it with direction both, or save one half of it "
            "(`model.regular.save_pretrained(folder)`) and train that."
        )
    if direction == "both" and not config.is_encoder_decoder:
        raise SettingsError(
            f"Direction both shares an encoder, and {name} is a {config.model_type} model, which has none: "
            "train regular and reverse one by one."
        )


def _find_tokenizers(
    name: str | Mapping[str, Any],
    tokenizer: str | None,
    config: Any,
    *,
    is_fresh: bool,
    data: PreparedData,
    is_trusted: bool,
) -> tuple[Any, Any, bool]:
    """The tokenizers of a base, of targets and of sources, and whether they are those of the data."""
    is_config, path = isinstance(name, Mapping), Path("" if isinstance(name, Mapping) else name)
    folder = path if path.is_dir() else path.parent
    is_local = is_config or path.exists()
    if tokenizer is None and is_local and (is_config or not has_files(folder, TOKENIZERS)):
        if is_fresh:
            return *_wrap_both(data.tokenizer, data.source_tokenizer, config), True
        raise InputError(f"The base {name} has weights but no tokenizer: name its tokenizer.")
    if tokenizer is not None and has_source_tokenizer(config) and not is_fresh:
        raise SettingsError(
            f"The base {name} has a tokenizer of its own for sources: leave out `tokenizer` ({tokenizer})."
        )
    where = tokenizer if tokenizer is not None else str(folder) if is_local else str(name)
    file = Path(where) / "tokenizer.json"
    if file.is_file() and not (Path(where) / "tokenizer_config.json").is_file():
        with suppress(RunError):  # of prepared data, or of a run
            own = _load_both(Path(where))
            is_data = all(
                one.to_json() == other.to_json()
                for one, other in zip(own, (data.tokenizer, data.source_tokenizer), strict=True)
            )
            return *_wrap_both(*own, config), is_data
    if not Path(where).exists():
        check_reachable(where, "tokenizer", TOKENIZERS[:2])
    way_out = ": name one, a folder or a model of the Hub."
    with explain_errors(f"There is no tokenizer in {where}", way_out):
        writer = open_tokenizer(where, is_trusted=is_trusted)
    reader = writer
    if (has_source_tokenizer(config) and not is_fresh) or (Path(where) / SOURCE_TOKENIZER_FILE).is_file():
        reader = open_source_tokenizer(where, writer)
    return writer, reader, False


def _load_both(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of targets and of sources in a folder of prepared data, or of a run."""
    files = folder / "tokenizer.json", folder / SOURCE_TOKENIZER_FILE
    if files[1].is_file():
        return load_tokenizers(*files)
    own = Tokenizer.load(files[0])
    return own, own


def _wrap_both(targets: Tokenizer, sources: Tokenizer, config: Any) -> tuple[Any, Any]:
    """Two of our tokenizers as transformers' own, one and the same if they are."""
    writer = wrap_tokenizer(targets, is_encoder_decoder=config.is_encoder_decoder)
    if sources is targets:
        return writer, writer
    return writer, wrap_tokenizer(sources, is_encoder_decoder=config.is_encoder_decoder)


def wrap_tokenizer(tokenizer: Tokenizer, *, is_encoder_decoder: bool) -> Any:
    """One of our tokenizers as transformers' own: the same ids, an end after what an encoder reads."""
    backend = tokenizers.Tokenizer.from_str(tokenizer.to_json())
    if is_encoder_decoder:
        backend.post_processor = TemplateProcessing(
            single=f"$A {END}", special_tokens=[(END, tokenizer.end_id)]
        )
    return to_fast(backend)


def _fit_config(config: Any, tokenizer: Any, source_tokenizer: Any) -> None:
    """Make a fresh model's config that of its tokenizers, the table of both with all ids."""
    pad, start, end = tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id
    config.vocab_size = len(source_tokenizer)
    if getattr(config, "decoder_vocab_size", None) is not None:
        config.decoder_vocab_size = len(source_tokenizer)
    is_different = source_tokenizer is not tokenizer
    if is_different or has_source_tokenizer(config):
        setattr(config, SOURCE_FIELD, is_different)
    config.pad_token_id, config.bos_token_id, config.eos_token_id = pad, start, end
    if config.is_encoder_decoder:
        config.decoder_start_token_id = start if start is not None else pad
    for name in ("forced_bos_token_id", "forced_eos_token_id"):
        if getattr(config, name, None) is not None:  # ids of the tokenizer that the config was made for
            setattr(config, name, None)
