"""`bidibeam evaluate`: which files and strategies are compared, controls, notes and refusals."""

from __future__ import annotations

import gzip
import json
import lzma
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import bidibeam
from bidibeam.api.decoders import default_search
from bidibeam.data.prepared import PreparedData
from bidibeam.data.words import split
from bidibeam.hypotheses import Direction, NBest
from bidibeam.interchange import nbest
from bidibeam.metrics import build_metrics
from bidibeam.metrics.scoring import measure, score
from bidibeam.strategies.loglinear import LogLinear
from tests.unit.cli.calls import called, fill, lines_of, refused, refused_line, write_lines, write_vectors
from tests.unit.cli.evaluations import FEW, GOOD, POOR, REFERENCES, line, results


def test_the_first_system_is_the_baseline_unless_others_are_named(
    texts: dict[str, Path], tmp_path: Path
) -> None:
    odd = write_lines(tmp_path / "x=y.txt", *GOOD)  # a file whose name has a = in it
    given = (f"a={texts['good']}", f"b ={texts['poor']}", odd)

    for baselines, pairs in (
        ((), [("b", "a"), ("x=y", "a")]),
        (("b",), [("a", "b"), ("x=y", "b")]),
        (("b", "x=y"), [("a", "b"), ("x=y", "b"), ("a", "x=y"), ("b", "x=y")]),
    ):
        flags = [word for name in baselines for word in ("--baseline", name)]
        tests = results(tmp_path / "out.json", *given, "--references", texts["references"], *flags)["tests"]
        assert [(test["system"], test["baseline"]) for test in tests] == pairs


def test_a_pair_of_systems_is_printed_once(texts: dict[str, Path]) -> None:
    given = (f"a={texts['good']}", f"b={texts['poor']}", "--references", texts["references"])

    told = called("evaluate", *given, "--baseline", "a", "--baseline", "b").shown

    assert "BLEU beside that of a" in told
    assert "beside that of b" not in told


def test_references_come_from_a_file_as_text_or_objects_or_from_any_lists(
    beams: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    objects = write_lines(tmp_path / "o.jsonl", *({"source": "x", "reference": each} for each in REFERENCES))
    without = write_lines(
        tmp_path / "without.jsonl", *({**each, "reference": None} for each in lines_of(beams))
    )

    def scores(*args: object) -> Any:
        return results(tmp_path / "out.json", texts["good"], *args)["systems"]["good"]["scores"]

    expected = scores("--references", texts["references"])
    for given in (
        ("--references", objects),
        ("--references", beams),
        (beams,),
        (without, f"b={beams}"),
        (without, "--references", objects),
    ):
        assert scores(*given) == expected
    assert scores(beams, "--references", texts["poor"]) != expected


def test_files_may_be_packed_or_come_through_a_pipe(
    texts: dict[str, Path], beams: Path, tmp_path: Path
) -> None:
    expected = results(tmp_path / "out.json", beams, texts["good"])["systems"]
    (tmp_path / "p.jsonl.xz").write_bytes(lzma.compress(beams.read_bytes()))
    (tmp_path / "q.txt.gz").write_bytes(gzip.compress(texts["good"].read_bytes()))

    packed = results(tmp_path / "out.json", tmp_path / "p.jsonl.xz", tmp_path / "q.txt.gz")["systems"]
    call = called(
        "evaluate", "piped=-", texts["good"], *FEW, "--out", tmp_path / "out.json", typed=beams.read_bytes()
    )
    piped = json.loads((tmp_path / "out.json").read_text())["systems"]

    assert call.status == 0
    for found, names in ((packed, ["p", "q"]), (piped, ["piped", "good"])):
        assert [found[name]["scores"] for name in names] == [each["scores"] for each in expected.values()]


def test_every_strategy_is_a_system(beams: Path, tmp_path: Path) -> None:
    both, one = ("bidia bleu_t", "bidia bleu_t either", "bidia edit"), ("vbs", "oracle", "longest")
    sizes = {**dict.fromkeys(one[:1], 2), **dict.fromkeys(both, 3), **dict.fromkeys(one[1:], 2)}
    flags = [word for name in sizes for word in ("--strategy", name)]

    found = results(tmp_path / "out.json", beams, *flags, "--baseline", "bidia bleu_t")

    told = called("evaluate", beams, *flags, *FEW).told
    assert "did not choose among as many hypotheses (N_B): vbs 2, bidia bleu_t 3, bidia bleu_t eith" in told
    alike = called("evaluate", beams, "--strategy", "vbs", "--strategy", "longest", *FEW)
    assert "did not choose among as many" not in alike.told
    assert list(found["systems"]) == list(sizes)
    for name in sizes:
        strategy, *similarity = name.split()
        given = [*(["--similarity", similarity[0]] if similarity else [])]
        given += ["--answer", "either"] if "either" in similarity else []
        rerank = called("rerank", beams, "--strategy", strategy, *given)
        text = write_lines(tmp_path / "replies.txt", *rerank.replies)
        alone = results(
            tmp_path / "alone.json", text, "--references", write_lines(tmp_path / "r", *REFERENCES)
        )
        assert found["systems"][name]["scores"] == alone["systems"]["replies"]["scores"]
        assert found["systems"][name]["signature"].startswith(rerank.signature.partition("|bidibeam")[0])
    del sizes["bidia bleu_t"]
    assert {test["system"]: test["beam_size"] for test in found["tests"]} == sizes


def test_several_files_and_strategies_have_both_names(beams: Path, tmp_path: Path) -> None:
    flags = ("--strategy", "vbs", "--strategy", "longest")

    for files, names in (((beams, f"again={beams}"), ["beams", "again"]), ((f"again={beams}",), ["again"])):
        found = results(tmp_path / "out.json", *files, *flags)
        assert list(found["systems"]) == [
            f"{name}: {strategy}" for name in names for strategy in ("vbs", "longest")
        ]


def test_vectors_are_read_once_for_all_who_use_them(beams: Path, tmp_path: Path) -> None:
    words = sorted({word for text in (*GOOD, *POOR, "So.") for word in split(text)})
    vectors = write_vectors(tmp_path / "toy.vec", words)
    flags = ("--strategy", "bidia wmd_t", "--strategy", "bidia wmd_t either", "--strategy", "vbs")

    call = called("evaluate", beams, *flags, *FEW, "--vectors", vectors, "--signatures")

    assert call.status == 0
    assert call.told.count(f"{len(words)} of {len(words)} words have a vector.") == 1
    assert call.shown.count("|vectors:toy.vec@") == 2


def test_tuned_settings_are_used_and_named(beams: Path, tmp_path: Path) -> None:
    tuned = {
        "bidis": {"lambda_": 0.5},
        "vbs-tuned": {"length_exponent": 1, "word_reward": 4},
        "bidia bleu_t": {"T": 3},
        "loglinear both": {"reverse_weight": 0.25},
    }
    (tmp_path / "tuned.json").write_text(json.dumps({"format_version": 2, "options": tuned}))
    expected = {
        "vbs-tuned": "strategy:vbs-tuned|length_exponent:1|word_reward:4|tuned:tuned.json@",
        "bidis": "strategy:bidis|lambda:0.5|tuned:tuned.json@",
        "vbs": "strategy:vbs|",
        "bidia bleu_t": "|T:median|",
        "bidia bleu_t tuned": "|T:3|",
        "loglinear both": "|reverse_weight:0.25|",
        "bidis lambda=1": "strategy:bidis|lambda:1|",
    }
    flags = [word for name in expected for word in ("--strategy", name)]

    for given in (tmp_path, tmp_path / "tuned.json"):
        found = results(tmp_path / "out.json", beams, *flags, "--tuned", given)["systems"]
        for name, part in expected.items():
            assert part in found[name]["signature"]
            is_tuned = name not in ("vbs", "bidia bleu_t", "bidis lambda=1")
            assert ("|tuned:tuned.json@" in found[name]["signature"]) == is_tuned


def test_an_oracle_chooses_by_the_references_that_were_given(
    beams: Path, texts: dict[str, Path], tmp_path: Path
) -> None:
    flags = ("--references", texts["poor"])
    nearest = write_lines(tmp_path / "nearest.txt", *(reply or "So." for reply in POOR))

    found = results(tmp_path / "out.json", beams, "--strategy", "oracle", *flags)["systems"]["oracle"]

    expected = results(tmp_path / "out.json", nearest, *flags)["systems"]["nearest"]
    assert found["scores"] == expected["scores"]


def test_what_is_odd_about_files_is_noted_and_what_is_not_is_not(
    texts: dict[str, Path], tmp_path: Path
) -> None:
    odd = write_lines(tmp_path / "odd.txt", *REFERENCES[:3], "so?\tYes.")
    empty = write_lines(tmp_path / "empty.txt", "", *REFERENCES[1:])
    references = ("--references", texts["references"], *FEW)
    tab = f"Note: {odd}, line 4 holds a tab; the whole line counts as the reply."
    disagree = "where they disagree, believe the second"

    alone = called("evaluate", texts["good"], *references)
    assert alone.status == 0
    assert "Note: there is one system and nothing to compare it with, so no test was made." in alone.told
    for absent in ("beside", "holds a tab", disagree):
        assert absent not in alone.told
    assert tab in called("evaluate", odd, *references).told
    both = called(
        "evaluate", texts["good"], texts["poor"], *references, "--baseline", "good", "--baseline", "poor"
    )
    assert both.told.count(disagree) == 1
    told = called("evaluate", texts["poor"], *FEW, "--references", empty).told
    assert "Note: 1 of 4 replies of poor is empty; it scores as it is." in told
    assert (
        "Note: 1 of 4 sources has only empty references; they count as they are, and no reply has a word"
        in told
    )


def test_few_sources_are_noted(tmp_path: Path) -> None:
    for count, is_noted in ((1, True), (99, True), (100, False)):
        many = write_lines(tmp_path / "many.txt", *["See you at noon."] * count)
        told = called("evaluate", many, *FEW, "--references", many, "--metric", "bleu").told
        assert (f"Note: {count} source" in told and "so few say little" in told) == is_noted


@pytest.fixture
def given(texts: dict[str, Path], beams: Path, tmp_path: Path) -> dict[str, Path]:
    """Files that can be used, and many that cannot."""
    lines = lines_of(beams)
    (tmp_path / "other").mkdir()
    made: dict[str, list[Any]] = {
        "short.txt": GOOD[:3],
        "single.txt": ["Yes."],
        "other/good.txt": GOOD,
        "gap.jsonl": ["", *lines[:2], {**lines[2], "reference": None}, lines[3]],
        "objects.jsonl": [{"reference": "a"}, {"source": "b"}],
        "empty.jsonl": [{"reference": ""} for _ in REFERENCES],
        "blank.jsonl": [{**each, "reference": " "} for each in lines],
        "changed.jsonl": [*lines[:1], {**lines[1], "reference": "Hm."}, *lines[2:]],
        "hi.jsonl": [{**each, "source": "hi"} for each in lines],
        "ho.jsonl": [{**each, "source": "ho"} for each in lines],
        "one-sided.jsonl": [line("a", ["a"], ["b"]), line("a", ["a"], [])],
    }
    files = {Path(name).stem: write_lines(tmp_path / name, *content) for name, content in made.items()}
    return {**files, "twin": files["good"], **texts, "beams": beams}


SAME_LINES = "line n of each must belong to the same source."
SAME_SOURCES = "Systems are compared on the same sources in the same order."
NO_REFERENCE = (
    "{gap}, line 4: source 's2' has no \"reference\", so its reply cannot be scored. Add it, or give "
    "--references."
)
NAMED_TWICE = "Name the files, NAME=FILE, and give no --strategy twice."
ALL_EMPTY = "is empty, so there is nothing to score replies by. Give --references, one a line."
REFUSED = {
    "{good}": "{good} holds replies and no references: give --references, one a line.",
    "{gap}": NO_REFERENCE,
    "{gap} --strategy vbs": NO_REFERENCE,
    "{good} --references {objects}": '{objects}, line 2: there is no "reference".',
    "{single} --references {references}": "{single} has 1 reply, but {references} has 4 "
    f"references; {SAME_LINES}",
    "{good} --references {short}": f"{{good}} has 4 replies, but {{short}} has 3 references; {SAME_LINES}",
    "{beams} {short}": "{beams} has 4 replies, but {short} has 3 replies; " + SAME_LINES,
    "{good} --references {empty}": "Every reference of {empty} " + ALL_EMPTY,
    "{good} {blank}": "Every reference of {blank} " + ALL_EMPTY,
    "{beams} {changed}": "{changed}, line 2: its reference is 'Hm.', but {beams}, line "
    f"2 has 'I do not know.'. {SAME_SOURCES}",
    "{hi} {ho} --references {beams}": "{ho}, line 1: its source is 'ho', but "
    "{hi}, line 1 has 'hi'. " + SAME_SOURCES,
    "{good} {twin}": f"Two systems are called 'good'. {NAMED_TWICE}",
    "name=": "A system is FILE or NAME=FILE, not 'name='.",
    "=file.txt": "A system is FILE or NAME=FILE, not '=file.txt'.",
    "{beams} --metric wer --tokenize intl": "The metric wer takes no --tokenize, received 'intl': leave it "
    "out.",
    "{beams} --tokenize v9": "--tokenize must be one of 13a, intl, char, none, words, not 'v9'.",
    "{beams} --metric distinct-1 --strategy oracle --lowercase": "The metric distinct-1 takes no "
    "--lowercase, received True: leave it out.",
    "{beams} --metric no.where:metric": "The metric 'no.where:metric' cannot be imported: No module named "
    "'no'. Write package.module:name, and make sure that Python finds the module from here.",
    "{good} --strategy vbs": "{good} holds text, one reply a line, and a --strategy chooses among the "
    "lists of an n-best file. Give such a file, or leave --strategy out.",
    "{one-sided} --strategy vbs --strategy 'bidia edit'": "{one-sided}, line 2: source '2' has no "
    'reverse hypotheses, and bidia needs them; add a list "reverse", or choose another strategy, such as '
    '"mbr mean".',
    "{beams} --metric blue": "Unknown metric 'blue'. Did you mean 'bleu'? Choose one of: bleu, "
    "sentence_bleu, chrf, ter, wer, cer, exact_match, ser, distinct-1, distinct-2, length_ratio.",
    "{beams} --baseline vbs": "No system is called 'vbs', to be the baseline. Choose one of: beams.",
    "{beams} --strategy vbs --strategy ' vbs'": f"Two systems are called 'vbs'. {NAMED_TWICE}",
    "{beams} --strategy 'bidia wmd_t tuned'": "The system 'bidia wmd_t tuned' must be tuned first: no T "
    "was tuned for 'bidia wmd_t'. `bidibeam tune` does so, for a run or for Hugging Face models; rerank, "
    "evaluate and analyse take its result by --tuned.",
    "{beams} --strategy 'bidia wmd_t'": "The similarity wmd_t needs word vectors: give --vectors, a file "
    "of them.",
    "{beams} --strategy vbs --vectors x.vec": "No --strategy uses word vectors: leave --vectors out.",
    "{beams} --vectors x.vec": "--vectors is for strategies: name one with --strategy.",
    "{beams} --tuned x.json": "--tuned is for strategies: name one with --strategy.",
}


@pytest.mark.parametrize("command", REFUSED)
def test_what_cannot_be_evaluated_is_one_sentence(
    command: str, given: dict[str, Path], tmp_path: Path
) -> None:
    said = refused_line(f"evaluate {command} --out {tmp_path / 'scores.json'}", given)

    assert said == fill(REFUSED[command], given)
    assert not (tmp_path / "scores.json").exists()


def test_a_control_stands_in_the_reverse_networks_place(
    unsure_run: Path, toy_run: Path, toy_data: PreparedData, tmp_path: Path
) -> None:
    examples = list(toy_data.examples("test"))[:12]
    sources = write_lines(tmp_path / "sources.jsonl", *examples)
    beams = tmp_path / "beams.jsonl"
    called("decode", unsure_run, sources, "--strategy", "bidia", "--n-best", beams, "--beam-size", "8")
    strategies = ("--strategy", "bidis", "--strategy", "bidia edit", "--strategy", "vbs")
    flags = (*strategies, "--metric", "exact_match")

    found = results(tmp_path / "out.json", beams, *flags, "--control", toy_run, "--baseline", "bidis control")

    assert list(found["systems"]) == ["bidis", "bidia edit", "vbs", "bidis control", "bidia edit control"]
    pairs = {(test["system"], test["baseline"]) for test in found["tests"]}
    others = {"bidis", "bidia edit", "vbs", "bidia edit control"}
    assert pairs == {*((name, "bidis control") for name in others), ("bidia edit", "bidia edit control")}
    told = called("evaluate", beams, *flags, "--control", toy_run, *FEW).out
    assert told.count(" beside that of ") == 2
    assert "exact match beside that of bidis  " in told
    beside = told.partition("exact match beside that of each system's control")[2]
    assert [line.split("  ")[0].strip() for line in beside.splitlines() if "bid" in line] == [
        "bidis",
        "bidia edit",
    ]
    assert "|control:" in found["systems"]["bidis control"]["signature"]
    control = bidibeam.load(toy_run).sequence_scorer(Direction.REGULAR)
    right = 0
    for found_line in nbest.read(beams):
        other = control.log_probs(
            [found_line.source], [control.encode([one.text for one in found_line.regular])]
        )[0]
        totals = [
            ((one.score or 0.0) + value * (one.score or 0.0) / (one.log_prob or 1.0), -place)
            for place, (one, value) in enumerate(zip(found_line.regular, other, strict=True))
            if one.finished
        ]
        right += found_line.regular[-max(totals)[1]].text in found_line.references
    assert found["systems"]["bidis control"]["scores"]["exact_match"]["value"] == pytest.approx(
        100 * right / 12
    )


@pytest.fixture
def restricted(unsure_run: Path, toy_data: PreparedData, tmp_path: Path) -> Path:
    """Lists of a search with other settings than the defaults."""
    sources, beams = tmp_path / "sources.jsonl", tmp_path / "restricted.jsonl"
    write_lines(sources, *list(toy_data.examples("test"))[:6])
    flags = ("--max-length", "4", "--bad-words", "red", "--bad-words", "black cat", "--beam-size", "8")
    decoded = called("decode", unsure_run, sources, "--strategy", "bidia", "--n-best", beams, *flags)
    assert decoded.status == 0, decoded.err
    return beams


def test_a_control_is_searched_as_the_lists_were_and_scored_by_who_wrote_them(
    restricted: Path, unsure_run: Path, toy_run: Path, tmp_path: Path
) -> None:
    tuned, weights = tmp_path / "tuned.json", {"reverse_weight": 0.5, "agreement_weight": 0.0}
    tuned.write_text(json.dumps({"format_version": 2, "options": {"loglinear both": weights}}))
    flags = ("--strategy", "loglinear both", "--metric", "wer", "--control", toy_run, "--tuned", tuned)

    found = results(tmp_path / "out.json", restricted, *flags, "--model", unsure_run)

    first, control = bidibeam.load(unsure_run), bidibeam.load(toy_run)
    search = default_search(control, beam_size=4, max_length=4, bad_words=("red", "black cat"))
    strategy = LogLinear(reverse_weight=0.5, agreement_weight=0.0, candidates="both")
    replies, references = [], []
    for beams in nbest.read(restricted):
        written = control.n_best(Direction.REGULAR, [beams.source], search)[0]
        lists = []
        for other, found_by in ((control, beams.regular), (first, written)):
            scorer = other.sequence_scorer(Direction.REGULAR)
            values = scorer.log_probs([beams.source], [scorer.encode([one.text for one in found_by])])[0]
            pairs = zip(found_by, values, strict=True)
            lists.append(NBest(tuple(one._replace(other_log_prob=value) for one, value in pairs)))
        assert not any("red" in one.text.split() for each in lists for one in each)
        replies.append(strategy.rank(replace(beams, regular=lists[0], reverse=lists[1])).text)
        references.append(beams.references)
    (metric,) = build_metrics(["wer"])
    value = found["systems"]["loglinear both control"]["scores"]["wer"]["value"]
    assert value == pytest.approx(score(metric, measure(metric, replies, references)))


def test_who_wrote_the_lists_of_a_control_is_checked(
    restricted: Path, unsure_run: Path, toy_run: Path, tmp_path: Path
) -> None:
    compared = ("--strategy", "bidia edit", "--control", toy_run)
    told = called("evaluate", restricted, *compared, "--model", unsure_run, *FEW).told
    assert "lets it be checked" not in told
    assert "does not say how" not in told
    assert "did not write the lists" in refused("evaluate", restricted, *compared, "--model", toy_run)
    alone = ("--strategy", "bidis", "--model", toy_run)
    assert "--model is for --control" in refused("evaluate", restricted, *alone)

    unsigned = tmp_path / "unsigned.jsonl"
    unsigned.write_text(restricted.read_text().replace("max_length:4|", ""))
    told = called("evaluate", unsigned, *compared, *FEW).told
    assert "unsigned.jsonl does not say how its lists were searched" in told
    assert "lets it be checked" in told


def test_a_control_that_does_not_know_the_words_of_the_lists_is_noted(
    beams: Path, unsure_run: Path, toy_run: Path, tmp_path: Path
) -> None:
    flags = ("--strategy", "bidis", "--control", toy_run, *FEW)

    told = called("evaluate", beams, *flags).told

    assert f"Note: {toy_run} does not know all words of {beams}, such as those of " in told
    own, references = tmp_path / "own.jsonl", write_lines(tmp_path / "references.txt", "red cat!")
    called("decode", unsure_run, "--strategy", "bidia", "--n-best", own, typed="red cat\n")
    assert "all words" not in called("evaluate", own, "--references", references, *flags).told


@pytest.mark.parametrize(
    ("strategy", "told"),
    [
        ("vbs", "--control is for strategies of both ends, such as bidis: none is named by --strategy."),
        (
            "loglinear both",
            "needs the first network's scores of what the control writes: name the model that wrote the",
        ),
    ],
)
def test_what_has_no_control_is_refused(beams: Path, toy_run: Path, strategy: str, told: str) -> None:
    call = called("evaluate", beams, "--strategy", strategy, "--control", toy_run)

    assert call.status != 0
    assert told in " ".join(call.err.split())


def test_the_model_that_wrote_the_lists_is_no_control(unsure_run: Path, tmp_path: Path) -> None:
    beams = tmp_path / "beams.jsonl"
    called("decode", unsure_run, "--strategy", "bidia", "--n-best", beams, typed="red cat\n")
    references = write_lines(tmp_path / "references.txt", "red cat!")
    flags = ("--references", references, "--strategy", "bidis", "--control", unsure_run)
    of_hugging_face = beams.with_name("hf.jsonl")
    signed = beams.read_text(encoding="utf-8").replace("|model:", "|regular:name@")
    of_hugging_face.write_text(signed, encoding="utf-8")

    for file in (beams, of_hugging_face):
        assert "a control must have been trained with another seed." in " ".join(
            refused("evaluate", file, *flags).split()
        )


def test_a_name_makes_no_control(texts: dict[str, Path], tmp_path: Path) -> None:
    files = (f"a={texts['good']}", f"a control={texts['poor']}")

    found = results(tmp_path / "out.json", *files, "--references", texts["references"])

    assert [(test["system"], test["baseline"]) for test in found["tests"]] == [("a control", "a")]


def test_lists_of_other_tools_are_scored_by_their_first_hypothesis_and_by_strategies(
    texts: dict[str, Path], tmp_path: Path
) -> None:
    moses = write_lines(
        tmp_path / "lists.moses",
        *(
            f"{number} ||| {text} ||| LM= -1 ||| {-1 - place}"
            for number, (good, poor) in enumerate(zip(GOOD, POOR, strict=True))
            for place, text in enumerate((good, poor or "So."))
        ),
    )
    of_references = ("--references", texts["references"])

    mine = results(tmp_path / "mine.json", moses, *of_references)
    theirs = results(tmp_path / "theirs.json", texts["good"], *of_references)
    chosen = results(tmp_path / "chosen.json", moses, *of_references, "--strategy", "longest")

    value = theirs["systems"]["good"]["scores"]["bleu"]["value"]
    assert mine["systems"]["lists"]["scores"]["bleu"]["value"] == value > 0
    assert (mine["beam_sizes"]["lists"], set(chosen["systems"])) == (2, {"longest"})


def test_a_note_says_that_a_table_has_sources_on_several_lines(
    texts: dict[str, Path], tmp_path: Path
) -> None:
    sources = ["a", "b", "a", "b"]
    table = write_lines(
        tmp_path / "r.tsv", *(f"{one}\t{two}" for one, two in zip(sources, REFERENCES, strict=True))
    )

    told = called("evaluate", texts["good"], "--references", table, *FEW).told

    assert f"2 sources stand on several lines of {table}, and each line is scored with its own" in told
    assert (
        "stand on several" not in called("evaluate", texts["good"], "--references", texts["references"]).told
    )
