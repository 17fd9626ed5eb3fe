"""`bidibeam.hf`'s own names for `ModelGenerator` and `load_decoder`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bidibeam.api.decoders import load_decoder
from bidibeam.decoding.beams import ModelGenerator
from bidibeam.decoding.decoder import Decoder
from bidibeam.hypotheses import Beams, Direction
from bidibeam.models.huggingface.adapter import HuggingFaceModel
from bidibeam.models.huggingface.directional import DirectionalModel
from bidibeam.models.huggingface.loading import check_given_as
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.settings import StrategySettings


@dataclass(frozen=True)
class HFGenerator:
    """Fills in hypotheses by searching Hugging Face models.

    Args:
        models: The models, by direction.
        sizes: How to search, by direction; one without is not searched.
        judged: Whether the other direction scores each hypothesis too (`other_log_prob`).
        max_source_length: As `HuggingFaceModel` has it.
    """

    models: Mapping[Direction, DirectionalModel]
    sizes: Mapping[Direction, SearchSettings]
    judged: bool = False
    max_source_length: int | None = None

    def __post_init__(self) -> None:
        model = HuggingFaceModel(self.models, max_source_length=self.max_source_length)
        for direction, settings in self.sizes.items():
            model.sequence_scorer(direction)
            model.check_settings(settings)
        if self.judged:
            model.check_shared_tokens()
        scored = tuple(self.sizes) if self.judged else ()
        object.__setattr__(self, "_generator", ModelGenerator(model, self.sizes, scored))

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        """Search for every source in one batch, and keep their order."""
        generator: ModelGenerator = self._generator  # type: ignore[attr-defined]
        return generator.generate(beams)


def load_hf_decoder(
    regular: str | Path | None = None,
    reverse: str | Path | None = None,
    strategy: StrategySettings | str = "bidia",
    settings: SearchSettings | None = None,
    *,
    models: Mapping[Direction, DirectionalModel] | None = None,
    batch_size: int | None = None,
    workers: int = 1,
    replies_only: bool = False,
    score_other: bool = False,
    max_source_length: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
) -> Decoder:
    """A decoder for a pair of Hugging Face models, by the arguments of `bidibeam.load` and `load_decoder`.

    `models` are models that are loaded already, instead of `regular` and `reverse`. Sources longer than
    `max_source_length` keep their last tokens only.

    Raises:
        BidibeamError: If a model cannot be used or is missing, the two do not fit together, or a setting is
            unknown or out of range.
    """
    if models is None:
        models = HuggingFaceModel.load(regular, reverse, device=device, dtype=dtype).models
        if reverse is None and len(models) == 1:
            check_given_as(Direction.REGULAR, *models.values())
    model = HuggingFaceModel(models, dtype, max_source_length)
    return load_decoder(
        model,
        strategy,
        settings=settings or SearchSettings(stopping=model.default_stopping),
        batch_size=batch_size,
        workers=workers,
        replies_only=replies_only,
        score_other=score_other,
    )
