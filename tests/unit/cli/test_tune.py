"""`bidibeam tune`, and decoding with what it found."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bidibeam.data.prepare import PrepareSettings, prepare
from bidibeam.data.prepared import PreparedData
from bidibeam.data.words import split
from bidibeam.metrics.bleu import Bleu
from bidibeam.reporting import plots
from bidibeam.selection.tuning import EXPONENTS, LAMBDAS, REWARDS
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


def test_it_prints_the_curves_and_writes_what_it_found(copied_run: Path, toy_data: PreparedData) -> None:
    call = called("tune", copied_run, *SEARCH)

    assert (call.status, call.out) == (0, "")
    sources = len(list(toy_data.examples("validation")))
    for told in (
        "BLEU by lambda",
        "BLEU by length exponent, word reward 0",
        "BLEU by word reward, length exponent 0",
        f"Tuned on {sources} validation sources",
        f"Wrote {copied_run / 'tuned.json'}, which `bidibeam decode {copied_run}` uses from now on.",
    ):
        assert told in call.told
    assert call.err.count("█") > 40 * 3  # the highest of each curve is a whole bar

    content = json.loads((copied_run / "tuned.json").read_text())
    assert [curve["values"] for curve in content["curves"]] == [[*LAMBDAS], [*EXPONENTS], [*REWARDS]]
    assert set(content["options"]) == {"bidis", "vbs-tuned"}
    assert content["options"]["bidis"]["lambda_"] in LAMBDAS
    assert (content["split"], content["sources"]) == ("validation", sources)
    assert (content["search"]["beam_size"], content["search"]["max_length"]) == (4, 9)
    assert content["bleu"]["bidis"] == max(content["curves"][0]["bleu"]) >= content["bleu"]["vbs"]
    picture = ElementTree.fromstring((copied_run / "tuned.svg").read_text())
    assert picture.tag == "{http://www.w3.org/2000/svg}svg"


def test_its_bleu_is_that_of_the_replies_that_decode_writes(unsure_run: Path, toy_data: PreparedData) -> None:
    assert called("tune", unsure_run, *SEARCH).status == 0
    content = json.loads((unsure_run / "tuned.json").read_text())
    sources = toy_data.path / "validation.jsonl"
    references = [line["reference"] for line in lines_of(sources)]
    found = set()

    for strategy in ("vbs", "vbs-tuned", "bidis"):
        replies = called("decode", unsure_run, sources, *SEARCH, "--strategy", strategy).replies
        bleu = Bleu().score(list(map(split, replies)), list(map(split, references)))
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
        "The strategy vbs-tuned needs --length-exponent and --word-reward; `bidibeam tune RUN` finds good "
        "values, and rerank takes them by --tuned."
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
    assert set(json.loads((copied_regular_run / "tuned.json").read_text())["options"]) == {"vbs-tuned"}
    assert called("decode", copied_regular_run, "--strategy", "vbs-tuned", typed="red\n").replies


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
