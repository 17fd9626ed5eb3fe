"""`bidibeam evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from bidibeam.evaluation.significance import Resampling
    from bidibeam.evaluation.systems import System
    from bidibeam.interchange.reading import Replies
    from bidibeam.reporting.tables import NumbersTable
    from bidibeam.strategies.settings import StrategySettings

FORMAT_VERSION = 1
TESTED = "bleu"
"""The measure that systems are tested on."""
FEW_SOURCES = 100
"""Below so many, scores and tests say little."""
WHY_TWO_ANSWERS = (
    "low and high hold the difference on 95 % of bootstrap resamples; p is how often one as large comes of "
    "chance alone, if replies are resampled, or swapped at random. They answer different questions, so near "
    "0.05 they can disagree, also with whether low and high leave out 0: take such a difference as undecided."
)
"""What stands under the tests."""
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
    out_file: Path | None,
    signatures: bool,
    samples: int,
    trials: int,
    seed: int,
    **reading: Any,
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
    from bidibeam.cli.console import console
    from bidibeam.errors import SettingsError
    from bidibeam.evaluation.significance import Resampling

    for metric in metrics:
        METRICS.get(metric)
    if baselines and metrics and TESTED not in metrics:
        raise SettingsError("--baseline is for tests, which are made on BLEU: add --metric bleu.")
    found, against = _read_systems(systems, baselines, out_file, **reading)
    wanted = list(dict.fromkeys(metrics)) or METRICS.names()
    results = _results(found, wanted, against, Resampling(samples, trials, seed))
    _show(results, against)
    if signatures:
        _show_signatures(results)
    if out_file is not None:
        from bidibeam.files import write_json

        write_json(out_file, results)
        console.print(f"Wrote {out_file}.", soft_wrap=True)


def _read_systems(
    arguments: Sequence[str],
    baselines: Sequence[str],
    out_file: Path | None,
    *,
    references_file: str | None,
    strategies: Sequence[str],
    tuned_file: Path | None,
    vectors: Path | None,
    max_length: int,
    workers: int | None,
) -> tuple[list[System], list[str]]:
    """The systems, and the names of those to test against; names are checked before anything is read."""
    from bidibeam.cli.output import check_not_input
    from bidibeam.errors import InputError, SettingsError, UnknownNameError
    from bidibeam.evaluation.systems import system_from_replies
    from bidibeam.interchange.reading import read_replies, with_references

    for flag, value in (("--vectors", vectors), ("--tuned", tuned_file)):
        if value is not None and not strategies:
            raise SettingsError(f"{flag} is for strategies: name one with --strategy.")
    files = [_name_and_file(argument) for argument in arguments]
    choosing = _choosing(strategies, tuned_file)
    names = _system_names(files, [" ".join(name.split()) for name in strategies])
    for baseline in baselines:
        if baseline not in names:
            raise UnknownNameError(
                f"No system is called {baseline!r}, to be the baseline. Choose one of: {', '.join(names)}."
            )
    against = list(dict.fromkeys(baselines)) or [names[0]]
    check_not_input(out_file, [*(file for _, file in files), references_file])
    replies = [read_replies(file, whole_lists=bool(strategies)) for _, file in files]
    for each in replies:
        if strategies and not each.has_lists:
            raise InputError(
                f"{each.file} holds text, one reply a line, and a --strategy chooses among the lists of an "
                "n-best file. Give such a file, or leave --strategy out."
            )
        _note_tab(each)
    replies = with_references(replies, references_file)
    if not choosing:
        return [
            system_from_replies(name, each.beams, each.signature, beam_size=each.beam_size)
            for name, each in zip(names, replies, strict=True)
        ], against
    found = _choose(
        replies, names, choosing, max_length=max_length, vectors=vectors, workers=workers or cores()
    )
    return found, against


def _name_and_file(argument: str) -> tuple[str | None, str]:
    """FILE, or NAME=FILE, as the name, if there is one, and the file.

    Raises:
        SettingsError: If the name or the file is left out.
    """
    from bidibeam.errors import SettingsError

    name, equals, file = argument.partition("=")
    if not equals or Path(argument).exists():
        return None, argument
    if not name.strip() or not file:
        raise SettingsError(f"A system is FILE or NAME=FILE, not {argument!r}.")
    return name.strip(), file


def _system_names(files: Sequence[tuple[str | None, str]], strategies: Sequence[str]) -> list[str]:
    """What the systems are called: as the file, as the strategy, or as both where there are several of each.

    Raises:
        SettingsError: If two have the same name.
    """
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


class _Choosing(NamedTuple):
    """A strategy that chooses: its settings, and where they come from if they were tuned."""

    settings: StrategySettings
    tuned: TunedSettings | None


def _choosing(names: Sequence[str], tuned_file: Path | None) -> list[_Choosing]:
    """The strategies that systems' names stand for.

    Raises:
        UnknownNameError: If there is no such strategy or similarity.
        SettingsError: If a name says more than its strategy has, or less than it needs.
        RunError: If what was tuned cannot be read.
    """
    from bidibeam.strategies.naming import SystemName, strategy_named

    tuned = None
    if tuned_file is not None:
        from bidibeam.api.tuned import TunedSettings  # brings PyTorch, which takes seconds

        tuned = TunedSettings.at(tuned_file)
    options = {} if tuned is None else tuned.options
    found = []
    for name in names:
        words, settings = SystemName.of(name), strategy_named(name, options)
        allow_local(words.similarity)
        _ = settings.requirements  # asked for here, so that what is wrong is said before anything is read
        found.append(_Choosing(settings, tuned if words.is_tuned or words.strategy in options else None))
    return found


def _note_tab(replies: Replies) -> None:
    """Say so if replies hold a tab: they may be a table."""
    from bidibeam.cli.console import note

    tabs = (index for index, beams in enumerate(replies.beams) if "\t" in beams.regular.best.text)
    index = None if replies.has_lists else next(tabs, None)
    if index is not None:
        note(f"{replies.place(index)} holds a tab; the whole line counts as the reply.")


def _choose(
    files: Sequence[Replies],
    names: Sequence[str],
    choosing: Sequence[_Choosing],
    *,
    max_length: int,
    vectors: Path | None,
    workers: int,
) -> list[System]:
    """A system for each file and strategy: what the strategy chooses among the file's lists.

    Raises:
        InputError: With file and line, if a source has not what a strategy needs.
        SettingsError: If word vectors are missing, or of no use.
    """
    from bidibeam.cli.console import track
    from bidibeam.errors import SettingsError
    from bidibeam.evaluation.systems import choose_system
    from bidibeam.strategies.ranking import warm_up

    used = next((each.tuned for each in choosing if each.tuned), None)
    for file in files:
        for each in choosing:
            file.check(each.settings.requirements, each.settings.name)
        if used is not None:
            note_other_model(used, file.file, file.model)
    words, longest = vocabulary_of(beams for file in files for beams in file.beams)
    read_vectors = word_space(vectors, words)
    space = None if read_vectors is None else cache(read_vectors)
    strategies = [each.settings.build(max_length=max_length, space=space) for each in choosing]
    if space is not None and not space.cache_info().misses:
        raise SettingsError("No --strategy uses word vectors: leave --vectors out.")
    with_length = (each for each in strategies if hasattr(getattr(each, "similarity", None), "max_length"))
    for strategy in islice(with_length, 1):
        note_length(strategy, longest)
    named, systems = iter(names), []
    for file in files:
        for each, strategy in zip(choosing, strategies, strict=True):
            warm_up(strategy)
            facts = {"tuned": each.tuned.name} if each.tuned is not None else {}
            systems.append(
                choose_system(
                    next(named),
                    strategy,
                    file.beams,
                    metadata={**facts, **dict(file.signature.facts)},
                    workers=workers,
                    track=track,
                )
            )
    return systems


def _results(
    systems: Sequence[System], metrics: Sequence[str], baselines: Sequence[str], resampling: Resampling
) -> dict[str, Any]:
    """Every number, as --out writes it."""
    from bidibeam._version import __version__
    from bidibeam.cli.console import notice_if_slow
    from bidibeam.evaluation.evaluate import compare, score_system

    with notice_if_slow("Scoring and testing ..."):
        scored = {system.name: score_system(system, metrics, resampling=resampling) for system in systems}
        tests = compare(systems, baselines, resampling=resampling) if TESTED in metrics else []
    return {
        "format_version": FORMAT_VERSION,
        "bidibeam": __version__,
        "sources": len(systems[0].replies),
        "beam_sizes": {system.name: system.beam_size for system in systems if system.beam_size},
        "empty_references": sum(not words for words in systems[0].reference_words),
        "systems": scored,
        "tests": tests,
    }


def _show(results: dict[str, Any], baselines: Sequence[str]) -> None:
    """Tables of scores and tests, and what is to be noted about them."""
    from bidibeam.cli.console import console, counted
    from bidibeam.reporting.tables import NumbersTable

    systems: dict[str, Any] = results["systems"]
    sources = results["sources"]
    scores = next(iter(systems.values()))["scores"]
    columns = {name: [key for key in score if key != "signature"] for name, score in scores.items()}
    groups = [[_header(name if key == "value" else key) for key in keys] for name, keys in columns.items()]
    rows = [
        (
            system,
            [f"{each['scores'][name][key]:.4g}" for name, keys in columns.items() for key in keys],
        )
        for system, each in systems.items()
    ]
    console.print(NumbersTable(counted(sources, "source"), groups, rows, is_dense=True), crop=False)
    for baseline in baselines:
        tests = [test for test in results["tests"] if test["baseline"] == baseline]
        if tests:
            console.print(_tests_table(baseline, tests), crop=False)
    if results["tests"]:
        console.print(WHY_TWO_ANSWERS, style="dim")
    for told in _notes(results):
        console.print(told, style="dim", soft_wrap=True)


def _notes(results: dict[str, Any]) -> Iterator[str]:
    """What is to be noted about scores and tests."""
    from bidibeam.cli.console import counted

    sources, systems = results["sources"], results["systems"]
    if sources < FEW_SOURCES:
        yield f"Note: {counted(sources, 'source')}: scores and tests on so few say little."
    empty = results["empty_references"]
    if empty:
        fate = (
            "is empty; it counts as it is, and no reply has a word in common with it"
            if empty == 1
            else "are empty; they count as they are, and no reply has a word in common with them"
        )
        yield f"Note: {empty:,} of {counted(sources, 'reference')} {fate}."
    for name, each in systems.items():
        if each["empty"]:
            is_one = each["empty"] == 1
            fate = "is empty; it scores as it is" if is_one else "are empty; they score as they are"
            yield f"Note: {each['empty']:,} of {counted(sources, 'reply', 'replies')} of {name} {fate}."
    sizes: dict[str, int] = results["beam_sizes"]
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} {size}" for name, size in sizes.items())
        yield f"Note: the systems did not choose among as many hypotheses (N_B): {told}."
    if len(systems) == 1:
        yield "Note: there is one system and nothing to compare it with, so no test was made."
    elif not results["tests"]:
        yield "Note: tests are made on BLEU, which was not asked for, so there is none; add --metric bleu."


def _header(name: str) -> str:
    """A measure's name on narrow lines."""
    return name.replace("_", "\n").replace("-", "\n-")


def _tests_table(baseline: str, tests: Sequence[dict[str, Any]]) -> NumbersTable:
    from bidibeam.reporting.tables import NumbersTable

    rows = [
        (
            test["system"],
            [
                *(f"{test[key]:.4g}" for key in ("difference", "low", "high")),
                *(f"{test[key]:.2g}" for key in ("paired_bootstrap", "approximate_randomisation")),
            ],
        )
        for test in tests
    ]
    groups = [("difference", "low", "high"), ("p, paired\nbootstrap", "p, approximate\nrandomisation")]
    return NumbersTable(f"BLEU beside that of {baseline}", groups, rows, is_dense=True)


def _show_signatures(results: dict[str, Any]) -> None:
    """How every number was computed; what is the same for all systems is said once."""
    from bidibeam.cli.console import console

    told = [(name, each["signature"]) for name, each in results["systems"].items()]
    for each in results["systems"].values():
        told += [(metric, score["signature"]) for metric, score in each["scores"].items()]
    told += [("tests", test["signature"]) for test in results["tests"]]
    for name, signature in dict.fromkeys(told):
        console.print(f"{name}: {signature}", soft_wrap=True)
