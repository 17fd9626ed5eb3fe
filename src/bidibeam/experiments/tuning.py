"""Lambda, the length settings and T of a seed, for every N_B, on what was found for the validation split."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from bidibeam.api.tuned import TUNED_FILE, write_tuned
from bidibeam.experiments.layout import VALIDATION, BeamFiles, SeedLayout
from bidibeam.experiments.measuring import words_of
from bidibeam.experiments.plan import TUNED_STRATEGIES, Plan, read_json
from bidibeam.hypotheses import Direction
from bidibeam.metrics import METRICS
from bidibeam.protocols import Requirements
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.naming import strategy_named
from bidibeam.strategies.tuning import TuningResult, tune, tune_penalty


def tune_sizes(plan: Plan, place: SeedLayout) -> None:
    """Tune for every N_B and write what was found; what is found for the largest goes to the run as well."""
    settings = plan.settings
    fingerprint = read_json(place.model)["weights"]
    metric = METRICS.create("bleu").score([["a"]], [["a"]]).signature
    files = BeamFiles({size: place.beams(VALIDATION, size) for size in plan.beams[VALIDATION]})
    space = cache(lambda: words_of(place, plan.vectors))
    notes: list[str] = []
    for size in plan.audience.track(plan.tuned_sizes, len(plan.tuned_sizes), "tuning by N_B"):
        tuned = _tuned(plan, size, files, space)
        if size > 1:  # one hypothesis is chosen whatever the settings
            notes.extend(f"N_B = {size}: {note}" for note in (tuned.end_note, tuned.flat_note) if note)
        targets = [place.tuned(size)]
        if size == settings.largest:
            targets.append(place.run / TUNED_FILE)
        for path in targets:
            write_tuned(
                path,
                tuned,
                search=settings.searching(size),
                weights=fingerprint,
                split=VALIDATION,
                metric=metric,
            )
    if notes:
        plan.audience.note(" ".join(notes))


def _tuned(plan: Plan, size: int, files: BeamFiles, space: Callable[[], WordVectors]) -> TuningResult:
    """Lambda and the length settings on the regular beam, and T on both."""
    tuned, search = TuningResult({}, {}, (), 0), plan.settings.searching(size)
    if any(name.strategy in TUNED_STRATEGIES for name in plan.names):
        lines = files.for_system(Requirements((Direction.REGULAR,)), size) or []
        tuned = tune((line for line in lines if len(line.regular)), search=search)
    strategies = {name.untuned: strategy_named(name.untuned) for name in plan.names if name.is_tuned}
    both = files.for_system(Requirements(tuple(Direction)), size) if strategies else None
    if both is None:
        return tuned
    whole = [line for line in both if len(line.regular) and len(line.reverse)]
    return tuned.merge(tune_penalty(whole, strategies, space=space, search=search))
