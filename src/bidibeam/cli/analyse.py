"""`bidibeam analyse`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.lists import note_length, note_other_model, vocabulary_of, word_space
from bidibeam.cli.options import cores, max_length_option, tuned_option, vectors_option, workers_option
from bidibeam.evaluation import ANALYSES, RESULTS_VERSION

if TYPE_CHECKING:
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.evaluation.evidence import Evidence
    from bidibeam.evaluation.systems import System
    from bidibeam.hypotheses import Beams

OF_DATA = ("constant", "positions")
"""The analyses of prepared data, which need no lists."""
OUT_FILE = "analyses.json"


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
    from bidibeam.errors import SettingsError

    if out is not None and out.exists() and not out.is_dir():
        raise SettingsError(f"--out must name a folder, and {out} is a file.")
    if data is not None:
        if files:
            raise SettingsError("Give either lists or --data: what --data is enough for needs no lists.")
        _analyse_data(data, names, out)
        return
    if not files:
        raise click.UsageError("Give lists, NBEST.jsonl..., or prepared data with --data.")
    _analyse_lists(files, names, systems, out=out, **flags)


def _analyse_data(path: Path, names: Sequence[str], out: Path | None) -> None:
    """Analyse prepared data, each analysis to a file that `bidibeam report` reads."""
    from bidibeam._version import __version__
    from bidibeam.cli.console import console, track
    from bidibeam.cli.tables import print_analyses
    from bidibeam.data.prepared import PreparedData
    from bidibeam.errors import UnknownNameError
    from bidibeam.evaluation.corpus import CORPUS_ANALYSES
    from bidibeam.files import write_json

    for name in names:
        if name not in CORPUS_ANALYSES:
            known = ", ".join(CORPUS_ANALYSES)
            raise UnknownNameError(f"There is no analysis {name!r} of prepared data. Choose one of: {known}.")
    data = PreparedData.open(path)
    about = {name: value for name, value in data.info.items() if name != "path"}
    for name in dict.fromkeys(names or CORPUS_ANALYSES):
        content = CORPUS_ANALYSES[name](data, track=track)
        print_analyses({name: content})
        if out is not None:
            head = {"format_version": RESULTS_VERSION, "bidibeam": __version__, "corpus": about["corpus"]}
            write_json(out / f"{name}.json", {**head, "data": about, name: content})
            console.print(f"Wrote {out / f'{name}.json'}, which `bidibeam report` reads.", soft_wrap=True)


def _analyse_lists(
    files: Sequence[str],
    names: Sequence[str],
    systems: Sequence[str],
    *,
    max_length: int,
    vectors: Path | None,
    tuned_file: Path | None,
    examples: int,
    workers: int | None,
    out: Path | None,
) -> None:
    """Let systems choose among the lists, and analyse, print and write what comes of it."""
    from bidibeam.cli.console import console, notice_if_slow
    from bidibeam.cli.tables import print_analyses
    from bidibeam.evaluation.evidence import AGREEING, Evidence
    from bidibeam.evaluation.systems import choose_systems
    from bidibeam.strategies.naming import strategy_named

    wanted = _check_names(names, systems)
    tuned = None
    if tuned_file is not None:
        from bidibeam.api.tuned import TunedSettings

        tuned = TunedSettings.at(tuned_file)
    lists = [_read(name, tuned) for name in files]
    _check_sources(files, lists)
    words, longest = vocabulary_of(beams for each in lists for beams in each)
    read_vectors = word_space(vectors, words)
    found_vectors = None if read_vectors is None else read_vectors()  # whoever names a file wants it used
    space = None if found_vectors is None else lambda: found_vectors
    options, threads = {} if tuned is None else tuned.options, workers or cores()
    with notice_if_slow("Choosing among the lists ..."):
        found, lacking = choose_systems(
            lists, wanted or None, max_length=max_length, load_vectors=space, tuned=options, workers=threads
        )
    by_size = {size: options for sizes in found.values() for size in sizes}
    evidence = Evidence(found, max_length, space, by_size, threads, examples)
    contents, left_out = _analyse(evidence, names, wanted)
    print_analyses(contents)
    sizes = (f"{name} {', '.join(map(str, sorted(by_size)))}" for name, by_size in found.items())
    console.print(f"N_B, the hypotheses that each could choose from: {'; '.join(sizes)}.", style="dim")
    if AGREEING in found:
        note_length(strategy_named(AGREEING).build(max_length=max_length), longest)
    _note_missing(lacking, left_out, is_tuned="bidis" not in found or "bidis" in options)
    if out is not None:
        settings = {"max_length": max_length, "vectors": None if vectors is None else str(vectors)}
        _write(out / OUT_FILE, files, found, settings, contents, {"systems": lacking, "analyses": left_out})


def _check_names(analyses: Sequence[str], systems: Sequence[str]) -> list[str]:
    """The systems as their names are written in tables, once all names are known to stand for something."""
    from bidibeam.errors import SettingsError
    from bidibeam.strategies.naming import SystemName, check_systems

    for name in analyses:
        if name in OF_DATA:
            raise SettingsError(f"The analysis {name} is one of prepared data: give them with --data.")
        ANALYSES.get(name)
    check_systems(systems)
    return [str(SystemName.of(name)) for name in systems]


def _read(name: str, tuned: TunedSettings | None) -> list[Beams]:
    """One file's lists; where settings were tuned for another model than the file's, a note says so."""
    from bidibeam.cli.console import track
    from bidibeam.errors import InputError
    from bidibeam.interchange import nbest
    from bidibeam.interchange.reading import model_of
    from bidibeam.interchange.text_lines import open_named

    lines = open_named(name)
    if tuned is not None:
        note_other_model(tuned, name, model_of(lines))
    lists = list(track(nbest.read(lines), None, f"reading {name}", lines=lines))
    if not lists:
        raise InputError(f"{name} is empty: there is nothing to analyse. Give a JSON object for each source.")
    return lists


def _check_sources(files: Sequence[str], lists: Sequence[Sequence[Beams]]) -> None:
    """Make sure that all files are about the same sources, in the same order."""
    from bidibeam.errors import InputError

    advice = "Give lists of the same sources, in the same order."
    for name, beams in zip(files, lists, strict=True):
        if len(beams) != len(lists[0]):
            raise InputError(
                f"{name} has {len(beams):,} sources and {files[0]} has {len(lists[0]):,}. {advice}"
            )
        for number, (one, other) in enumerate(zip(lists[0], beams, strict=True), start=1):
            if one.id != other.id:
                told = f"Source {number} has the id {one.id!r} in {files[0]} and {other.id!r} in {name}."
                raise InputError(f"{told} {advice}")


def _analyse(
    evidence: Evidence, names: Sequence[str], systems: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """What the analyses found, by name; and by name, why one was left out."""
    from bidibeam.cli.console import notice_if_slow
    from bidibeam.errors import InputError
    from bidibeam.evaluation import analyse

    def blame(reason: str) -> str:
        """Why something cannot be, put down to --systems where that is what leaves a system out."""
        needed = re.match(r"It needs the system '([^']+)'", reason)
        if not systems or needed is None or needed[1] in systems:
            return reason
        return f"{needed[0]}, and --systems leaves it out."

    with notice_if_slow("Analysing ..."):
        try:
            contents, left_out = analyse(evidence, names or None)
        except InputError as error:
            raise InputError(blame(str(error))) from error
    return contents, {name: blame(reason) for name, reason in left_out.items()}


def _note_missing(systems: Mapping[str, str], analyses: Mapping[str, str], *, is_tuned: bool) -> None:
    """Say what was left out, one sentence for each reason."""
    from bidibeam.cli.console import console
    from bidibeam.cli.main import name_flags

    command = click.get_current_context().command
    if not is_tuned:
        console.print(
            "Note: bidis has the lambda 1, which nobody tuned; --tuned has a better one.", style="dim"
        )
    untuned = systems.get("vbs-tuned")  # says the same of all that must be tuned, where nothing is
    lacking = {
        name: untuned if untuned and "must be tuned first" in reason else reason
        for name, reason in systems.items()
    }
    for kind, kinds, left_out in (("system", "systems", lacking), ("analysis", "analyses", analyses)):
        for names, reason in _group_by_reason(left_out):
            told = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
            if len(names) > 1:
                reason = re.sub(r"^It needs\b", "They need", reason)
            noun = kind if len(names) == 1 else kinds
            sentence = name_flags(f"Left out the {noun} {told}: {reason}", command)
            console.print(sentence, style="dim", soft_wrap=True)


def _group_by_reason(left_out: Mapping[str, str]) -> Iterator[tuple[list[str], str]]:
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

    signatures = {
        name: {str(size): str(system.signature) for size, system in by_size.items()}
        for name, by_size in systems.items()
    }
    first = next(iter(next(iter(systems.values())).values()))
    write_json(
        path,
        {
            "format_version": RESULTS_VERSION,
            "bidibeam": __version__,
            "files": list(files),
            "sources": len(first.beams),
            "settings": {**settings, "systems": list(systems)},
            "signatures": signatures,
            "analyses": dict(contents),
            "left_out": dict(left_out),
        },
    )
    console.print(f"Wrote {path}, which `bidibeam report` makes figures of.", soft_wrap=True)
