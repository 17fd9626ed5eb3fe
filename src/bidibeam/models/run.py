"""A run of our own training as a `Model`: a folder with a network, its tokenizer and what training knew."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.data.batching import pad_sources
from bidibeam.data.tokenization import SPECIAL_TOKENS, WORD_START, Tokenizer, load_tokenizers
from bidibeam.errors import RunError, SettingsError
from bidibeam.hypotheses import Direction, Hypothesis, NBest
from bidibeam.models import checkpoint
from bidibeam.models.base import Limits, longest_search, read_length, spell_bad_words
from bidibeam.models.n_best import to_n_best
from bidibeam.models.networks import check_direction
from bidibeam.scores import Signature
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from bidibeam.similarities.word_vectors import WordVectors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    import torch
    from torch import Tensor

    from bidibeam.models.base import LoadOptions

KNOWN_TEXTS = 1 << 16
"""Replies whose text is kept: sources have many in common."""
_make = partial(tuple.__new__, Hypothesis)  # searches make tens of thousands, and keywords take their time


@dataclass(eq=False)
class RunModel:
    """A trained run, loaded: its folder, the network with the best weights, and what config.json says.

    Sources are tokenised by `reader`: their own tokenizer, where they have one, or else that of the replies.
    """

    path: Path
    network: Any
    tokenizer: Tokenizer
    config: checkpoint.ModelConfig
    device: torch.device
    source_tokenizer: Tokenizer | None = None

    title = "run"
    default_stopping = "shrinking"  # the paper's

    def __post_init__(self) -> None:
        self.name = self.path.resolve().name
        self.reader = self.source_tokenizer or self.tokenizer
        self.directions: tuple[Direction, ...] = tuple(self.network.directions)
        self.vocabulary_size = self.config.output_size or self.config.vocabulary_size
        self.batch_size = 32 if self.device.type == "cpu" else 512  # more keep a GPU busy
        self.data: dict[str, Any] = self.config.metadata.get("data", {})
        source_length = read_length(self.data, "settings", "max_source_length")
        self.limits = Limits(source_length, longest_search(self.data))  # as the data were prepared
        self._detokenize = lru_cache(KNOWN_TEXTS)(self._read_tokens)
        self._scorers: dict[Direction, Any] = {}

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Whether a folder holds a run of our own training."""
        return checkpoint.is_run(path)

    @classmethod
    def load(
        cls, name: Path | str | None, reverse: Path | str | None = None, **options: Unpack[LoadOptions]
    ) -> RunModel:
        """Load a run directory."""
        if reverse is not None:
            raise SettingsError(
                f"{name or reverse} is one of bidibeam's own runs, which holds its directions itself: give "
                "it as the model, and leave out `reverse`."
            )
        if (dtype := options.get("dtype")) not in (None, "float32"):
            raise SettingsError(
                f"{name} is one of bidibeam's own runs, which computes in float32, not {dtype}."
            )
        folder, device = Path(name or ""), checkpoint.find_device(options.get("device"))
        config, network = checkpoint.load_network(folder)
        tokenizer, source_tokenizer = _load_tokenizers(folder, config)
        return cls(folder, network.to(device).eval(), tokenizer, config, device, source_tokenizer)

    @classmethod
    def describe(cls, folder: Path) -> dict[str, Any]:
        """The network's shape, the data and the training, and of an export how far its training had come."""
        config = checkpoint.read_config(folder)
        shapes = checkpoint.tensor_shapes(folder / checkpoint.WEIGHTS_FILE)
        metadata = {
            "run": str(folder),
            "parameters": sum(math.prod(shape) for shape in shapes.values()),
            "vocabulary": config.vocabulary_size,
            **({} if config.output_size is None else {"written": config.output_size}),
            "model": checkpoint.settings_mapping(config.model),
            "data": config.metadata.get("data", {}),
            "training": config.metadata.get("training", {}),
        }
        if (exported := config.metadata.get("exported")) is not None:
            metadata["progress"] = exported.get("progress", {})
            metadata["exported"] = {name: exported.get(name) for name in ("from", "precision")}
        return metadata

    @cached_property
    def fingerprint(self) -> str:
        """Tells these weights from any others."""
        return checkpoint.fingerprint_of(self.path / checkpoint.WEIGHTS_FILE)

    @property
    def signature(self) -> Signature:
        """Its weights."""
        return Signature((("model", self.fingerprint),))

    def word_vectors(self, file: Path | None = None) -> WordVectors:
        """The vectors of a file for the words it writes, or the network's own embeddings."""
        tokenizer, special = self.tokenizer, len(SPECIAL_TOKENS)
        words = tokenizer.tokens(range(special, tokenizer.vocabulary_size))
        if file is None:
            matrix = self.network.input_embeddings()[special : tokenizer.vocabulary_size].cpu().numpy()
            begin = {"word": "", "bpe": WORD_START, "char": None}[tokenizer.kind]
            return WordVectors(words, matrix, "model", begin)
        if tokenizer.kind != "word":
            what = "subwords" if tokenizer.kind == "bpe" else "characters"
            raise SettingsError(
                f"The vectors are of words, and this run writes {what}; leave them out to use the run's own "
                "embeddings."
            )
        return WordVectors.from_file(file, wanted=words)

    def check_shared_tokens(self) -> None:
        """Always true: a run has one tokenizer."""

    def check_settings(self, settings: SearchSettings) -> None:
        """Refuse bad words that it could not write; our own search follows all other settings."""
        self._spell(settings.bad_words)

    def scorer(self, direction: Direction) -> Any:
        """One direction of the network."""
        check_direction(direction, self.directions, self.path)
        if direction not in self._scorers:  # a scorer keeps the CUDA graphs of its searches
            self._scorers[direction] = self.network.scorer(direction)
        return self._scorers[direction]

    def n_best(self, direction: Direction, sources: Sequence[str], settings: SearchSettings) -> list[NBest]:
        """Search in one direction; the best of those sequences that spell one text stands for all."""
        scorer, tokenizer = self.scorer(direction), self.tokenizer
        if not sources:
            return []
        unknown = () if settings.allow_unknown else (tokenizer.unknown_id,)
        forbidden = frozenset({tokenizer.pad_id, tokenizer.start_id, *unknown})
        bad = map(direction.arrange, self._spell(settings.bad_words))
        roles = VocabularyRoles(tokenizer.start_id, tokenizer.end_id, forbidden).forbidding(bad)
        lists: list[NBest] = []
        for line in beam_search(scorer, self.encode_sources(sources), settings, roles):
            hypotheses = []
            for tokens, log_prob, length, score, finished, _ in line:
                text, words, ids = self._detokenize(tokens, direction)
                ids = ids if finished else ids[:-1]
                hypotheses.append(_make((text, words, log_prob, length, score, finished, None, 1, ids)))
            lists.append(to_n_best(hypotheses, is_end_told=False))
        return lists

    def find_unknown(self, sources: Sequence[str]) -> list[bool]:
        """Which sources have no token that the network knows."""
        unknown = {self.reader.unknown_id}
        return [{*ids} <= unknown for ids in self.reader.encode_batch(list(sources))]

    def sequence_scorer(self, direction: Direction) -> RunSequenceScorer:
        """What scores texts under one direction."""
        return RunSequenceScorer(self, direction)

    def encode_sources(self, sources: Sequence[str]) -> Tensor:
        """Sources as padded ids, (sources, length); long ones keep their last tokens."""
        encoded = self.reader.encode_batch(list(sources))
        if (longest := self.limits.max_source_length) is not None:
            encoded = [ids[-longest:] for ids in encoded]
        return pad_sources(encoded).to(self.device)

    def _spell(self, words: Sequence[str]) -> list[tuple[int, ...]]:
        """The ids of bad words, in reading order."""
        spellings = [[ids] for ids in self.tokenizer.encode_batch(words)]
        return spell_bad_words(words, spellings, self.name, {self.tokenizer.unknown_id})

    def _read_tokens(
        self, written: tuple[int, ...], direction: Direction
    ) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
        """The text and the words of ids in writing order, and the ids in reading order with the end token."""
        ids = direction.arrange(written)
        words = self.tokenizer.tokens(ids)
        return self.tokenizer.text(words), tuple(words), (*ids, self.tokenizer.end_id)


def _load_tokenizers(folder: Path, config: checkpoint.ModelConfig) -> tuple[Tokenizer, Tokenizer | None]:
    """The tokenizer of replies and any of sources, which must have the ids that the model knows."""
    file, source_file = folder / checkpoint.TOKENIZER_FILE, folder / checkpoint.SOURCE_TOKENIZER_FILE
    if config.output_size is None:
        tokenizer, source_tokenizer = Tokenizer.load(file), None
    else:
        tokenizer, source_tokenizer = load_tokenizers(file, source_file)
    for name, known, size in (
        (file.name, tokenizer, config.output_size or config.vocabulary_size),
        (source_file.name, source_tokenizer, config.vocabulary_size),
    ):
        if known is not None and known.vocabulary_size != size:
            raise RunError(
                f"{folder} has a {name} of {known.vocabulary_size} tokens, but its model knows {size}. They "
                "do not belong together: restore the tokenizer that the run was trained with."
            )
    return tokenizer, source_tokenizer


class RunSequenceScorer:
    """Scores texts under one direction of a run."""

    def __init__(self, model: RunModel, direction: Direction) -> None:
        self.model, self.direction = model, direction
        self.end_id = model.tokenizer.end_id
        self._scorer = model.scorer(direction)

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Token ids of texts in reading order, each with its end token."""
        return [(*ids, self.end_id) for ids in self.model.tokenizer.encode_batch(list(texts))]

    def log_probs(
        self,
        sources: Sequence[str],
        sequences: Sequence[Sequence[Sequence[int]]],
        *,
        first: int | None = None,
    ) -> list[list[float]]:
        """Score each source's sequences, ids in reading order; see `protocols.SequenceScorer`."""
        arrange, ends = self.direction.arrange_ended, (self.end_id,)
        written = [[arrange(tuple(ids), ends)[:first] for ids in line] for line in sequences]
        distinct = [dict.fromkeys(line) for line in written]  # beginnings have much in common
        values = self._scorer.log_probs(self.model.encode_sources(sources), [list(line) for line in distinct])
        known = [dict(zip(line, scores, strict=True)) for line, scores in zip(distinct, values, strict=True)]
        return [[scores[ids] for ids in line] for line, scores in zip(written, known, strict=True)]
