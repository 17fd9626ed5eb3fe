"""`bidibeam evaluate`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.lists import note_length, note_other_model, vocabulary_of, word_space
from bidibeam.cli.options import (
    STRATEGY_WORDS,
    StrategyOption,
    allow_local,
    cores,
    max_length_option,
    together,
    tuned_option,
    vectors_option,
    workers_option,
)
from bidibeam.metrics import METRICS
from bidibeam.strategies import STRATEGIES

if TYPE_CHECKING:
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.evaluation.systems import System
    from bidibeam.interchange.reading import Replies
    from bidibeam.strategies.settings import StrategySettings

    TunedStrategy = tuple[StrategySettings, TunedSettings | None]

STRATEGY_HELP = (
    f"Let this strategy choose among the lists of an n-best file: {', '.join(STRATEGIES.names())}. "
    f"{STRATEGY_WORDS}. May be given more than once."
)

choosing_options = together(
    [
        click.option(
            "--strategy",
            "strategies",
            cls=StrategyOption,
            multiple=True,
            metavar="NAME",
            help=STRATEGY_HELP,
        ),
        max_length_option,
        vectors_option,
        tuned_option,
        workers_option,
    ]
)
testing_options = together(
    [
        click.option(
            "--samples",
            type=click.IntRange(min=1),
            default=1000,
            show_default=True,
            help="Bootstrap resamples, for intervals and for the paired bootstrap.",
        ),
        click.option(
            "--trials",
            type=click.IntRange(min=1),
            default=10_000,
            show_default=True,
            help="Trials of approximate randomisation.",
        ),
        click.option(
            "--seed",
            type=click.IntRange(min=0),
            default=12345,
            show_default=True,
            help="Of both: another seed, other random numbers.",
        ),
    ]
)


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
@choosing_options
@testing_options
@click.option(
    "--out",
    "out_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Also write every number, with its signature, as JSON.",
)
@click.option("--signatures", is_flag=True, help="Also print how every number was computed.")
def evaluate(
    systems: tuple[str, ...],
    baselines: tuple[str, ...],
    metrics: tuple[str, ...],
    references_file: str | None,
    strategies: tuple[str, ...],
    out_file: Path | None,
    signatures: bool,
    samples: int,
    trials: int,
    seed: int,
    **choosing: Any,
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
    from bidibeam.cli.console import console, notice_if_slow
    from bidibeam.cli.output import check_not_input
    from bidibeam.cli.tables import print_evaluation, print_signatures
    from bidibeam.errors import SettingsError
    from bidibeam.evaluation.evaluate import TESTED, evaluate_systems
    from bidibeam.evaluation.significance import Resampling

    for metric in metrics:
        METRICS.get(metric)
    if baselines and metrics and TESTED not in metrics:
        raise SettingsError("--baseline is for tests, which are made on BLEU: add --metric bleu.")
    for flag, value in (("--vectors", choosing["vectors"]), ("--tuned", choosing["tuned_file"])):
        if value is not None and not strategies:
            raise SettingsError(f"{flag} is for strategies: name one with --strategy.")
    files = [_split_name(argument) for argument in systems]
    chosen_by = [" ".join(name.split()) for name in strategies]
    settings = _strategy_settings(strategies, choosing.pop("tuned_file"))
    names = _system_names(files, chosen_by)
    against = _check_baselines(baselines, names)
    check_not_input(out_file, [*(file for _, file in files), references_file])
    replies = _read_replies([file for _, file in files], references_file, needs_lists=bool(strategies))
    found = _choose(replies, names, settings, **choosing) if strategies else _take(replies, names)
    wanted = list(dict.fromkeys(metrics)) or METRICS.names()
    with notice_if_slow("Scoring and testing ..."):
        results = evaluate_systems(found, wanted, against, resampling=Resampling(samples, trials, seed))
    print_evaluation(results, against)
    if signatures:
        print_signatures(results)
    if out_file is not None:
        from bidibeam.files import write_json

        write_json(out_file, results)
        console.print(f"Wrote {out_file}.", soft_wrap=True)


def _split_name(argument: str) -> tuple[str | None, str]:
    """FILE, or NAME=FILE, as the name, if there is one, and the file."""
    from bidibeam.errors import SettingsError

    name, equals, file = argument.partition("=")
    if not equals or Path(argument).exists():
        return None, argument
    if not name.strip() or not file:
        raise SettingsError(f"A system is FILE or NAME=FILE, not {argument!r}.")
    return name.strip(), file


def _system_names(files: Sequence[tuple[str | None, str]], strategies: Sequence[str]) -> list[str]:
    """What the systems are called: as the file, as the strategy, or as both if there are several of each."""
    from bidibeam.errors import SettingsError

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


def _check_baselines(baselines: Sequence[str], names: Sequence[str]) -> list[str]:
    from bidibeam.errors import UnknownNameError

    for baseline in baselines:
        if baseline not in names:
            raise UnknownNameError(
                f"No system is called {baseline!r}, to be the baseline. Choose one of: {', '.join(names)}."
            )
    return list(dict.fromkeys(baselines)) or [names[0]]


def _strategy_settings(names: Sequence[str], tuned_file: Path | None) -> list[TunedStrategy]:
    """The strategies that systems' names stand for, each with the file that it was tuned by, if it was."""
    from bidibeam.strategies.naming import SystemName, strategy_named

    tuned = None
    if tuned_file is not None:
        from bidibeam.api.tuned import TunedSettings  # brings PyTorch, which takes seconds

        tuned = TunedSettings.at(tuned_file)
    options = {} if tuned is None else tuned.options
    found: list[TunedStrategy] = []
    for name in names:
        words, settings = SystemName.of(name), strategy_named(name, options)
        allow_local(words.similarity)
        _ = settings.requirements  # asked for here, so that what is wrong is said before anything is read
        found.append((settings, tuned if words.is_tuned or words.strategy in options else None))
    return found


def _read_replies(files: Sequence[str], references_file: str | None, *, needs_lists: bool) -> list[Replies]:
    """The files with a reference for every source; a note says if replies hold tabs, as tables do."""
    from bidibeam.cli.console import note
    from bidibeam.errors import InputError
    from bidibeam.interchange.reading import read_replies, with_references

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
        for index in islice(tabs, 1):
            note(f"{each.place(index)} holds a tab; the whole line counts as the reply.")
    return with_references(replies, references_file)


def _take(files: Sequence[Replies], names: Sequence[str]) -> list[System]:
    """A system for each file: its replies as they are."""
    from bidibeam.evaluation.systems import system_from_replies

    return [
        system_from_replies(name, file.beams, file.signature, beam_size=file.beam_size)
        for name, file in zip(names, files, strict=True)
    ]


def _choose(
    files: Sequence[Replies],
    names: Sequence[str],
    chosen_by: Sequence[TunedStrategy],
    *,
    max_length: int,
    vectors: Path | None,
    workers: int | None,
) -> list[System]:
    """A system for each file and strategy: what the strategy chooses among the file's lists."""
    from bidibeam._version import __version__
    from bidibeam.cli.console import track
    from bidibeam.errors import SettingsError
    from bidibeam.evaluation.systems import choose_system
    from bidibeam.strategies.ranking import warm_up

    used = next((tuned for _, tuned in chosen_by if tuned is not None), None)
    for file in files:
        for settings, _ in chosen_by:
            file.check(settings.requirements, settings.name)
        if used is not None:
            note_other_model(used, file.file, file.model)
    words, longest = vocabulary_of(beams for file in files for beams in file.beams)
    read_vectors = word_space(vectors, words)
    space = None if read_vectors is None else cache(read_vectors)
    strategies = [settings.build(max_length=max_length, space=space) for settings, _ in chosen_by]
    if space is not None and not space.cache_info().misses:
        raise SettingsError("No --strategy uses word vectors: leave --vectors out.")
    with_length = (each for each in strategies if hasattr(getattr(each, "similarity", None), "max_length"))
    for strategy in islice(with_length, 1):
        note_length(strategy, longest)
    systems = []
    pairs = product(files, zip(strategies, chosen_by, strict=True))
    for name, (file, (strategy, (_, tuned))) in zip(names, pairs, strict=True):
        warm_up(strategy)
        facts = {"tuned": tuned.name} if tuned is not None else {}
        facts |= {**dict(file.signature.facts), "bidibeam": __version__}
        signature = strategy.signature.extended(**facts)
        systems.append(
            choose_system(
                name, strategy, file.beams, signature=signature, workers=workers or cores(), track=track
            )
        )
    return systems
