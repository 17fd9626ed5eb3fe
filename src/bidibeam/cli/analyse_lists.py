"""`bidibeam analyse NBEST.jsonl...`: analyses of what systems choose among n-best lists."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.cli.options import cores

if TYPE_CHECKING:
    from bidibeam.evaluation.analyses.evidence import Evidence
    from bidibeam.evaluation.systems import System
    from bidibeam.hypotheses import Beams
    from bidibeam.similarities.word_vectors import WordVectors

OUT_FILE = "analyses.json"
FORMAT_VERSION = 1


def analyse_lists(
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
    """Let systems choose among the lists, and analyse, print and write what comes of it.

    Raises:
        UnknownNameError: If there is no such analysis or system.
        SettingsError: If an analysis is one of prepared data.
        InputError: If files cannot be read, are of different sources, or are not enough for what was named.
    """
    from bidibeam.cli.analysis_tables import print_tables
    from bidibeam.cli.answering import saying_if_slow
    from bidibeam.cli.left_out import say_what_is_missing
    from bidibeam.evaluation.analyses.evidence import Evidence
    from bidibeam.evaluation.analyses.lists import systems_of
    from bidibeam.interpreter import settle

    wanted = _checked_names(names, systems)
    tuned = _tuned(tuned_file, files)
    lists = [_read(name) for name in files]
    _check_sources(files, lists)
    settle()
    tokens = {each.tokens for beams in lists for line in beams for each in (*line.regular, *line.reverse)}
    space = _space(vectors, set().union(*tokens))
    threads = workers or cores()
    with saying_if_slow("Choosing among the lists ..."):
        found, lacking = systems_of(
            lists, wanted or None, max_length=max_length, space=space, tuned=tuned, workers=threads
        )
    by_size = {size: tuned for sizes in found.values() for size in sizes}
    evidence = Evidence(found, max_length, space, by_size, threads, examples)
    contents, left_out = _analysed(evidence, names, wanted)
    print_tables(contents)
    _say_notes(found, max_length, longest=max(map(len, tokens), default=0))
    say_what_is_missing(lacking, left_out, is_tuned="bidis" not in found or "bidis" in tuned)
    if out is not None:
        settings = {"max_length": max_length, "vectors": None if vectors is None else str(vectors)}
        _write(out / OUT_FILE, files, found, settings, contents, {"systems": lacking, "analyses": left_out})


def _checked_names(analyses: Sequence[str], systems: Sequence[str]) -> list[str]:
    """The systems as their names are written in tables, once all names are known to stand for something."""
    from bidibeam.cli.analyse_data import OF_DATA
    from bidibeam.errors import SettingsError
    from bidibeam.evaluation.analyses import ANALYSES
    from bidibeam.strategies.naming import SystemName, check_systems

    for name in analyses:
        if name in OF_DATA:
            raise SettingsError(f"The analysis {name} is one of prepared data: give them with --data.")
        ANALYSES.get(name)
    check_systems(systems)
    return [str(SystemName.of(name)) for name in systems]


def _analysed(
    evidence: Evidence, names: Sequence[str], systems: Sequence[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """What the analyses found, by name; and by name, why one was left out."""
    from bidibeam.cli.answering import saying_if_slow
    from bidibeam.cli.left_out import blamed
    from bidibeam.errors import InputError
    from bidibeam.evaluation.analyses import analyse

    with saying_if_slow("Analysing ..."):
        try:
            contents, left_out = analyse(evidence, names or None)
        except InputError as error:
            raise InputError(blamed(str(error), systems)) from error
    return contents, {name: blamed(reason, systems) for name, reason in left_out.items()}


def _tuned(path: Path | None, files: Sequence[str]) -> dict[str, dict[str, float]]:
    """What was tuned; where that was for another model than the one of these files, a note says so."""
    if path is None:
        return {}
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.cli.lists import note_other_model
    from bidibeam.interchange.replies import model_of

    tuned = TunedSettings.at(path)
    for name in files:
        if Path(name).is_file():  # a pipe can be read but once
            note_other_model(tuned, name, model_of(Path(name)))
    return tuned.options


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


def _say_notes(systems: Mapping[str, Mapping[int, System]], max_length: int, *, longest: int) -> None:
    """Say how many hypotheses each system had, and whether T fits the lists."""
    from bidibeam.cli.console import console
    from bidibeam.cli.rerank import note_length
    from bidibeam.evaluation.analyses.evidence import AGREEING
    from bidibeam.strategies.naming import strategy_named

    sizes = {name: ", ".join(map(str, sorted(by_size))) for name, by_size in systems.items()}
    told = "; ".join(f"{name} {size}" for name, size in sizes.items())
    console.print(f"N_B, the hypotheses that each could choose from: {told}.", style="dim")
    if AGREEING in systems:
        note_length(strategy_named(AGREEING).build(max_length=max_length), longest)
