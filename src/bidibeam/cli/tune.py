"""`bidibeam tune`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.decode import model_options
from bidibeam.cli.options import batch_size_option, search_options, vectors_option
from bidibeam.evaluation.names import TUNED

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from bidibeam.cli.tunable import Tunable
    from bidibeam.data.prepared import PreparedData
    from bidibeam.hypotheses import Beams
    from bidibeam.search.settings import SearchSettings
    from bidibeam.similarities.spaces import WordVectors
    from bidibeam.strategies.settings import StrategySettings
    from bidibeam.strategies.tuning import Curve, Tuned

PLOT_FILE = "tuned.svg"
SPLIT = "validation"
LENGTHS = ("bidis", TUNED)
"""Strategies that are tuned on the regular beam."""
CLOSEST = {"answer": "regular", "agreement": "closest"}
"""All that bidia has; what is not said would be looked for in the tuned.json that is to be made."""
PENALISED = ("bidia bleu_t", "bidia wmd_t")
"""Systems whose T is tuned, on both beams, unless others are named."""


@click.command()
@click.argument("run", type=click.Path(path_type=Path), required=False)
@model_options
@click.option(
    "--data",
    "data_folder",
    type=click.Path(path_type=Path),
    help="The prepared data that the run or the models were trained on.  [default: where they were then]",
)
@click.option(
    "--strategy",
    "strategies",
    multiple=True,
    metavar="NAME",
    help=f"Tune only this: {', '.join((*LENGTHS, *PENALISED))}, 'bidia bleu_t either' ... What tuned.json "
    "has for others is kept. May be given more than once.  [default: these four, as far as the run has the "
    "directions]",
)
@vectors_option
@search_options
@click.option(
    "--sources", type=click.IntRange(min=1), help="Use only so many, the first ones.  [default: all]"
)
@batch_size_option
def tune(
    run: Path | None,
    data_folder: Path | None,
    strategies: tuple[str, ...],
    vectors: Path | None,
    sources: int | None,
    batch_size: int | None,
    device: str | None,
    *,
    regular: str | None,
    reverse: str | None,
    dtype: str | None,
    **search: Any,
) -> None:
    """Find lambda, the length settings and T on the validation split.

    Searches the validation sources, and tries on what was found every value of lambda (bidis), of length
    exponent and word reward (vbs-tuned) and of T (bidia), by corpus BLEU; a run that writes in one direction
    only has neither lambda nor T. RUN gets a tuned.json, which `bidibeam decode` uses from then on, and a
    plot of the curves. Of bidia, names with 'tuned' use it. Tune with the beam size and the lengths that you
    will use. Hugging Face models are named by --regular and --reverse, as in `bidibeam decode`; tuned.json
    then goes into the folder of the regular one.

    \b
    bidibeam tune runs/first --beam-size 50
    bidibeam tune runs/first --beam-size 50 --strategy "bidia bleu_t"
    bidibeam decode runs/first data/test.jsonl --beam-size 50 --strategy "bidia bleu_t tuned"
    bidibeam tune --regular bart --reverse bart-reverse --beam-size 50
    """  # noqa: D301
    from bidibeam.cli.tunable import of_models, of_run
    from bidibeam.search.settings import SearchSettings

    settings = SearchSettings(**search)
    wanted = Wanted.named(strategies) if strategies else None
    if regular is not None or reverse is not None:
        if run is not None:
            raise click.UsageError(f"--regular and --reverse stand instead of a run, not beside {run}.")
        loaded = of_models(regular, reverse, device=device, dtype=dtype)
    elif run is None:
        raise click.UsageError("Missing argument 'RUN', or --regular and --reverse.")
    else:
        if dtype is not None:
            raise click.UsageError("--dtype goes with --regular and --reverse.")
        loaded = of_run(run, device=device)
    data = loaded.data(data_folder)
    if wanted is None:
        wanted = Wanted.all_of(loaded, settings, vectors)
        _note_left_out(wanted, loaded, settings)
    wanted.check_vectors(vectors)
    tuned = tune_found(
        loaded, data, settings, wanted, vectors=vectors, sources=sources, batch_size=batch_size
    )
    show_tuned(loaded, tuned)


@dataclass(frozen=True)
class Wanted:
    """What is to be tuned.

    Attributes:
        lengths: Those of `LENGTHS`.
        penalised: By the name of the system, strategies whose T is wanted.
    """

    lengths: tuple[str, ...]
    penalised: dict[str, StrategySettings]

    @classmethod
    def named(cls, names: Iterable[str]) -> Wanted:
        """What names of systems ask for.

        Raises:
            UnknownNameError: If there is no such word.
            SettingsError: If there is nothing to tune of one.
        """
        from bidibeam.errors import SettingsError
        from bidibeam.strategies.naming import SystemName

        lengths, penalised = [], {}
        for name in names:
            words = SystemName.of(name)
            settings = replace(words.settings(), wants_tuned=True)
            if words.strategy in LENGTHS:
                lengths.append(words.strategy)
            elif settings.compares:
                settings.check_penalty()
                penalised[words.untuned] = replace(settings, wants_tuned=False)
            else:
                raise SettingsError(
                    f"There is nothing to tune of {name}. Choose among: {', '.join((*LENGTHS, *PENALISED))}."
                )
        return cls(tuple(dict.fromkeys(lengths)), penalised)

    @classmethod
    def all_of(cls, tunable: Tunable, settings: SearchSettings, vectors: Path | None) -> Wanted:
        """All that there are the directions and the vectors for, and a search the hypotheses."""
        if not tunable.has_both:
            return cls.named([TUNED])
        penalised = PENALISED if tunable.has_vectors or vectors is not None else PENALISED[:1]
        return cls.named([*LENGTHS, *(penalised if settings.beam_size > 1 else ())])

    def check_vectors(self, vectors: Path | None) -> None:
        """Make sure that vectors which are given are used.

        Raises:
            SettingsError: If not.
        """
        from bidibeam.errors import SettingsError
        from bidibeam.similarities import SIMILARITIES

        using = [
            "space" in getattr(SIMILARITIES.get(each.similarity), "__dataclass_fields__", ())
            for each in self.penalised.values()
        ]
        if vectors is not None and not any(using):
            raise SettingsError("Nothing that is tuned uses word vectors: leave --vectors out.")


def tune_found(
    tunable: Tunable,
    data: PreparedData,
    settings: SearchSettings,
    wanted: Wanted,
    *,
    vectors: Path | None = None,
    sources: int | None = None,
    batch_size: int | None = None,
) -> Tuned:
    """Tune on the validation split, and write tuned.json and the plot."""
    from itertools import islice

    from bidibeam.api.tuned import TUNED_FILE, joined_with_earlier, write_tuned
    from bidibeam.errors import InputError
    from bidibeam.hypotheses import Beams
    from bidibeam.metrics import METRICS
    from bidibeam.strategies.tuning import Tuned

    examples = [
        Beams(example["id"], example["source"], example["reference"])
        for example in islice(data.examples(SPLIT), sources)
    ]
    if not examples:
        raise InputError(f"{data.path} has no {SPLIT} pairs to tune on. Prepare more conversations.")

    def found(strategy: StrategySettings, **options: Any) -> list[Beams]:
        return _searched(tunable, strategy, examples, settings=settings, batch_size=batch_size, **options)

    tuned = Tuned({}, {}, (), len(examples))
    if wanted.lengths:
        tuned = tuned.joined(_tuned_lengths(wanted.lengths, settings, found))
    if wanted.penalised:
        tuned = tuned.joined(
            _tuned_penalties(wanted.penalised, settings, found, space=lambda: tunable.space(vectors))
        )
    conditions: dict[str, Any] = {
        "search": settings,
        "weights": tunable.weights,
        "split": SPLIT,
        "metric": METRICS.create("bleu").score([["a"]], [["a"]]).signature,
    }
    whole, lost = joined_with_earlier(tunable.folder / TUNED_FILE, tuned, **conditions)
    _note_lost(lost)
    write_tuned(tunable.folder / TUNED_FILE, whole, **conditions)
    _plot(tunable.folder / PLOT_FILE, whole)
    return tuned


def _searched(
    tunable: Tunable, strategy: StrategySettings, examples: Sequence[Beams], **options: Any
) -> list[Beams]:
    """The hypotheses that a strategy would choose from."""
    from bidibeam.cli.answering import watched

    answers = tunable.decoder(strategy, **options).answers(examples)
    what = f"searching for {strategy.name}"
    return [answer.beams for answer in watched(answers, len(examples), what)]


def _tuned_lengths(
    names: Sequence[str], settings: SearchSettings, found: Callable[..., list[Beams]]
) -> Tuned:
    """Lambda and the length settings, as far as they are wanted."""
    from bidibeam.cli.answering import saying_if_slow
    from bidibeam.strategies.settings import StrategySettings
    from bidibeam.strategies.tuning import tune as find

    if "bidis" in names:
        beams = found(StrategySettings("bidis", options={"lambda_": 1.0}), score_other=True)
    else:
        beams = found(StrategySettings("vbs"))
    with saying_if_slow("Trying every setting ..."):
        return find(beams, search=settings).without([name for name in LENGTHS if name not in names])


def _tuned_penalties(
    strategies: dict[str, StrategySettings],
    settings: SearchSettings,
    found: Callable[..., list[Beams]],
    *,
    space: Callable[[], WordVectors],
) -> Tuned:
    """T of every system that is wanted, on the sources for which both directions found something."""
    from bidibeam.cli.answering import saying_if_slow
    from bidibeam.strategies.settings import StrategySettings
    from bidibeam.strategies.tuning import tune_penalty

    beams = found(StrategySettings("bidia", options=CLOSEST), replies_only=True)
    both = [line for line in beams if len(line.regular) and len(line.reverse)]
    with saying_if_slow("Trying every T ..."):
        return tune_penalty(both, strategies, space=space, search=settings)


def _note_left_out(wanted: Wanted, tunable: Tunable, settings: SearchSettings) -> None:
    """What is tuned otherwise, and what it would need."""
    from bidibeam.cli.console import console

    left_out = [name for name in (*LENGTHS, *PENALISED) if name not in (*wanted.lengths, *wanted.penalised)]
    if not left_out:
        return
    if not tunable.has_both:
        needed = "the reverse direction too"
    elif settings.beam_size == 1:
        needed = "--beam-size 2 or more"
    else:
        needed = "word vectors, --vectors FILE.vec"
    need = "it needs" if len(left_out) == 1 else "they need"
    told = f"Note: left out {', '.join(left_out)}: {need} {needed}."
    console.print(told, style="dim", soft_wrap=True)


def _note_lost(names: Sequence[str]) -> None:
    from bidibeam.cli.console import console

    if names:
        told = f"Note: what tuned.json had for {', '.join(names)} was tuned for another search, and is gone."
        console.print(told, style="dim", soft_wrap=True)


def show_tuned(tunable: Tunable, tuned: Tuned) -> None:
    """What was found, and where it is."""
    from bidibeam.api.tuned import TUNED_FILE
    from bidibeam.cli.console import console, counted
    from bidibeam.cli.evaluate import FEW_SOURCES
    from bidibeam.reporting.tables import curves_table, facts_table

    for name, curve in tuned.named_curves:
        system = name if curve.setting == "T" else ""
        console.print(curves_table(curve.setting, curve.held, curve.values, curve.bleu, system=system))
    facts: dict[str, object] = {}
    if "vbs" in tuned.bleu:
        facts["BLEU of vbs as searched"] = tuned.bleu["vbs"]
    for strategy, options in tuned.options.items():
        shown = ", ".join(f"{name.rstrip('_')} {value:g}" for name, value in options.items())
        facts[strategy] = f"{shown}: BLEU {tuned.bleu[strategy]:.4g}"
    if not any(any(curve.bleu) for curve in tuned.curves):
        console.print("Note: every BLEU was 0, so nothing was decided. Use more sources, or train longer.")
    for note in (tuned.flat_note, tuned.end_note):
        if note:
            console.print(f"Note: {note}", soft_wrap=True)
    if tuned.sources < FEW_SOURCES:
        console.print(f"Note: {counted(tuned.sources, 'source')}: settings tuned on so few say little.")
    console.print(facts_table(f"Tuned on {tuned.sources:,} {SPLIT} sources", facts))
    console.print(
        f"Wrote {tunable.folder / TUNED_FILE}, which `bidibeam decode {tunable.named}` uses from now on.",
        soft_wrap=True,
    )
    named = next((name for name, options in tuned.options.items() if "T" in options), None)
    if named is not None:
        console.print(f"T is for names with 'tuned', such as --strategy '{named} tuned'.", soft_wrap=True)
    if (tunable.folder / PLOT_FILE).is_file():
        console.print(f"The curves are drawn in {tunable.folder / PLOT_FILE}.", soft_wrap=True)


def _label(name: str, curve: Curve) -> str:
    """The setting, and what the other one was held at; of T, whose it is."""
    if curve.setting == "T":
        return f"T of {name}"
    held = "".join(f" ({name} {value:g})" for name, value in curve.held.items())
    return f"{curve.setting}{held}".replace("_", " ")


def _plot(path: Path, tuned: Tuned) -> None:
    """Draw the curves, if there is something to draw with."""
    from bidibeam.cli.console import console
    from bidibeam.reporting.plots import MISSING, curves_figure

    panels = [
        (_label(name, curve), curve.values, curve.bleu, value)
        for (name, curve), value in zip(tuned.named_curves, tuned.chosen, strict=True)
    ]
    baseline = ("vbs as searched", tuned.bleu["vbs"]) if "vbs" in tuned.bleu else None
    if not curves_figure(path, panels, baseline=baseline):
        console.print(MISSING, style="dim")
