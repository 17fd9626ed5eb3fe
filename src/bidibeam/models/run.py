"""A run of our own training as a `Model`: a folder with a network, its tokenizer and what training knew."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.data.batching import pad_sources
from bidibeam.data.tokenization import SPECIAL_TOKENS, WORD_START, Tokenizer
from bidibeam.errors import RunError, SettingsError
from bidibeam.hypotheses import Direction, Hypothesis, NBest
from bidibeam.models import checkpoint
from bidibeam.models.base import Limits
from bidibeam.models.networks import NETWORKS
from bidibeam.scores import Signature
from bidibeam.search.beam import beam_search
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from bidibeam.similarities.word_vectors import WordVectors

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from bidibeam.search.backpointers import ScoredSequence

FINGERPRINT_DIGITS = 12
KNOWN_TEXTS = 1 << 16
"""Replies whose text is kept: sources have many in common."""
_make = partial(tuple.__new__, Hypothesis)  # searches make tens of thousands, and keywords take their time


@dataclass(frozen=True)
class RunModel:
    """A trained run, loaded.

    Attributes:
        path: Its folder.
        network: The network with the best weights.
        tokenizer: Its tokenizer.
        config: What config.json says.
        device: Where the network is.
    """

    path: Path
    network: Any
    tokenizer: Tokenizer
    config: checkpoint.ModelConfig
    device: torch.device
    _detokenize: Any = field(init=False, repr=False, compare=False)
    _scorers: dict[Direction, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_detokenize", lru_cache(KNOWN_TEXTS)(self._read_tokens))

    @classmethod
    def recognises(cls, folder: Path) -> bool:
        """Whether a folder holds a run of our own training."""
        return checkpoint.is_run(folder)

    @classmethod
    def load(
        cls,
        name: Path | str | None,
        reverse: Path | str | None = None,
        *,
        device: str | None = None,
        dtype: str | None = None,
        trust_remote_code: bool = False,  # noqa: ARG003 (a run holds no code)
    ) -> RunModel:
        """Load a run directory."""
        if reverse is not None:
            raise SettingsError(
                f"{name or reverse} is one of bidibeam's own runs, which holds its directions itself: give "
                "it as the model, and leave out `reverse`."
            )
        if dtype not in (None, "float32"):
            raise SettingsError(
                f"{name} is one of bidibeam's own runs, which computes in float32, not {dtype}."
            )
        folder, place = Path(name or ""), checkpoint.find_device(device)
        config = checkpoint.read_config(folder)
        tokenizer = Tokenizer.load(folder / checkpoint.TOKENIZER_FILE)
        network = NETWORKS.get(config.architecture)(config.model, config.vocabulary_size)
        weights = checkpoint.read_weights(folder / checkpoint.WEIGHTS_FILE)
        checkpoint.check_weights(weights, network.state_dict(), folder)
        network.load_state_dict(weights)
        checkpoint.check_vocabulary(folder, config.vocabulary_size, tokenizer.vocabulary_size)
        return cls(folder, network.to(place).eval(), tokenizer, config, place)

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.path.resolve().name

    @property
    def directions(self) -> tuple[Direction, ...]:
        """The directions it writes in."""
        return tuple(self.network.directions)

    @property
    def limits(self) -> Limits:
        """The longest source and response that the data were prepared with."""
        settings = self.data.get("settings", {})
        source, response = (settings.get(f"max_{name}_length") for name in ("source", "response"))
        return Limits(*(length if isinstance(length, int) else None for length in (source, response)))

    @cached_property
    def fingerprint(self) -> str:
        """Tells these weights from any others."""
        return fingerprint_of(self.path / checkpoint.WEIGHTS_FILE)

    @property
    def signature(self) -> Signature:
        """Its weights."""
        return Signature((("model", self.fingerprint),))

    @property
    def default_stopping(self) -> str:
        """The paper's rule."""
        return "shrinking"

    @property
    def vocabulary_size(self) -> int:
        """The number of tokens it chooses among."""
        return self.config.vocabulary_size

    @property
    def data(self) -> dict[str, Any]:
        """What training knew of its data."""
        known: dict[str, Any] = self.config.facts.get("data", {})
        return known

    @property
    def batch_size(self) -> int:
        """How many sources to search at once: more keep a GPU busy."""
        return 32 if self.device.type == "cpu" else 512

    def word_vectors(self, file: Path | None = None) -> WordVectors:
        """The vectors of a file for the words it writes, or the network's own embeddings."""
        tokenizer, special = self.tokenizer, len(SPECIAL_TOKENS)
        words = tokenizer.tokens(range(special, tokenizer.vocabulary_size))
        if file is None:
            matrix = self.network.input_embeddings()[special:].cpu().numpy()
            return WordVectors(words, matrix, "model", WORD_START if tokenizer.kind == "bpe" else "")
        if tokenizer.kind != "word":
            raise SettingsError(
                "The vectors are of words, and this run writes subwords; leave them out to use the run's own "
                "embeddings."
            )
        return WordVectors.from_file(file, wanted=words)

    def check_shared_tokens(self) -> None:
        """Nothing to see to: a run has one tokenizer."""

    def check_settings(self, settings: SearchSettings) -> None:
        """Nothing to see to: our own search follows all settings."""

    def scorer(self, direction: Direction) -> Any:
        """One direction of the network."""
        if direction not in self.directions:
            raise RunError(
                f"{self.path} has no {direction.value} decoder, only: {', '.join(self.directions)}. "
                "Train one with both directions, or choose a strategy that does without."
            )
        if direction not in self._scorers:  # a scorer keeps the CUDA graphs of its searches
            self._scorers[direction] = self.network.scorer(direction)
        return self._scorers[direction]

    def n_best(self, direction: Direction, sources: Sequence[str], settings: SearchSettings) -> list[NBest]:
        """Search in one direction: the hypotheses of each source, best first, in reading order."""
        scorer = self.scorer(direction)
        if not sources:
            return []
        found = beam_search(scorer, self.read_sources(sources), settings, self._roles(settings))
        return [self._to_hypotheses(line, direction) for line in found]

    def sequence_scorer(self, direction: Direction) -> RunSequenceScorer:
        """What scores texts under one direction."""
        return RunSequenceScorer(self, direction)

    def read_sources(self, sources: Sequence[str]) -> Tensor:
        """Sources as padded ids, (sources, length); long ones keep their last tokens."""
        encoded = self.tokenizer.encode_batch(list(sources))
        if (longest := self.limits.max_source_length) is not None:
            encoded = [ids[-longest:] for ids in encoded]
        return pad_sources(encoded).to(self.device)

    def _roles(self, settings: SearchSettings) -> VocabularyRoles:
        tokenizer = self.tokenizer
        forbidden = {tokenizer.pad_id, tokenizer.start_id}
        if not settings.allow_unknown:
            forbidden.add(tokenizer.unknown_id)
        return VocabularyRoles(tokenizer.start_id, tokenizer.end_id, frozenset(forbidden))

    def _to_hypotheses(self, sequences: Sequence[ScoredSequence], direction: Direction) -> NBest:
        """Put sequences into reading order; the best of those that spell one text stands for all."""
        found: dict[str, Hypothesis] = {}
        for tokens, log_prob, length, score, finished, _ in sequences:
            text, words, ids = self._detokenize(tokens, direction)
            if (known := found.get(text)) is not None:
                found[text] = known._replace(multiplicity=known.multiplicity + 1)
                continue
            ids = ids if finished else ids[:-1]
            found[text] = _make((text, words, log_prob, length, score, finished, None, 1, ids))
        return NBest(tuple(found.values()))

    def _read_tokens(
        self, written: tuple[int, ...], direction: Direction
    ) -> tuple[str, tuple[str, ...], tuple[int, ...]]:
        """The text and the words of ids in writing order, and the ids in reading order with the end token."""
        ids = direction.arrange(written)
        words = self.tokenizer.tokens(ids)
        return self.tokenizer.text(words), tuple(words), (*ids, self.tokenizer.end_id)


class RunSequenceScorer:
    """Scores texts under one direction of a run.

    Args:
        model: The run.
        direction: The direction.
    """

    def __init__(self, model: RunModel, direction: Direction) -> None:
        self.model, self.direction = model, direction
        self._scorer = model.scorer(direction)

    @property
    def end_id(self) -> int:
        """The end token."""
        return self.model.tokenizer.end_id

    def encode(self, texts: Sequence[str]) -> list[tuple[int, ...]]:
        """Token ids of texts in reading order, each with its end token."""
        tokenizer = self.model.tokenizer
        return [(*ids, tokenizer.end_id) for ids in tokenizer.encode_batch(list(texts))]

    def log_probs(
        self,
        sources: Sequence[str],
        sequences: Sequence[Sequence[Sequence[int]]],
        *,
        first: int | None = None,
    ) -> list[list[float]]:
        """Score each source's sequences, ids in reading order; see `protocols.SequenceScorer`."""
        written = [[self._arrange(tuple(ids))[:first] for ids in line] for line in sequences]
        distinct = [dict.fromkeys(line) for line in written]  # beginnings have much in common
        values = self._scorer.log_probs(self.model.read_sources(sources), [list(line) for line in distinct])
        known = [dict(zip(line, found, strict=True)) for line, found in zip(distinct, values, strict=True)]
        return [[found[ids] for ids in line] for line, found in zip(written, known, strict=True)]

    def _arrange(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """Reading order to writing order; the end token stays last."""
        if ids and ids[-1] == self.model.tokenizer.end_id:
            return (*self.direction.arrange(ids[:-1]), ids[-1])
        return self.direction.arrange(ids)


def fingerprint_of(weights: Path) -> str:
    """A short hash of a file of weights."""
    with weights.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()[:FINGERPRINT_DIGITS]
