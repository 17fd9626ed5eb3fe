"""What the documentation's pages take for granted: corpora, models and lists by their names, all tiny."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForSeq2SeqLM

from bidibeam.hypotheses import Direction
from tests.conftest import WORDS, write_toy_corpus
from tests.snippets import QUICK
from tests.unit.cli.calls import called, write_lines, write_vectors
from tests.unit.models.huggingface.folders import tokenizer_of, write_joint, write_model

ROOT = Path(__file__).parents[1]
PAIRS = [("how are you?", "fine."), ("hello!", "hello there."), ("where?", "there.")]
TEXTS = ["fine .", "fine there .", "i live there ."]


def write_inputs(folder: Path) -> None:
    """Everything, by the name that pages call it."""
    write_toy_corpus(folder / "pairs.tsv", 400)
    (folder / "sources.txt").write_text("".join(f"{source}\n" for source, _ in PAIRS))
    write_models(folder)
    write_lists(folder)
    write_corpora(folder)
    write_runs(folder)


def write_models(folder: Path) -> None:
    """Pairs of random weights, and bases of the names that the Hub has."""
    words = tokenizer_of(
        ["how", "are", "you", "fine", "hello", "there", ".", "?", "!", "i", "live", "do", "where"]
    )
    bases = {"bart": "facebook/bart-base", "gpt2": "openai-community/gpt2"}
    room: dict[str, dict[str, Any]] = {"bart": {"max_position_embeddings": 512}, "gpt2": {"n_positions": 512}}
    for kind, base in bases.items():
        for name, direction in ((kind, Direction.REGULAR), (f"{kind}-reverse", Direction.REVERSE)):
            only_words = {"suppress_tokens": [2]}
            write_model(
                folder / name, kind, direction, tokenizer=words, seed=len(name), generation=only_words
            )
        write_model(folder / base, kind, None, tokenizer=words, **room[kind])
    write_joint(folder / "joint")
    shutil.copytree(ROOT / "custom_generate", folder / "custom_generate")
    adapted = get_peft_model(
        AutoModelForSeq2SeqLM.from_pretrained(folder / "bart"), LoraConfig(task_type="SEQ_2_SEQ_LM")
    )
    adapted.peft_config["default"].base_model_name_or_path = "bart"
    adapted.save_pretrained(str(folder / "adapter"), save_embedding_layers=False)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / "bart" / name, folder / "adapter")


def write_corpora(folder: Path) -> None:
    """Texts in two languages, with splits; films; a folder of pairs; word vectors."""
    pairs = [line.split("\t")[:2] for line in (folder / "pairs.tsv").read_text().splitlines()]
    parts = {
        "train": pairs[:300],
        "val": pairs[300:320],
        "test_2016_flickr": pairs[320:330],
        "test_2017_flickr": pairs[330:340],
    }
    for name in ("texts", "FOLDER"):
        (folder / name).mkdir()
        for part, rows in parts.items():
            for column, language in enumerate(("de", "en")):
                (folder / name / f"{part}.{language}").write_text("".join(f"{row[column]}\n" for row in rows))
    for name in ("train", "dev", "test_a", "test_b"):
        rows = parts["train"] if name == "train" else parts["val"]
        (folder / "FOLDER" / f"{name}.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    with tarfile.open(folder / "multi30k.tar.xz", "w:xz") as archive:
        archive.add(folder / "texts", "multi30k")
    said = [text for pair in pairs for text in pair]
    lines = [f"L{n} +++$+++ u{n % 2} +++$+++ m0 +++$+++ A +++$+++ {text}\n" for n, text in enumerate(said)]
    talks = [f"u0 +++$+++ u1 +++$+++ m0 +++$+++ ['L{n}', 'L{n + 1}']\n" for n in range(0, len(said), 2)]
    with zipfile.ZipFile(folder / "cornell_movie_dialogs_corpus.zip", "w") as archive:
        archive.writestr("movie_lines.txt", "".join(lines))
        archive.writestr("movie_conversations.txt", "".join(talks))
    write_vectors(folder / "wiki-news-300d-1M.vec", WORDS)


def write_runs(folder: Path) -> None:
    """Prepared data, a run and another one, and what the first finds."""
    source, data = folder / "pairs.tsv", folder / "data"
    for words in (
        ["prepare", "tsv", "--source", source, "--out", data, "--keep-text", "--test-share", 0.03],
        *(
            ["train", data, "--out", folder / name, "--seed", seed, "--no-tune", *QUICK["train"].split()]
            for seed, name in enumerate(("run", "other"))
        ),
        [
            "decode",
            folder / "run",
            data / "test.jsonl",
            "--strategy",
            "loglinear both",
            "--beam-size",
            4,
            "--n-best",
            folder / "beams.jsonl",
        ],
    ):
        assert called(*words).status == 0, words
    shutil.copytree(data, folder / "cmudict")
    shutil.copytree(data, data / "mine")
    shutil.copytree(folder / "other", folder / "other" / "run")


def write_lists(folder: Path) -> None:
    """n-best lists of both directions, with and without scores, in several formats."""
    hypotheses = [
        {"text": text, "log_prob": -1.0 - n, "score": -1.0 - n, "other_log_prob": -2.0}
        for n, text in enumerate(TEXTS)
    ]
    both = [
        {"source": source, "reference": reply, "regular": hypotheses, "reverse": hypotheses[::-1]}
        for source, reply in PAIRS * 4
    ]
    for name in ("replies", "validation", "test", "ranked", "found"):
        write_lines(folder / f"{name}.jsonl", *both)
    rows = [f"{n} ||| {text} ||| F0= -1 ||| -1\n" for n in range(3) for text in TEXTS]
    for name in ("l2r.nbest", "r2l.nbest", "marian.nbest"):
        (folder / name).write_text("".join(rows))
    for name in ("l2r.out", "r2l.out"):
        (folder / name).write_text(
            "".join(
                f"S-{n}\thow\nH-{n}\t-1.0\tfine .\nD-{n}\t-1.0\tfine .\nP-{n}\t-1.0 -1.0 -1.0\n"
                for n in range(3)
            )
        )
    choices = [
        {"index": n, "message": {"content": text}, "finish_reason": "stop"} for n, text in enumerate(TEXTS)
    ]
    write_lines(folder / "responses.jsonl", {"id": "1", "choices": choices})
    (folder / "hypotheses.txt").write_text("".join(f"fine {n}\n" for n in range(32)))
    for name in ("a.txt", "b.txt", "references.txt"):
        (folder / name).write_text("".join(f"{text}\n" for text in TEXTS))
    write_lines(folder / "phones.jsonl", *({"references": [text, "fine"]} for text in TEXTS))
    (folder / "test.src").write_text("".join(f"{source}\n" for source, _ in PAIRS))
    (folder / "test.ref").write_text("".join(f"{reply}\n" for _, reply in PAIRS))
