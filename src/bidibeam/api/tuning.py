"""Tuning a model's strategies on the validation pairs of its data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.api.decoders import load_decoder
from bidibeam.api.tuned import SPLIT, TUNED_FILE, merge_with_earlier, write_tuned
from bidibeam.data.prepared import PreparedData
from bidibeam.errors import InputError, SettingsError
from bidibeam.evaluation.systems import TUNED_STRATEGIES, TUNED_VBS
from bidibeam.hypotheses import Beams
from bidibeam.strategies.settings import StrategySettings
from bidibeam.strategies.tuning import TuningResult, tune, tune_penalty

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bidibeam.decoding.decoder import Answer
    from bidibeam.models.base import Model
    from bidibeam.search.settings import SearchSettings

PENALISED = ("bidia bleu_t", "bidia wmd_t")
"""Systems whose T is tuned, on both beams, unless others are named."""
CLOSEST = {"answer": "regular", "agreement": "closest"}
"""All of bidia's options, since what is not said would be looked up in the tuned.json that is to be made."""


@dataclass(frozen=True)
class TuningTargets:
    """What is to be tuned: some of `TUNED_STRATEGIES`, and by its name each system whose T is wanted."""

    lengths: tuple[str, ...]
    penalised: dict[str, StrategySettings]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all."""
        return (*self.lengths, *self.penalised)

    @classmethod
    def parse(cls, names: Iterable[str]) -> TuningTargets:
        """Read the names of systems; one that is unknown, or has nothing to tune, is refused."""
        lengths, penalised = [], {}
        for name in names:
            settings = StrategySettings.named(name)
            if settings.name in TUNED_STRATEGIES:
                lengths.append(settings.name)
            elif settings.compares:
                replace(settings, wants_tuned=True).check_penalty()
                penalised[settings.untuned] = replace(settings, wants_tuned=False)
            else:
                choices = ", ".join((*TUNED_STRATEGIES, *PENALISED))
                raise SettingsError(f"There is nothing to tune of {name}. Choose among: {choices}.")
        return cls(tuple(dict.fromkeys(lengths)), penalised)

    @classmethod
    def all_of(cls, model: Model, settings: SearchSettings, vectors: Path | None) -> TuningTargets:
        """All that the model has directions and vectors for, and the search hypotheses."""
        if len(model.directions) < 2:
            return cls.parse([TUNED_VBS])
        penalised = PENALISED if vectors is not None or has_word_vectors(model) else PENALISED[:1]
        return cls.parse([*TUNED_STRATEGIES, *(penalised if settings.beam_size > 1 else ())])

    def check_vectors(self, vectors: Path | None) -> None:
        """Refuse vectors that nothing uses."""
        if vectors is not None and not any(each.uses_vectors for each in self.penalised.values()):
            raise SettingsError("Nothing that is tuned uses word vectors: leave `vectors` out.")


def has_word_vectors(model: Model) -> bool:
    """Whether a model's own embeddings are vectors of words."""
    try:
        model.word_vectors()
    except SettingsError:
        return False
    return True


def open_tuning_data(model: Model, data: Path | None = None) -> PreparedData:
    """The prepared data that a model was trained on: those at `data`, or where they were at training.

    Raises:
        SettingsError: If that is not known, or they are others, or the model has no folder for what is found.
    """
    if model.path is None:
        raise SettingsError(
            f"tuned.json goes into the folder of the regular model, and {model.name} has none: save that "
            "model into a folder first, with save_pretrained."
        )
    known = model.data
    path = data or (Path(known["path"]) if "path" in known else None)
    if path is None:
        raise SettingsError(
            f"{model.path} does not say where its data are: give `data`, the folder of the prepared data."
        )
    if data is None and not path.is_dir():
        raise SettingsError(
            f"The data of {model.path} are not at {path} any more: give `data`, the folder where they are."
        )
    prepared = PreparedData.open(path)
    trained_on = known.get("fingerprint")
    if trained_on is not None and prepared.fingerprint != trained_on:
        raise SettingsError(
            f"{path} holds other data than {model.path} was trained on (fingerprint {prepared.fingerprint}, "
            f"not {trained_on}): give those as `data`."
        )
    return prepared


def tune_model(
    model: Model,
    data: PreparedData,
    settings: SearchSettings,
    targets: TuningTargets,
    *,
    vectors: Path | None = None,
    sources: int | None = None,
    batch_size: int | None = None,
    track: Callable[[Iterable[Answer], int, str], Iterable[Answer]] = lambda answers, _total, _what: answers,
) -> tuple[TuningResult, TuningResult, list[str]]:
    """Tune on the validation split, and write tuned.json beside the model.

    Args:
        model: The model.
        data: The data it was trained on.
        settings: How to search.
        targets: What to tune.
        vectors: Word vectors for similarities that need some; the model's own by default.
        sources: How many validation sources to use, the first ones; all by default.
        batch_size: Sources searched at once.
        track: Shows progress: answers, how many there will be, and what is being done.

    Returns:
        What was found; that together with what tuned.json had for other systems; and the names of systems
        whose entry is lost because it was tuned for another search.
    """
    assert model.path is not None
    examples = [
        Beams(example["id"], example["source"], tuple(example["references"]))
        for example in islice(data.examples(SPLIT), sources)
    ]
    if not examples:
        raise InputError(f"{data.path} has no {SPLIT} pairs to tune on. Prepare more conversations.")

    def search(strategy: StrategySettings, **options: Any) -> list[Beams]:
        decoder = load_decoder(model, strategy, settings=settings, batch_size=batch_size, **options)
        answers = track(decoder.answers(examples), len(examples), f"searching for {strategy.name}")
        return [answer.beams for answer in answers]

    tuned = TuningResult({}, {}, (), len(examples))
    if targets.lengths:
        if "bidis" in targets.lengths:
            beams = search(StrategySettings("bidis", options={"lambda_": 1.0}), score_other=True)
        else:
            beams = search(StrategySettings("vbs"))
        unasked = [name for name in TUNED_STRATEGIES if name not in targets.lengths]
        tuned = tuned.merge(tune(beams, search=settings).without(unasked))
    if targets.penalised:
        beams = search(StrategySettings("bidia", options=CLOSEST), replies_only=True)
        both = [line for line in beams if len(line.regular) and len(line.reverse)]
        space = lambda: model.word_vectors(vectors)  # noqa: E731
        tuned = tuned.merge(tune_penalty(both, targets.penalised, space=space, search=settings))
    conditions: Any = {"search": settings, "weights": model.fingerprint}
    whole, lost = merge_with_earlier(model.path / TUNED_FILE, tuned, **conditions)
    write_tuned(model.path / TUNED_FILE, whole, **conditions)
    return tuned, whole, lost
