"""A model and a strategy's name to a decoder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam._version import __version__
from bidibeam.api.tuned import TunedSettings
from bidibeam.decoding.decoder import Decoder, ModelGenerator, Ranker, can_score_other, split_beam
from bidibeam.errors import InputError, RunError
from bidibeam.hypotheses import Direction
from bidibeam.models.base import usual_length
from bidibeam.models.loading import load
from bidibeam.scores import Signature
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.settings import DEFAULT_SYSTEM, StrategySettings

if TYPE_CHECKING:
    from bidibeam.models.base import Model
    from bidibeam.protocols import Requirements


def load_decoder(
    model: Model | Path | str | None = None,
    strategy: StrategySettings | str | None = None,
    *,
    reverse: Path | str | None = None,
    settings: SearchSettings | None = None,
    batch_size: int | None = None,
    workers: int = 1,
    replies_only: bool = False,
    score_other: bool = False,
    tuned: TunedSettings | None = None,
) -> Decoder:
    """A decoder for any model.

    What `bidibeam tune` found for the model is used where the strategy's own options do not say otherwise.

    Args:
        model: What `bidibeam.load` takes: a run, a Hugging Face model, a CTranslate2 folder; None for the
            model that comes with the package. Or a model: what `load` returned, a `FunctionModel` of your
            own, or `bidibeam.hf.HuggingFaceModel.wrap(model, reverse, tokenizer=tokenizer)` of loaded ones.
        strategy: How to choose among hypotheses: settings, or a system's name as tables have it, "bidis" or
            "bidia wmd_t tuned"; None for what `bidibeam tune` recommends, or else "bidis" with lambda 1, or
            of a model of one direction its plain beam.
        reverse: The model that writes from the end, where it is one of its own.
        settings: How to search, `default_search` by default; a strategy that needs both directions shares the
            beam out among them.
        batch_size: Sources searched at once; the model's own choice by default.
        workers: Threads that compare hypotheses.
        replies_only: Whether the replies are enough: rankings then hold nothing else, and work that cannot
            change a reply is left out.
        score_other: Whether the other direction scores every hypothesis too, where the model has one.
        tuned: What was tuned for the model, where it has been read already.

    Raises:
        RunError: If the model lacks a direction that the strategy needs.
        InputError: If `model` is neither a name nor a model.
        UnknownNameError: If a word of the system's name is unknown.
        SettingsError: If an option or a setting is unknown or out of range, or T must be tuned first, or
            `tuned` is of other weights.
    """
    loaded = load(model, reverse) if model is None or isinstance(model, str | Path) else check_model(model)
    if tuned is not None:
        tuned.check_weights(loaded.fingerprint)
    known = tuned or TunedSettings.known_for(loaded)
    search = settings or default_search(loaded, known)
    named = StrategySettings.named(strategy) if isinstance(strategy, str) else strategy
    reason = ""
    if named is None:
        named, reason = choose_default(loaded, known or TunedSettings.find(loaded), search)
    chosen, used = _with_tuned(named, loaded, known)
    length = (known.penalty_length if known else None) or usual_length(loaded)
    built = chosen.build(max_length=length, space=lambda: loaded.word_vectors(chosen.vectors))
    requirements = built.requirements
    searches = split_beam(requirements, search, chosen.name)
    check_serves(loaded, requirements, chosen.name)
    loaded.check_settings(search)
    if requirements.scored:
        scored = requirements.directions if score_other else requirements.scored
    else:
        scored = requirements.directions if score_other and can_score_other(loaded) else ()
    other_weight = requirements.other_weight if replies_only and not score_other else None
    generator = ModelGenerator(loaded, searches, scored, other_weight=other_weight)
    metadata = (*built.signature.facts, *Signature.of_settings(search).facts)
    if used is not None:
        metadata = (*metadata, ("tuned", used.name))
    signature = Signature((*metadata, *loaded.signature.facts)).extended(bidibeam=__version__)
    return Decoder(
        generator,
        Ranker(built, workers, replies_only=replies_only),
        signature,
        batch_size or loaded.batch_size,
        prefetch=loaded.device.type != "cpu",
        find_tuned=partial(_find_options, loaded),
        system=named.system,
        reason=reason,
    )


def check_model(model: Any) -> Model:
    """Refuse what is no model, such as a network of transformers."""
    if hasattr(model, "n_best"):
        known: Model = model
        return known
    way_out = "Give a name or folder, what `bidibeam.load` returned, or a `bidibeam.FunctionModel`"
    if hasattr(model, "generate"):
        way_out = "Give `bidibeam.hf.HuggingFaceModel.wrap(model, reverse, tokenizer=tokenizer)`"
    raise InputError(f"`model` is of type {type(model).__name__}, which is not a model by itself. {way_out}.")


def choose_default(
    model: Model, tuned: TunedSettings | None, search: SearchSettings
) -> tuple[StrategySettings, str]:
    """The strategy where none is named, and why: the recommended system, or else a default that nobody tuned.

    That is BidiS, with lambda 1 if it was not tuned; or plain beam search, of a model of one direction.
    """
    default, why = StrategySettings.named(DEFAULT_SYSTEM), "the default"
    if len(model.directions) == 1:
        (only,) = model.directions
        default = StrategySettings.named("vbs" if only is Direction.REGULAR else "reverse-vbs")
        why = f"the default without a {only.other.value} model"
    if tuned is None:
        return default, f"{why}; `bidibeam tune` finds the best"
    if not tuned.has_weights(model.fingerprint):
        is_half = str(tuned.content.get("weights")) in model.fingerprint.split("+")
        whose = "one of the two models alone" if is_half else "other weights"
        return default, f"{why}; tuned.json is of {whose}: run `bidibeam tune` again"
    if tuned.recommended is None:
        is_bidis = default.name == "bidis"
        return (StrategySettings.named("bidis") if is_bidis else default), "tuned.json recommends none"
    recommended = StrategySettings.named(tuned.recommended)
    needed = tuned.apply(recommended)[0].requirements
    told = f"{why}; {tuned.recommended}, which tuned.json recommends, needs"
    if not {*needed.used} <= {*model.directions}:
        return default, f"{told} it"
    if needed.split(search.beam_size) is None:
        return default, f"{told} a wider beam"
    return recommended, "recommended by tuned.json"


def default_search(model: Model, tuned: TunedSettings | None = None, **settings: Any) -> SearchSettings:
    """Default search settings of a model: T is what its data were prepared with, plus the end token.

    Settings are fields of `SearchSettings`; None stands for the default. T, and what no reply may have, are
    as they were when the model was `tuned`.
    """
    given = {name: value for name, value in settings.items() if value is not None}
    longest = model.limits.max_length or SearchSettings().max_length
    known: dict[str, Any] = {"max_length": longest, "stopping": model.default_stopping}
    if tuned is not None and tuned.has_weights(model.fingerprint):
        known |= tuned.search
    return SearchSettings(**{**known, **given})


def check_serves(model: Model, requirements: Requirements, strategy: str) -> None:
    """Refuse a strategy whose directions a model lacks, or cannot score by each other."""
    for direction in requirements.used:
        if direction not in model.directions:
            raise RunError(
                f"The strategy {strategy} needs the {direction.value} direction, and {model.name} has only: "
                f"{', '.join(model.directions)}. Give a Hugging Face model for `{direction.value}`, train a "
                "run in both directions, or choose another `strategy`."
            )
    if requirements.scored:
        model.check_shared_tokens()


def _with_tuned(
    strategy: StrategySettings, model: Model, known: TunedSettings | None
) -> tuple[StrategySettings, TunedSettings | None]:
    """The strategy with tuned options under its own; and where those came from, if used."""
    if not (strategy.wants_tuned or strategy.unset):
        return strategy, None  # an unusable file is ignored
    found = known or TunedSettings.find(model)  # which says why it is unusable
    chosen, tuned = (strategy, None) if found is None else found.apply(strategy)
    if tuned is not None:
        tuned.check_weights(model.fingerprint)
    return chosen, tuned


def _find_options(model: Model) -> dict[str, dict[str, float]]:
    """What was tuned for a model, by system."""
    known = TunedSettings.known_for(model)
    return known.options if known else {}
