"""`bidibeam evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bidibeam._version import __version__
from bidibeam.cli import inputs, options
from bidibeam.cli.console import note, notice_if_slow, tell, track
from bidibeam.cli.output import check_not_input
from bidibeam.errors import InputError, SettingsError, UnknownNameError
from bidibeam.files import write_json
from bidibeam.interchange.reading import read_replies, with_references
from bidibeam.metrics import METRICS
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.ranking import warm_up

if TYPE_CHECKING:
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.evaluation.systems import System
    from bidibeam.interchange.reading import Replies
    from bidibeam.strategies.settings import StrategySettings

    TunedStrategy = tuple[StrategySettings, TunedSettings | None]


@click.command()
@click.argument("systems", nargs=-1, required=True, metavar="SYSTEM...")
@click.option(
    "--references",
    "references_file",
    metavar="FILE",
    help='What people answered: one a line, column 2 of a .tsv, or JSON lines with "reference".  [default: '
    "the lists' own]",
)
@click.option(
    "--baseline",
    "baselines",
    multiple=True,
    metavar="NAME",
    help="The system that the others are tested against; may be given more than once.  [default: the first]",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME",
    help=f"{', '.join(METRICS.names())}. May be given more than once.  [default: all]",
)
@click.option(
    "--strategy",
    "strategies",
    cls=options.StrategyOption,
    multiple=True,
    metavar="NAME",
    help=f"Let this strategy choose among the lists of an n-best file: {', '.join(STRATEGIES.names())}. "
    f"{options.STRATEGY_WORDS}. May be given more than once.",
)
@options.max_length
@options.vectors
@options.tuned
@options.workers
@click.option(
    "--samples",
    type=options.COUNT,
    default=1000,
    help="Bootstrap resamples, for intervals and for the paired bootstrap.",
)
@click.option("--trials", type=options.COUNT, default=10_000, help="Trials of approximate randomisation.")
@click.option(
    "--seed", type=click.IntRange(min=0), default=12345, help="Of both: another seed, other random numbers."
)
@click.option(
    "--out", "out_file", type=options.FILE, help="Also write every number, with its signature, as JSON."
)
@click.option("--signatures", is_flag=True, help="Also print how every number was computed.")
def evaluate(
    systems: tuple[str, ...],
    baselines: tuple[str, ...],
    metrics: tuple[str, ...],
    references_file: str | None,
    strategies: tuple[str, ...],
    max_length: int,
    vectors: Path | None,
    tuned_file: Path | None,
    workers: int | None,
    out_file: Path | None,
    signatures: bool,
    samples: int,
    trials: int,
    seed: int,
) -> None:
    """Score replies from anywhere, and test whether they differ by more than chance.

    Each SYSTEM is FILE or NAME=FILE, - is stdin: text, one reply a line, or n-best lists (docs/nbest.md). Of
    lists, the reply is the first of the ranking that they have, or else of the regular list; with --strategy,
    each strategy named is a system. Line n of every file belongs to the same source. Corpus BLEU, where it is
    asked for, comes with its 95 % bootstrap interval and, for several systems, with two paired tests on
    sacreBLEU's random numbers.
    Intervals are its percentiles, where it prints their mean and half their width; p-values are its own, but
    1 for systems that never differ, where it has the smallest there is.

    \b
    bidibeam evaluate ours.txt theirs.txt --references references.txt
    bidibeam evaluate old=a.jsonl new=b.jsonl --baseline old --out scores.json
    bidibeam evaluate beams.jsonl --strategy vbs --strategy "bidia bleu_t" --strategy oracle
    bidibeam evaluate beams.jsonl --strategy "bidia wmd_t" --vectors wiki.vec --signatures
    """  # noqa: D301
    from bidibeam.cli.tables import print_evaluation, print_signatures
    from bidibeam.evaluation.evaluate import TESTED, evaluate_systems
    from bidibeam.evaluation.significance import Resampling
    from bidibeam.evaluation.systems import system_from_replies

    for metric in metrics:
        METRICS.get(metric)
    if baselines and metrics and TESTED not in metrics:
        raise SettingsError("--baseline is for tests, which are made on BLEU: add --metric bleu.")
    for flag, value in (("--vectors", vectors), ("--tuned", tuned_file)):
        if value is not None and not strategies:
            raise SettingsError(f"{flag} is for strategies: name one with --strategy.")
    files = [_split_name(argument) for argument in systems]
    settings = _strategy_settings(strategies, tuned_file)
    names = _name_systems(files, [" ".join(name.split()) for name in strategies])
    for baseline in baselines:
        if baseline not in names:
            raise UnknownNameError(
                f"No system is called {baseline!r}, to be the baseline. Choose one of: {', '.join(names)}."
            )
    against = list(dict.fromkeys(baselines)) or [names[0]]
    check_not_input(out_file, [*(file for _, file in files), references_file])
    replies = _read_replies([file for _, file in files], references_file, needs_lists=bool(strategies))
    if strategies:
        found = _choose(
            replies,
            names,
            settings,
            max_length=max_length,
            vectors=vectors,
            workers=workers or inputs.count_cores(),
        )
    else:
        found = [
            system_from_replies(name, file.beams, file.signature, beam_size=file.beam_size)
            for name, file in zip(names, replies, strict=True)
        ]
    wanted = list(dict.fromkeys(metrics)) or METRICS.names()
    with notice_if_slow("Scoring and testing ..."):
        results = evaluate_systems(found, wanted, against, resampling=Resampling(samples, trials, seed))
    print_evaluation(results, against)
    if signatures:
        print_signatures(results)
    if out_file is not None:
        write_json(out_file, results)
        tell(f"Wrote {out_file}.", style=None)


def _split_name(argument: str) -> tuple[str | None, str]:
    """FILE, or NAME=FILE, as the name, if there is one, and the file."""
    name, equals, file = argument.partition("=")
    if not equals or Path(argument).exists():
        return None, argument
    if not name.strip() or not file:
        raise SettingsError(f"A system is FILE or NAME=FILE, not {argument!r}.")
    return name.strip(), file


def _name_systems(files: Sequence[tuple[str | None, str]], strategies: Sequence[str]) -> list[str]:
    """What the systems are called: as the file, as the strategy, or as both if there are several of each."""
    names: list[str] = []
    for given, file in files:
        path = Path(file)
        called = given or Path(path.stem if path.suffix in (".gz", ".xz") else path.name).stem
        prefix = f"{called}: " if given or len(files) > 1 else ""
        names += [f"{prefix}{strategy}" for strategy in strategies] or [called]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise SettingsError(
            f"Two systems are called {twice!r}. Name the files, NAME=FILE, and give no --strategy twice."
        )
    return names


def _strategy_settings(names: Sequence[str], tuned_file: Path | None) -> list[TunedStrategy]:
    """The strategies that systems' names stand for, each with the file that it was tuned by, if it was."""
    from bidibeam.strategies.settings import StrategySettings, strategy_named

    tuned = inputs.read_tuned(tuned_file)
    known = {} if tuned is None else tuned.options
    found: list[TunedStrategy] = []
    for name in names:
        named, settings = StrategySettings.named(name), strategy_named(name, known)
        if named.compares:
            inputs.allow_local(named.similarity)
        _ = settings.requirements  # asked for here, so that what is wrong is said before anything is read
        found.append((settings, tuned if named.wants_tuned or named.name in known else None))
    return found


def _read_replies(files: Sequence[str], references_file: str | None, *, needs_lists: bool) -> list[Replies]:
    """The files with a reference for every source; a note says if replies hold tabs, as tables do."""
    replies = [read_replies(file, whole_lists=needs_lists) for file in files]
    for each in replies:
        if each.has_lists:
            continue
        if needs_lists:
            raise InputError(
                f"{each.file} holds text, one reply a line, and a --strategy chooses among the lists of an "
                "n-best file. Give such a file, or leave --strategy out."
            )
        tabs = (index for index, beams in enumerate(each.beams) if "\t" in beams.regular.best.text)
        if (index := next(tabs, None)) is not None:
            note(f"{each.place(index)} holds a tab; the whole line counts as the reply.")
    return with_references(replies, references_file)


def _choose(
    files: Sequence[Replies],
    names: Sequence[str],
    chosen_by: Sequence[TunedStrategy],
    *,
    max_length: int,
    vectors: Path | None,
    workers: int,
) -> list[System]:
    """A system for each file and strategy: what the strategy chooses among the file's lists."""
    from bidibeam.evaluation.systems import choose_system

    used = next((tuned for _, tuned in chosen_by if tuned is not None), None)
    for file in files:
        for settings, _ in chosen_by:
            file.check(settings.requirements, settings.name)
        if used is not None:
            inputs.note_other_model(used, file.file, file.model)
    lists = [beams for file in files for beams in file.beams]
    space = inputs.word_vectors(vectors, lists)
    strategies = [settings.build(max_length=max_length, space=space) for settings, _ in chosen_by]
    if vectors is not None and not any(settings.uses_vectors for settings, _ in chosen_by):
        raise SettingsError("No --strategy uses word vectors: leave --vectors out.")
    inputs.note_length(strategies, lists)
    systems = []
    pairs = product(files, zip(strategies, chosen_by, strict=True))
    for name, (file, (strategy, (_, tuned))) in zip(names, pairs, strict=True):
        warm_up(strategy)
        facts = {"tuned": tuned.name} if tuned is not None else {}
        facts |= {**dict(file.signature.facts), "bidibeam": __version__}
        signature = strategy.signature.extended(**facts)
        systems.append(
            choose_system(name, strategy, file.beams, signature=signature, workers=workers, track=track)
        )
    return systems
