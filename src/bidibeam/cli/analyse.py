"""`bidibeam analyse`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam._version import __version__
from bidibeam.cli import inputs, options
from bidibeam.cli.console import note, notice_if_slow, show, tell, tell_missing, track
from bidibeam.errors import InputError, SettingsError, UnknownNameError
from bidibeam.evaluation import ANALYSES, RESULTS_VERSION
from bidibeam.evaluation import analyse as make_analyses
from bidibeam.files import write_json
from bidibeam.hypotheses import Beams
from bidibeam.interchange.lists import ListReader
from bidibeam.metrics import DEFAULT_METRIC

if TYPE_CHECKING:
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.evaluation.systems import Evidence
    from bidibeam.protocols import Metric

OF_DATA = ("constant", "positions")
"""The analyses of prepared data, which need no lists."""
OUT_FILE = "analyses.json"
SAMPLES = 3
"""Examples that are printed; the file has all."""
UNREPORTED: dict[str, tuple[str, Callable[[Any], float | None]]] = {
    "ranks": ("first five places, %", lambda row: 100 * sum(row["counts"][:5]) / sum(row["counts"])),
    "diversity": ("word reward of VBS at its length", lambda row: (row["matched"] or {}).get("word_reward")),
}
"""Numbers of analyses that no report has: the head of a column, and where they are."""
HEAD = {"format_version": RESULTS_VERSION, "bidibeam": __version__}


@click.command()
@click.argument("files", metavar="[NBEST.jsonl...]", nargs=-1)
@options.option(
    "--data",
    f"Prepared data to analyse in place of lists, as far as that needs no hypotheses: {', '.join(OF_DATA)}.",
    options.PATH,
)
@options.option(
    "--analysis names",
    f"Only this one, and it must be possible: {', '.join(ANALYSES.names())}. May be repeated.",
    "NAME",
    multiple=True,
)
@options.option(
    "--systems",
    'Only this system: "vbs", "bidia wmd_t", "bidia bleu_t either", "bidia bleu_t tuned" ... May be '
    "repeated.  [default: all that the lists are enough for]",
    "NAME",
    multiple=True,
)
@options.metric
@options.metric_settings
@options.max_length
@options.vectors
@options.tuned
@options.option(
    "--examples",
    "Sources to keep as examples: those that systems disagree on most.",
    click.IntRange(0, options.LARGEST),
    20,
)
@options.workers
@options.option(
    "--out",
    f"A folder that gets {OUT_FILE}, from which `bidibeam report` makes figures; with --data a file for "
    "each analysis.",
    options.PATH,
)
def analyse(
    files: Sequence[str],
    data: Path | None,
    names: Sequence[str],
    metric: str | None,
    tokenize: str | None,
    lowercase: bool,
    out: Path | None,
    **flags: Any,
) -> None:
    """Look behind the scores of n-best lists: ranks, headroom, diversity and more.

    NBEST.jsonl is what `bidibeam decode --n-best` writes, or lists from any other decoder (docs/nbest.md); -
    is stdin. Every system that finds what it needs chooses among the lists. Its N_B is their length, for
    bidia that of regular and reverse list together; so lists of 25 and 25 give bidia at N_B = 50 and vbs at
    25. Give several files of the same sources to compare at the same N_B:

    \b
    bidibeam decode run test.jsonl --beam-size 50 --strategy vbs --n-best regular.jsonl > vbs.txt
    bidibeam decode run test.jsonl --beam-size 50 --n-best both.jsonl > bidia.txt
    bidibeam analyse regular.jsonl both.jsonl --tuned run --vectors wiki.vec --out analysis

    \b
    ranks        which place of the regular beam replies come from
    headroom     how much of the way from tuned VBS to the oracle each system goes, by --metric
    diversity    distinct-n, beside VBS at the same length and in equally many words
    sensitivity  what becomes of bidia with other settings
    examples     sources on which the systems disagree most, with both beams

    What the lists are not enough for is left out, and why is said.

    With --data there are no lists, and each analysis goes to a file of its name:

    \b
    bidibeam analyse --data data/mine --analysis constant --out analysis
    \b
    constant     what the best single reply to all sources scores, chosen on validation
    positions    which words stand first, from the left and from the right
    """  # noqa: D301
    if out is not None and out.exists() and not out.is_dir():
        raise SettingsError(f"--out must name a folder, and {out} is a file.")
    if data is not None:
        if files:
            raise SettingsError("Give either lists or --data: what --data is enough for needs no lists.")
        _analyse_data(data, names, metric, tokenize=tokenize, lowercase=lowercase, out=out)
    elif files:
        (judge,) = inputs.build_metrics([metric or DEFAULT_METRIC], tokenize, lowercase)
        _analyse_lists(files, names, metric=judge, out=out, **flags)
    else:
        raise click.UsageError("Give lists, NBEST.jsonl..., or prepared data with --data.")


def _analyse_data(
    path: Path,
    names: Sequence[str],
    metric_name: str | None,
    *,
    tokenize: str | None,
    lowercase: bool,
    out: Path | None,
) -> None:
    """Analyse prepared data, each analysis to a file that `bidibeam report` reads."""
    from bidibeam.data.prepared import PreparedData
    from bidibeam.evaluation.corpus import CORPUS_ANALYSES

    for name in names:
        if name not in CORPUS_ANALYSES:
            known = ", ".join(CORPUS_ANALYSES)
            raise UnknownNameError(f"There is no analysis {name!r} of prepared data. Choose one of: {known}.")
    data = PreparedData.open(path)
    metric = inputs.find_metric(data, metric_name, tokenize, lowercase)
    about = {name: value for name, value in data.info.items() if name != "path"}
    for name in dict.fromkeys(names or CORPUS_ANALYSES):
        judged = {"metric": metric} if name == "constant" else {}
        content = CORPUS_ANALYSES[name](data, **judged, track=track)
        _print_analyses({name: content}, metric)
        if out is not None:
            file = out / f"{name}.json"
            write_json(file, {**HEAD, "corpus": about["corpus"], "data": about, name: content})
            tell(f"Wrote {file}, which `bidibeam report` reads.", style=None)


def _analyse_lists(
    files: Sequence[str],
    names: Sequence[str],
    *,
    systems: Sequence[str],
    metric: Metric,
    max_length: int | None,
    vectors: Path | None,
    tuned_file: Path | None,
    examples: int,
    workers: int | None,
    out: Path | None,
) -> None:
    """Let systems choose among the lists, and analyse, print and write what comes of it."""
    from bidibeam.evaluation.evaluate import describe_metrics
    from bidibeam.evaluation.systems import AGREEING, SYSTEMS, Evidence, choose_systems
    from bidibeam.strategies.settings import StrategySettings, check_systems, strategy_named

    for name in names:
        if name in OF_DATA:
            raise SettingsError(f"The analysis {name} is one of prepared data: give them with --data.")
        ANALYSES.get(name)
    check_systems(systems)
    inputs.allow_local(*systems)
    wanted = [StrategySettings.named(name).system for name in systems]
    tuned = inputs.read_tuned(tuned_file)
    max_length = max_length or (tuned.penalty_length if tuned is not None else None)
    lists = _read(files, tuned)
    space = inputs.word_vectors(vectors, chain.from_iterable(lists))
    if space is not None:
        space()  # loads the vectors now, so that errors show first
    known, threads = {} if tuned is None else tuned.options, workers or inputs.count_cores()
    with notice_if_slow("Choosing among the lists ..."):
        found, lacking = choose_systems(
            lists,
            wanted or None,
            max_length=max_length,
            load_vectors=space,
            tuned=known,
            metric=metric,
            workers=threads,
        )
    absent = {name: "and --systems leaves it out." for name in SYSTEMS if wanted and name not in wanted}
    evidence = Evidence(
        found,
        max_length=max_length,
        load_vectors=space,
        workers=threads,
        examples=examples,
        metric=metric,
        absent=absent,
    )
    with notice_if_slow("Analysing ..."):
        contents, missing = make_analyses(evidence, names or None)
    _print_analyses(contents, metric)
    sizes = (f"{name} {', '.join(map(str, sorted(each)))}" for name, each in found.items())
    show(f"N_B, the hypotheses that each could choose from: {'; '.join(sizes)}.", style="dim")
    if AGREEING in found:
        inputs.note_length(
            [strategy_named(AGREEING).build(max_length=max_length)], chain.from_iterable(lists)
        )
    if "bidis" in found and "bidis" not in known:
        note("bidis has the lambda 1, which nobody tuned; --tuned has a better one.")
    tell_missing("system", "systems", _share_reason(lacking))
    tell_missing("analysis", "analyses", missing)
    if out is not None:
        content = {
            **HEAD,
            **describe_metrics([metric]),
            "files": list(files),
            "sources": len(lists[0]),
            **_describe(evidence, vectors),
            "analyses": contents,
            "left_out": {"systems": lacking, "analyses": missing},
        }
        write_json(out / OUT_FILE, content)
        tell(f"Wrote {out / OUT_FILE}, which `bidibeam report` makes figures of.", style=None)


def _share_reason(lacking: Mapping[str, str]) -> dict[str, str]:
    """Why systems are left out, with one reason for all that must be tuned, where nothing is."""
    untuned = lacking.get("vbs-tuned")
    return {
        name: untuned if untuned and "must be tuned first" in reason else reason
        for name, reason in lacking.items()
    }


def _describe(evidence: Evidence, vectors: Path | None) -> dict[str, Any]:
    """What analyses of lists depend on: settings, and each system's signature."""
    from bidibeam.metrics.scoring import sign_references  # brings NumPy

    references = [line.references for sizes in evidence.systems.values() for line in sizes[max(sizes)].beams]
    metric = evidence.metric.signature
    return {
        "settings": {
            "max_length": evidence.max_length,
            "vectors": None if vectors is None else str(vectors),
            "metric": str(sign_references(metric, references) if all(references) else metric),
            "systems": list(evidence.systems),
        },
        "signatures": {
            name: {str(size): str(system.signature) for size, system in sizes.items()}
            for name, sizes in evidence.systems.items()
        },
    }


def _read(files: Sequence[str], tuned: TunedSettings | None) -> list[list[Beams]]:
    """The files' lists, all of the same sources; a note says if settings were tuned for another model."""
    lists: list[list[Beams]] = []
    advice = "Give lists of the same sources, in the same order."
    for name in files:
        reader = ListReader(name)
        if tuned is not None:
            inputs.note_other_model(tuned, name, reader.written_by)
        lists.append(list(track(reader, None, f"reading {name}", lines=reader.first_file)))
        if not lists[-1]:
            raise InputError(
                f"{name} is empty: there is nothing to analyse. Give a JSON object for each source."
            )
    for name, beams in zip(files, lists, strict=True):
        if len(beams) != len(lists[0]):
            raise InputError(
                f"{name} has {len(beams):,} sources and {files[0]} has {len(lists[0]):,}. {advice}"
            )
        for number, (one, other) in enumerate(zip(lists[0], beams, strict=True), start=1):
            if one.id != other.id:
                told = f"Source {number} has the id {one.id!r} in {files[0]} and {other.id!r} in {name}."
                raise InputError(f"{told} {advice}")
    return lists


def _print_analyses(contents: Mapping[str, Any], metric: Metric) -> None:
    """Print the report's tables of analyses, and what it leaves out; those of other packages have none."""
    from bidibeam.evaluation.evaluate import describe_metrics
    from bidibeam.reporting.analyses import constant, diversity, positions, ranks, sensitivity
    from bidibeam.reporting.blocks import Table
    from bidibeam.reporting.quality import headroom
    from bidibeam.reporting.results import Results
    from bidibeam.reporting.tables import numbers_tables, samples_panel, values_table  # brings rich

    about = {**describe_metrics([metric]), "constant": contents.get("constant"), "analyses": contents}
    for make in (ranks, headroom, diversity, sensitivity, constant, positions):
        section = make(Results.of(about))
        for block in section.blocks if section else ():
            if isinstance(block, Table):
                for table in numbers_tables(block):
                    show(table, crop=False)
                if block.notes:
                    show(" ".join(block.notes), style="dim")
    for name, (head, read) in UNREPORTED.items():
        systems = contents.get(name, {}).get("systems", {})
        values = [(system, [value]) for system, row in systems.items() if (value := read(row)) is not None]
        if values:
            show(values_table("", [head], values))
    if found := contents.get("examples", {}).get("examples"):
        show(samples_panel("Where the systems disagree most", found[:SAMPLES]))
