"""The whole files and folders that damage starts from, all made by the command line itself."""

from __future__ import annotations

import gzip
import json
import lzma
import random
import shutil
from typing import TYPE_CHECKING, Any

from tests.conftest import WORDS, write_toy_corpus
from tests.soak.cases import Case

if TYPE_CHECKING:
    from pathlib import Path

    from tests.soak.cases import Caller

SIZES = ("embedding_size", "encoder_size", "decoder_size", "attention_size", "readout_size")
SMALL = " ".join(f"--set model.{size}=16" for size in SIZES)
SHORT = f"--set training.max_steps=2 {SMALL}"
BART = {
    "model_type": "bart",
    "d_model": 16,
    **{f"{side}_layers": 1 for side in ("encoder", "decoder")},
    **{f"{side}_attention_heads": 2 for side in ("encoder", "decoder")},
    **{f"{side}_ffn_dim": 32 for side in ("encoder", "decoder")},
    "max_position_embeddings": 256,
}
CONFIG = "training: &all\n  epochs: 2\n  batch_size: 16\n  learning_rate: 1e-3\nmodel:\n  decoder_size: 16\n"
COMMANDS = (
    "prepare tsv --source pairs.tsv --out data --vocabulary-size 60 --keep-text",
    f"train data --out run {SHORT}",
    "train data --base bart.json --direction both --out hf --set max_steps=2",
    "decode run sources.txt --beam-size 4 --n-best lists.jsonl --max-length 8",
    "decode hf sources.txt --beam-size 4 --n-best hf.jsonl --max-length 8",
    "decode run sources.txt --beam-size 4 --strategy vbs --n-best regular.jsonl --max-length 8",
    "tune run --beam-size 4 --sources 4 --max-length 8",
    "convert lists.jsonl --to moses -o lists.nbest",
    "convert lists.jsonl --to fairseq -o fairseq.txt",
    "convert lists.jsonl --to mbrs -o mbrs.txt",
    "convert lists.jsonl --to openai -o openai.jsonl",
    "rerank lists.jsonl --strategy bidis --lambda 1 --n-best ranked.jsonl",
    "rerank lists.jsonl --similarity wmd_t --vectors toy.vec",
    "evaluate a=lists.jsonl b=regular.jsonl --references references.txt --out results/evaluation.json",
    "analyse lists.jsonl regular.jsonl --out results",
    "score lists.jsonl --model run --overwrite --out scored.jsonl",
    "reproduce --data data --model run --out made --set beam_sizes=[2] --set systems=[vbs,bidis]",
    "report results --out page",
    "info run",
    "export run --out exported",
    "train data --base bart.json --out regular --set max_steps=2",
    "train data --base bart.json --direction reverse --out reverse --set max_steps=2",
    "export regular --reverse reverse --to ctranslate2 --out fast",
    "decode fast sources.txt --beam-size 2",
)
"""In their order: each may read what the ones before it wrote."""


def make_bases(folder: Path, caller: Caller) -> None:
    """Write every base into a folder, by `COMMANDS`.

    What the commands import is imported once for all calls that follow.
    """
    chooser = random.Random(0)
    write_toy_corpus(folder / "pairs.tsv", 150)
    pairs = (folder / "pairs.tsv").read_text().splitlines(keepends=True)
    texts = [line.partition("\t")[0] for line in pairs]
    turns: list[dict[str, Any]] = [{"source": text, "response": f"{text} !"} for text in texts[:40]]
    turns += [
        {"messages": [{"role": role, "content": text} for role, text in zip("ab", texts, strict=False)]}
    ] * 20
    (folder / "turns.jsonl").write_text("".join(json.dumps(turn) + "\n" for turn in turns))
    (folder / "sources.txt").write_text("".join(f"{text}\n" for text in texts[:6]))
    (folder / "references.txt").write_text("".join(f"{text} !\n" for text in texts[:6]))
    numbered = [{"id": f"s{at}", "source": text, "reference": "a !"} for at, text in enumerate(texts[:6])]
    (folder / "sources.jsonl").write_text("".join(json.dumps(each) + "\n" for each in numbered))
    (folder / "sources.tsv").write_text("".join(pairs[:6]))
    rows = [" ".join([word, *(f"{chooser.gauss(0, 1):.3f}" for _ in range(5))]) for word in [*WORDS, "!"]]
    (folder / "toy.vec").write_text("\n".join([f"{len(rows)} 5", *rows]) + "\n")
    (folder / "bart.json").write_text(json.dumps(BART))
    (folder / "config.yaml").write_text(CONFIG)
    (folder / "fine.yaml").write_text("epochs: 1\nbatch_size: 8\nlearning_rate: 1e-3\n")
    (folder / "made.yaml").write_text("beam_sizes: [2]\nexamples: 1\ncost_sources: 0\n")
    for command in COMMANDS:
        outcome = caller.call(Case(command, command.split(), str(folder), learns=True))
        if outcome.status != 0:
            raise RuntimeError(f"bidibeam {command} failed: {outcome.err}")
    for name in ("stdout.txt", "stderr.txt"):
        (folder / name).unlink()
    shutil.copy(folder / "run" / "tuned.json", folder)
    shutil.copy(folder / "made" / "results.json", folder / "results")
    for name in ("lists.jsonl", "turns.jsonl"):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes(), mtime=0))
        (folder / f"{name}.xz").write_bytes(lzma.compress((folder / name).read_bytes()))


def copy_bases(bases: Path, folder: Path, *names: str) -> None:
    """Copy those of the names that are bases."""
    for name in names:
        if (bases / name).exists():
            copy = shutil.copytree if (bases / name).is_dir() else shutil.copyfile
            copy(bases / name, folder / name)
