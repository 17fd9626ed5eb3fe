"""`bidibeam tune`: what it finds, tells and refuses, for runs and for Hugging Face models."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bidibeam.api.tuning import WITHOUT_VECTORS
from bidibeam.cli import tune
from bidibeam.data.prepared import PreparedData
from bidibeam.data.tokenization import Tokenizer
from bidibeam.errors import SettingsError
from bidibeam.metrics import METRICS, build_metrics
from bidibeam.metrics.scoring import check_tunable
from bidibeam.reporting import plots
from bidibeam.strategies import tuning
from bidibeam.strategies.tuning import EXPONENTS, LAMBDAS, PENALTIES, REWARDS
from tests.conftest import WORDS
from tests.unit.cli.calls import Call, called, refused, write_vectors
from tests.unit.cli.tunings import FEW, SEARCH, TUNED, check_bleu, tuned_of
from tests.unit.models.huggingface.folders import write_joint, write_pair
from tests.unit.models.huggingface.tiny import prepared

PAIR_SEARCH = ("--beam-size", "6", "--max-length", "7")


@pytest.mark.usefixtures("drawn")
def test_it_ranks_the_systems_recommends_one_and_says_how_to_use_it(
    copied_unsure_run: Path, toy_data: PreparedData
) -> None:
    call = called("tune", copied_unsure_run, *SEARCH, "--tokenize", "words")

    assert (call.status, call.out) == (0, "")
    sources, content = len(list(toy_data.examples("validation"))), tuned_of(copied_unsure_run)
    recommended = content["recommended"]
    for told in (
        f"Cross-validated on {sources} validation sources; higher is better",
        "* is recommended; low and high are 95 % bootstrap intervals.",
        f" * {recommended} ",
        "loglinear bleu_t both",
        "mbr token_f1",
        "bidia embedding_cosine",
        f"Recommended: {recommended}",
        f"Wrote {copied_unsure_run / 'tuned.json'}.",
        f"Next: bidibeam decode {copied_unsure_run} FILE --beam-size 4",
    ):
        assert told in call.told

    assert set(TUNED) < set(content["options"])
    tried = {(curve["system"], curve["setting"]): curve["values"] for curve in content["curves"]}
    assert tried["bidis", "lambda"] == [*LAMBDAS]
    assert tried["vbs-tuned", "length_exponent"] == [*EXPONENTS]
    assert tried["vbs-tuned", "word_reward"] == [*REWARDS]
    assert tried["bidia bleu_t", "T"] == tried["bidia wmd_t", "T"] == [*PENALTIES]
    assert content["options"]["bidia wmd_t"]["T"] in PENALTIES
    assert content["options"]["bidis"]["lambda_"] in LAMBDAS
    assert (content["split"], content["sources"]) == ("validation", sources)
    assert (content["search"]["beam_size"], content["search"]["max_length"]) == (4, 9)
    values = [each["cv"] for each in content["ranking"]]
    assert values == sorted(values, reverse=True)
    by_name = {each["system"]: each for each in content["ranking"]}
    assert recommended in by_name
    assert by_name["vbs-tuned"]["difference"] is None
    picture = ElementTree.fromstring((copied_unsure_run / "tuned.svg").read_text())
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"lambda", "T of bidia bleu_t", "T of bidia wmd_t"} < set(words)


def test_the_metric_is_signed_with_the_number_of_references(copied_run: Path, referenced_data: Path) -> None:
    called("tune", copied_run, *SEARCH, "--data", referenced_data, "--strategy", "bidis")

    assert "|nrefs:var|" in tuned_of(copied_run)["metric"]


def test_any_metric_decides(copied_unsure_run: Path) -> None:
    call = called("tune", copied_unsure_run, *SEARCH, "--quick", "--metric", "wer")

    content = tuned_of(copied_unsure_run)
    assert call.status == 0
    assert content["metric"].startswith("metric:wer|")
    values = [each["cv"] for each in content["ranking"]]
    assert values == sorted(values)  # the fewest errors first
    assert "embedding_cosine" not in call.told  # it is quick
    said = refused("tune", copied_unsure_run, *SEARCH, "--metric", "distinct-1")
    assert said.startswith("The metric distinct-1 is known only for all replies together, and tuning needs")
    assert said.endswith("choose another --metric, such as bleu.")
    said = refused("tune", copied_unsure_run, *SEARCH, "--metric", "length_ratio")
    assert said.startswith("The metric length_ratio is best near 1, and tuning looks for the highest or")


def test_training_ends_with_a_quick_tune_that_can_be_left_out_and_cannot_do_harm(
    toy_data: PreparedData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(name: str, *flags: str) -> Call:
        small = shlex.split(
            "--set model.decoder_size=8 --set model.encoder_size=8 --set training.max_steps=2"
        )
        return called("train", toy_data.path, "--out", tmp_path / name, "--preset", "demo", *small, *flags)

    tuned = train("tuned")
    assert (tuned.status, "Recommended: " in tuned.told) == (0, True)
    recommended = tuned_of(tmp_path / "tuned")["recommended"]
    assert f"Strategy: {recommended} (rec" in called("decode", tmp_path / "tuned", typed="red\n").told

    by_words = train("by-words", "--metric", "wer")
    assert (by_words.status, tuned_of(tmp_path / "by-words")["metric"].split("|")[0]) == (0, "metric:wer")
    assert train("by-length", "--metric", "length_ratio").err.startswith(
        "Error: The metric length_ratio is best near 1, and tuning looks for"
    )
    assert not (tmp_path / "by-length").exists()

    plain = train("plain", "--no-tune")
    assert (plain.status, "Recommended" in plain.told) == (0, False)
    assert not (tmp_path / "plain" / "tuned.json").exists()

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr("bidibeam.api.tuning.Tuner", fail)
    failed = train("failed")
    assert failed.status == 0
    assert "Note: it could not be found out which strategy serves best (out of memory); `bid" in failed.told
    assert called("decode", tmp_path / "failed", typed="red\n").status == 0


@pytest.mark.parametrize("command", ["tune", "train", "reproduce"])
def test_help_names_the_metrics_that_one_can_tune_by(command: str) -> None:
    def is_tunable(name: str) -> bool:
        try:
            check_tunable(*build_metrics([name], None, None))
        except SettingsError:
            return False
        return True

    names = ", ".join(filter(is_tunable, METRICS.names()))
    assert f": {names}, or package.module:name" in " ".join(called(command, "--help").out.split())


def test_training_ends_with_the_measure_of_its_corpus(tmp_path: Path) -> None:
    source, data, out = tmp_path / "g2p", tmp_path / "data", tmp_path / "run"
    source.mkdir()
    words = [f"{first}{second}" for first in "ABCDEFGH" for second in "AEIOU"]
    for name, part in (("train", words[:30]), ("dev", words[30:35]), ("test", words[35:])):
        (source / f"{name}.tsv").write_text("".join(f"{word}\t{' '.join(word)}\n" for word in part))
    assert called("prepare", "cmudict", "--source", source, "--out", data).status == 0
    small = shlex.split("--set model.decoder_size=8 --set model.encoder_size=8 --set training.max_steps=2")

    assert called("train", data, "--out", out, "--preset", "demo", *small).status == 0

    assert tuned_of(out)["metric"].startswith("metric:ser|")


def test_few_sources_and_a_value_at_the_end_of_its_grid_are_noted_once(
    copied_unsure_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "LAMBDAS", (0.01, 50.0))

    call = called("tune", copied_unsure_run, *SEARCH, "--strategy", "bidis")

    content = tuned_of(copied_unsure_run)
    best, sources = content["options"]["bidis"]["lambda_"], content["sources"]
    assert len(set(content["curves"][0]["scores"])) == 2  # either value is an end
    told = f"so better may lie beyond: lambda of bidis ({best:g} of 0.01 to 50)."
    assert call.told.count(told) == 1
    assert f"Note: {sources} sources: settings tuned on so few say little." in call.told
    monkeypatch.setattr("bidibeam.cli.tune.FEW_SOURCES", sources)
    assert "so few say little" not in called("tune", copied_unsure_run, *SEARCH, "--strategy", "bidis").told


def test_a_plot_that_cannot_be_written_is_noted_and_what_was_found_is_kept(copied_run: Path) -> None:
    (copied_run / "tuned.svg").mkdir()

    call = called("tune", copied_run, "--beam-size", "2", "--sources", "3", "--strategy", "bidis")

    assert call.status == 0
    assert "tuned.svg cannot be written: Is a directory." in call.told
    assert set(tuned_of(copied_run)["options"]) == {"bidis"}


def test_of_a_single_hypothesis_nothing_makes_a_difference(copied_run: Path) -> None:
    call = called("tune", copied_run, "--beam-size", "1", "--sources", "3", "--length-penalty", "0.9")

    content = tuned_of(copied_run)
    assert content["options"]["bidis"] == {"lambda_": 1.0}
    assert content["options"]["vbs-tuned"] == {"length_exponent": 0.9, "word_reward": 0.0}
    assert all(len(set(curve["scores"])) == 1 for curve in content["curves"])
    assert (
        "is kept: length exponent of vbs-tuned (0.9), word reward of vbs-tuned (0), lambda of bidis (1)."
    ) in call.told
    assert "Left out the systems bidia bleu_t, bidia bleu, " in call.told
    assert "others: They need --beam-size of 2 or more." in call.told
    assert content["recommended"] is None
    assert "Nothing is recommended: on these sources no system is better than another." in call.told
    said = refused("tune", copied_run, "--beam-size", "1", "--strategy", "bidia bleu_t")
    assert said.startswith("--beam-size must be at least 2 for bidia")


def test_data_are_looked_for_where_they_were_and_taken_from_elsewhere(
    copied_run: Path, toy_data: PreparedData, tmp_path: Path
) -> None:
    moved, gone, config = tmp_path / "moved", tmp_path / "gone", copied_run / "config.json"
    shutil.copytree(toy_data.path, moved)
    content = json.loads(config.read_text())
    content["data"]["path"] = str(gone)
    config.write_text(json.dumps(content))

    said = refused("tune", copied_run)
    assert said.startswith(f"The data of {copied_run} are not at {gone} any more: give --data")
    assert called("tune", copied_run, *FEW, "--data", moved).status == 0
    assert "There is no directory" in refused("tune", copied_run, "--data", gone)

    del content["data"]["path"]
    config.write_text(json.dumps(content))
    said = refused("tune", copied_run)
    assert said.startswith(f"{copied_run} does not say where its data are: give --data")


def test_a_run_without_a_reverse_decoder_has_its_length_settings_tuned(copied_regular_run: Path) -> None:
    said = refused("tune", copied_regular_run, *SEARCH, "--strategy", "bidia bleu_t")
    assert "reverse" in said
    assert not (copied_regular_run / "tuned.json").exists()

    call = called("tune", copied_regular_run, *SEARCH)

    assert call.status == 0
    assert (
        "Left out the systems bidis lambda=1, bidis, reverse-vbs and 25 others: They need the " in call.told
    )
    content = tuned_of(copied_regular_run)
    assert set(content["options"]) == {"vbs-tuned"}
    assert set(content["values"]) == {"vbs", "vbs-tuned", *(f"mbr {name}" for name in WITHOUT_VECTORS)}
    assert content["recommended"] in content["values"]
    assert called("decode", copied_regular_run, typed="red\n").replies  # by what is recommended
    assert called("decode", copied_regular_run, "--strategy", "vbs-tuned", typed="red\n").replies


@pytest.mark.usefixtures("drawn")
def test_without_matplotlib_all_but_the_plot_is_there(
    copied_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda _: None)

    call = called("tune", copied_run, *FEW)

    assert call.status == 0
    assert "matplotlib is not installed. pip install 'bidibeam[plots]' brings it." in call.told
    assert "Cross-validated on 3 validation sources" in call.told
    assert (copied_run / "tuned.json").is_file()
    assert not (copied_run / tune.PLOT_FILE).exists()


def test_systems_with_the_same_numbers_share_a_row_and_are_named(copied_run: Path) -> None:
    names = ("vbs", "vbs-tuned", "bidis")
    flags = [word for name in names for word in ("--strategy", name)]

    call = called("tune", copied_run, "--beam-size", "1", "--sources", "3", *flags)

    assert "The same numbers as vbs: vbs-tuned, bidis." in call.told
    assert len([line for line in call.err.splitlines() if line.strip().startswith("vbs")]) == 1
    assert [each["system"] for each in tuned_of(copied_run)["ranking"]] == [*names]


def test_systems_without_settings_are_compared_too(copied_unsure_run: Path) -> None:
    systems = ("vbs", "mbr bleu", "bidis lambda=1", "bidis", "bidia edit")

    call = called(
        "tune", copied_unsure_run, *SEARCH, *(word for name in systems for word in ("--strategy", name))
    )

    assert call.status == 0
    content = tuned_of(copied_unsure_run)
    assert list(content["values"]) == [*systems]
    assert {each["system"] for each in content["ranking"]} == {*systems}
    assert list(content["options"]) == ["bidis"]
    answered = called("decode", copied_unsure_run, *SEARCH, typed="red\n")
    assert f"Strategy: {content['recommended']} (recommended by tuned.json)" in answered.told


def test_what_must_be_imported_is_compared_and_not_recommended(
    copied_unsure_run: Path, similarities: Callable[[str], str]
) -> None:
    own = f"bidia {similarities('same')}"

    assert called("tune", copied_unsure_run, *SEARCH, "--strategy", own, "--strategy", "vbs").status == 0

    content = tuned_of(copied_unsure_run)
    assert (list(content["values"]), content["recommended"]) == (["vbs", own], "vbs")


def test_it_is_tuned_again_as_it_was_before(copied_run: Path) -> None:
    bleu = ("--strategy", "vbs-tuned", "--tokenize", "char")
    assert called("tune", copied_run, *FEW, *bleu).status == 0
    assert called("tune", copied_run, "--sources", "3", "--strategy", "bidis").status == 0
    assert "|tok:char|" in tuned_of(copied_run)["metric"]
    assert set(tuned_of(copied_run)["options"]) == {"vbs-tuned", "bidis"}
    assert called("tune", copied_run, *FEW, "--metric", "wer", "--strategy", "vbs-tuned").status == 0

    call = called("tune", copied_run, "--sources", "3", "--strategy", "bidis")

    assert call.status == 0
    assert "is gone" not in call.told
    for _ in range(2):  # said each time
        by_chrf = called("tune", copied_run, *FEW, "--metric", "chrf", "--strategy", "vbs-tuned")
        assert "the model writes no capital letters, so chrf ignores case" in by_chrf.told
    assert called("tune", copied_run, *FEW, "--metric", "wer", "--strategy", "vbs-tuned").status == 0
    call = called("tune", copied_run, "--sources", "3", "--strategy", "bidis")
    content = tuned_of(copied_run)
    assert set(content["options"]) == {"vbs-tuned", "bidis"}
    assert content["metric"].startswith("metric:wer|")
    assert content["search"]["beam_size"] == 4
    assert "is gone" not in call.told
    by_bleu = called("tune", copied_run, "--sources", "3", "--strategy", "bidis", "--metric", "bleu")
    assert "what tuned.json had for vbs-tuned is gone: it was tuned for another metric." in by_bleu.told
    assert tuned_of(copied_run)["metric"].startswith("metric:bleu|")


WORSE = """
from bidibeam.metrics.edits import WordErrorRate

class Worse(WordErrorRate):
    name, higher_is_better = "worse", True
"""


def test_nobody_is_called_ahead_of_their_equal(
    copied_unsure_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "worse_metric.py").write_text(WORSE)  # by which the reverse direction is not the best
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    few = ("tune", copied_unsure_run, "--beam-size", "1", "--metric", "worse_metric:Worse")
    names = ("vbs", "bidis lambda=1", "reverse-vbs")

    said = called(*few, *(word for name in names for word in ("--strategy", name))).told

    values = {each["system"]: each["cv"] for each in tuned_of(copied_unsure_run)["ranking"]}
    assert values["vbs"] == values["bidis lambda=1"] > values["reverse-vbs"]
    assert "Recommended: bidis lambda=1, the default. Here it is not ahead of vbs, which needs no rev" in said
    alone = called(*few, "--sources", "4", "--strategy", "bidis").told
    assert "Nothing is recommended: bidis was compared with no other system." in alone


def test_no_curves_are_told_of_where_there_are_none(copied_run: Path) -> None:
    (copied_run / "tuned.svg").write_text("of an earlier call", encoding="utf-8")

    call = called("tune", copied_run, *FEW, "--strategy", "vbs")

    assert (call.status, tuned_of(copied_run)["recommended"]) == (0, None)
    assert "tuned.svg" not in call.told


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        *(
            ((name,), f"{name} is there to compare with, and excluded from recommendation: leave it out.")
            for name in ("oracle", "longest", "random")
        ),
        (("bidia edit tuned",), "The similarity edit has no T to be tuned."),
        (("bidia nowhere:like",), "The similarity 'nowhere:like' cannot be imported"),
        (("bidia bleu_t", "--vectors", "x.vec"), "Nothing that is tuned uses word vectors: leave --vectors"),
        (("bidio",), "Unknown strategy 'bidio'. Did you mean 'bidis'? Choose one of: "),
    ],
)
def test_what_cannot_be_tuned_is_named(copied_run: Path, flags: tuple[str, ...], message: str) -> None:
    assert refused("tune", copied_run, *SEARCH, "--strategy", *flags).startswith(message)
    assert not (copied_run / "tuned.json").exists()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    return prepared(tmp_path_factory.mktemp("data"), pairs=60, validation_share=0.3)


@pytest.fixture
def models(pair: tuple[Path, Path], tmp_path: Path) -> tuple[Path, str, Path]:
    """A Hugging Face pair of which nothing is tuned, as a command line names it."""
    regular, reverse = (shutil.copytree(each, tmp_path / each.name) for each in pair)
    return regular, "--reverse", reverse


def test_a_pair_is_tuned_and_decodes_with_what_was_found(
    models: tuple[Path, str, Path], data: PreparedData
) -> None:
    call = called("tune", *models, "--data", data.path, *PAIR_SEARCH)

    assert (call.status, call.out) == (0, "")
    assert f"Next: bidibeam decode {models[0]} FILE --reverse {models[2]} --beam-size 6" in call.told
    assert set(TUNED) < set(tuned_of(models[0])["options"])
    check_bleu(models, models[0], data.path / "validation.jsonl", PAIR_SEARCH)


def test_a_shared_encoder_and_a_regular_model_alone_are_tuned(
    models: tuple[Path, str, Path], data: PreparedData, tmp_path: Path
) -> None:
    joint = write_joint(tmp_path / "joint")

    for model in ((joint,), ("--regular", models[0])):
        assert called("tune", *model, "--data", data.path, *PAIR_SEARCH).status == 0

    assert set(TUNED) < set(tuned_of(joint)["options"])
    assert list(tuned_of(models[0])["options"]) == ["vbs-tuned"]


def test_it_belongs_to_its_weights(
    models: tuple[Path, str, Path], data: PreparedData, tmp_path: Path
) -> None:
    regular = models[0]
    for name in ("bidis", "vbs-tuned"):
        assert called("tune", *models, "--data", data.path, *PAIR_SEARCH, "--strategy", name).status == 0
    assert set(tuned_of(regular)["options"]) == {"bidis", "vbs-tuned"}
    alone = called("decode", regular, *PAIR_SEARCH, "--strategy", "vbs-tuned", typed="red cat\n")
    assert "|tuned:tuned.json@" in alone.signature  # the reverse model has no part in it

    *_, other = write_pair(tmp_path / "others", "bart", init_std=0.2)
    command = ("decode", regular, "--reverse", other, *PAIR_SEARCH, "--strategy", "bidis")
    assert refused(*command, typed="red\n").startswith(
        f"{regular / 'tuned.json'} was tuned for other weights"
    )
    assert called(*command, "--lambda", "2", typed="red\n").status == 0


def test_subwords_are_tuned_without_vectors_or_with_a_file(tmp_path: Path, data: PreparedData) -> None:
    pieces = Tokenizer.train([" ".join(WORDS)] * 3, kind="bpe", vocabulary_size=300)
    regular, reverse = write_pair(tmp_path, "bart", tokenizer=pieces)
    command = ("tune", regular, "--reverse", reverse, "--data", data.path, *PAIR_SEARCH, "--sources", "3")

    without = called(*command)
    assert "Left out the systems bidia wmd_t, bidia wmd, " in without.told
    assert "bidia wmd_t tuned: They need word vectors, as --vectors." in without.told
    assert "bidia wmd_t" not in tuned_of(regular)["options"]
    beside = called(*command, "--vectors", write_vectors(tmp_path / "toy.vec", WORDS))
    assert (beside.status, "Left out" in beside.told) == (0, False)
    assert "bidia wmd_t" in tuned_of(regular)["options"]
    ranked = [each["system"] for each in tuned_of(regular)["ranking"]]
    assert "bidia wmd_t tuned" in ranked
    assert "wmd" not in (tuned_of(regular)["recommended"] or "")  # decode would not know the vectors


def test_a_pair_that_cannot_be_tuned_is_refused(models: tuple[Path, str, Path], data: PreparedData) -> None:
    regular, reverse = models[0], models[2]
    assert refused("tune", *models).startswith(f"{regular} does not say where its data are: give --data")
    said = refused("tune", reverse, "--data", data.path)
    assert said.startswith("tuned.json goes into the folder of the regular model, and bart-reverse has none")
    for unnamed in ((), ("--reverse", reverse)):
        call = called("tune", *unnamed)
        assert (call.status, "Missing argument 'MODEL'" in call.told) == (2, True)
    metadata = {"data": {"path": str(data.path), "fingerprint": "0123"}}
    (regular / "bidibeam.json").write_text(json.dumps(metadata))
    said = refused("tune", *models)
    assert said.startswith(f"{data.path} holds other data than {regular} was trained on (fingerprint ")
    assert said.endswith("give those as --data.")
    assert not (regular / "tuned.json").exists()
    metadata["data"]["fingerprint"] = data.fingerprint
    (regular / "bidibeam.json").write_text(json.dumps(metadata))
    assert called("tune", *models, *PAIR_SEARCH, "--strategy", "vbs-tuned").status == 0


def test_several_metrics_are_refused_since_one_decides(tmp_path: Path) -> None:
    call = called("tune", tmp_path, "--metric", "wer", "--metric", "ser")

    assert call.status == 2
    assert "replies are judged by one metric, not by wer and ser." in " ".join(call.err.split())


def test_case_that_is_ignored_is_noted(copied_run: Path) -> None:
    command = ("tune", copied_run, *FEW, "--strategy", "bidis")
    told = "Note: the model writes no capital letters, so bleu ignores case; `bidibeam evaluate --lowercase`"

    assert told in called(*command).told
    assert "ignores case" not in called(*command, "--lowercase").told
