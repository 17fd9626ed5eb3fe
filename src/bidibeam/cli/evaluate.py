"""`bidibeam evaluate`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, cycle, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli import inputs, options
from bidibeam.cli.console import (
    FEW_SOURCES,
    format_count,
    note,
    notice_if_slow,
    show,
    show_result,
    tell,
    track,
)
from bidibeam.cli.control import find_controlled, search_with_control
from bidibeam.cli.output import check_not_input
from bidibeam.errors import InputError, SettingsError, UnknownNameError
from bidibeam.files import write_json
from bidibeam.interchange.on_disk import IdsOnDisk
from bidibeam.interchange.reading import read_replies, read_sources, with_references
from bidibeam.interchange.text_lines import has_ending
from bidibeam.metrics import DEFAULT_METRIC, DEFAULT_METRICS
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.ranking import warm_up

if TYPE_CHECKING:
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.evaluation.systems import System
    from bidibeam.interchange.reading import Replies
    from bidibeam.protocols import Metric
    from bidibeam.strategies.settings import StrategySettings

    TunedStrategy = tuple[StrategySettings, TunedSettings | None]

WHY_TWO_ANSWERS = (
    "low and high hold the difference on 95 % of bootstrap resamples; p is how often one as large comes of "
    "chance alone, if replies are resampled, or swapped at random. The first p is sacreBLEU's, which takes "
    "chance for a difference too often: where they disagree, believe the second."
)
"""What stands under the tests."""
OWN_CONTROL = "each system's control"
"""What a table is headed in which every system stands beside another baseline."""


@click.command()
@click.argument("systems", nargs=-1, required=True, metavar="SYSTEM...")
@options.option(
    "--references references_file",
    'What people answered: one a line, column 2 of a .tsv, or JSON lines with "reference".  [default: '
    "the lists' own]",
    "FILE",
)
@options.option(
    "--baseline baselines",
    "The system that the others are tested against; may be given more than once. With --control "
    "every system is tested beside its own control, too.  [default: the first]",
    "NAME",
    multiple=True,
)
@options.option(
    "--metric metrics",
    f"{options.METRIC_NAMES}. May be given more than once: the oracle chooses by the first.  [default: "
    f"{', '.join(DEFAULT_METRICS)}]",
    "NAME",
    multiple=True,
)
@options.metric_settings
@options.option(
    "--strategy strategies",
    f"Let this strategy choose among the lists of an n-best file: {', '.join(STRATEGIES.names())}. "
    f"{options.STRATEGY_WORDS}. May be given more than once.",
    "NAME",
    cls=options.StrategyOption,
    multiple=True,
)
@options.option(
    "--control",
    "A second regular network, trained alike with another seed: strategies of both ends also choose with it "
    "in the reverse one's place, as systems called NAME control, with the same search and settings.",
    "MODEL",
)
@options.option(
    "--model",
    "With --control: the model that wrote the lists. Its tokens and data are compared with the control's, "
    "and it scores what the control writes, for strategies such as 'loglinear both'.",
    "MODEL",
)
@options.max_length
@options.vectors
@options.tuned
@options.workers
@options.option(
    "--samples", "Bootstrap resamples, for intervals and for the paired bootstrap.", options.COUNT, 1000
)
@options.option("--trials", "Trials of approximate randomisation.", options.COUNT, 10_000)
@options.option("--seed", "Of both: another seed, other random numbers.", click.IntRange(min=0), 12345)
@options.option("--out out_file", "Also write every number, with its signature, as JSON.", options.FILE)
@options.option("--signatures", "Also print how every number was computed.", bool)
def evaluate(
    systems: tuple[str, ...],
    baselines: tuple[str, ...],
    metrics: tuple[str, ...],
    tokenize: str | None,
    lowercase: bool,
    references_file: str | None,
    strategies: tuple[str, ...],
    control: str | None,
    model: str | None,
    max_length: int | None,
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
    each strategy named is a system. Line n of every file belongs to the same source, which may have several
    references.

    Every metric named, or else BLEU, comes with its 95 % bootstrap interval and, for several systems, with
    two paired tests on sacreBLEU's random numbers; --out has the intervals of all.
    Intervals are its percentiles, where it prints their mean and half their width. A swap that makes the very
    difference that was seen counts as at least as large here: p is 1 for systems that never differ, and
    larger than its own where ties are common, as in edits or right words.

    \b
    bidibeam evaluate ours.txt theirs.txt --references references.txt
    bidibeam evaluate old=a.jsonl new=b.jsonl --baseline old --out scores.json
    bidibeam evaluate beams.jsonl --strategy vbs --strategy "bidia bleu_t" --strategy oracle
    bidibeam evaluate beams.jsonl --strategy "bidia wmd_t" --vectors wiki.vec --signatures
    bidibeam evaluate ours.txt theirs.txt --references phones.txt --metric ser --metric wer
    bidibeam evaluate best.moses --references references.txt --metric ter
    bidibeam train data --out other --seed 1
    bidibeam evaluate beams.jsonl --strategy bidis --control other --model first
    """  # noqa: D301
    from bidibeam.evaluation.evaluate import evaluate_systems
    from bidibeam.evaluation.systems import CONTROL
    from bidibeam.metrics.resampling import Resampling

    wanted = inputs.build_metrics(metrics or DEFAULT_METRICS, tokenize, lowercase)
    for flag, value in (("--vectors", vectors), ("--tuned", tuned_file), ("--control", control)):
        if value is not None and not strategies:
            raise SettingsError(f"{flag} is for strategies: name one with --strategy.")
    files = [_split_name(argument) for argument in systems]
    tuned = inputs.read_tuned(tuned_file)
    settings = _strategy_settings(strategies, tuned, wanted[0] if metrics else None)
    names = _name_systems(files, [" ".join(name.split()) for name in strategies])
    if model is not None and control is None:
        raise SettingsError("--model is for --control: it says which network that one is compared with.")
    writer = None if model is None else inputs.load_model(model)
    controlled = find_controlled([each for each, _ in settings], writer) if control is not None else []
    of_names = zip(names, cycle(settings), strict=False)  # each file has a system of each strategy
    controls = [f"{name}{CONTROL}" for name, (each, _) in of_names if each in controlled]
    against = _find_baselines(baselines, names, controls)
    check_not_input(out_file, [*(file for _, file in files), references_file])
    replies = _read_replies([file for _, file in files], references_file, needs_lists=bool(strategies))
    length = max_length or (tuned.penalty_length if tuned is not None else None)
    how: Any = {"max_length": length, "vectors": vectors, "workers": workers or inputs.count_cores()}
    found = _build_systems(replies, names, settings, **how)
    if control is not None:
        lists = search_with_control(replies, control, writer)
        found += _build_systems(lists, controls, [each for each in settings if each[0] in controlled], **how)
    inputs.note_case(
        (reply for system in found for reply in system.replies),
        chain.from_iterable(found[0].references),
        wanted,
    )
    tested = [metric.name for metric in wanted] if metrics else [DEFAULT_METRIC]
    resampling = Resampling(samples, trials, seed)
    with notice_if_slow("Scoring and testing ..."):
        results = evaluate_systems(
            found, wanted, against, controls=controls, tested=tested, resampling=resampling
        )
    _print_evaluation(results, against, tested)
    if signatures:
        _print_signatures(results)
    if out_file is not None:
        write_json(out_file, results)
        tell(f"Wrote {out_file}.", style=None)


def _find_baselines(baselines: Sequence[str], names: Sequence[str], controls: Sequence[str]) -> list[str]:
    """The systems to test against, each once: those asked for, or else the first."""
    for baseline in baselines:
        if baseline not in (*names, *controls):
            known = ", ".join((*names, *controls))
            raise UnknownNameError(
                f"No system is called {baseline!r}, to be the baseline. Choose one of: {known}."
            )
    return list(dict.fromkeys(baselines)) or [names[0]]


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


def _strategy_settings(
    names: Sequence[str], tuned: TunedSettings | None, metric: Metric | None
) -> list[TunedStrategy]:
    """The strategies that systems' names stand for, each with the file that it was tuned by, if it was."""
    from bidibeam.evaluation.systems import with_oracle
    from bidibeam.strategies.settings import StrategySettings

    found: list[TunedStrategy] = []
    for name in names:
        named = StrategySettings.named(name)
        settings, used = (named, None) if tuned is None else tuned.apply(named)
        settings.check_tuned()
        settings = with_oracle(settings, metric)
        if settings.compares:
            inputs.allow_local(settings.similarity)
        _ = settings.requirements  # asked for here, so that what is wrong is said before anything is read
        found.append((settings, used))
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
    if references_file is not None:
        _note_repeated(references_file)
    return with_references(replies, references_file)


def _note_repeated(file: str) -> None:
    """Say so if a table has sources on several lines: each line is scored, with its own reference alone."""
    if has_ending(file, ".tsv"):
        known, known_twice = IdsOnDisk(), IdsOnDisk()
        sources = (
            each.source for each in read_sources(file) if known.find_earlier(each.source, 0) is not None
        )
        if repeated := sum(known_twice.find_earlier(source, 0) is None for source in sources):
            note(
                f"{format_count(repeated, 'source stands', 'sources stand')} on several lines of {file}, and "
                "each line is scored with its own reference. `bidibeam prepare tsv` makes one item of them, "
                "with all their references, in test.jsonl."
            )


def _build_systems(
    files: Sequence[Replies],
    names: Sequence[str],
    chosen_by: Sequence[TunedStrategy],
    *,
    max_length: int | None,
    vectors: Path | None,
    workers: int,
) -> list[System]:
    """A system for each file and strategy, of what it chooses; without strategies, of each file's replies."""
    from bidibeam.evaluation.systems import choose_system, system_from_replies

    if not chosen_by:
        return [
            system_from_replies(name, file.beams, file.signature, beam_size=file.beam_size)
            for name, file in zip(names, files, strict=True)
        ]
    used = next((tuned for _, tuned in chosen_by if tuned is not None), None)
    for file in files:
        for settings, _ in chosen_by:
            file.check(settings.requirements, settings.name)
        if used is not None:
            inputs.note_other_model(used, file.file, file.written_by)
    space = inputs.word_vectors(vectors, chain.from_iterable(file.beams for file in files))
    strategies = [settings.build(max_length=max_length, space=space) for settings, _ in chosen_by]
    if vectors is not None and not any(settings.uses_vectors for settings, _ in chosen_by):
        raise SettingsError("No --strategy uses word vectors: leave --vectors out.")
    inputs.note_length(strategies, chain.from_iterable(file.beams for file in files))
    for file in (file for file in files if file.signature.get("control") is None):  # told once
        inputs.note_other_length(strategies, file.file, file.written_by)
    systems = []
    pairs = product(files, zip(strategies, chosen_by, strict=True))
    for name, (file, (strategy, (_, tuned))) in zip(names, pairs, strict=True):
        warm_up(strategy)
        tuned_by = () if tuned is None else (("tuned", tuned.name),)
        facts = (*tuned_by, *file.signature.facts)
        systems.append(choose_system(name, strategy, file.beams, facts=facts, workers=workers, track=track))
    return systems


def _print_evaluation(results: Mapping[str, Any], baselines: Sequence[str], tested: Sequence[str]) -> None:
    """Tables of scores, those of metrics that were tested with their intervals, and of tests; and notes."""
    from bidibeam.reporting.numbers import label_metric
    from bidibeam.reporting.tables import NumbersTable  # brings rich

    systems: dict[str, Any] = results["systems"]
    scores = next(iter(systems.values()))["scores"]
    columns = {name: ["value", *(("low", "high") if name in tested else ())] for name in scores}
    groups = [
        [(name if key == "value" else key).replace("_", "\n").replace("-", "\n-") for key in keys]
        for name, keys in columns.items()
    ]
    rows = [
        (system, [f"{each['scores'][name][key]:.4g}" for name, keys in columns.items() for key in keys])
        for system, each in systems.items()
    ]
    title = format_count(results["sources"], "source")
    show_result(NumbersTable(title, groups, rows, is_dense=True), crop=False)
    groups = [["difference", "low", "high"], ["p, paired\nbootstrap", "p, approximate\nrandomisation"]]
    told: set[tuple[str, str, str]] = set()
    for metric, baseline in product(tested, (*baselines, OWN_CONTROL)):
        tests = [
            test
            for test in results["tests"]
            if test["metric"] == metric
            and baseline == (test["baseline"] if test["baseline"] in baselines else OWN_CONTROL)
            and (metric, baseline, test["system"]) not in told  # a pair is told once
        ]
        told |= {(metric, test["system"], baseline) for test in tests}
        rows = [
            (
                test["system"],
                [f"{round(test[key], 12):.4g}" for key in ("difference", "low", "high")]
                + [f"{test[key]:.2g}" for key in ("paired_bootstrap", "approximate_randomisation")],
            )
            for test in tests
        ]
        if rows:
            lower = "; lower is better" if metric in results["lower_is_better"] else ""
            title = f"{label_metric(metric)} beside that of {baseline}{lower}"
            show_result(NumbersTable(title, groups, rows, is_dense=True), crop=False)
    if results["tests"]:
        show(WHY_TWO_ANSWERS, style="dim")
    for sentence in _list_notes(results):
        note(sentence)


def _list_notes(results: Mapping[str, Any]) -> Iterator[str]:
    """What is to be noted about scores and tests."""
    sources, systems = results["sources"], results["systems"]
    if sources < FEW_SOURCES:
        yield f"{format_count(sources, 'source')}: scores and tests on so few say little."
    empty = results["empty_references"]
    if empty:
        fate = "has only" if empty == 1 else "have only"
        yield (
            f"{empty:,} of {format_count(sources, 'source')} {fate} empty references; they count as they "
            "are, and no reply has a word in common with them."
        )
    for name, each in systems.items():
        if each["empty"]:
            is_one = each["empty"] == 1
            fate = "is empty; it scores as it is" if is_one else "are empty; they score as they are"
            yield f"{each['empty']:,} of {format_count(sources, 'reply', 'replies')} of {name} {fate}."
    sizes: dict[str, int] = results["beam_sizes"]
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} {size}" for name, size in sizes.items())
        yield (
            f"the systems did not choose among as many hypotheses (N_B): {told}. To compare them at one N_B, "
            "decode with each --strategy and the same --beam-size, and evaluate the replies."
        )
    if len(systems) == 1:
        yield "there is one system and nothing to compare it with, so no test was made."
    if results["lower_is_better"]:
        told = ", ".join(results["lower_is_better"])
        yield f"lower is better of {told}: a difference below 0 is a gain."


def _print_signatures(results: Mapping[str, Any]) -> None:
    """How every number was computed; what is the same for all systems is said once."""
    told = [(name, each["signature"]) for name, each in results["systems"].items()]
    for each in results["systems"].values():
        told += [(metric, score["signature"]) for metric, score in each["scores"].items()]
    told += [("tests", test["signature"]) for test in results["tests"]]
    for name, signature in dict.fromkeys(told):
        show_result(f"{name}: {signature}", soft_wrap=True)
