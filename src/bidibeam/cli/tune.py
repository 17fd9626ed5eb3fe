"""`bidibeam tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.models import ModelChoice, check_search, model_argument, model_options, search_settings
from bidibeam.cli.options import batch_size_option, search_options, vectors_option

if TYPE_CHECKING:
    from bidibeam.api.tuning import TuningTargets
    from bidibeam.models.base import Model
    from bidibeam.search.settings import SearchSettings
    from bidibeam.strategies.tuning import TuningResult

PLOT_FILE = "tuned.svg"
FEW_SOURCES = 100


@click.command()
@model_argument
@model_options
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="The prepared data that the model was trained on.  [default: where they were then]",
)
@click.option(
    "--strategy",
    multiple=True,
    metavar="NAME",
    help="Tune only this: bidis, vbs-tuned, 'bidia bleu_t', 'bidia wmd_t', 'bidia bleu_t either' ... What "
    "tuned.json has for others is kept. May be given more than once.  [default: the first four, as far as "
    "the model has the directions]",
)
@vectors_option
@search_options
@click.option(
    "--sources", type=click.IntRange(min=1), help="Use only so many, the first ones.  [default: all]"
)
@batch_size_option
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
    from bidibeam.api.tuning import TuningTargets, open_tuning_data, tune_model
    from bidibeam.cli.console import note, track

    targets = TuningTargets.parse(strategy) if strategy else None
    choice = ModelChoice.take(model, flags)
    if choice.name is None:
        raise click.UsageError("Missing argument 'MODEL': the model whose folder tuned.json goes into.")
    check_search(flags)
    loaded = choice.load()
    settings = search_settings(loaded, flags)
    prepared = open_tuning_data(loaded, data)
    if targets is None:
        targets = TuningTargets.all_of(loaded, settings, vectors)
        _note_missing(targets, loaded, settings)
    targets.check_vectors(vectors)
    tuned, whole, lost = tune_model(
        loaded,
        prepared,
        settings,
        targets,
        vectors=vectors,
        sources=sources,
        batch_size=batch_size,
        watch=track,
    )
    if lost:
        note(f"what tuned.json had for {', '.join(lost)} was tuned for another search, and is gone.")
    assert loaded.path is not None
    _plot(loaded.path / PLOT_FILE, whole)
    _show(tuned, loaded.path, choice.flags)


def _note_missing(targets: TuningTargets, model: Model, settings: SearchSettings) -> None:
    """Name what is tuned otherwise, and what it would need."""
    from bidibeam.api.tuning import LENGTHS, PENALISED
    from bidibeam.cli.console import note

    missing = [name for name in (*LENGTHS, *PENALISED) if name not in targets.names]
    if not missing:
        return
    if len(model.directions) < 2:
        needed = "the reverse direction too"
    elif settings.beam_size == 1:
        needed = "--beam-size 2 or more"
    else:
        needed = "word vectors, --vectors FILE.vec"
    need = "it needs" if len(missing) == 1 else "they need"
    note(f"left out {', '.join(missing)}: {need} {needed}.")


def _show(tuned: TuningResult, folder: Path, named: str) -> None:
    """Print what was found, and where it is."""
    from bidibeam.api.tuning import SPLIT
    from bidibeam.cli.console import console, counted
    from bidibeam.reporting.tables import metadata_table, tuning_table

    for name, curve in tuned.named_curves:
        system = name if curve.setting == "T" else ""
        console.print(tuning_table(curve.setting, curve.held, curve.values, curve.bleu, system=system))
    results: dict[str, object] = {}
    if "vbs" in tuned.bleu:
        results["BLEU of vbs as searched"] = tuned.bleu["vbs"]
    for strategy, options in tuned.options.items():
        shown = ", ".join(f"{name.rstrip('_')} {value:g}" for name, value in options.items())
        results[strategy] = f"{shown}: BLEU {tuned.bleu[strategy]:.4g}"
    if not any(any(curve.bleu) for curve in tuned.curves):
        console.print("Note: every BLEU was 0, so nothing was decided. Use more sources, or train longer.")
    for note in (tuned.flat_note, tuned.end_note):
        if note:
            console.print(f"Note: {note}", soft_wrap=True)
    if tuned.sources < FEW_SOURCES:
        console.print(f"Note: {counted(tuned.sources, 'source')}: settings tuned on so few say little.")
    console.print(metadata_table(f"Tuned on {tuned.sources:,} {SPLIT} sources", results))
    written = folder / "tuned.json"
    console.print(f"Wrote {written}, which `bidibeam decode {named}` uses from now on.", soft_wrap=True)
    penalised = [name for name, options in tuned.options.items() if "T" in options]
    if penalised:
        console.print(
            f"T is for names with 'tuned', such as --strategy '{penalised[0]} tuned'.", soft_wrap=True
        )
    if (folder / PLOT_FILE).is_file():
        console.print(f"The curves are drawn in {folder / PLOT_FILE}.", soft_wrap=True)


def _plot(path: Path, tuned: TuningResult) -> None:
    """Draw the curves, if there is something to draw with."""
    from bidibeam.cli.console import console
    from bidibeam.reporting.plots import MISSING, draw_tuning_curves

    panels = []
    for (name, curve), value in zip(tuned.named_curves, tuned.values, strict=True):
        held = "".join(f" ({other} {fixed:g})" for other, fixed in curve.held.items())
        label = f"T of {name}" if curve.setting == "T" else f"{curve.setting}{held}".replace("_", " ")
        panels.append((label, curve.values, curve.bleu, value))
    baseline = ("vbs as searched", tuned.bleu["vbs"]) if "vbs" in tuned.bleu else None
    if not draw_tuning_curves(path, panels, baseline=baseline):
        console.print(MISSING, style="dim")
