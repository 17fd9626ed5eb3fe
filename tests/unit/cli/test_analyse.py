"""`bidibeam analyse`: what it makes of lists and of data, and what it leaves out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bidibeam import __version__
from bidibeam.data.prepared import PreparedData
from bidibeam.evaluation import ANALYSES
from bidibeam.evaluation.corpus import analyse_constant, analyse_positions
from bidibeam.evaluation.systems import SYSTEMS
from bidibeam.hypotheses import Beams
from bidibeam.interchange import nbest
from bidibeam.metrics.bleu import CorpusBleu
from tests.unit.cli.calls import called, fill, lines_of, refused, refused_line, write_lines, write_vectors
from tests.unit.evaluation.evidences import TUNED, random_beams

pytestmark = pytest.mark.usefixtures("few_trials")

SOURCES = 25


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """Regular lists of 6."""
    return write_random(tmp_path / "wide.jsonl", regular=6, reverse=0)


@pytest.fixture
def both(tmp_path: Path) -> Path:
    """Lists of 3 in each direction."""
    return write_random(tmp_path / "both.jsonl", regular=3, reverse=3)


@pytest.fixture
def words(tmp_path: Path) -> Path:
    return write_vectors(tmp_path / "words.vec", ["a", "b", "c", "d", "e", "the"])


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    path = tmp_path / "tuned.json"
    path.write_text(json.dumps({"format_version": 2, "options": TUNED}))
    return path


def write_random(path: Path, *, regular: int, reverse: int) -> Path:
    """Random lists, none of them short; any two files have the same sources."""
    found: list[Beams] = []
    seed = 0
    while len(found) < SOURCES:
        (line,) = random_beams(1, regular=regular, reverse=reverse, seed=seed)
        if len(line.regular) == regular and len(line.reverse) == reverse:
            number = len(found)
            found.append(
                replace(line, id=f"s{number}", references=(f"a b c d {'e ' * (number % 4)}".strip(),))
            )
        seed += 1
    nbest.write(found, path)
    return path


def read(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "analyses.json").read_text(encoding="utf-8"))
    return content


def test_everything_is_made_of_lists_that_have_everything(
    wide: Path, both: Path, words: Path, tuned: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "out"
    flags = ("--vectors", words, "--tuned", tuned, "--max-length", 8, "--workers", 3, "--out", out)

    call = called("analyse", wide, both, *flags)

    assert (call.status, call.out) == (0, "")
    content = read(out)
    assert list(content["analyses"]) == ANALYSES.names()
    assert content["left_out"] == {"systems": {}, "analyses": {}}
    about = {"max_length": 8, "vectors": str(words), "systems": list(SYSTEMS)}
    assert content["settings"] == {**about, "metric": str(CorpusBleu().signature)}
    assert (content["metric"], content["lower_is_better"]) == ("bleu", [])
    assert (content["format_version"], content["bidibeam"], content["sources"]) == (1, __version__, SOURCES)
    assert content["files"] == [str(wide), str(both)]
    assert list(content["signatures"]["vbs"]) == ["6", "3"]
    assert "|T:3|" in content["signatures"]["bidia bleu_t tuned"]["6"]
    assert content["signatures"]["bidia wmd_t"]["6"].startswith(
        "strategy:bidia|similarity:wmd_t|vectors:words.vec@"
    )
    assert list(content["analyses"]["headroom"]["by_beam_size"]) == ["3", "6"]
    for title in (
        "Places chosen",
        "first five places, %",
        "Headroom captured by N_B",
        "95 % intervals of headroom captured by N_B",
        "Diversity",
        "BLEU above that VBS",
        "word reward of VBS at its length",
        "All options at N_B = 6",
        "Where the",
        f"Wrote {out / 'analyses.json'}, which `bidibeam report`",
    ):
        assert title in call.told
    assert "Left out" not in call.told
    assert [path.name for path in out.iterdir()] == ["analyses.json"]


def test_texts_are_enough_for_some_and_why_not_for_the_others_is_said_once(
    lists: Path, tmp_path: Path
) -> None:
    call = called("analyse", lists, "--out", tmp_path)

    assert call.status == 0
    assert list(read(tmp_path)["analyses"]) == ["ranks", "examples"]
    left_out = read(tmp_path)["left_out"]
    told = [row for row in call.err.splitlines() if row.startswith("Left out")]
    for name in (*left_out["systems"], *left_out["analyses"]):
        assert sum(name in row.partition(": ")[0] for row in told) >= 1, name
    assert len(told) < len(left_out["systems"]) + len(left_out["analyses"])
    assert len({row.partition(": ")[2] for row in told}) == len(told)
    for sentence in (
        "Left out the system vbs: source '1', regular[0] has no \"score\", and vbs needs it.",
        "Left out the systems bidis, bidia bleu_t expected and mbr bleu_t: source '1', regular[0] has no ",
        "and each of them needs it",
        "Left out the systems vbs-tuned, bidia bleu_t tuned, bidia wmd_t tuned, loglinear and loglinear ",
        ": They need tuned settings: `bidibeam tune` finds them;",
        "Left out the system bidia wmd_t: The similarity wmd_t needs word vectors: ",
        "Left out the system oracle: source '1' has no \"reference\", and oracle chooses by it.",
        "Left out the analysis headroom: It needs the system 'vbs-tuned', which is not there.",
        "Left out the analyses diversity and sensitivity: Source '1' has no reference, so its reply",
        "N_B, the hypotheses that each could choose from: bidia bleu_t 5;",
    ):
        assert sentence in call.told


def test_the_signature_tells_how_many_references_there_are(both: Path, tmp_path: Path) -> None:
    several, varied = tmp_path / "two.jsonl", tmp_path / "varied.jsonl"
    lists = list(nbest.read(both))
    two = [replace(line, references=(*line.references, "a b c d f")) for line in lists]
    nbest.write(two, several)
    nbest.write([*two[:-1], lists[-1]], varied)

    for path, told in ((both, "nrefs:1|"), (several, "nrefs:2|"), (varied, "nrefs:var|")):
        assert called("analyse", path, "--analysis", "ranks", "--out", tmp_path / path.stem).status == 0
        assert told in read(tmp_path / path.stem)["settings"]["metric"]


def test_only_the_systems_named_are_looked_at_and_blamed(wide: Path, both: Path, tmp_path: Path) -> None:
    flags = ("--systems", "vbs", "--systems", "bidia bleu_t either", "--out", tmp_path)

    call = called("analyse", wide, both, *flags)

    assert call.status == 0
    content = read(tmp_path)
    assert list(content["analyses"]["diversity"]["systems"]) == ["vbs", "bidia bleu_t either"]
    assert list(content["left_out"]["analyses"]) == ["ranks", "headroom", "sensitivity", "examples"]
    assert (
        "Left out the analyses ranks, sensitivity and examples: They need the system 'bidia bleu_t', and "
        "--systems leaves it out."
    ) in call.told


def test_a_lambda_that_nobody_tuned_is_said_to_be_one(both: Path, tuned: Path) -> None:
    note = "Note: bidis has the lambda 1, which nobody tuned"

    for flags, is_noted in (((), True), (("--tuned", tuned), False), (("--systems", "bidia bleu_t"), False)):
        assert (note in called("analyse", both, "--analysis", "ranks", *flags).told) == is_noted


def test_lists_come_from_a_pipe_too(both: Path) -> None:
    expected = called("analyse", both, "--analysis", "ranks").told

    told = called("analyse", "-", "--analysis", "ranks", typed=both.read_bytes()).told

    assert told in expected  # which may begin with a word on kernels


@pytest.fixture
def given(wide: Path, both: Path, lists: Path, toy_data: PreparedData, tmp_path: Path) -> dict[str, Path]:
    """Files that can be analysed, and such that cannot."""
    made: dict[str, list[Any]] = {
        "empty": [],
        "fewer": lines_of(both)[:3],
        "moved": lines_of(both)[::-1],
        "pieces": [{"regular": [{"tokens": ["\u2581a"]}], "reverse": [{"tokens": ["b"]}]}],
    }
    files = {name: write_lines(tmp_path / f"{name}.jsonl", *lines) for name, lines in made.items()}
    (tmp_path / "file").write_text("")
    named = {"file": tmp_path / "file", "none": tmp_path / "none", "data": toy_data.path}
    return {**files, **named, "wide": wide, "both": both, "lists": lists}


SAME = "Give lists of the same sources, in the same order."
REFUSED = {  # names are checked before anything is read
    "{empty}": "{empty} is empty: there is nothing to analyse. Give a JSON object for each source.",
    "{none} --analysis rank": "Unknown analysis 'rank'. Did you mean 'ranks'? Choose one of: "
    f"{', '.join(ANALYSES.names())}.",
    "{wide} --analysis ranks": "It needs the system 'bidia bleu_t', which needs a regular and a reverse beam",
    "{wide} --systems 'bidia bleu_t'": "source 's0' has no reverse hypotheses, and bidia bleu_t needs them.",
    "{none} --systems vsb": "Unknown strategy 'vsb'. Did you mean 'vbs'?",
    "{none} --systems vbs --systems vbs": "A system is named twice, as 'vbs' and as 'vbs'. Name each of them "
    "once.",
    "{both} --systems 'bidia bleu_t tuned'": "The system 'bidia bleu_t tuned' must be tuned first: no T was "
    "tuned for 'bidia bleu_t'.",
    "{wide} {fewer}": f"{{fewer}} has 3 sources and {{wide}} has {SOURCES}. {SAME}",
    "{wide} {moved}": f"Source 1 has the id 's0' in {{wide}} and 's24' in {{moved}}. {SAME}",
    "{wide} --out {file}": "--out must name a folder, and {file} is a file.",
    "{both} --vectors {none}": "There is no vector file {none}.",
    "{pieces} --vectors {file}": "The lists hold subwords, such as '\u2581a'",
    "{both} --tuned {none}": "There is no {none}",
    "{none}": "{none} cannot be read: No such file or directory.",
    "{lists} --analysis diversity": "Source '1' has no reference, so its reply cannot be scored.",
    "{lists} --analysis sensitivity": "Source '1' has no reference, so its reply cannot be scored.",
    "{both} --systems vbs --analysis ranks": "It needs the system 'bidia bleu_t', and --systems leaves it",
    "{both} --systems vbs --analysis headroom": "It needs the system 'vbs-tuned', and --systems leaves it",
    "{both} --data {data}": "Give either lists or --data: what --data is enough for needs no lists.",
    "--data {data} --analysis ranks": "There is no analysis 'ranks' of prepared data. Choose one of: const",
    "{both} --analysis constant": "The analysis constant is one of prepared data: give them with --data.",
    "--data {none}": "There is no directory",
}


@pytest.mark.parametrize("line", REFUSED)
def test_refusals_are_one_sentence(line: str, given: dict[str, Path]) -> None:
    assert refused_line(f"analyse {line}", given).startswith(fill(REFUSED[line], given))


def test_what_was_written_before_stays_if_the_call_fails(both: Path, tmp_path: Path) -> None:
    written = tmp_path / "analyses.json"
    written.write_text("as it was")

    said = refused_line("analyse {both} --analysis headroom --out {out}", {"both": both, "out": tmp_path})

    assert "'vbs-tuned'" in said
    assert written.read_text() == "as it was"


def test_lists_are_analysed_by_any_metric(wide: Path, both: Path, tuned: Path, tmp_path: Path) -> None:
    flags = ("--tuned", tuned, "--max-length", 8, "--metric", "wer", "--lowercase", "--out", tmp_path)

    call = called("analyse", wide, both, *flags)

    content = read(tmp_path)
    assert (content["metric"], content["lower_is_better"]) == ("wer", ["wer"])
    for name in ("headroom", "diversity", "sensitivity"):
        assert content["analyses"][name]["metric"] == "wer"
    rows = [
        *content["analyses"]["diversity"]["systems"].values(),
        *content["analyses"]["sensitivity"]["rows"],
    ]
    assert all("wer" in row and "bleu" not in row for row in rows)
    shares = content["analyses"]["headroom"]["by_beam_size"]["6"]
    assert all(share is None or share <= 1 for share in shares.values())
    assert "by:metric:wer,unit:words,case:lc," in content["signatures"]["oracle"]["6"]
    assert "WER above that VBS" in call.told
    assert called("report", tmp_path).status == 0
    report = (tmp_path / "report.md").read_text()
    assert "WER is better where it is lower." in report
    assert "BLEU by" not in report
    said = refused("analyse", wide, "--metric", "chrf", "--tokenize", "13a")
    assert said == "The metric chrf takes no --tokenize, received '13a': leave it out."


def test_a_file_is_needed_and_help_teaches() -> None:
    call = called("analyse")

    assert call.status == 2
    assert "NBEST.jsonl" in call.err
    text = called("analyse", "--help").out
    assert "bidibeam analyse regular.jsonl both.jsonl --tuned run" in text
    assert all(f"\n  {name} " in text for name in ANALYSES.names())


def test_prepared_data_are_analysed_without_lists(toy_data: PreparedData, tmp_path: Path) -> None:
    call = called("analyse", "--data", toy_data.path, "--out", tmp_path / "out")

    assert (call.status, call.out) == (0, "")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["constant.json", "positions.json"]
    for name, content in (
        ("constant", analyse_constant(toy_data, metric=CorpusBleu())),
        ("positions", analyse_positions(toy_data)),
    ):
        written = json.loads((tmp_path / "out" / f"{name}.json").read_text(encoding="utf-8"))
        assert written[name] == content
        assert written["data"]["fingerprint"] == toy_data.fingerprint
        assert str(tmp_path) not in json.dumps(written)
        report = tmp_path / f"{name}-report"
        assert called("report", tmp_path / "out" / f"{name}.json", "--out", report).status == 0
    assert "One reply to every source" in (tmp_path / "constant-report" / "report.md").read_text()
    assert "The best constant replies" in call.told
    assert "Words at the first positions" in call.told
