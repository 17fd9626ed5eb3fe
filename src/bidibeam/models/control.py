"""The control of both ends: a second regular network in the reverse one's place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models.base import Model, compare_tokens
from bidibeam.scores import Signature

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.hypotheses import NBest
    from bidibeam.protocols import SequenceScorer, StepScorer
    from bidibeam.search.settings import SearchSettings

OTHER_TOKENS = "The control {} has other tokens: {}. Train it on the same prepared data, with another seed."


@dataclass(frozen=True, eq=False)
class ControlModel:
    """A model whose two "directions" both write from left to right: two networks, such as two seeds.

    Every strategy of both ends runs on it unchanged. A gain over it is not explained by a second
    model alone.
    """

    model: Model
    control: Model

    def __post_init__(self) -> None:
        check_control(self.model, self.control)

    directions = (Direction.REGULAR, Direction.REVERSE)
    path = None

    @property
    def name(self) -> str:
        """Both names."""
        return f"{self.model.name} and {self.control.name}"

    @property
    def fingerprint(self) -> str:
        """Both fingerprints."""
        return f"{self.model.fingerprint}+{self.control.fingerprint}"

    @property
    def signature(self) -> Signature:
        """The model's, and which weights stand in the reverse direction's place."""
        return self.model.signature.extended(control=self.control.fingerprint)

    def __getattr__(self, name: str) -> Any:
        """Delegates other attributes to the first model."""
        return getattr(self.model, name)

    def check_shared_tokens(self) -> None:
        """Does nothing: the two were compared when they were put together."""

    def n_best(self, direction: Direction, sources: Sequence[str], settings: SearchSettings) -> list[NBest]:
        """Search one of the two, from left to right."""
        return self._of(direction).n_best(Direction.REGULAR, sources, settings)

    def sequence_scorer(self, direction: Direction) -> SequenceScorer:
        """What scores texts under one of the two."""
        return self._of(direction).sequence_scorer(Direction.REGULAR)

    def scorer(self, direction: Direction) -> StepScorer[Any] | None:
        """One of the two as a step scorer."""
        return self._of(direction).scorer(Direction.REGULAR)

    def _of(self, direction: Direction) -> Model:
        return self.model if direction is Direction.REGULAR else self.control


def check_control(model: Model, control: Model) -> None:
    """Refuse a control that cannot stand beside a model.

    That is one of other tokens or of the same weights, or where one of them has no regular direction.
    """
    check_regular(model)
    check_regular(control)
    if model.fingerprint and model.fingerprint == control.fingerprint:
        raise SettingsError(
            f"The control {control.name} has the same weights as {model.name}: give one that was trained "
            "with another seed."
        )
    if None not in (model.tokenizer, control.tokenizer):
        check_control_tokens(model.tokenizer, control)
    elif model.vocabulary_size != control.vocabulary_size:  # functions, which do not list their tokens
        difference = f"{control.vocabulary_size} in place of {model.vocabulary_size}"
        raise SettingsError(OTHER_TOKENS.format(control.name, difference))


def check_regular(model: Model) -> None:
    """Refuse a model without a regular direction."""
    if Direction.REGULAR not in model.directions:
        raise SettingsError(f"{model.name} has no regular direction, and a control compares two.")


def check_control_tokens(tokenizer: Any, control: Model) -> None:
    """Refuse a control with other tokens than those of a tokenizer."""
    if (difference := compare_tokens(tokenizer, control.tokenizer)) is not None:
        raise SettingsError(OTHER_TOKENS.format(control.name, difference))


def describe_other_data(name: str, *, control: str | None, model: str | None) -> str:
    """A sentence if a control was trained on other data than a model, by their fingerprints; else empty."""
    if None in (control, model) or control == model:
        return ""
    return (
        f"The control {name} was trained on other data (fingerprint {control}, not {model}): what it lacks "
        "is not the other end alone, so gains over it say little."
    )
