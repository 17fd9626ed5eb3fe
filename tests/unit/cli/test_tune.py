"""`bidibeam tune`, and decoding with what it found."""

from __future__ import annotations

import json
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import PreparedData
from bidibeam.data.words import split
from bidibeam.metrics.bleu import CorpusBleu
from bidibeam.reporting import plots
from bidibeam.strategies import tuning
from bidibeam.strategies.tuning import EXPONENTS, LAMBDAS, PENALTIES, REWARDS
from tests.conftest import write_toy_corpus
from tests.unit.cli.calls import called, lines_of, refused

SEARCH = ("--beam-size", "4", "--max-length", "9")


def replace_tuned(run: Path, **options: dict[str, float]) -> None:
    """Put other values into a run's tuned.json."""
    path = run / "tuned.json"
    content: dict[str, Any] = json.loads(path.read_text())
    content["options"] |= options
    path.write_text(json.dumps(content))


@pytest.fixture
def tuned_run(copied_run: Path) -> Path:
    assert called("tune", copied_run, *SEARCH, "--sources", "3").status == 0
    return copied_run


@pytest.mark.usefixtures("drawn")
def test_it_prints_the_curves_and_writes_what_it_found(copied_run: Path, toy_data: PreparedData) -> None:
    call = called("tune", copied_run, *SEARCH)

    assert (call.status, call.out) == (0, "")
    sources = len(list(toy_data.examples("validation")))
    for told in (
        "BLEU by lambda",
        "BLEU by length exponent, word reward 0",
        "BLEU by word reward, length exponent 0",
        "BLEU of bidia bleu_t by T",
        "BLEU of bidia wmd_t by T",
        "T is for names with 'tuned', such as --strategy 'bidia bleu_t tuned'.",
        f"Tuned on {sources} validation sources",
        f"Wrote {copied_run / 'tuned.json'}, which `bidibeam decode {copied_run}` uses from now on.",
    ):
        assert told in call.told
    assert call.err.count("█") > 40 * 5  # the highest of each curve is a whole bar

    content = json.loads((copied_run / "tuned.json").read_text())
    tried = [curve["values"] for curve in content["curves"]]
    assert tried == [[*LAMBDAS], [*EXPONENTS], [*REWARDS], [*PENALTIES], [*PENALTIES]]
    assert list(content["options"]) == ["bidis", "vbs-tuned", "bidia bleu_t", "bidia wmd_t"]
    assert content["options"]["bidia wmd_t"]["T"] in PENALTIES
    assert content["options"]["bidis"]["lambda_"] in LAMBDAS
    assert (content["split"], content["sources"]) == ("validation", sources)
    assert (content["search"]["beam_size"], content["search"]["max_length"]) == (4, 9)
    assert content["bleu"]["bidis"] == max(content["curves"][0]["bleu"]) >= content["bleu"]["vbs"]
    picture = ElementTree.fromstring((copied_run / "tuned.svg").read_text())
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"
    words = [element.text for element in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert {"lambda", "T of bidia bleu_t", "T of bidia wmd_t"} < set(words)


def test_a_value_at_the_end_of_its_grid_is_noted_once_and_kept(
    unsure_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    shutil.copytree(unsure_run, run)
    monkeypatch.setattr(tuning, "tune", partial(tuning.tune, lambdas=(0.01, 50.0)))

    call = called("tune", run, *SEARCH, "--strategy", "bidis")

    content = json.loads((run / "tuned.json").read_text())
    best = content["options"]["bidis"]["lambda_"]
    assert len(set(content["curves"][0]["bleu"])) == 2  # either value is an end
    assert content["at_end"] == [{"name": "bidis", "setting": "lambda", "value": best}]
    told = f"lambda of bidis ({best:g} of 0.01 to 50)."
    assert call.told.count(f"Note: At the end of what was tried, so better may lie beyond: {told}") == 1


def test_a_setting_that_makes_no_difference_is_noted_and_stays_at_its_default(copied_run: Path) -> None:
    call = called("tune", copied_run, "--beam-size", "1", "--length-penalty", "0.9")

    content = json.loads((copied_run / "tuned.json").read_text())
    assert content["options"] == {
        "bidis": {"lambda_": 1.0},
        "vbs-tuned": {"length_exponent": 0.9, "word_reward": 0.0},
    }
    assert all(len(set(curve["bleu"])) == 1 for curve in content["curves"])
    assert (
        "is kept: lambda of bidis (1), length exponent of vbs-tuned (0.9), word reward of vbs-tuned (0)."
    ) in call.told


def test_what_was_tuned_on_few_sources_is_noted(copied_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> str:
        return called("tune", copied_run, *SEARCH, "--sources", "3", "--strategy", "vbs-tuned").told

    assert "Note: 3 sources: settings tuned on so few say little." in told()
    monkeypatch.setattr("bidibeam.cli.evaluate.FEW_SOURCES", 3)
    assert "so few say little" not in told()


def test_its_bleu_is_that_of_the_replies_that_decode_writes(unsure_run: Path, toy_data: PreparedData) -> None:
    assert called("tune", unsure_run, *SEARCH).status == 0
    content = json.loads((unsure_run / "tuned.json").read_text())
    sources = toy_data.path / "validation.jsonl"
    references = [line["reference"] for line in lines_of(sources)]
    found = set()

    tuned = {name: f"{name} tuned" for name in ("bidia bleu_t", "bidia wmd_t")}
    for strategy in ("vbs", "vbs-tuned", "bidis", *tuned):
        flags = ("--strategy", tuned.get(strategy, strategy))
        replies = called("decode", unsure_run, sources, *SEARCH, *flags).replies
        bleu = CorpusBleu().score(list(map(split, replies)), list(map(split, references)))
        assert bleu.value == pytest.approx(content["bleu"][strategy])
        assert str(bleu.signature).startswith(content["metric"])
        found.add(bleu.value)

    assert len(found) > 1  # or tuning could have been left out


def test_decoding_uses_it_and_says_so(tuned_run: Path) -> None:
    replace_tuned(
        tuned_run, bidis={"lambda_": 7.5}, **{"vbs-tuned": {"length_exponent": 0.5, "word_reward": 4.0}}
    )

    def signature(*flags: str) -> str:
        return called("decode", tuned_run, *flags, typed="red cat\n").signature

    named = r"\|tuned:tuned\.json@[0-9a-f]{8}\|"
    bidis = signature("--strategy", "bidis")
    assert bidis.startswith("strategy:bidis|lambda:7.5|")
    assert re.search(named, bidis)
    vbs_tuned = signature("--strategy", "vbs-tuned")
    assert vbs_tuned.startswith("strategy:vbs-tuned|length_exponent:0.5|word_reward:4|")
    assert re.search(named, vbs_tuned)
    half = signature("--strategy", "vbs-tuned", "--word-reward", "1")
    assert half.startswith("strategy:vbs-tuned|length_exponent:0.5|word_reward:1|")
    assert re.search(named, half)
    for flags in (("--strategy", "bidis", "--lambda", "2"), ("--strategy", "vbs"), ()):
        assert "tuned.json" not in signature(*flags)


def test_other_tuned_values_give_other_replies_and_another_name(tuned_run: Path) -> None:
    def decoded(reward: float) -> tuple[str, str]:
        replace_tuned(tuned_run, **{"vbs-tuned": {"length_exponent": 0.0, "word_reward": reward}})
        call = called("decode", tuned_run, "--strategy", "vbs-tuned", typed="white\n")
        return call.out, call.signature.split("tuned:")[1]

    short, long = decoded(-50.0), decoded(50.0)
    assert len(short[0]) < len(long[0])
    assert short[1] != long[1]


def test_without_it_vbs_tuned_says_what_to_do_and_bidis_weighs_both_alike(copied_run: Path) -> None:
    assert refused("decode", copied_run, "--strategy", "vbs-tuned", typed="red\n") == (
        "The strategy vbs-tuned needs length_exponent and "
        "word_reward; `bidibeam tune` finds good "
        "values, for a run or for Hugging Face models: decode then uses them, and rerank takes them as tuned."
    )
    call = called("decode", copied_run, "--strategy", "bidis", typed="red\n")
    assert call.signature.startswith("strategy:bidis|lambda:1|beam_size:")


def test_weights_that_changed_since_are_refused_with_the_way_out(tuned_run: Path) -> None:
    with (tuned_run / "model.safetensors").open("rb+") as file:
        file.seek(-1, 2)
        last = file.read(1)
        file.seek(-1, 2)
        file.write(bytes([last[0] ^ 1]))

    said = refused("decode", tuned_run, "--strategy", "bidis", typed="red\n")
    assert re.fullmatch(
        rf"{re.escape(str(tuned_run))}/tuned\.json was tuned for other weights \([0-9a-f]{{12}}, not "
        r"[0-9a-f]{12}\)\. Run `bidibeam tune` again, or give the strategy's settings as flags\.",
        said,
    )
    assert called("decode", tuned_run, "--strategy", "bidis", "--lambda", "1", typed="red\n").replies
    assert called("tune", tuned_run, *SEARCH, "--sources", "3").status == 0
    assert called("decode", tuned_run, "--strategy", "bidis", typed="red\n").replies


def test_a_damaged_file_is_named_where_it_is_needed_and_tuning_mends_it(tuned_run: Path) -> None:
    (tuned_run / "tuned.json").write_text("{")

    said = refused("decode", tuned_run, "--strategy", "bidis", typed="red\n")
    assert said.startswith(f"{tuned_run}/tuned.json is damaged (")
    assert said.endswith("Make it again with `bidibeam tune RUN`.")
    assert called("decode", tuned_run, "--strategy", "vbs", typed="red\n").replies
    assert called("tune", tuned_run, *SEARCH, "--sources", "3").status == 0
    assert called("decode", tuned_run, "--strategy", "bidis", typed="red\n").replies


def test_data_are_looked_for_where_they_were_and_taken_from_elsewhere(
    copied_run: Path, toy_data: PreparedData, tmp_path: Path
) -> None:
    moved, gone = tmp_path / "moved", tmp_path / "gone"
    shutil.copytree(toy_data.path, moved)
    config = copied_run / "config.json"
    content = json.loads(config.read_text())
    content["data"]["path"] = str(gone)
    config.write_text(json.dumps(content))

    assert (
        refused("tune", copied_run)
        == f"The data of {copied_run} are not at {gone} any more: give --data DIR."
    )
    assert called("tune", copied_run, *SEARCH, "--data", moved).status == 0

    del content["data"]["path"]
    config.write_text(json.dumps(content))
    assert refused("tune", copied_run) == f"{copied_run} does not say where its data are: give --data DIR."


def test_data_that_it_was_not_trained_on_are_refused(copied_run: Path, tmp_path: Path) -> None:
    write_toy_corpus(tmp_path / "pairs.tsv", 300)
    settings = PrepareSettings(corpus="tsv", vocabulary_size=100)
    other = prepare(settings, tmp_path / "pairs.tsv", tmp_path / "other")

    said = refused("tune", copied_run, "--data", other.path)

    assert said.startswith(f"{other.path} holds other data than {copied_run} was trained on (fingerprint ")
    assert said.endswith("Give the data it was trained on with --data.")
    assert not (copied_run / "tuned.json").exists()
    assert "There is no directory" in refused("tune", copied_run, "--data", tmp_path / "none")


def test_a_run_without_a_reverse_decoder_has_its_length_settings_tuned(copied_regular_run: Path) -> None:
    call = called("tune", copied_regular_run, *SEARCH)

    assert call.status == 0
    assert "BLEU by word reward" in call.told
    assert "lambda" not in call.told
    left_out = "Note: left out bidis, bidia bleu_t, bidia wmd_t: they need the reverse direction too."
    assert left_out in call.told
    assert set(json.loads((copied_regular_run / "tuned.json").read_text())["options"]) == {"vbs-tuned"}
    assert called("decode", copied_regular_run, "--strategy", "vbs-tuned", typed="red\n").replies


@pytest.mark.usefixtures("drawn")
def test_without_matplotlib_all_but_the_plot_is_there(
    copied_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plots, "find_spec", lambda _: None)

    call = called("tune", copied_run, *SEARCH, "--sources", "3")

    assert call.status == 0
    assert (
        "No plot was drawn: matplotlib is not installed. pip install 'bidibeam[plots]' brings it."
        in call.told
    )
    assert "Tuned on 3 validation sources" in call.told
    assert (copied_run / "tuned.json").is_file()
    assert not (copied_run / "tuned.svg").exists()


def test_tuning_twice_finds_the_same(tuned_run: Path) -> None:
    files = [tuned_run / name for name in ("tuned.json", "tuned.svg")]
    first = [path.read_bytes() for path in files]

    assert called("tune", tuned_run, *SEARCH, "--sources", "3", "--batch-size", "2").status == 0

    assert [path.read_bytes() for path in files] == first


def test_decoding_says_so_if_it_was_tuned_for_another_search(tuned_run: Path) -> None:
    told = "Note: the strategy's settings were tuned with --beam-size 4 and --max-length 9."
    flags = ("--strategy", "bidis")

    assert told in called("decode", tuned_run, *flags, "--beam-size", "6", typed="red\n").told
    assert told not in called("decode", tuned_run, *flags, *SEARCH, typed="red\n").told
    assert told not in called("decode", tuned_run, *flags, "--lambda", "1", typed="red\n").told
    assert told not in called("decode", tuned_run, "--strategy", "vbs", typed="red\n").told


def test_a_tuned_t_is_used_where_the_name_says_so_and_named_in_the_signature(tuned_run: Path) -> None:
    replace_tuned(tuned_run, **{"bidia bleu_t": {"T": 3.0}, "bidia wmd_t": {"T": 40.0}})

    def signature(*flags: str) -> str:
        return called("decode", tuned_run, *flags, typed="red cat\n").signature

    for name, length in (("bidia bleu_t tuned", 3), ("bidia tuned", 3), ("bidia wmd_t tuned", 40)):
        said = signature("--strategy", name)
        assert f"|T:{length}|" in said
        assert re.search(r"\|tuned:tuned\.json@[0-9a-f]{8}\|model:", said)
    own = signature("--strategy", "bidia bleu_t tuned", "--similarity-option", "max_length=7")
    assert "|T:7|" in own
    for said in (own, signature("--strategy", "bidia bleu_t"), signature()):
        assert "tuned.json" not in said
    note = "Note: the strategy's settings were tuned with --beam-size 4 and --max-length 9."
    tuned = ("--strategy", "bidia bleu_t tuned")
    assert note in called("decode", tuned_run, *tuned, typed="red\n").told
    assert note not in called("decode", tuned_run, *tuned, *SEARCH, typed="red\n").told


def test_without_a_t_for_it_a_tuned_name_is_refused_with_the_way_out(tuned_run: Path) -> None:
    said = refused("decode", tuned_run, "--strategy", "bidia bleu_t either tuned", typed="red\n")

    assert said == (
        "The system 'bidia bleu_t either tuned' must be tuned first: no T was tuned for 'bidia bleu_t "
        "either'. `bidibeam tune` does so, for a run or for Hugging Face models; rerank, evaluate and "
        "analyse take its result as tuned."
    )
    (tuned_run / "tuned.json").unlink()
    assert "must be tuned first" in refused("decode", tuned_run, "--strategy", "bidia tuned", typed="red\n")


def test_only_what_is_named_is_tuned_and_the_rest_is_kept(copied_run: Path) -> None:
    some = (*SEARCH, "--sources", "3")

    def tuned(*flags: str) -> dict[str, Any]:
        assert called("tune", copied_run, *some, *flags).status == 0
        content: dict[str, Any] = json.loads((copied_run / "tuned.json").read_text())
        return content

    first = tuned("--strategy", "bidia  either bleu_t tuned")
    assert list(first["options"]) == list(first["bleu"]) == ["bidia bleu_t either"]
    assert called("decode", copied_run, "--strategy", "bidia bleu_t either tuned", typed="red\n").replies
    second = tuned("--strategy", "vbs-tuned")
    assert list(second["options"]) == ["bidia bleu_t either", "vbs-tuned"]
    assert second["options"]["bidia bleu_t either"] == first["options"]["bidia bleu_t either"]
    assert second["curves"][0] == first["curves"][0]
    assert len(second["curves"]) == 3
    everything = tuned()
    assert next(iter(everything["options"])) == "bidia bleu_t either"
    assert len(everything["options"]) == 5

    call = called("tune", copied_run, *SEARCH, "--sources", "4", "--strategy", "bidis")
    assert list(json.loads((copied_run / "tuned.json").read_text())["options"]) == ["bidis"]
    assert (
        "Note: what tuned.json had for bidia bleu_t either, vbs-tuned, bidia bleu_t, bidia wmd_t was tuned "
        "for another search, and is gone."
    ) in call.told


def test_of_a_single_hypothesis_there_is_no_t_to_tune(copied_run: Path) -> None:
    call = called("tune", copied_run, "--beam-size", "1", "--sources", "3")
    assert "Note: left out bidia bleu_t, bidia wmd_t: they need --beam-size 2 or more." in call.told
    assert set(json.loads((copied_run / "tuned.json").read_text())["options"]) == {"bidis", "vbs-tuned"}

    said = refused("tune", copied_run, "--beam-size", "1", "--strategy", "bidia bleu_t")
    assert said.startswith("--beam-size must be at least 2 for bidia")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ("--strategy", "vbs"),
            "There is nothing to tune of vbs. Choose among: bidis, vbs-tuned, bidia bleu_t, bidia wmd_t.",
        ),
        (
            ("--strategy", "bidia edit"),
            "The similarity edit has no T to be tuned. Leave 'tuned' out, or compare by bleu_t or wmd_t.",
        ),
        (
            ("--strategy", "bidia bleu_t", "--vectors", "x.vec"),
            "Nothing that is tuned uses word vectors: leave --vectors out.",
        ),
        (("--strategy", "bidio"), "Unknown strategy 'bidio'. Did you mean 'bidis'? Choose one of: "),
    ],
)
def test_what_cannot_be_tuned_is_named(copied_run: Path, flags: tuple[str, ...], message: str) -> None:
    assert refused("tune", copied_run, *SEARCH, *flags).startswith(message)
    assert not (copied_run / "tuned.json").exists()


def test_a_run_without_a_reverse_decoder_has_no_t(copied_regular_run: Path) -> None:
    said = refused("tune", copied_regular_run, *SEARCH, "--strategy", "bidia bleu_t")

    assert "reverse" in said
    assert not (copied_regular_run / "tuned.json").exists()


def test_t_of_wmd_t_is_tuned_among_the_vectors_of_a_file(copied_run: Path, vectors: Path) -> None:
    flags = (*SEARCH, "--sources", "8", "--strategy", "bidia wmd_t")

    def curve(*more: object) -> list[float]:
        assert called("tune", copied_run, *flags, *more).status == 0
        found: list[float] = json.loads((copied_run / "tuned.json").read_text())["curves"][0]["bleu"]
        return found

    assert len(curve("--vectors", vectors)) == len(PENALTIES)
