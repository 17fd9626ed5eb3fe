"""What a model makes of texts that anybody wrote: one of our runs, or a Hugging Face model."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from bidibeam.errors import InputError, RunError, SettingsError, TransformersMissingError
from bidibeam.hypotheses import Direction
from bidibeam.models.checkpoint import CONFIG_FILE
from bidibeam.models.loading import bundled_path
from bidibeam.models.run import RunModel

if TYPE_CHECKING:
    from bidibeam.models.huggingface.directional import DirectionalModel


class Asked(NamedTuple):
    """A text to be scored.

    Attributes:
        text: The text.
        has_end: Whether its end is scored too, as that of a reply that was not cut off.
    """

    text: str
    has_end: bool = True


class TextScore(NamedTuple):
    """What a model says of a text.

    Attributes:
        log_prob: Its log-probability.
        length: How many tokens that was summed over.
    """

    log_prob: float
    length: int


class TextScorer(Protocol):
    """One direction of a model, asked about texts."""

    @property
    def direction(self) -> Direction:
        """In which order it would write them."""
        ...

    @property
    def label(self) -> str:
        """What tells it from other models."""
        ...

    def scores(self, sources: Sequence[str], texts: Sequence[Sequence[Asked]]) -> list[list[TextScore]]:
        """Score each source's texts.

        Raises:
            EmptyTextError: If a text has no token at all.
        """
        ...


class EmptyTextError(InputError):
    """A text that has no token under a model's tokenizer.

    Args:
        source: The number of its source.
        place: Its place among the source's texts.
        label: The model.
    """

    def __init__(self, source: int, place: int, label: str) -> None:
        super().__init__(f"Text {place} of source {source} has no token under the tokenizer of {label}.")
        self.source, self.place, self.label = source, place, label


def load_text_scorers(
    name: str | Path | None = None, direction: Direction | None = None, *, device: str | None = None
) -> list[TextScorer]:
    """A model's directions, or one of them.

    Args:
        name: A run, a Hugging Face model's folder or its name on the Hub; None for the package's own model.
        direction: The only one that is wanted; all that the model has by default. It also tells the direction
            of a Hugging Face model whose config does not.
        device: "cpu", "cuda", "cuda:1"; the first GPU, if there is one, by default.

    Raises:
        BidibeamError: If there is no such model, or it does not have the direction.
    """
    if name is None or is_run(Path(name)):
        run = RunModel.load(bundled_path() if name is None else name, device=device)
        wanted = list(run.directions) if direction is None else [direction]
        return [RunTexts(run, each) for each in wanted]
    return [HFTexts(loaded) for loaded in _loaded(name, direction, device)]


@contextmanager
def needing_transformers(what: str) -> Iterator[None]:
    """Import what needs transformers, or tell how to install it.

    Args:
        what: What needs it, as the message begins.

    Raises:
        TransformersMissingError: If it is not there.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise TransformersMissingError(
            f"{what} needs transformers, which is not installed: pip install 'bidibeam[hf]'"
        ) from error


def is_run(folder: Path) -> bool:
    """Whether a folder is one of bidibeam's own runs, and no Hugging Face model."""
    try:
        content = json.loads((folder / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and "format_version" in content and "model_type" not in content


def _loaded(name: str | Path, direction: Direction | None, device: str | None) -> list[DirectionalModel]:
    from bidibeam.models.huggingface.directions import FIELD

    with needing_transformers(f"The model {name}"):
        from bidibeam.models.huggingface.loading import load_models
    models: dict[Direction, DirectionalModel] = load_models(name, device=device)
    if direction is None or direction in models:
        return [loaded for each, loaded in models.items() if direction in (None, each)]
    (loaded,) = models.values()
    if getattr(loaded.model.config, FIELD, None) is None:
        return [replace(loaded, direction=direction)]
    raise SettingsError(
        f"{loaded.name} is a {loaded.direction.value} model by its config: leave out --direction "
        f"{direction.value}."
    )


@dataclass(frozen=True)
class RunTexts:
    """One direction of a run, asked about texts.

    Args:
        run: The run.
        direction: The direction.

    Raises:
        RunError: If the run has no such decoder.
    """

    run: RunModel
    direction: Direction
    _scorer: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.direction not in self.run.directions:
            raise RunError(
                f"{self.run.path} has no {self.direction.value} decoder, only: "
                f"{', '.join(self.run.directions)}."
            )
        object.__setattr__(self, "_scorer", self.run.scorer(self.direction))

    @property
    def label(self) -> str:
        """The folder's name and its weights' fingerprint."""
        return f"{self.run.path.resolve().name}@{self.run.fingerprint}"

    def scores(self, sources: Sequence[str], texts: Sequence[Sequence[Asked]]) -> list[list[TextScore]]:
        """Score each source's texts."""
        tokenizer = self.run.tokenizer
        encoded = iter(tokenizer.encode_batch([each.text for line in texts for each in line]))
        sequences: list[list[tuple[int, ...]]] = []
        for number, line in enumerate(texts):
            sequences.append([])
            for place, asked in enumerate(line):
                ids = self.direction.arrange(tuple(next(encoded)))
                if not ids:
                    raise EmptyTextError(number, place, self.label)
                sequences[-1].append((*ids, tokenizer.end_id) if asked.has_end else ids)
        found = self._scorer.log_probs(self.run.read_sources(sources), sequences)
        return _with_lengths(found, sequences)


@dataclass(frozen=True)
class HFTexts:
    """A Hugging Face model, asked about texts.

    Args:
        loaded: The model.
    """

    loaded: DirectionalModel
    _scorer: Any = field(init=False, repr=False)
    _special: frozenset[int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        from bidibeam.models.huggingface.adapter import HFSequenceScorer
        from bidibeam.models.huggingface.labels import special_ids

        object.__setattr__(self, "_scorer", HFSequenceScorer(self.loaded))
        object.__setattr__(self, "_special", special_ids(self.loaded.tokenizer))

    @property
    def direction(self) -> Direction:
        """In which order it would write them."""
        return self.loaded.direction

    @property
    def label(self) -> str:
        """Its name and fingerprint."""
        return self.loaded.label

    def scores(self, sources: Sequence[str], texts: Sequence[Sequence[Asked]]) -> list[list[TextScore]]:
        """Score each source's texts, tokenised as the model's targets are."""
        encoded = iter(self._scorer.encode([each.text for line in texts for each in line]))
        sequences = [
            [self._sequence(next(encoded), asked, number, place) for place, asked in enumerate(line)]
            for number, line in enumerate(texts)
        ]
        return _with_lengths(self._scorer.log_probs(sources, sequences), sequences)

    def _sequence(self, ids: tuple[int, ...], asked: Asked, number: int, place: int) -> tuple[int, ...]:
        if self._special.issuperset(ids):
            raise EmptyTextError(number, place, self.label)
        if asked.has_end:
            return ids
        return ids[: max(index for index, token in enumerate(ids) if token == self._scorer.end_id)]


def _with_lengths(
    found: Sequence[Sequence[float]], sequences: Sequence[Sequence[Sequence[Any]]]
) -> list[list[TextScore]]:
    return [
        [TextScore(value, len(sequence)) for value, sequence in zip(values, line, strict=True)]
        for values, line in zip(found, sequences, strict=True)
    ]
