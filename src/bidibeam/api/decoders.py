"""A run and a strategy's name to a decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bidibeam._version import __version__
from bidibeam.api.runs import Run, load_run
from bidibeam.api.tuned import TUNED_FILE, TunedSettings
from bidibeam.data.tokenization import SPECIAL_TOKENS, WORD_START, Tokenizer
from bidibeam.decoding.beams import Search, SearchGenerator
from bidibeam.decoding.decoder import Decoder, Ranker
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models.gru.pairs import side_by_side
from bidibeam.models.gru.scorer import GRUScorer
from bidibeam.protocols import Requirements
from bidibeam.scores import Signature
from bidibeam.search.settings import SearchSettings
from bidibeam.similarities.spaces import WordVectors
from bidibeam.strategies.naming import SystemName
from bidibeam.strategies.settings import StrategySettings

HOST_BATCH, DEVICE_BATCH = 32, 512


def load_decoder(
    run: Run | Path | str | None = None,
    strategy: StrategySettings | str = "bidia",
    *,
    settings: SearchSettings | None = None,
    batch_size: int | None = None,
    workers: int = 1,
    replies_only: bool = False,
    score_other: bool = False,
) -> Decoder:
    """A decoder for a run.

    What `bidibeam tune` found for the run is used where the strategy's own options do not say otherwise.

    Args:
        run: A run, or its directory; None for the model that comes with the package.
        strategy: How to choose among hypotheses: settings, or a system's name as tables have it, "bidis" or
            "bidia wmd_t tuned".
        settings: How to search; a strategy that needs both directions shares the beam out among them.
        batch_size: Sources searched at once; 32 by default, 512 on a GPU.
        workers: Threads that compare hypotheses; replies depend on neither.
        replies_only: Whether the replies are enough: rankings then hold nothing else, and work that cannot
            change a reply is left out.
        score_other: Whether the other direction scores every hypothesis too, where the run has one.

    Raises:
        RunError: If the run lacks a direction that the strategy needs.
        UnknownNameError: If a word of the system's name is unknown.
        SettingsError: If an option or a setting is unknown or out of range, or T must be tuned first.
    """
    loaded = run if isinstance(run, Run) else load_run(run)
    search = settings or SearchSettings()
    chosen, tuned = _tuned(
        loaded, SystemName.of(strategy).settings() if isinstance(strategy, str) else strategy
    )
    selection = chosen.build(max_length=search.max_length, space=lambda: space_of(loaded, chosen.vectors))
    requirements = selection.requirements
    wanted = requirements.directions
    if requirements.other_weight is None:
        wanted = tuple(each for each in wanted if score_other and each.other in loaded.model.directions)
    generator = _generator(
        loaded,
        _searches(loaded, requirements, search, chosen.name),
        judged=wanted,
        other_weight=requirements.other_weight if replies_only and not score_other else None,
    )
    facts = Signature.of_settings(search).facts + (() if tuned is None else (("tuned", tuned.name),))
    signature = Signature(selection.signature.facts + facts)
    return Decoder(
        generator,
        Ranker(selection, workers, replies_only=replies_only),
        signature.extended(model=loaded.fingerprint, bidibeam=__version__),
        batch_size or default_batch(loaded),
        ahead=is_on_device(loaded),
    )


def load_generator(
    run: Run, directions: Sequence[Direction], settings: SearchSettings, *, judged: Sequence[Direction] = ()
) -> SearchGenerator:
    """What searches beams, all of the settings' size, for no strategy in particular.

    Args:
        run: A run.
        directions: What to search.
        settings: How.
        judged: Directions whose hypotheses the other one scores too.

    Raises:
        RunError: If the run lacks a direction.
    """
    scorers = [GRUScorer(run.model, direction) for direction in directions]
    if len(scorers) == 2:
        return _generator(run, (Search(side_by_side(*scorers), tuple(directions), settings),), judged=judged)
    searches = tuple(
        Search(scorer, (direction,), settings) for scorer, direction in zip(scorers, directions, strict=True)
    )
    return _generator(run, searches, judged=judged)


def default_batch(run: Run) -> int:
    """How many sources to search at once: more keep a GPU busy."""
    return DEVICE_BATCH if is_on_device(run) else HOST_BATCH


def is_on_device(run: Run) -> bool:
    """Whether something else than the CPU searches, while the interpreter may rank."""
    return run.device.type != "cpu"


def _generator(
    run: Run,
    searches: tuple[Search, ...],
    *,
    judged: Sequence[Direction],
    other_weight: float | None = None,
) -> SearchGenerator:
    return SearchGenerator(
        run.tokenizer,
        searches,
        opinions={direction.other: GRUScorer(run.model, direction.other) for direction in judged},
        other_weight=other_weight,
        max_source_length=run.max_source_length,
        device=run.device,
    )


def _tuned(run: Run, strategy: StrategySettings) -> tuple[StrategySettings, TunedSettings | None]:
    """The strategy with tuned options under its own, and where those came from, if any was used."""
    path = run.path / TUNED_FILE
    is_open = strategy.wants_tuned or strategy.unset
    if not is_open or not path.is_file():  # not read in vain: `tune` itself must get past a bad one
        return strategy, None
    tuned = TunedSettings(path)
    chosen = strategy.with_tuned(tuned.options)
    if chosen == strategy:
        return strategy, None
    tuned.check_weights(run.fingerprint)
    return chosen, tuned


def _searches(
    run: Run, requirements: Requirements, settings: SearchSettings, strategy: str
) -> tuple[Search, ...]:
    """Searches for all that a strategy needs: both directions at once where their beams are equally wide."""
    parts = len(requirements.directions)
    if settings.beam_size < parts:
        raise SettingsError(
            f"--beam-size must be at least {parts} for {strategy}, which shares it out among the "
            f"directions, not {settings.beam_size}."
        )
    scorers = [GRUScorer(run.model, direction) for direction in requirements.directions]
    if parts == 2 and settings.beam_size % parts == 0:
        half = replace(settings, beam_size=settings.beam_size // parts)
        return (Search(side_by_side(*scorers), requirements.directions, half),)
    small, larger = divmod(settings.beam_size, parts)
    return tuple(
        Search(scorer, (direction,), replace(settings, beam_size=small + (index < larger)))
        for index, (direction, scorer) in enumerate(zip(requirements.directions, scorers, strict=True))
    )


def space_of(run: Run, vectors: Path | None) -> WordVectors:
    """The vectors of a file, or the network's own embeddings."""
    if vectors is not None:
        return space_of_file(run.tokenizer, vectors)
    tokenizer = run.tokenizer
    ids = range(len(SPECIAL_TOKENS), tokenizer.vocabulary_size)
    matrix = run.model.embedding(0).weight.detach()[len(SPECIAL_TOKENS) :].cpu().numpy()
    return WordVectors(tokenizer.tokens(ids), matrix, "model", WORD_START if tokenizer.kind == "bpe" else "")


def space_of_file(tokenizer: Tokenizer, vectors: Path) -> WordVectors:
    """The vectors of a file, for the words that a tokenizer writes.

    Raises:
        SettingsError: If it writes no words.
    """
    if tokenizer.kind == "word":
        ids = range(len(SPECIAL_TOKENS), tokenizer.vocabulary_size)
        return WordVectors.from_file(vectors, wanted=tokenizer.tokens(ids))
    raise SettingsError(
        "The vectors are of words, and this run writes subwords; leave them out to use the run's own "
        "embeddings."
    )
