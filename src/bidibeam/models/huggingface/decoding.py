"""Hugging Face models to a decoder: texts in, beams of both directions out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutput

from bidibeam._version import __version__
from bidibeam.api.tuned import TUNED_FILE, TunedSettings
from bidibeam.decoding.decoder import Decoder, Ranker
from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.huggingface.directions import check_same_tokens
from bidibeam.models.huggingface.generate import shared_out, turned
from bidibeam.models.huggingface.labels import special_ids
from bidibeam.models.huggingface.loading import (
    LoadedModel,
    load_models,
    load_pair,
    prepared_quietly,
    weights_of,
)
from bidibeam.models.huggingface.pairs import source_ids
from bidibeam.models.huggingface.sides import Side, Spelling, Task, both_searched, positions_of, words_by
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature
from bidibeam.search.settings import SearchSettings
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.naming import SystemName
from bidibeam.strategies.settings import StrategySettings
from bidibeam.turns import Turns, first_in_line, holding

__all__ = ["HFGenerator", "load_hf_decoder", "load_models", "load_pair"]

HOST_BATCH, DEVICE_BATCH = 32, 64
MOST_SPELLINGS = 1 << 16
"""Replies whose spelling is kept."""


@dataclass(frozen=True)
class HFGenerator:
    """Fills in hypotheses by searching Hugging Face models.

    Each model's own `generate` prepares what it reads and the tokens that are forced or suppressed; the
    search is ours.

    Args:
        models: The models, by direction.
        sizes: How to search, by direction; one without is not searched.
        judged: Whether the other direction's opinion of each hypothesis is wanted (`other_log_prob`).
        max_source_length: Longer sources keep their last tokens only; by default the longest that a model
            has room for, or that its training saw.

    Raises:
        SettingsError: If a model is missing, has too few positions, or cannot judge the other's tokens.
    """

    models: Mapping[Direction, LoadedModel]
    sizes: Mapping[Direction, SearchSettings]
    judged: bool = False
    max_source_length: int | None = None
    _sides: dict[Direction, Side] = field(default_factory=dict, init=False, repr=False, compare=False)
    _longest: dict[Direction, int | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    _turn: Turns = field(default_factory=Turns, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        steps = max(settings.max_length for settings in self.sizes.values())
        for direction in self._wanted:
            loaded = self.models.get(direction)
            if loaded is None:
                raise SettingsError(f"There is no {direction.value} model: give --{direction.value} MODEL.")
            spelled = _remembered(words_by(loaded.tokenizer))
            self._sides[direction] = Side(loaded.model, direction, special_ids(loaded.tokenizer), spelled)
            _check_least(loaded, steps)
            self._longest[direction] = longest_source(loaded, steps, self.max_source_length)
        if self.judged:
            check_same_tokens(*(self.models[direction].tokenizer for direction in Direction))

    @property
    def device(self) -> torch.device:
        """Where the models compute."""
        device: torch.device = next(iter(self._sides.values())).model.device
        return device

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        """Search for every source in one batch, and keep their order."""
        return self.begin(beams)()

    def begin(self, beams: Sequence[Beams]) -> Callable[[], list[Beams]]:
        """Search, and have the other direction judge; what is returned has nothing more to do.

        Threads take turns: a model attends as the search that asked it last does.
        """
        if not beams:
            return list
        with first_in_line(), holding(self._turn):
            filled = self._filled(beams)
        return lambda: filled

    def _filled(self, beams: Sequence[Beams]) -> list[Beams]:
        tasks = self._tasks([line.source for line in beams])
        sizes = {
            direction: replace(
                settings, min_length=max(settings.min_length, tasks[direction].rules.min_new_tokens)
            )
            for direction, settings in self.sizes.items()
        }
        return both_searched(self._sides, tasks, sizes, beams, judged=self.judged)[0]

    @property
    def _wanted(self) -> list[Direction]:
        return [direction for direction in Direction if self.judged or direction in self.sizes]

    def _tasks(self, texts: Sequence[str]) -> dict[Direction, Task]:
        tasks: dict[Direction, Task] = {}
        settings = next(iter(self.sizes.values()))
        for direction, side in self._sides.items():
            loaded = self.models[direction]
            ids, mask = padded_sources(texts, loaded, [self._longest[direction]] * len(texts))
            known = self._read_already(side, tasks)
            options = {} if known is None else {"encoder_outputs": BaseModelOutput(last_hidden_state=known)}
            task = prepared_quietly(side.model, ids, mask, max_new_tokens=settings.max_length, **options)
            if direction is Direction.REVERSE and direction in self.sizes:
                task = turned(task, side)
            tasks[direction] = _without_unknown(task, loaded.tokenizer, settings)
        return tasks

    def _read_already(self, side: Side, tasks: Mapping[Direction, Task]) -> Tensor | None:
        """What an encoder that is shared has said of the sources, if the other direction asked first."""
        task = tasks.get(side.direction.other)
        if task is None or not side.model.config.is_encoder_decoder:
            return None
        other = self._sides[side.direction.other].model
        return task.inputs.encoded if other.get_encoder() is side.model.get_encoder() else None


def load_hf_decoder(
    regular: str | Path | None = None,
    reverse: str | Path | None = None,
    strategy: StrategySettings | str = "bidia",
    settings: SearchSettings | None = None,
    *,
    models: Mapping[Direction, LoadedModel] | None = None,
    batch_size: int | None = None,
    workers: int = 1,
    replies_only: bool = False,
    score_other: bool = False,
    max_source_length: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
) -> Decoder:
    """A decoder for a pair of Hugging Face models.

    What `bidibeam tune` found for them, and left in the regular model's folder, is used where the strategy's
    own options do not say otherwise.

    Args:
        regular: The regular model: a folder or a name on the Hub. One with a shared encoder is both.
        reverse: The reverse model, for strategies that need one.
        strategy: How to choose among hypotheses.
        settings: How to search; a strategy that needs both directions shares the beam out among them.
        models: Models that are loaded already, instead of `regular` and `reverse`.
        batch_size: Sources searched at once; 32 by default, 64 on a GPU.
        workers: Threads that compare hypotheses.
        replies_only: Whether the replies are enough: rankings then hold nothing else.
        score_other: Whether the other direction scores every hypothesis too, where it can.
        max_source_length: Longer sources keep their last tokens only.
        device: "cpu", "cuda", "cuda:1"; the first GPU, if there is one, by default.
        dtype: "float32", "bfloat16" or "float16"; by default float32 on a CPU, elsewhere as the weights are
            stored.

    Raises:
        BidibeamError: If a model cannot be used or is missing, the two do not fit together, or a setting is
            unknown or out of range.
    """
    named = strategy if isinstance(strategy, StrategySettings) else SystemName.of(strategy).settings()
    chosen, tuned = _tuned(named, tuned_folder(regular, models))
    chosen.check_tuned()
    search, requirements = settings or SearchSettings(), chosen.requirements
    sizes = shared_out(requirements, search, "--beam-size", chosen.name)
    pair = models or load_pair(regular, reverse, device=device, dtype=dtype)
    _check_there(pair, requirements, chosen.name)
    if tuned is not None:
        _check_tuned_for(tuned, pair)
    generator = HFGenerator(
        pair,
        sizes,
        judged=requirements.other_weight is not None or (score_other and can_judge(pair)),
        max_source_length=max_source_length,
    )
    selection = chosen.build(max_length=search.max_length, space=lambda: space_of(pair, chosen.vectors))
    facts: dict[str, object] = {} if tuned is None else {"tuned": tuned.name}
    facts |= {direction.value: loaded.label for direction, loaded in pair.items()}
    if max_source_length is not None:
        facts["max_source_length"] = max_source_length
    if dtype is not None:
        facts["dtype"] = dtype
    signature = Signature(selection.signature.facts + Signature.of_settings(search).facts)
    is_on_device = generator.device.type != "cpu"
    return Decoder(
        generator,
        Ranker(selection, workers, replies_only=replies_only),
        signature.extended(**facts, bidibeam=__version__),
        batch_size or (DEVICE_BATCH if is_on_device else HOST_BATCH),
        prefetch=is_on_device,
    )


def tuned_folder(
    regular: str | Path | None, models: Mapping[Direction, LoadedModel] | None = None
) -> Path | None:
    """Where what was tuned for a pair lies: beside the regular model, if that is in a folder."""
    if models is not None:
        return models[Direction.REGULAR].folder if Direction.REGULAR in models else None
    return Path(regular) if regular is not None and Path(regular).is_dir() else None


def _tuned(strategy: StrategySettings, folder: Path | None) -> tuple[StrategySettings, TunedSettings | None]:
    """The strategy with tuned options under its own, and where those came from, if any was used."""
    is_open = strategy.wants_tuned or strategy.unset
    if folder is None or not is_open or not (folder / TUNED_FILE).is_file():
        return strategy, None
    tuned = TunedSettings(folder / TUNED_FILE)
    chosen = strategy.with_tuned(tuned.options)
    return (strategy, None) if chosen == strategy else (chosen, tuned)


def _check_tuned_for(tuned: TunedSettings, models: Mapping[Direction, LoadedModel]) -> None:
    """Make sure that it was tuned for these weights; of a pair, one model may be left out.

    Raises:
        SettingsError: If not.
    """
    known = str(tuned.content.get("weights")).split("+")
    if not {loaded.fingerprint for loaded in models.values()}.issubset(known):
        tuned.check_weights(weights_of(models))


def can_judge(models: Mapping[Direction, LoadedModel]) -> bool:
    """Whether there are two models that know each other's tokens."""
    if len(models) < 2:
        return False
    try:
        check_same_tokens(*(loaded.tokenizer for loaded in models.values()))
    except SettingsError:
        return False
    return True


def padded_sources(
    texts: Sequence[str], loaded: LoadedModel, limits: Sequence[int | None]
) -> tuple[Tensor, Tensor]:
    """Sources as a model reads them, and where they are: both (sources, length).

    Padding is on the right for an encoder and on the left for a lone decoder. A prompt of no tokens at all
    becomes the token that begins or ends a text.

    Args:
        texts: The sources.
        loaded: The model.
        limits: Of each source, how many of its last tokens are kept.

    Raises:
        InputError: If a source has no tokens, and there is none to read instead.
    """
    model, tokenizer = loaded.model, loaded.tokenizer
    rows: list[list[int]] = []
    for limit, group in groupby(zip(limits, texts, strict=True), key=itemgetter(0)):
        rows += source_ids([text for _, text in group], tokenizer, model.config, max_length=limit)
    if not all(rows):
        first = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        if first is None:
            raise InputError(
                f"The source {texts[rows.index([])]!r} has no token for {loaded.name}, whose tokenizer has "
                "neither a start nor an end token to read instead."
            )
        rows = [row or [first] for row in rows]
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
    longest = max(map(len, rows))
    ids, mask = torch.full((len(rows), longest), pad), torch.zeros(len(rows), longest, dtype=torch.long)
    for line, row in enumerate(rows):
        begin = 0 if model.config.is_encoder_decoder else longest - len(row)
        ids[line, begin : begin + len(row)] = torch.tensor(row)
        mask[line, begin : begin + len(row)] = 1
    return ids.to(model.device), mask.to(model.device)


def longest_source(loaded: LoadedModel, steps: int, asked: int | None = None) -> int | None:
    """How many tokens of a source a model can read, and write a reply as well; None if any number.

    Args:
        loaded: The model.
        steps: How long the reply is, the end token counted.
        asked: The limit that was asked for; the longest source of training by default.

    Raises:
        SettingsError: If it has no positions for so long a reply.
    """
    config = loaded.model.config
    positions = positions_of(config)
    window = None if config.is_encoder_decoder else getattr(config, "sliding_window", None)
    if window is not None:
        positions = window if positions is None else min(positions, window)
    known = loaded.max_source_length if asked is None else asked
    if positions is None:
        return known
    room: int = positions - (0 if config.is_encoder_decoder else steps)
    if room < 1 or steps > positions:
        raise SettingsError(
            f"{loaded.name} has {positions:,} positions, too few for a reply of {steps} tokens: shorten it, "
            "in decoding by --max-length."
        )
    return room if known is None else min(room, known)


def space_of(models: Mapping[Direction, LoadedModel], vectors: Path | None) -> WordVectors:
    """The vectors of a file, or the model's own embeddings where its tokens are words.

    Raises:
        SettingsError: If its tokens are no words, and no file is given.
    """
    loaded = next(models[direction] for direction in Direction if direction in models)
    tokenizer, is_of_words = loaded.tokenizer, writes_words(loaded)
    ids = sorted(set(tokenizer.get_vocab().values()) - {*tokenizer.all_special_ids})
    words = tokenizer.convert_ids_to_tokens(ids)
    if vectors is not None:
        return WordVectors.from_file(vectors, wanted=words if is_of_words else None)
    if not is_of_words:
        raise SettingsError(
            f"The similarity compares words by their vectors, and {loaded.name} knows subwords: give vectors "
            "of words by --vectors FILE.vec, or compare by bleu_t."
        )
    matrix = loaded.model.get_input_embeddings().weight.detach()[ids].float().cpu().numpy()
    return WordVectors(words, matrix, "model")


def writes_words(loaded: LoadedModel) -> bool:
    """Whether a model's tokens are words, so that its embeddings are vectors of words."""
    backend = getattr(loaded.tokenizer, "backend_tokenizer", None)
    return type(getattr(backend, "model", None)).__name__ == "WordLevel"


def _check_there(models: Mapping[Direction, LoadedModel], requirements: Requirements, strategy: str) -> None:
    """Refuse a strategy whose model is not there.

    Raises:
        SettingsError: If so.
    """
    for direction in Direction:
        is_needed = direction in requirements.directions or requirements.other_weight is not None
        if is_needed and direction not in models:
            raise SettingsError(
                f"The strategy {strategy} needs a {direction.value} model: give --{direction.value} MODEL, "
                "or choose another --strategy."
            )


def _check_least(loaded: LoadedModel, steps: int) -> None:
    """Refuse a T at which no reply may end yet.

    Raises:
        SettingsError: If the model's generation config asks for more tokens.
    """
    config = loaded.model.generation_config
    start = 1 if loaded.model.config.is_encoder_decoder else 0
    least = max(config.min_new_tokens or 0, (config.min_length or 0) - start if start else 0)
    if least >= steps:
        raise SettingsError(
            f"The generation config of {loaded.name} asks for at least {least} tokens, and --max-length is "
            f"{steps}: raise --max-length above {least}."
        )


def _without_unknown(task: Task, tokenizer: Any, settings: SearchSettings) -> Task:
    """The same task with padding forbidden, and the unknown token unless it is allowed.

    A token that ends a reply, or that the model is told to write, stays allowed.
    """
    rules = task.rules
    taboo = {tokenizer.pad_token_id}
    if not settings.allow_unknown:
        taboo.add(getattr(tokenizer, "unk_token_id", None))
    taboo -= {None, *rules.roles.ends, rules.first, rules.last}
    roles = replace(rules.roles, forbidden=rules.roles.forbidden | taboo)
    return task._replace(rules=replace(rules, roles=roles))


def _remembered(spelled: Spelling) -> Spelling:
    """The same, without spelling again what sources have in common."""
    known = lru_cache(MOST_SPELLINGS)(spelled)
    return lambda ids: known(tuple(ids))
