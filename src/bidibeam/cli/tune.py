"""`bidibeam tune`."""

from __future__ import annotations

import shlex
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bidibeam.cli import options
from bidibeam.cli.console import FEW_SOURCES, format_count, note, show, tell, tell_missing, track
from bidibeam.cli.inputs import (
    allow_local,
    build_metrics,
    count_cores,
    find_metric,
    load_for_search,
    note_case,
    take_model,
    word_vectors,
)
from bidibeam.cli.output import check_not_input
from bidibeam.errors import InputError, RunError, SettingsError
from bidibeam.interchange.lists import ListReader
from bidibeam.metrics import METRICS
from bidibeam.reporting import plots

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bidibeam.api.tuned import TunedSettings
    from bidibeam.api.tuning import Tuning, TuningPlan
    from bidibeam.data.prepared import PreparedData
    from bidibeam.hypotheses import Beams
    from bidibeam.models.base import Model
    from bidibeam.protocols import Metric
    from bidibeam.scores import Signature
    from bidibeam.search.settings import SearchSettings
    from bidibeam.strategies.tuning import TuningResult

PLOT_FILE = "tuned.svg"
LEAST_TELLING = 0.1
"""A metric in per cent decides hardly anything where the best is below this."""
OF_LISTS = ("model", "strategy", "metric", "tokenize", "lowercase", "quick", "sources", "vectors", "out")
"""These options say something about lists; the others are for models."""


@click.command()
@click.argument("model", metavar="[MODEL|LISTS]", required=False)
@options.model
@options.option("--data", "The data that it was trained on.  [default: where they were then]", options.PATH)
@options.option(
    "--strategy",
    "Tune and compare only this: vbs, vbs-tuned, bidis, 'bidis lambda=1', 'mbr bleu', 'bidia bleu_t either', "
    "'loglinear edit both' ... What tuned.json has for others is kept. May be given more than once.  "
    "[default: all that the model has directions and vectors for]",
    "NAME",
    multiple=True,
)
@options.tunable_metric
@options.metric_settings
@options.option("--quick", "Compare fewer systems, on 500 sources.", bool)
@options.vectors
@options.search
@options.option("--sources", "Use only so many, spread evenly.  [default: all]", options.COUNT)
@options.batch_size
@options.option("--out", "With LISTS: the tuned.json that is written.", options.FILE)
def tune(
    model: str | None,
    data: Path | None,
    strategy: tuple[str, ...],
    metric: str | None,
    tokenize: str | None,
    lowercase: bool,
    quick: bool,
    vectors: Path | None,
    sources: int | None,
    batch_size: int | None,
    out: Path | None,
    **flags: Any,
) -> None:
    """Find out on the validation split which strategy serves a model best.

    Searches the validation sources, tunes every strategy that has settings (lambda of bidis, length exponent
    and word reward of vbs-tuned, T of bidia, the weights of loglinear) by the metric, and compares all at the
    same N_B by cross-validation. Recommended is what nobody tuned, bidis with lambda 1, unless the best beats
    it by two standard errors; then the simplest that the best does not beat by one. The model's folder gets a
    tuned.json, and `bidibeam decode` and `chat` search and choose as it says from then on. Of a pair,
    tuned.json goes into the folder of the regular model.

    LISTS in place of MODEL are n-best lists of validation sources with references (docs/nbest.md), from any
    decoder: what they hold enough for is compared, and `bidibeam rerank --tuned` chooses by what is found.
    There N_B is the length of the lists, for strategies of both directions of both together, and T is the
    median of what a hypothesis is compared with.

    \b
    bidibeam tune runs/first --beam-size 50
    bidibeam tune runs/first --beam-size 50 --metric chrf
    bidibeam tune runs/first --beam-size 50 --strategy "bidia bleu_t"
    bidibeam tune bart --reverse bart-reverse --beam-size 50
    bidibeam tune validation.jsonl --metric chrf --out tuned.json
    """  # noqa: D301
    from bidibeam.api.tuning import QUICK_SOURCES, TuningPlan, open_tuning_data
    from bidibeam.metrics.scoring import check_tunable
    from bidibeam.models.base import writes_capitals

    if metric is not None:
        build_metrics([metric], tokenize, lowercase)  # a wrong name is told before anything is loaded
    allow_local(*strategy)
    plan = TuningPlan.parse(strategy) if strategy else None
    if model is not None and (model == "-" or Path(model).is_file()):
        judged = {"name": metric, "tokenize": tokenize, "lowercase": lowercase}
        _tune_lists(model, out, plan, judged, vectors=vectors, quick=quick, sources=sources)
        return
    if out is not None:
        where = "tuned.json of a model goes into its folder" if model and Path(model).is_dir() else ""
        raise click.UsageError(f"--out is for lists: {where or f'there is no file {model}'}.")
    named = take_model(model, flags)
    if named["name"] is None:
        raise click.UsageError("Missing argument 'MODEL': the model whose folder tuned.json goes into.")
    loaded, settings, tuned = load_for_search(named, flags)
    prepared = open_tuning_data(loaded, data)
    judged_by = find_metric(
        prepared, metric, tokenize, lowercase, tuned=tuned, is_cased=writes_capitals(loaded)
    )
    check_tunable(judged_by)
    if plan is None:
        plan = TuningPlan.all_of(loaded, settings, vectors, quick=quick)
        tell_missing("system", "systems", plan.left_out)
    plan.check_vectors(vectors)
    if quick and sources is None:
        sources = QUICK_SOURCES
    more = {"vectors": vectors, "sources": sources, "batch_size": batch_size}
    whole = run_tuning(loaded, prepared, settings, plan, judged_by, **more)
    assert loaded.path is not None
    _plot(loaded.path / PLOT_FILE, whole, judged_by)
    command = shlex.join(["bidibeam", "decode", named["name"], "FILE", *_repeat_options()])
    tell(f"Next: {command}", style=None)


def _tune_lists(
    file: str,
    out: Path | None,
    plan: TuningPlan | None,
    judged: Mapping[str, Any],
    *,
    vectors: Path | None,
    quick: bool,
    sources: int | None,
) -> None:
    """Tune on n-best lists, print what was found, and write it to `out`."""
    from bidibeam.api.tuning import QUICK_SOURCES, TuningPlan, tune_lists
    from bidibeam.data.prepared import spread_evenly

    context = click.get_current_context()
    for option in context.command.params:
        is_given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if is_given and option.name not in OF_LISTS:
            raise click.UsageError(f"{option.opts[0]} is for a model, and {file} is a file of lists.")
    if out is None:
        raise click.UsageError(f"{file} is a file of lists: name by --out the tuned.json to be written.")
    if out.suffix == ".svg":
        raise click.UsageError("--out is the tuned.json; the curves are drawn beside it, in an .svg file.")
    metric = find_metric(None, **judged, tuned=_read_earlier(out))
    lists, written_by = _read_lists(file, out)
    lists = spread_evenly(lists, sources or (QUICK_SOURCES if quick else None))
    if plan is None:
        plan = TuningPlan.of_lists(lists, has_vectors=vectors is not None, quick=quick)
        tell_missing("system", "systems", plan.left_out)
    plan.check_vectors(vectors)
    tuning = tune_lists(
        lists,
        plan,
        metric,
        out,
        written_by=written_by,
        load_vectors=word_vectors(vectors, lists),
        workers=count_cores(),
        track=track,
    )
    replies = (one.text for line in lists for one in (*line.regular, *line.reverse))
    note_case(replies, (text for line in lists for text in line.references), [metric])
    _tell_tuning(tuning, metric, out)
    _plot(out.with_suffix(".svg"), tuning.whole, metric)
    command = shlex.join(["bidibeam", "rerank", "FILE", "--tuned", str(out)])
    tell(f"Next: {command}", style=None)


def _read_lists(file: str, out: Path) -> tuple[list[Beams], Signature]:
    """The lists of a file, each with a reference, and how they came about; `out` must be another file."""
    reader = ListReader(file)
    check_not_input(out, reader.files)
    try:
        is_ours = reader.format_name == "jsonl"
    except (InputError, SettingsError):  # of no format at all
        is_ours = False
    if not is_ours:
        raise InputError(
            f"{file} is not in the n-best format: `bidibeam convert {file} --references FILE -o lists.jsonl` "
            "writes what can be tuned on."
        )
    written_by = reader.written_by
    lists = list(track(reader, None, f"reading {file}", lines=reader.first_file))
    if not lists:
        raise InputError(f"{file} is empty: there is nothing to tune on.")
    for line in lists:
        if not line.references:
            raise InputError(
                f"{file}, line {line.line}: there is no reference to compare replies with. `bidibeam convert "
                "--references FILE` adds them."
            )
    return lists, written_by


def _read_earlier(path: Path) -> TunedSettings | None:
    """What an earlier call wrote; None if none did, or the file is unusable."""
    from bidibeam.api.tuned import TunedSettings

    with suppress(RunError):
        return TunedSettings(path)
    return None


def _repeat_options() -> list[str]:
    """The options of model and search that the user gave, as `decode` takes them."""
    from bidibeam.cli.decode import decode

    context, words = click.get_current_context(), list[str]()
    known = {each.name for each in decode.params} - {"model", "regular", "strategy", "vectors"}
    for option in context.command.params:
        name = option.name or ""
        if name in known and context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            value = context.params[name]
            flag = (option.secondary_opts if value is False else option.opts)[0]
            for each in value if isinstance(value, tuple) else (value,):
                words += [flag] if isinstance(each, bool) else [flag, str(each)]
    return words


def run_tuning(
    model: Model, data: Any, settings: SearchSettings, plan: Any, metric: Metric, **more: Any
) -> TuningResult:
    """Tune a model, and print what was found and where it is; returns all that tuned.json has."""
    from bidibeam.api.tuning import suit_case, tune_model

    tuning = tune_model(model, data, settings, plan, metric, workers=count_cores(), track=track, **more)
    if suit_case(metric, model) is not metric:
        note(
            f"the model writes no capital letters, so {metric.name} ignores case; `bidibeam evaluate "
            "--lowercase` does the same."
        )
    assert model.path is not None
    _tell_tuning(tuning, metric, model.path / "tuned.json")
    return tuning.whole


def _tell_tuning(tuning: Tuning, metric: Metric, path: Path) -> None:
    """Print what was found, what is odd about it, and where it is."""
    from bidibeam.strategies.settings import StrategySettings

    tuned, whole, lost = tuning
    if lost:
        note(lost)
    _show_ranking(tuned, whole.recommended, metric)
    best = max(tuned.values.values(), default=0.0)
    if best < LEAST_TELLING and metric.higher_is_better and metric.name in METRICS.names():
        note(
            f"no {metric.name} was above {best:.2g}, so hardly anything was decided. Use more sources, a "
            "better model, or another `bidibeam tune --metric`: BLEU, for one, is 0 for replies of fewer "
            "than four words."
        )
    for sentence in filter(None, (tuned.flat_note, tuned.end_note)):
        note(sentence)
    if tuned.sources < FEW_SOURCES:
        note(f"{format_count(tuned.sources, 'source')}: settings tuned on so few say little.")
    tell(f"Wrote {path}.", style=None)
    if whole.recommended is not None:
        settings = StrategySettings.named(whole.recommended)
        is_tuned = settings.with_tuned(whole.options) != settings
        found = whole.options[settings.untuned] if is_tuned else {}
        told = ", ".join(f"{name.rstrip('_').replace('_', ' ')} {value:g}" for name, value in found.items())
        named = f"{whole.recommended}{f' ({told})' if told else ''}"
        tell(f"Recommended: {named}{_justify(whole, metric)}.", style=None)
        if whole.ranking != tuned.ranking:
            compared = ", ".join(each.system for each in whole.ranking)
            note(
                f"tuned.json keeps the comparison of an earlier call, and what it recommends: {compared}. To "
                "compare others with them, name all in one call, or none."
            )
    else:
        alone = "on these sources no system is better than another"
        if len(tuned.ranking) == 1:
            alone = f"{tuned.ranking[0].system} was compared with no other system"
        tell(f"Nothing is recommended: {alone}.", style=None)


def _justify(tuned: TuningResult, metric: Metric) -> str:
    """Says what the recommended system has before the default, or what is not clearly ahead of it.

    Of systems that may not be recommended it tells if one is ahead of all others.
    """
    from bidibeam.strategies.settings import DEFAULT_SYSTEM

    values = {each.system: each.cv for each in tuned.ranking}
    best = next(each.system for each in tuned.ranking if each.is_usable)
    leader = tuned.ranking[0].system
    beyond = (
        f". {leader} is not: its file or module would have to be named again"
        if values[leader] != values[best]
        else ""
    )
    is_best = tuned.recommended in values and values[best] == values[tuned.recommended]
    if tuned.recommended == DEFAULT_SYSTEM != best:
        told = ", the default"
        if not is_best:
            told += f"; {best} is ahead of it by less than two standard errors"
        if "vbs" in values and [*values].index("vbs") < [*values].index(DEFAULT_SYSTEM):
            told += ". Here it is not ahead of vbs, which needs no reverse model"
        return told + beyond
    told = "" if is_best else f"; {best} is ahead by less than a standard error"
    if tuned.recommended in values and DEFAULT_SYSTEM in values and tuned.recommended != DEFAULT_SYSTEM:
        gain = abs(values[tuned.recommended] - values[DEFAULT_SYSTEM])
        told = f", {gain:.3g} {metric.name} better than {DEFAULT_SYSTEM}, the default{told}"
    return told + beyond


def _show_ranking(tuned: TuningResult, recommended: str | None, metric: Metric) -> None:
    """Print the systems, best first; those whose numbers are the same share a row, and are named below."""
    from bidibeam.reporting.tables import NumbersTable  # brings rich
    from bidibeam.strategies.settings import TUNED_VBS

    groups = [[metric.name, "low", "high"]]
    if any(each.difference is not None for each in tuned.ranking):
        groups.append([f"beside\n{TUNED_VBS}", "low", "high"])
    rows, alike = [], []
    for _, same in groupby(tuned.ranking, key=lambda each: (each.cv, each.low, each.high)):
        first, *others = sorted(same, key=lambda each: each.system != recommended)
        beside = (first.difference, first.difference_low, first.difference_high)
        texts = [f"{value:.4g}" for value in (first.cv, first.low, first.high)]
        texts += ["" if value is None else f"{value:+.3g}" for value in beside]
        rows.append((f"{'* ' if first.system == recommended else ''}{first.system}", texts))
        if others:
            alike.append(f"The same numbers as {first.system}: {', '.join(one.system for one in others)}.")
    better = "higher" if metric.higher_is_better else "lower"
    title = f"Cross-validated on {format_count(tuned.sources, 'validation source')}; {better} is better"
    show(NumbersTable(title, groups, rows, is_dense=True), crop=False)
    is_shown = any(each.system == recommended for each in tuned.ranking)
    starred = "* is recommended; " if is_shown else ""
    for sentence in (f"{starred}low and high are 95 % bootstrap intervals.".capitalize(), *alike):
        show(sentence, style="dim")


def _plot(path: Path, tuned: TuningResult, metric: Metric) -> None:
    """Draw the curves, if there is something to draw with, and something to draw."""
    panels = []
    for curve in tuned.curves:
        held = "".join(f" ({other} {fixed:g})" for other, fixed in curve.held.items())
        label = f"T of {curve.system}" if curve.setting == "T" else f"{curve.setting}{held}".replace("_", " ")
        panels.append((label, curve.values, curve.scores, curve.chosen))
    baseline = ("vbs as searched", tuned.values["vbs"]) if "vbs" in tuned.values else None
    if not panels:
        return
    try:
        if plots.draw_tuning_curves(path, panels, baseline=baseline, metric=metric.name):
            tell(f"The curves are drawn in {path}.", style=None)
        else:
            show(plots.MISSING, style="dim")
    except OSError as error:  # what was found is written already
        note(f"{path} cannot be written: {error.strerror or error}.")


def tune_quickly(run: Path, data: PreparedData, metric: Metric) -> None:
    """Compare the main systems of a model that was just trained; what goes wrong is said, and no more."""
    from bidibeam.api.decoders import default_search
    from bidibeam.api.tuning import QUICK_SOURCES, TuningPlan
    from bidibeam.models.loading import load

    try:
        model = load(run)
        settings = default_search(model)
        plan = TuningPlan.all_of(model, settings, quick=True)
        run_tuning(model, data, settings, plan, metric, sources=QUICK_SOURCES)
    except Exception as error:
        note(f"it could not be found out which strategy serves best ({error}); `bidibeam tune` tries again.")
