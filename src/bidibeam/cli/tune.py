"""`bidibeam tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli import options
from bidibeam.cli.console import FEW_SOURCES, format_count, note, show, show_metadata, tell, track
from bidibeam.cli.inputs import load_for_search, take_model
from bidibeam.reporting import plots

if TYPE_CHECKING:
    from bidibeam.strategies.tuning import TuningResult

PLOT_FILE = "tuned.svg"


@click.command()
@options.model_argument
@options.model
@options.option("--data", "The data that it was trained on.  [default: where they were then]", options.PATH)
@options.option(
    "--strategy",
    "Tune only this: bidis, vbs-tuned, 'bidia bleu_t', 'bidia wmd_t', 'bidia bleu_t either' ... What "
    "tuned.json has for others is kept. May be given more than once.  [default: the first four, as far as "
    "the model has the directions]",
    "NAME",
    multiple=True,
)
@options.vectors
@options.search
@options.option("--sources", "Use only so many, the first ones.  [default: all]", options.COUNT)
@options.batch_size
def tune(
    model: str | None,
    data: Path | None,
    strategy: tuple[str, ...],
    vectors: Path | None,
    sources: int | None,
    batch_size: int | None,
    **flags: Any,
) -> None:
    """Find lambda, the length settings and T on the validation split.

    Searches the validation sources, and tries on their hypotheses every value of lambda (bidis), of length
    exponent and word reward (vbs-tuned) and of T (bidia), by corpus BLEU; a model that writes in one
    direction only has neither lambda nor T. The model's folder gets a tuned.json, which `bidibeam decode`
    uses from then on, and a plot of the curves. Of bidia, names with 'tuned' use it. Tune with the beam size
    and the lengths that you will use. Of a pair, tuned.json goes into the folder of the regular model.

    \b
    bidibeam tune runs/first --beam-size 50
    bidibeam tune runs/first --beam-size 50 --strategy "bidia bleu_t"
    bidibeam decode runs/first data/test.jsonl --beam-size 50 --strategy "bidia bleu_t tuned"
    bidibeam tune bart --reverse bart-reverse --beam-size 50
    """  # noqa: D301
    from bidibeam.api.tuning import PENALISED, TuningTargets, open_tuning_data, tune_model
    from bidibeam.evaluation.systems import TUNED_STRATEGIES

    targets = TuningTargets.parse(strategy) if strategy else None
    named = take_model(model, flags)
    if named["name"] is None:
        raise click.UsageError("Missing argument 'MODEL': the model whose folder tuned.json goes into.")
    loaded, settings = load_for_search(named, flags)
    prepared = open_tuning_data(loaded, data)
    if targets is None:
        targets = TuningTargets.all_of(loaded, settings, vectors)
        missing = [name for name in (*TUNED_STRATEGIES, *PENALISED) if name not in targets.names]
        if len(loaded.directions) < 2:
            needed = "the reverse direction too"
        elif settings.beam_size == 1:
            needed = "--beam-size 2 or more"
        else:
            needed = "word vectors, --vectors FILE.vec"
        if missing:
            need = "it needs" if len(missing) == 1 else "they need"
            note(f"left out {', '.join(missing)}: {need} {needed}.")
    targets.check_vectors(vectors)
    options: dict[str, Any] = {"vectors": vectors, "sources": sources, "batch_size": batch_size}
    tuned, whole, lost = tune_model(loaded, prepared, settings, targets, track=track, **options)
    if lost:
        note(f"what tuned.json had for {', '.join(lost)} was tuned for another search, and is gone.")
    assert loaded.path is not None
    _plot(loaded.path / PLOT_FILE, whole)
    reverse = f" --reverse {named['reverse']}" if named["reverse"] is not None else ""
    _show(tuned, loaded.path, f"{named['name']}{reverse}")


def _show(tuned: TuningResult, folder: Path, model: str) -> None:
    """Print what was found, and where it is."""
    from bidibeam.api.tuned import SPLIT
    from bidibeam.reporting.tables import tuning_table

    for name, curve, _ in tuned.named_curves:
        system = name if curve.setting == "T" else ""
        show(tuning_table(curve.setting, curve.held, curve.values, curve.bleu, system=system))
    results: dict[str, object] = {}
    if "vbs" in tuned.bleu:
        results["BLEU of vbs as searched"] = tuned.bleu["vbs"]
    for strategy, found in tuned.options.items():
        shown = ", ".join(f"{name.rstrip('_')} {value:g}" for name, value in found.items())
        results[strategy] = f"{shown}: BLEU {tuned.bleu[strategy]:.4g}"
    if not any(any(curve.bleu) for curve in tuned.curves):
        note("every BLEU was 0, so nothing was decided. Use more sources, or train longer.")
    for sentence in filter(None, (tuned.flat_note, tuned.end_note)):
        note(sentence)
    if tuned.sources < FEW_SOURCES:
        note(f"{format_count(tuned.sources, 'source')}: settings tuned on so few say little.")
    show_metadata(f"Tuned on {tuned.sources:,} {SPLIT} sources", results)
    tell(f"Wrote {folder / 'tuned.json'}, which `bidibeam decode {model}` uses from now on.", style=None)
    penalised = [name for name, found in tuned.options.items() if "T" in found]
    if penalised:
        tell(f"T is for names with 'tuned', such as --strategy '{penalised[0]} tuned'.", style=None)
    if (folder / PLOT_FILE).is_file():
        tell(f"The curves are drawn in {folder / PLOT_FILE}.", style=None)


def _plot(path: Path, tuned: TuningResult) -> None:
    """Draw the curves, if there is something to draw with."""
    panels = []
    for name, curve, value in tuned.named_curves:
        held = "".join(f" ({other} {fixed:g})" for other, fixed in curve.held.items())
        label = f"T of {name}" if curve.setting == "T" else f"{curve.setting}{held}".replace("_", " ")
        panels.append((label, curve.values, curve.bleu, value))
    baseline = ("vbs as searched", tuned.bleu["vbs"]) if "vbs" in tuned.bleu else None
    try:
        if not plots.draw_tuning_curves(path, panels, baseline=baseline):
            show(plots.MISSING, style="dim")
    except OSError as error:  # what was found is written already
        note(f"{path} cannot be written: {error.strerror or error}.")
