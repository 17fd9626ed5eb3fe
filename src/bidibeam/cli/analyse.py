"""`bidibeam analyse`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.options import cores, max_length_option, tuned_option, vectors_option, workers_option
from bidibeam.evaluation.analyses import ANALYSES

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bidibeam.evaluation.systems import System
    from bidibeam.hypotheses import Beams
    from bidibeam.similarities.spaces import WordVectors

OUT_FILE = "analyses.json"
FORMAT_VERSION = 1
OF_DATA = ("constant", "positions")
"""Analyses of prepared data, which need no lists."""
SAMPLES = 3
"""Examples that are printed; the file has all."""


@click.command()
@click.argument("files", metavar="[NBEST.jsonl...]", nargs=-1)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    help="Prepared data to analyse in place of lists, as far as that needs no hypotheses: "
    f"{', '.join(OF_DATA)}.",
)
@click.option(
    "--analysis",
    "names",
    multiple=True,
    metavar="NAME",
    help=f"Only this one, and it must be possible: {', '.join(ANALYSES.names())}. May be repeated.",
)
@click.option(
    "--systems",
    multiple=True,
    metavar="NAME",
    help='Only this system: "vbs", "bidia wmd_t", "bidia bleu_t either", "bidia bleu_t tuned" ... May be '
    "repeated.  [default: all that the lists are enough for]",
)
@max_length_option
@vectors_option
@tuned_option
@click.option(
    "--examples",
    type=click.IntRange(min=0),
    default=20,
    show_default=True,
    help="Sources to keep as examples, those on which systems disagree most.",
)
@workers_option
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help=f"A folder that gets {OUT_FILE}, from which `bidibeam report` makes figures; with --data a file for "
    "each analysis.",
)
def analyse(
    files: Sequence[str],
    data: Path | None,
    names: Sequence[str],
    systems: Sequence[str],
    max_length: int,
    vectors: Path | None,
    tuned_file: Path | None,
    examples: int,
    workers: int | None,
    out: Path | None,
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
    headroom     how much of the way from tuned VBS to the oracle each system goes
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
    from bidibeam.cli.answering import saying_if_slow, settle
    from bidibeam.cli.rerank import note_length
    from bidibeam.errors import InputError, SettingsError
    from bidibeam.evaluation.analyses import analyse as analyse_all
    from bidibeam.evaluation.analyses.evidence import AGREEING, Evidence
    from bidibeam.evaluation.analyses.lists import systems_of
    from bidibeam.selection.naming import SystemName, check_systems, strategy_named

    if out is not None and out.exists() and not out.is_dir():
        raise SettingsError(f"--out must name a folder, and {out} is a file.")
    if data is not None:
        _analyse_data(data, files, names, out)
        return
    if not files:
        raise click.UsageError("Give lists, NBEST.jsonl..., or prepared data with --data.")
    for name in names:
        if name in OF_DATA:
            raise SettingsError(f"The analysis {name} is one of prepared data: give them with --data.")
        ANALYSES.get(name)
    check_systems(systems)
    systems = [str(SystemName.of(name)) for name in systems]
    tuned = _tuned(tuned_file, files)
    lists = [_read(name) for name in files]
    _check_sources(files, lists)
    settle()
    tokens = {each.tokens for beams in lists for line in beams for each in (*line.regular, *line.reverse)}
    space = _space(vectors, set().union(*tokens))
    threads = workers or cores()
    with saying_if_slow("Choosing among the lists ..."):
        found, lacking = systems_of(
            lists, systems or None, max_length=max_length, space=space, tuned=tuned, workers=threads
        )
    by_size = {size: tuned for sizes in found.values() for size in sizes}
    evidence = Evidence(found, max_length, space, by_size, threads, examples)
    with saying_if_slow("Analysing ..."):
        try:
            contents, left_out = analyse_all(evidence, names or None)
        except InputError as error:
            raise InputError(_blamed(str(error), systems)) from error
    left_out = {name: _blamed(reason, systems) for name, reason in left_out.items()}
    _show(found, contents)
    if AGREEING in found:
        note_length(strategy_named(AGREEING).build(max_length=max_length), max(map(len, tokens)))
    _say_what_is_missing(lacking, left_out, is_tuned="bidis" not in found or "bidis" in tuned)
    if out is not None:
        settings = {"max_length": max_length, "vectors": None if vectors is None else str(vectors)}
        _write(out / OUT_FILE, files, found, settings, contents, {"systems": lacking, "analyses": left_out})


def _analyse_data(path: Path, files: Sequence[str], names: Sequence[str], out: Path | None) -> None:
    """Analyse prepared data, each analysis to a file that `bidibeam report` reads.

    Raises:
        SettingsError: If there are lists as well.
        UnknownNameError: If an analysis is not one of data.
    """
    from bidibeam._version import __version__
    from bidibeam.cli.console import console, track
    from bidibeam.data.prepared import PreparedData
    from bidibeam.errors import SettingsError, UnknownNameError
    from bidibeam.evaluation.analyses.corpus import CORPUS_ANALYSES
    from bidibeam.files import write_json

    if files:
        raise SettingsError("Give either lists or --data: what --data is enough for needs no lists.")
    for name in names:
        if name not in CORPUS_ANALYSES:
            known = ", ".join(CORPUS_ANALYSES)
            raise UnknownNameError(f"There is no analysis {name!r} of prepared data. Choose one of: {known}.")
    data = PreparedData.open(path)
    about = {name: value for name, value in data.info.items() if name != "path"}
    for name in dict.fromkeys(names or CORPUS_ANALYSES):
        content = CORPUS_ANALYSES[name](data, track=track)
        for table in SHOWN[name](content):
            console.print(table)
        if out is not None:
            head = {"format_version": FORMAT_VERSION, "bidibeam": __version__, "corpus": about["corpus"]}
            write_json(out / f"{name}.json", {**head, "data": about, name: content})
            console.print(f"Wrote {out / f'{name}.json'}, which `bidibeam report` reads.", soft_wrap=True)


def _tuned(path: Path | None, files: Sequence[str]) -> dict[str, dict[str, float]]:
    """What was tuned; where that was for another model than the one of these files, a note says so."""
    if path is None:
        return {}
    from bidibeam.assembly.tuned import TunedSettings
    from bidibeam.cli.lists import note_other_model
    from bidibeam.interchange.replies import model_of

    tuned = TunedSettings.at(path)
    for name in files:
        if Path(name).is_file():  # a pipe can be read but once
            note_other_model(tuned, name, model_of(Path(name)))
    return tuned.options


def _blamed(reason: str, systems: Sequence[str]) -> str:
    """Why something cannot be, put down to --systems where that is what leaves a system out."""
    needed = re.match(r"It needs the system '([^']+)'", reason)
    if not systems or needed is None or needed[1] in systems:
        return reason
    return f"{needed[0]}, and --systems leaves it out."


def _read(name: str) -> list[Beams]:
    """One file's lists."""
    from bidibeam.cli.console import track
    from bidibeam.errors import InputError
    from bidibeam.interchange import nbest

    source = Path(name) if name != "-" else sys.stdin.buffer
    lists = list(track(nbest.read(source), None, f"reading {name}"))
    if not lists:
        raise InputError(f"{name} is empty: there is nothing to analyse. Give a JSON object for each source.")
    return lists


def _check_sources(files: Sequence[str], lists: Sequence[Sequence[Beams]]) -> None:
    """Make sure that all files are about the same sources, in the same order."""
    from bidibeam.errors import InputError

    first = [line.id for line in lists[0]]
    for name, beams in zip(files, lists, strict=True):
        ids = [line.id for line in beams]
        if len(ids) != len(first):
            raise InputError(
                f"{name} has {len(ids):,} sources and {files[0]} has {len(first):,}. Give lists of the "
                "same sources, in the same order."
            )
        for number, (one, other) in enumerate(zip(first, ids, strict=True), start=1):
            if one != other:
                raise InputError(
                    f"Source {number} has the id {one!r} in {files[0]} and {other!r} in {name}. Give lists "
                    "of the same sources, in the same order."
                )


def _space(path: Path | None, words: Collection[str]) -> Callable[[], WordVectors] | None:
    """The vectors of the words that the lists hold, read here and now: whoever names a file wants it used."""
    from bidibeam.cli.rerank import word_space

    read = word_space(path, words)
    if read is None:
        return None
    space = read()
    return lambda: space


def _say_what_is_missing(systems: Mapping[str, str], analyses: Mapping[str, str], *, is_tuned: bool) -> None:
    """One sentence for each reason."""
    from bidibeam.cli.console import console

    if not is_tuned:
        console.print(
            "Note: bidis has the lambda 1, which nobody tuned; --tuned has a better one.", style="dim"
        )
    untuned = systems.get("vbs-tuned")  # says the same of all that must be tuned, where nothing is
    lacking = {
        name: untuned if untuned and "must be tuned first" in reason else reason
        for name, reason in systems.items()
    }
    for kind, left_out in (("system", lacking), ("analysis", analyses)):
        for names, reason in _by_reason(left_out):
            kinds = kind if len(names) == 1 else {"system": "systems", "analysis": "analyses"}[kind]
            told = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
            reason = re.sub(r"^It needs\b", "They need", reason) if len(names) > 1 else reason
            console.print(f"Left out the {kinds} {told}: {reason}", style="dim", soft_wrap=True)


def _by_reason(left_out: Mapping[str, str]) -> Iterator[tuple[list[str], str]]:
    """Names that were left out for the same reason, whichever of them it mentions, and the reason."""
    groups: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        shared = re.sub(rf"(?<![\w'-]){re.escape(name)}(?![\w'-])", "each of them", reason)
        groups.setdefault(shared, []).append(name)
    for shared, names in groups.items():
        yield names, shared if len(names) > 1 else left_out[names[0]]


def _write(
    path: Path,
    files: Sequence[str],
    systems: Mapping[str, Mapping[int, System]],
    settings: Mapping[str, Any],
    contents: Mapping[str, Any],
    left_out: Mapping[str, Any],
) -> None:
    from bidibeam._version import __version__
    from bidibeam.cli.console import console
    from bidibeam.files import write_json

    sizes = next(iter(systems.values()))
    signatures = {
        name: {str(size): str(system.signature) for size, system in by_size.items()}
        for name, by_size in systems.items()
    }
    write_json(
        path,
        {
            "format_version": FORMAT_VERSION,
            "bidibeam": __version__,
            "files": list(files),
            "sources": len(next(iter(sizes.values())).beams),
            "settings": {**settings, "systems": list(systems)},
            "signatures": signatures,
            "analyses": dict(contents),
            "left_out": dict(left_out),
        },
    )
    console.print(f"Wrote {path}, which `bidibeam report` makes figures of.", soft_wrap=True)


def _show(systems: Mapping[str, Mapping[int, System]], contents: Mapping[str, Any]) -> None:
    """A small table of each analysis; those of other packages go to the file alone."""
    from bidibeam.cli.console import console

    for name, content in contents.items():
        if name in SHOWN:
            for table in SHOWN[name](content):
                console.print(table)
    sizes = {name: ", ".join(map(str, sorted(by_size))) for name, by_size in systems.items()}
    told = "; ".join(f"{name} {size}" for name, size in sizes.items())
    console.print(f"N_B, the hypotheses that each could choose from: {told}.", style="dim")


def _ranks(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    def row(found: Mapping[str, Any]) -> list[float]:
        counts = found["counts"]
        shares = (100 * sum(counts[:first]) / sum(counts) for first in (1, 5))
        return [found["mean"], found["median"], *shares, found["tied"]]

    yield values_table(
        f"Ranks: places in the regular beam of {content['beam_size']}",
        ["mean", "median", "first, %", "first 5, %", "tied for it"],
        [(name, row(found)) for name, found in content["systems"].items()],
    )


def _headroom(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    by_size = content["by_beam_size"]
    names = dict.fromkeys(name for shares in by_size.values() for name in shares)
    yield values_table(
        f"Headroom: of the way from {content['baseline']} to the oracle, by N_B",
        list(by_size),
        [(name, [shares.get(name) for shares in by_size.values()]) for name in names],
    )
    for size, intervals in list(content["intervals"].items())[-1:]:
        yield values_table(
            f"95 % intervals of it at N_B = {size}",
            ["low", "high"],
            [(name, interval or (None, None)) for name, interval in intervals.items()],
        )


def _diversity(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    names = ("bleu", "length_ratio", "distinct-1", "distinct-2")
    systems = content["systems"]
    yield values_table(
        "Diversity: of replies, and dist-2 of as many words of each",
        ["N_B", "bleu", "length", "dist-1", "dist-2", "same words"],
        [
            (name, [found["beam_size"], *(found[each] for each in names), found["same_words"]["distinct-2"]])
            for name, found in systems.items()
        ],
    )
    if any(found["matched"] for found in systems.values()):
        yield values_table(
            "Beside it, VBS with a word reward that makes it as long",
            ["bleu", "length", "dist-1", "dist-2", "reward"],
            [
                (name, [found["matched"][each] for each in (*names, "word_reward")])
                for name, found in systems.items()
            ],
        )
        tested = ("difference", "low", "high", "approximate_randomisation")
        yield values_table(
            "BLEU beside that of this VBS",
            ["difference", "low", "high", "p, approximate\nrandomisation"],
            [(name, [found["matched"][each] for each in tested]) for name, found in systems.items()],
        )


def _sensitivity(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    rows = [
        (
            f"{row['system']}, {row['option']} {row['value']}{' *' if row['is_default'] else ''}"
            if row["option"] != "baseline"
            else row["system"],
            [row["bleu"], row["length_ratio"], row["distinct-2"]],
        )
        for row in content["rows"]
    ]
    title = f"Sensitivity at N_B = {content['beam_size']} (* is the default)"
    yield values_table(title, ["bleu", "length", "dist-2"], rows)


def _examples(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import Sample, samples_panel

    samples = [
        Sample(each["source"], each["replies"], each["reference"]) for each in content["examples"][:SAMPLES]
    ]
    if samples:
        yield samples_panel("Where the systems disagree most", samples)


def _constant(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    names = ("validation_bleu", "bleu", "low", "high", "length_ratio", "exact")
    yield values_table(
        f"One reply to all {content['references']['sources']:,} test sources, best on validation first",
        ["validation", "bleu", "low", "high", "length", "exact"],
        [
            (each["reply"], [each[name] for name in names])
            for each in (content["chosen"], *content["runners_up"])
        ],
    )


def _positions(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    yield values_table(
        f"Words by position in {content['pairs']:,} replies",
        ["different", "bits", "above 1,000"],
        [
            (
                f"{place['position']} from the {side}",
                [place["different"], place["entropy_bits"], place["above_1000"]],
            )
            for side, places in content["from"].items()
            for place in places
        ],
    )


SHOWN: Mapping[str, Callable[[Mapping[str, Any]], Iterator[RenderableType]]] = {
    "ranks": _ranks,
    "headroom": _headroom,
    "diversity": _diversity,
    "sensitivity": _sensitivity,
    "examples": _examples,
    "constant": _constant,
    "positions": _positions,
}
"""How an analysis is printed."""
