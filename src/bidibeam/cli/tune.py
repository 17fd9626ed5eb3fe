"""`bidibeam tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.options import search_options

if TYPE_CHECKING:
    from bidibeam.assembly import Run
    from bidibeam.data.prepared import PreparedData
    from bidibeam.search.settings import SearchSettings
    from bidibeam.selection.tuning import Curve, Tuned

PLOT_FILE = "tuned.svg"
SPLIT = "validation"


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option(
    "--data",
    "data_folder",
    type=click.Path(path_type=Path),
    help="The prepared data that the run was trained on.  [default: where they were then]",
)
@search_options
@click.option(
    "--sources", type=click.IntRange(min=1), help="Use only so many, the first ones.  [default: all]"
)
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    help="Sources searched at once.  [default: 32, or 512 on a GPU]",
)
def tune(
    run: Path,
    data_folder: Path | None,
    sources: int | None,
    batch_size: int | None,
    device: str | None,
    **search: Any,
) -> None:
    """Find lambda and the length settings on the validation split.

    Searches the validation sources once, then tries every value of lambda (bidis) and of length exponent and
    word reward (vbs-tuned) on what was found, by corpus BLEU; a run that writes in one direction only has no
    lambda. RUN gets a tuned.json, which `bidibeam decode`
    uses from then on, and a plot of the curves. Tune with the beam size and the lengths that you will use.
    """
    from bidibeam.assembly import load_run
    from bidibeam.search.settings import SearchSettings

    settings = SearchSettings(**search)
    loaded = load_run(run, device=device)
    data = _data(loaded, data_folder)
    tuned = tune_run(loaded, data, settings, sources=sources, batch_size=batch_size)
    show_tuned(run, tuned)


def tune_run(
    run: Run,
    data: PreparedData,
    settings: SearchSettings,
    *,
    sources: int | None = None,
    batch_size: int | None = None,
) -> Tuned:
    """Tune on a run's validation split, and write tuned.json and the plot into the run."""
    from itertools import islice

    from bidibeam.assembly import load_decoder
    from bidibeam.assembly.tuned import TUNED_FILE, write_tuned
    from bidibeam.cli.answering import saying_if_slow, watched
    from bidibeam.errors import InputError
    from bidibeam.hypotheses import Beams
    from bidibeam.metrics import METRICS
    from bidibeam.selection.settings import StrategySettings
    from bidibeam.selection.tuning import tune as find

    examples = [
        Beams(example["id"], example["source"], example["reference"])
        for example in islice(data.examples(SPLIT), sources)
    ]
    if not examples:
        raise InputError(f"{data.path} has no {SPLIT} pairs to tune on. Prepare more conversations.")
    both = len(run.model.directions) > 1
    strategy = StrategySettings("bidis", options={"lambda_": 1.0}) if both else StrategySettings("vbs")
    decoder = load_decoder(run, strategy, settings=settings, batch_size=batch_size, score_other=True)
    found = [answer.beams for answer in watched(decoder.answers(examples), len(examples), "searching")]
    with saying_if_slow("Trying every setting ..."):
        tuned = find(found)
    metric = METRICS.create("bleu").score([["a"]], [["a"]]).signature
    write_tuned(
        run.path / TUNED_FILE, tuned, search=settings, weights=run.fingerprint, split=SPLIT, metric=metric
    )
    _plot(run.path / PLOT_FILE, tuned)
    return tuned


def show_tuned(run: Path, tuned: Tuned) -> None:
    """What was found, and where it is."""
    from bidibeam.assembly.tuned import TUNED_FILE
    from bidibeam.cli.console import console
    from bidibeam.reporting.tables import curves_table, facts_table

    for curve in tuned.curves:
        console.print(curves_table(curve.setting, curve.held, curve.values, curve.bleu))
    facts: dict[str, object] = {"BLEU of vbs as searched": tuned.bleu["vbs"]}
    for strategy, options in tuned.options.items():
        shown = ", ".join(f"{name.rstrip('_')} {value:g}" for name, value in options.items())
        facts[strategy] = f"{shown}: BLEU {tuned.bleu[strategy]:.4g}"
    if not any(any(curve.bleu) for curve in tuned.curves):
        console.print("Note: every BLEU was 0, so nothing was decided. Use more sources, or train longer.")
    console.print(facts_table(f"Tuned on {tuned.sources:,} {SPLIT} sources", facts))
    console.print(
        f"Wrote {run / TUNED_FILE}, which `bidibeam decode {run}` uses from now on.", soft_wrap=True
    )
    if (run / PLOT_FILE).is_file():
        console.print(f"The curves are drawn in {run / PLOT_FILE}.", soft_wrap=True)


def _data(run: Run, given: Path | None) -> PreparedData:
    """The prepared data of a run."""
    from bidibeam.data.prepared import PreparedData
    from bidibeam.errors import SettingsError

    facts = run.config.facts.get("data", {})
    path = given or (Path(facts["path"]) if "path" in facts else None)
    if path is None:
        raise SettingsError(f"{run.path} does not say where its data are: give --data DIR.")
    if given is None and not path.is_dir():
        raise SettingsError(f"The data of {run.path} are not at {path} any more: give --data DIR.")
    data = PreparedData.open(path)
    if data.fingerprint != facts.get("fingerprint"):
        raise SettingsError(
            f"{path} holds other data than {run.path} was trained on (fingerprint {data.fingerprint}, not "
            f"{facts.get('fingerprint')}). Give the data it was trained on with --data."
        )
    return data


def _label(curve: Curve) -> str:
    """The setting, and what the other one was held at."""
    held = "".join(f" ({name} {value:g})" for name, value in curve.held.items())
    return f"{curve.setting}{held}".replace("_", " ")


def _plot(path: Path, tuned: Tuned) -> None:
    """Draw the curves, if there is something to draw with."""
    from bidibeam.cli.console import console
    from bidibeam.reporting.plots import MISSING, curves_figure

    panels = [(_label(curve), curve.values, curve.bleu, curve.best[0]) for curve in tuned.curves]
    if not curves_figure(path, panels, baseline=("vbs as searched", tuned.bleu["vbs"])):
        console.print(MISSING, style="dim")
