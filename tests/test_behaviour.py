"""What users rely on: commands and flags, public names, plug-in groups, and how bad input is refused.

Commands, flags and names may be added; none may vanish.
"""

from __future__ import annotations

import gzip
import importlib
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.golden.calls import DATA, check_same, parse_lists
from tests.unit.cli.calls import Call, called

ROOT = Path(__file__).parents[1]
CHOICE = (
    "strategy similarity similarity-option vectors lambda answer agreement length-exponent word-reward "
    "strategy-option seed workers"
)
SEARCH = (
    "beam-size max-length min-length stopping length-penalty length-formula count-end no-count-end "
    "unfinished allow-unknown device"
)
LISTS = "from reverse per-source log-prob sources references"
COMMANDS = {
    "prepare": "source out pairs split-by validation-share test-share seed max-source-length "
    "max-response-length tokenizer vocabulary-size limit keep-text overwrite",
    "train": "out preset config set vectors base direction tokenizer epochs batch-size learning-rate seed "
    "resume",
    "tune": f"regular reverse dtype data strategy vectors sources batch-size {SEARCH}",
    "decode": f"regular reverse dtype n-best resume batch-size {CHOICE} {SEARCH}",
    "chat": f"{CHOICE} {SEARCH}",
    "explain": f"lists first out regular reverse dtype {CHOICE} {SEARCH}",
    "rerank": f"max-length tuned direction words n-best resume {CHOICE} {LISTS}",
    "convert": f"direction words ranked to out {LISTS}",
    "score": f"model direction out overwrite length-penalty length-formula list-direction batch-size device "
    f"{LISTS}",
    "evaluate": "references baseline metric strategy max-length vectors tuned workers samples trials seed "
    "out signatures",
    "analyse": "data analysis systems max-length vectors tuned examples workers out",
    "report": "out",
    "reproduce": "corpus source data preset seeds first-seed out vectors config set device workers",
    "export": "out half card results overwrite",
    "info": "json",
}
PUBLIC = {
    "bidibeam": "Beams BidibeamError BidirectionalModel Decoder Direction Hypothesis NBest Ranking "
    "SearchSettings StrategySettings Tokenizer __version__ beam_search load_decoder load_run per_pair",
    "bidibeam.hf": "BidiGenerate BidirectionalSeq2Seq BidirectionalSeq2SeqConfig FineTuneSettings "
    "HFGenerator HFScorer PairCollator ReverseCollator check_pair check_same_tokens direction_of fine_tune "
    "load_hf_decoder load_models load_pair mark reverse_labels source_ids special_ids started_with",
}
GROUPS = "analyses corpora formats length_penalties metrics models networks similarities stopping strategies"
NAMED_IN_HELP = {
    "decode": "bidia bidis vbs vbs-tuned reverse-vbs longest random oracle bleu_t wmd_t bleu wmd token_f1 "
    "edit embedding_cosine shrinking constant patience heuristic optimal exhaust gnmt power keep rank drop "
    "closest expected mean either float32 bfloat16 float16",
    "convert": "jsonl moses fairseq mbrs openai",
    "evaluate": "bleu sentence_bleu chrf distinct-1 distinct-2 length_ratio",
    "analyse": "ranks headroom diversity sensitivity examples constant positions",
    "prepare": "chitchat cornell convokit swda jsonl tsv word bpe turns utterances",
    "train": "demo compact paper regular reverse both",
}


@pytest.fixture(autouse=True)
def _in_data(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DATA)
    monkeypatch.setenv("COLUMNS", "80")


def flags_of(command: str) -> set[str]:
    """The long flags that a command's help lists."""
    options = called(command, "--help").out.partition("\nOptions:\n")[2]
    heads = (re.split(" {2,}", line.strip())[0] for line in options.splitlines() if line.startswith("  -"))
    return {flag.removeprefix("--") for head in heads for flag in re.findall(r"--[a-z][a-z-]*", head)}


def test_every_command_is_there_and_so_are_its_flags() -> None:
    listed = called("--help").out.partition("Commands:")[2]

    assert set(COMMANDS) <= {line.split()[0] for line in listed.splitlines() if re.match(r"  [a-z]", line)}
    missing = {name: set(flags.split()) - flags_of(name) for name, flags in COMMANDS.items()}
    assert not {name: flags for name, flags in missing.items() if flags}


@pytest.mark.parametrize("command", NAMED_IN_HELP)
def test_help_names_what_can_be_chosen(command: str) -> None:
    words = set(re.split(r"[\s,.:;()\[\]|='\"]+", called(command, "--help").out))

    assert set(NAMED_IN_HELP[command].split()) <= words


@pytest.mark.parametrize("module", PUBLIC)
def test_the_public_names_are_there(module: str) -> None:
    found = importlib.import_module(module)

    assert set(PUBLIC[module].split()) <= set(found.__all__) <= {*dir(found), "__version__"}
    for name in PUBLIC[module].split():
        assert getattr(found, name) is not None


def test_plug_in_groups_keep_their_names() -> None:
    texts = [
        path.read_text(encoding="utf-8") for path in Path(sys.modules["bidibeam"].__path__[0]).rglob("*.py")
    ]

    for group in GROUPS.split():
        assert any(f'group="bidibeam.{group}"' in text for text in texts), group


def test_a_plug_in_of_another_package_is_found(tmp_path: Path) -> None:
    """By its entry point, from the command line."""
    (tmp_path / "shortest.py").write_text(
        "import numpy\n"
        "def pairwise(judged, others):\n"
        "    return numpy.array([[-float(len(one.tokens)) for _ in others] for one in judged])\n"
    )
    (tmp_path / "extra-1.dist-info").mkdir()
    (tmp_path / "extra-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: extra\nVersion: 1\n"
    )
    (tmp_path / "extra-1.dist-info" / "entry_points.txt").write_text(
        "[bidibeam.metrics]\nof_another = shortest:pairwise\n"
    )
    said = in_process("evaluate", "both.jsonl", "--metric", "blue", path=tmp_path).stderr
    chosen = in_process("rerank", "texts.jsonl", "--similarity", "shortest:pairwise", path=tmp_path)

    assert "length_ratio, of_another." in said
    assert chosen.stdout == "At work.\nNo.\n"


def in_process(*args: str, path: Path | None = None, typed: str = "") -> subprocess.CompletedProcess[str]:
    """Call the command line in a process of its own."""
    home = str(Path(sys.modules["bidibeam"].__path__[0]).parent)
    found = os.pathsep.join([home, *([str(path)] if path else [])])
    return subprocess.run(
        [sys.executable, "-m", "bidibeam", *args],
        env={**os.environ, "PYTHONPATH": found, "OMP_NUM_THREADS": "1"},
        input=typed,
        capture_output=True,
        text=True,
        check=False,
    )


def test_custom_generate_is_a_folder_that_transformers_reads() -> None:
    folder = ROOT / "custom_generate"

    assert {path.name for path in folder.iterdir()} >= {"generate.py", "requirements.txt"}
    assert "bidibeam" in (folder / "requirements.txt").read_text()
    named = (folder / "generate.py").read_text().partition("def generate(")[2].partition("->")[0]
    for name in (
        "model",
        "reverse_model",
        "strategy",
        "similarity",
        "tokenizer",
        "strategy_options",
        "kwargs",
    ):
        assert re.search(rf"\b{name}: ", named), name


LIST = '{"regular": [{"text": "a"}], "reverse": [{"text": "b"}]}'
FILES = {
    "not-json.jsonl": f"{LIST}\n{{oops\n",
    "nothing.jsonl": '{"regular": [], "reverse": []}\n',
    "twice.jsonl": f'{LIST}\n{{"id": "1", {LIST[1:]}\n',
    "nan.jsonl": '{"regular": [{"text": "a", "score": NaN}], "reverse": []}\n',
    "no-text.jsonl": '{"regular": [{"text": "a"}, {}], "reverse": []}\n',
    "mixed.jsonl": '{"regular": [{"text": "a"}], "reverse": [{"tokens": ["a"]}]}\n',
    "high.jsonl": '{"regular": [{"text": "a", "score": "high"}]}\n',
    "number.jsonl": '{"source": "red"}\n{"source": 7}\n',
    "oops.nbest": "0 ||| a ||| ||| -1\noops\n",
    "short.vec": "2 3\nred 1 2 3\ncat 1 2\n",
    "results.json": "[",
    "bad.yaml": "training: [\n",
    "run/config.json": "{",
}
REFUSED = {
    # argv: what the sentence must name. In the folder {tmp} lie the files above.
    "frobnicate": "'frobnicate'",
    "trian data": "'train'",
    "decode no-such-run two.txt": "no-such-run",
    "decode old_data two.txt": "old_data",
    "decode {tmp}/run two.txt": "config.json",
    "decode two.txt --beam-size 100000000000": "100,000,000,000",
    "decode two.txt --length-penalty -50000": "-50000",
    "decode two.txt --length-formula square": "'square'",
    "decode two.txt --stopping shrink": "'shrinking'",
    "decode two.txt --strategy vbs --similarity bleu": "vbs",
    "decode two.txt --strategy bidis --lambda nan": "nan",
    "decode two.txt --similarity-option odor=2": "odor",
    "decode two.txt --similarity-option order=0": "not 0",
    "decode two.txt --similarity wmd_t --vectors no-such.vec": "no-such.vec",
    "decode two.txt --similarity wmd_t --vectors {tmp}/short.vec": "line 3",
    "decode two.txt --device toaster": "'toaster'",
    "decode two.txt --resume": "--n-best",
    "decode {tmp}/number.jsonl": "line 2",
    "decode old_run toy.txt --strategy vbs-tuned": "--length-exponent",
    "decode old_run toy.txt --strategy 'bidia bleu_t tuned'": "'bidia bleu_t tuned'",
    "decode --regular no-such-model two.txt": "no-such-model",
    "chat --strategy oracle": "oracle",
    "rerank no-such.jsonl": "no-such.jsonl",
    "rerank {tmp}/not-json.jsonl": "line 2",
    "rerank {tmp}/nothing.jsonl": "line 1",
    "rerank {tmp}/twice.jsonl": 'id "1"',
    "rerank {tmp}/nan.jsonl": "NaN",
    "rerank {tmp}/no-text.jsonl": "regular[1]",
    "rerank {tmp}/mixed.jsonl": '"tokens"',
    "rerank {tmp}/high.jsonl --strategy vbs": '"high"',
    "rerank {tmp}/torn.jsonl.gz": "torn.jsonl.gz",
    "rerank texts.jsonl --strategy bidis": '"log_prob"',
    "rerank texts.jsonl --similarity nowhere:nothing": "nowhere",
    "evaluate both.jsonl --strategy 'vbs either'": "'either'",
    "evaluate both.jsonl --out both.jsonl": "overwrite",
    "analyse both.jsonl --analysis headroom": "'vbs-tuned'",
    "analyse both.jsonl texts.jsonl": "texts.jsonl",
    "convert {tmp}/oops.nbest": "line 2",
    "convert texts.jsonl --to fairseq": "score",
    "score texts.jsonl --model no-such-model": "no-such-model",
    "score l2r.nbest": "source",
    "tune old_run --data no-such-data": "no-such-data",
    "prepare nonsense --out {tmp}/out": "'nonsense'",
    "prepare jsonl --out {tmp}/out": "'jsonl' needs a source",
    "prepare jsonl --source {tmp}/no.jsonl --out {tmp}/out": "no.jsonl",
    "prepare tsv --source sources.tsv --out {tmp}/out --test-share 1.5": "1.5",
    "train no-such-data --out {tmp}/out": "no-such-data",
    "train old_data --out old_run": "old_run",
    "train old_data --out {tmp}/out --preset tiny": "'tiny'",
    "train old_data --out {tmp}/out --set training.epoch=1": "epoch",
    "train old_data --out {tmp}/out --config {tmp}/bad.yaml": "bad.yaml",
    "reproduce --corpus nonsense --out {tmp}/out": "'nonsense'",
    "report {tmp}/no.json": "no.json",
    "report {tmp}/results.json": "results.json",
    "export old_run --out {tmp}/run": "run",
}


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of files that cannot be used."""
    folder = tmp_path_factory.mktemp("bad")
    for name, content in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "torn.jsonl.gz").write_bytes(gzip.compress(random.Random(0).randbytes(1000))[:400])
    return folder


def check_refusal(done: Call, fragment: str) -> None:
    """It failed, in one sentence that names the value, and stdout got nothing."""
    assert done.status in (1, 2), done
    assert done.out == ""
    assert "Traceback" not in done.err
    usage, error, sentence = f"\n{done.err}".rpartition("\nError: ")
    assert error, done.err
    assert "\nError: " not in usage
    assert len(sentence.strip().splitlines()) == 1, done.err
    assert fragment in sentence, sentence


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(("line", "fragment"), REFUSED.items(), ids=REFUSED)
def test_bad_input_is_refused_in_one_sentence(line: str, fragment: str, bad: Path) -> None:
    before = sorted(path for path in bad.rglob("*"))

    check_refusal(called(*shlex.split(line.format(tmp=bad)), typed="hello\n"), fragment)

    assert sorted(path for path in bad.rglob("*")) == before


def test_input_that_is_no_text_is_refused_where_it_stands() -> None:
    check_refusal(called("rerank", "-", typed=b'\xff{"regular": []}\n'), "line 1")
    check_refusal(called("evaluate", "-", typed=b""), "empty")


def test_a_process_leaves_with_the_status_and_one_line() -> None:
    done = in_process("decode", "no-such.txt")

    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch("Error: .*no-such.txt.*\\.\n", done.stderr)
    assert in_process("--version").stdout.startswith("bidibeam ")
    assert (
        len(in_process("decode", "--strategy", "vbs", typed="hello\nhow are you?\n").stdout.splitlines()) == 2
    )


def test_a_conversation_is_answered_turn_by_turn() -> None:
    talk = called("chat", "old_run", "--max-length", 8, "--strategy", "vbs", typed="red cat\n/help\nbird\n")

    assert (talk.status, talk.out.splitlines()) == (0, ["red red!", "green!"])


def test_a_corpus_is_prepared_as_before(tmp_path: Path) -> None:
    words = ["red", "green", "blue", "black", "white", "cat", "dog", "bird", "fish", "horse"]
    chooser, out = random.Random(0), tmp_path / "data"
    with (tmp_path / "toy.tsv").open("w", encoding="utf-8") as file:
        for number in range(220):
            chosen = " ".join(chooser.choice(words) for _ in range(chooser.randint(1, 5)))
            file.write(f"{chosen}\t{chosen} !\tc{number}\n")
    shares = ("--validation-share", "0.06", "--test-share", "0.05", "--vocabulary-size", "100")
    lengths = ("--max-source-length", "8", "--max-response-length", "8")

    done = called("prepare", "tsv", "--source", tmp_path / "toy.tsv", "--out", out, *shares, *lengths)

    assert done.status == 0, done.err
    for name in ("pairs.safetensors", "tokenizer.json", "test.jsonl", "validation.jsonl"):
        assert (out / name).read_bytes() == (DATA / "old_data" / name).read_bytes(), name
    found, expected = (json.loads((folder / "data.json").read_text()) for folder in (out, DATA / "old_data"))
    assert expected["settings"].items() <= found.pop("settings").items()  # later ones have more
    del expected["settings"]
    assert {**expected, "bidibeam_version": found["bidibeam_version"]}.items() <= found.items()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A copy of the old run, to write into."""
    return Path(shutil.copytree(DATA / "old_run", tmp_path / "run"))


def test_an_old_run_is_tuned_and_then_decodes_with_what_was_found(run: Path) -> None:
    search = ("--beam-size", "6", "--max-length", "8")

    done = called("tune", run, "--data", "old_data", *search)

    assert done.status == 0, done.err
    tuned = json.loads((run / "tuned.json").read_text())
    formerly = {
        "bidis": {"lambda_": 1.8},
        "vbs-tuned": {"length_exponent": 0.0, "word_reward": 0.0},
        "bidia bleu_t": {"T": 8},
        "bidia wmd_t": {"T": 8},
    }
    assert {name: tuned["options"][name] for name in formerly} == formerly
    assert tuned["weights"] == "52c68f3e337a"
    for strategy in ("bidis", "vbs-tuned", "bidia bleu_t tuned"):
        assert "|tuned:tuned.json@" in called("decode", run, "toy.txt", *search, "--strategy", strategy).err


def test_an_old_run_is_exported_and_answers_the_same(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    assert called("export", run, "--out", out, "--half", "--card").status == 0

    names = {path.name for path in out.iterdir()}
    assert names >= {"config.json", "model.safetensors", "tokenizer.json", "MODEL_CARD.md"}
    flags = ("toy.txt", "--max-length", "8", "--beam-size", "4", "--n-best")
    for folder in (run, out):
        assert called("decode", folder, *flags, tmp_path / f"{folder.name}.jsonl").status == 0
    found, expected = (parse_lists(tmp_path / f"{name}.jsonl") for name in ("out", "run"))
    for each, other in zip(found, expected, strict=True):
        check_same([one["text"] for one in each["regular"]], [one["text"] for one in other["regular"]])


def test_scores_become_a_report(tmp_path: Path) -> None:
    scores = tmp_path / "scores.json"
    few = ("--samples", "20", "--trials", "20")
    assert (
        called(
            "evaluate", "both.jsonl", "--strategy", "vbs", "--strategy", "bidia", *few, "--out", scores
        ).status
        == 0
    )

    assert called("report", scores, "--out", tmp_path / "report").status == 0

    assert {"report.html", "report.md"} <= {path.name for path in (tmp_path / "report").iterdir()}
    assert "vbs" in (tmp_path / "report" / "report.md").read_text()
