"""Hugging Face models as a `Model`: a pair, one with a shared encoder, or one direction alone."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from bidibeam.errors import BidibeamError, RunError, SettingsError
from bidibeam.hypotheses import Direction, Hypothesis, NBest
from bidibeam.models.base import Limits
from bidibeam.models.huggingface.by_generate import check_stopping
from bidibeam.models.huggingface.configs import FIELD, check_same_tokens, read_metadata
from bidibeam.models.huggingface.constraints import options_of
from bidibeam.models.huggingface.directional import DirectionalModel, prepare_task
from bidibeam.models.huggingface.loading import combine_pair, load_models, load_pair, wrap_loaded
from bidibeam.models.huggingface.pairs import bad_word_ids, find_unknown
from bidibeam.models.huggingface.scorer import (
    HFScorer,
    depends_on_batch,
    find_device_of,
    find_obstacle,
    refusal,
)
from bidibeam.models.n_best import rank_hypotheses, to_n_best
from bidibeam.scores import Signature
from bidibeam.search.settings import SearchSettings
from bidibeam.similarities.word_vectors import WordVectors

if TYPE_CHECKING:
    from typing import Unpack

    from bidibeam.models.base import LoadOptions

LOGGER = logging.getLogger(__name__)


class HuggingFaceModel:
    """Hugging Face models by direction, searched by our own search or else by their own `generate`.

    Args:
        models: The models, by direction.
        dtype: The precision that was asked for, if one was.
        max_source_length: Longer sources keep their last tokens only; by default the longest that a model has
            room for, or that its training saw.
    """

    def __init__(
        self,
        models: Mapping[Direction, DirectionalModel],
        dtype: str | None = None,
        max_source_length: int | None = None,
    ) -> None:
        self.models, self.max_source_length = models, max_source_length
        self.directions = tuple(direction for direction in Direction if direction in models)
        self._first = first = models[self.directions[0]]
        self.name, self.tokenizer = first.name, first.tokenizer
        self.path = models[Direction.REGULAR].folder if Direction.REGULAR in models else None
        is_asked = max_source_length is not None
        self.limits = Limits(max_source_length if is_asked else first.max_source_length, first.max_length)
        self.vocabulary_size: int = first.model.config.get_text_config(decoder=True).vocab_size
        if first.source_tokenizer is not None:  # whose tokens are never written
            self.vocabulary_size = len(first.tokenizer)
        data = read_metadata(first.folder).get("data") if first.folder is not None else None
        self.data: dict[str, Any] = data if isinstance(data, dict) else {}
        is_by_generate = any(find_obstacle(loaded.model) for loaded in models.values())
        self.default_stopping = "constant" if is_by_generate else "shrinking"
        ordered = [models[direction] for direction in self.directions]
        self.fingerprint = "+".join(dict.fromkeys(loaded.fingerprint for loaded in ordered))
        known: dict[str, object] = {loaded.direction.value: loaded.label for loaded in ordered}
        known |= {"max_source_length": max_source_length, "dtype": dtype}
        known |= {"search": "generate"} if is_by_generate else {}
        given = {name: value for name, value in known.items() if value is not None}
        self.signature = Signature(()).extended(**given)

    @classmethod
    def load(
        cls, name: Path | str | None, reverse: Path | str | None = None, **options: Unpack[LoadOptions]
    ) -> HuggingFaceModel:
        """Load a pair of models, one with a shared encoder, or one alone, as `bidibeam.load` says.

        `name` alone may write in either direction; None with `reverse` loads the reverse model alone.
        """
        if name is not None and reverse is None:
            models = load_models(name, **options)  # of either direction
        else:
            models = load_pair(name, reverse, **options)
        for loaded in models.values():
            if obstacle := find_obstacle(loaded.model):
                LOGGER.warning("%s is searched by its own generate: %s.", loaded.name, obstacle)
        return cls(models, options.get("dtype"))

    @classmethod
    def wrap(cls, regular: Any = None, reverse: Any = None, *, tokenizer: Any) -> HuggingFaceModel:
        """Use transformers models that are loaded already, in evaluation mode, wherever they lie.

        Raises:
            BidibeamError: If they cannot be searched, or are not a regular and a reverse one.
        """
        given = [wrap_loaded(model, tokenizer) if model is not None else {} for model in (regular, reverse)]
        if not any(given):
            raise SettingsError("No model was given: give a regular model, a reverse model, or both.")
        return cls(combine_pair(*given))

    @property
    def device(self) -> torch.device:
        """Where the models compute."""
        return find_device_of(self._first.model)

    @property
    def batch_size(self) -> int:
        """How many sources to search at once by default."""
        return 32 if self.device.type == "cpu" else 64

    def word_vectors(self, file: Path | None = None) -> WordVectors:
        """The vectors of a file, or the model's own embeddings where its tokens are words."""
        loaded = self._first
        tokenizer = loaded.tokenizer
        ids = sorted({*tokenizer.get_vocab().values()} - {*tokenizer.all_special_ids})
        words = tokenizer.convert_ids_to_tokens(ids)
        if file is not None:
            return WordVectors.from_file(file, wanted=words if loaded.kind == "word" else None)
        if loaded.kind not in ("word", "char"):
            raise SettingsError(
                f"The similarity compares words by their vectors, and {loaded.name} knows subwords: give "
                "a file of word `vectors`, or compare by bleu_t."
            )
        embeddings = loaded.model.get_input_embeddings().weight.detach()
        if embeddings.is_meta:
            raise SettingsError(
                f"The embeddings of {loaded.name} are not in memory, by its device map: give a file of word "
                "`vectors`."
            )
        matrix = embeddings[ids].float().cpu().numpy()
        return WordVectors(words, matrix, "model", "" if loaded.kind == "word" else None)

    def check_shared_tokens(self) -> None:
        """See that both directions know the same tokens, so that one can score the other's hypotheses."""
        check_same_tokens(*(self._find(direction).tokenizer for direction in Direction))

    def check_settings(self, settings: SearchSettings) -> None:
        """Refuse settings that a model cannot follow, before anything is read."""
        for loaded in self.models.values():
            loaded.find_source_limit(settings.max_length, self.max_source_length)
            bad_word_ids(settings.bad_words, loaded.tokenizer, loaded.name)
            config = loaded.model.generation_config
            started = int(loaded.model.config.is_encoder_decoder)
            asked = {"min_new_tokens": config.min_new_tokens or 0}
            asked |= {"min_length": (config.min_length or 0) - 1} if started else {}
            name, least = max(asked.items(), key=itemgetter(1))
            if least >= settings.max_length:
                raise SettingsError(
                    f"The generation config of {loaded.name} asks by {name!r} for at least {least} tokens, "
                    f"and max_length is {settings.max_length}: raise max_length above {least}."
                )
            if find_obstacle(loaded.model):
                check_stopping(loaded.name, settings)

    def n_best(self, direction: Direction, sources: Sequence[str], settings: SearchSettings) -> list[NBest]:
        """Search in one direction: the hypotheses of each source, best first, in reading order.

        The model's own `generate` prepares what it reads and the tokens that are forced or suppressed.
        """
        loaded = self._find(direction)
        if not sources:
            return []
        self.check_settings(settings)
        limit = loaded.find_source_limit(settings.max_length, self.max_source_length)
        ids, mask = loaded.encode_sources(sources, [limit] * len(sources))
        if not find_obstacle(loaded.model):
            return [to_n_best(line) for line in _search(loaded, ids, mask, settings)]
        lists, groups = [NBest(())] * len(sources), mask.sum(1)  # (sources,)
        if depends_on_batch(loaded.model):
            groups = torch.arange(len(sources), device=mask.device)
        for group in sorted({*groups.tolist()}):  # without padding, which some models mistake for text
            rows = (groups == group).nonzero().flatten()
            alike = ids[rows][mask[rows].bool()].view(len(rows), -1)  # (sources, length)
            try:
                found = _search(loaded, alike, torch.ones_like(alike), settings)
            except (BidibeamError, MemoryError, torch.OutOfMemoryError):
                raise
            except Exception as error:  # models of other makes fail in their own ways
                raise refusal(loaded.model, str(error) or type(error).__name__) from error
            for row, line in zip(rows.tolist(), found, strict=True):
                lists[row] = rank_hypotheses(line, settings)
        return lists

    def find_unknown(self, sources: Sequence[str]) -> list[bool]:
        """Which sources have no token that the model knows."""
        return find_unknown(sources, self._first.reader)

    def sequence_scorer(self, direction: Direction) -> DirectionalModel:
        """What scores texts under one direction.

        A model alone whose config does not say which way it writes is taken for either direction.
        """
        if direction not in self.models and len(self.models) == 1:
            loaded = self._first
            if getattr(loaded.model.config, FIELD, None) is None:
                return replace(loaded, direction=direction)
            raise SettingsError(
                f"{loaded.name} is a {loaded.direction.value} model by its config: leave out `direction` "
                f"{direction.value}."
            )
        return self._find(direction)

    def scorer(self, direction: Direction) -> HFScorer | None:
        """One direction as a step scorer of padded ids; None where the model's own `generate` searches.

        It follows the weights alone; `n_best` makes one that also forces what a generation config forces.
        """
        model = self._find(direction).model
        return None if find_obstacle(model) else HFScorer(model)

    def _find(self, direction: Direction) -> DirectionalModel:
        if direction not in self.models:
            raise RunError(
                f"There is no {direction.value} model beside {self.name}: give one, or choose a strategy "
                "that does without."
            )
        return self.models[direction]


def _search(
    loaded: DirectionalModel, ids: Tensor, mask: Tensor, settings: SearchSettings
) -> list[list[Hypothesis]]:
    """What a model finds for sources, (sources, length), by its generation config and the settings."""
    words = bad_word_ids(settings.bad_words, loaded.tokenizer, loaded.name)
    options = options_of(settings, words, loaded.model.generation_config)
    task = prepare_task(loaded.model, ids, mask, max_new_tokens=settings.max_length, **options)
    constraints, unknown = task.constraints, getattr(loaded.tokenizer, "unk_token_id", None)
    if loaded.direction is Direction.REVERSE:
        constraints = constraints.reverse(loaded.find_special(task))
    forbidden = [loaded.tokenizer.pad_token_id, *(() if settings.allow_unknown else (unknown,))]
    task = task._replace(constraints=constraints.forbid(forbidden))
    least = max(settings.min_length, constraints.min_new_tokens)
    unbound = replace(settings, no_repeat_ngram_size=0, repetition_penalty=1.0, bad_words=())  # the task is
    return loaded.search(task, replace(unbound, min_length=least))
