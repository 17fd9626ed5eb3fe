"""Encoder-decoder models that CTranslate2 runs: fast on a CPU, with weights in int8 or float32.

`bidibeam export MODEL --to ctranslate2` writes a folder for each direction, the tokenizers and a manifest.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.errors import RunError, SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models.base import Limits
from bidibeam.models.checkpoint import FINGERPRINT_DIGITS, find_device, hash_file
from bidibeam.models.ctranslate2.manifest import MANIFEST, Manifest
from bidibeam.models.ctranslate2.translator import DirectionalTranslator, patience_of
from bidibeam.models.huggingface.configs import check_same_tokens
from bidibeam.models.huggingface.pairs import bad_word_ids, find_unknown
from bidibeam.scores import Signature
from bidibeam.similarities.word_vectors import WordVectors

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    import torch

    from bidibeam.hypotheses import NBest
    from bidibeam.models.base import LoadOptions
    from bidibeam.search.settings import SearchSettings


class CTranslate2Model:
    """One or two translators of CTranslate2 as a `Model`, of a folder that `export_to_ctranslate2` wrote."""

    title = "CTranslate2 model"
    batch_size = 32
    default_stopping = "constant"  # CTranslate2's own rule: the beam stays B until B have finished

    def __init__(self, path: Path, *, device: torch.device) -> None:
        self.path, self.device, self.name = path, device, path.resolve().name
        self.manifest = manifest = Manifest.read(path)
        self.limits = Limits(manifest.max_source_length, manifest.max_length)
        self.data = manifest.data
        self.translators = {
            Direction(name): DirectionalTranslator(path / name, manifest, device)
            for name in manifest.directions
        }
        self.directions = tuple(self.translators)
        self._first = first = self.translators[self.directions[0]]
        self.tokenizer, self.vocabulary_size = first.tokenizer, manifest.vocabulary_size
        if first.reader is not first.tokenizer:  # tokens of sources are never written
            self.vocabulary_size = len(first.tokenizer)

    @classmethod
    def recognises(cls, path: Path) -> bool:
        """Whether a folder holds such a model."""
        return (path / MANIFEST).is_file()

    @classmethod
    def load(
        cls, name: Path | str | None, reverse: Path | str | None = None, **options: Unpack[LoadOptions]
    ) -> CTranslate2Model:
        """Load an exported folder."""
        if reverse is not None:
            raise SettingsError(
                f"{name or reverse} is a CTranslate2 model, which holds its directions itself: give it as "
                "the model, and leave out `reverse`."
            )
        if (dtype := options.get("dtype")) is not None:
            own = Manifest.read(Path(name or "")).quantization
            raise SettingsError(
                f"{name} computes in {own}: leave out `dtype` ({dtype}), or export it again with another "
                "quantization."
            )
        return cls(Path(name or ""), device=find_device(options.get("device") or "cpu"))

    @classmethod
    def describe(cls, folder: Path) -> dict[str, Any]:
        """What `bidibeam info` shows."""
        content = asdict(Manifest.read(folder))
        return {"folder": str(folder), **{name: value for name, value in content.items() if value}}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of its weights and of its manifest; int8 has another one than float32."""
        digest = hashlib.blake2b((self.path / MANIFEST).read_bytes())
        for name in self.manifest.directions:
            digest.update(hash_file(self.path / name / "model.bin").digest())
        return digest.hexdigest()[:FINGERPRINT_DIGITS]

    @property
    def signature(self) -> Signature:
        """The engine, how the weights are stored, and their fingerprint."""
        engine = f"ctranslate2-{self.manifest.quantization}"
        return Signature((("engine", engine), ("model", f"{self.name}@{self.fingerprint}")))

    def word_vectors(self, file: Path | None = None) -> WordVectors:
        """The vectors of a file."""
        if file is None:
            raise SettingsError(
                f"{self.name} does not show its embeddings: give vectors of words, or compare by bleu_t."
            )
        return WordVectors.from_file(file, wanted=None)

    def check_shared_tokens(self) -> None:
        """See that both directions have one vocabulary."""
        if len(self.translators) == 2:
            check_same_tokens(*(each.tokenizer for each in self.translators.values()))

    def check_settings(self, settings: SearchSettings) -> None:
        """Refuse a stopping rule that CTranslate2 lacks, and words and lengths that a model cannot write."""
        patience_of(settings.stopping)
        for translator in self.translators.values():
            bad_word_ids(settings.bad_words, translator.tokenizer, self.name)
        positions = self.manifest.positions
        if positions is not None and settings.max_length > positions:
            raise SettingsError(
                f"{self.name} has {positions:,} positions, too few for max_length {settings.max_length}."
            )

    def scorer(self, direction: Direction) -> None:
        """None: CTranslate2 searches by itself."""
        self.sequence_scorer(direction)

    def sequence_scorer(self, direction: Direction) -> DirectionalTranslator:
        """What scores texts under one direction."""
        if direction not in self.translators:
            raise RunError(
                f"{self.path} has no {direction.value} direction, only: {', '.join(self.directions)}."
            )
        return self.translators[direction]

    def find_unknown(self, sources: Sequence[str]) -> list[bool]:
        """Which sources have no token that the model knows."""
        return find_unknown(sources, self._first.reader)

    def n_best(self, direction: Direction, sources: Sequence[str], settings: SearchSettings) -> list[NBest]:
        """Search in one direction by CTranslate2's own beam search."""
        if not sources:
            return []
        self.check_settings(settings)
        return self.sequence_scorer(direction).n_best(sources, settings)
