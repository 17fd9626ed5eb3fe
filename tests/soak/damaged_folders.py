"""Damage to folders: runs, prepared data, models of Hugging Face and CTranslate2, corpora and vectors."""

from __future__ import annotations

import gzip
import io
import json
import lzma
import struct
import tarfile
import zipfile
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.soak.bases import SHORT, SIZES, copy_bases
from tests.soak.cases import Case
from tests.soak.mutations import DEEP, WILD_FLAGS, WILD_VALUES, damage_bytes, damage_file

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping
    from pathlib import Path

WORDS = ("red", "green", "blue", "cat", "dog", "bird")
LANGUAGES = {"bitext": ["--source-lang", "de", "--target-lang", "en"], "inflection": ["--source-lang", "deu"]}
SETTINGS = [
    *(f"model.{name}" for name in (*SIZES, "encoder_layers", "dropout", "directions", "tied_output")),
    *(f"training.{name}" for name in ("seed", "epochs", "max_steps", "batch_size", "accumulation", "keep")),
    *(f"training.{name}" for name in ("learning_rate", "gradient_norm", "log_every", "evaluate_every")),
    *(f"training.{name}" for name in ("save_every", "precision", "regular_weight", "plateau_factor")),
]


class Kind(NamedTuple):
    """A folder to damage, what the commands need beside it, and the commands."""

    folder: str
    beside: str
    commands: tuple[str, ...]


KINDS = (
    Kind(
        "run",
        "data lists.jsonl sources.txt",
        (
            "decode run sources.txt --strategy bidis --beam-size 2",
            "info run",
            "export run --out out --card",
            "train data --out run --resume --set training.max_steps=3",
            "score lists.jsonl --model run --overwrite --out out",
            "tune run --beam-size 2 --sources 2",
        ),
    ),
    Kind(
        "data",
        "run regular bart.json pairs.tsv",
        (
            f"train data --out out {SHORT}",
            "train data --out out --base bart.json --set max_steps=2",
            "train data --out out --base regular --set max_steps=2",
            "tune run --data data --beam-size 2 --sources 2",
            "decode run data/test.jsonl --n-best out --beam-size 2",
            "prepare tsv --source pairs.tsv --out data --overwrite",
        ),
    ),
    Kind(
        "regular",
        "reverse data lists.jsonl sources.txt",
        (
            "decode regular sources.txt --strategy vbs --beam-size 2",
            "decode sources.txt --regular regular --reverse reverse --beam-size 2",
            "info regular",
            "score lists.jsonl --model regular --overwrite --out out",
            "train data --base regular --out out --set max_steps=2",
            "export regular --to ctranslate2 --out out",
        ),
    ),
    Kind("hf", "sources.txt", ("decode hf sources.txt --beam-size 2", "info hf")),
    Kind("fast", "sources.txt", ("decode fast sources.txt --beam-size 2", "info fast")),
)


def make_case(chooser: random.Random, bases: Path, folder: Path) -> Case:
    """A call on a damaged folder; what it reads is copied from `bases` into `folder`."""
    kind: Any = chooser.choice([*KINDS, _damage_corpus, _damage_corpus, _damage_vectors, _damage_settings])
    if not isinstance(kind, Kind):
        name, argv = kind(chooser, bases, folder)
    else:
        copy_bases(bases, folder, kind.folder, *kind.beside.split())
        path = chooser.choice(sorted(each for each in (folder / kind.folder).rglob("*") if each.is_file()))
        how = _damage_tensors(path, chooser) if path.suffix == ".safetensors" else _damage(path, chooser)
        name, argv = f"{path.relative_to(folder)} {how}", chooser.choice(kind.commands).split()
    # A training that breaks leaves what can be resumed.
    may_leave = ["*.partial", *(["out/*", "run/training/*", "run/metrics.jsonl"] * (argv[0] == "train"))]
    return Case(name[:200], argv, str(folder), may_leave=may_leave)


def _damage(path: Path, chooser: random.Random) -> str:
    if path.suffix not in (".json", ".jsonl") or path.read_bytes()[:1] == b"{":
        return damage_file(path, chooser)
    how, content = damage_bytes(path.read_bytes(), chooser)  # a list of JSON
    path.write_bytes(content)
    return how


def _damage_tensors(path: Path, chooser: random.Random) -> str:
    """Give a safetensors file another header, or numbers that are none: how that was done."""
    if chooser.random() < 0.3:
        return damage_file(path, chooser)
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    tensors, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    tensors.pop("__metadata__", None)
    name = chooser.choice(sorted(tensors))
    shape = tensors[name]["shape"]
    changes: dict[str, list[Any]] = {
        "dtype": ["F16", "F64", "I64", "U8", "BOOL", "X", 5],
        "shape": [shape[::-1], [*shape, 1], [], [-1], [2**40, 2**40], ["a"], 5],
        "data_offsets": [[0, 0], [-1, 2**63], [5], ["a", "b"], None],
    }
    way = chooser.choice([*changes, "renamed", "same place", "numbers"])
    if way == "renamed":
        tensors["unheard_of"] = tensors.pop(name)
    elif way == "same place":
        tensors[name] = tensors[chooser.choice(sorted(tensors))]
    elif way == "numbers":
        data = chooser.choice([b"\xff", b"\x7f", b"\0"]) * len(data)
    else:
        tensors[name] = {**tensors[name], way: chooser.choice(changes[way])}
    header = json.dumps(tensors).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return f"{name} {way} {tensors.get(name)}"


def _damage_settings(chooser: random.Random, bases: Path, folder: Path) -> tuple[str, list[str]]:
    """A training with a strange setting."""
    copy_bases(bases, folder, "data")
    value = chooser.choice([chooser.choice(WILD_FLAGS), json.dumps(chooser.choice(WILD_VALUES))])[:9000]
    if chooser.random() < 0.3:
        strange = [f"--{chooser.choice(['batch-size', 'epochs', 'learning-rate', 'seed'])}", value]
    else:
        strange = ["--set", f"{chooser.choice(SETTINGS)}={value}"]
    given = [argument.replace("\0", "") for argument in strange]
    return " ".join(given), ["train", "data", "--out", "out", *SHORT.split(), *given]


def _damage_vectors(chooser: random.Random, bases: Path, folder: Path) -> tuple[str, list[str]]:
    """Word vectors with a strange header, strange numbers, or in a damaged file."""
    copy_bases(bases, folder, "data", "lists.jsonl", "run", "sources.txt")
    header, *rows = (bases / "toy.vec").read_text().splitlines()
    counts = ("11 6", "0 0", "11", f"{'9' * 5000} 5", f"11 {'9' * 5000}", "99999999999 5", "11 \u00b2")
    header = chooser.choice([header, *counts])
    rows[chooser.randrange(len(rows))] += chooser.choice(["", " nan", " 1e400", " a", " 1", "\0"])
    name, content = _pack(chooser, "toy.vec", "\n".join([header, *rows]).encode())
    (folder / name).write_bytes(content)
    commands = (
        f"train data --out out {SHORT} --vectors {name}",
        f"rerank lists.jsonl --similarity wmd_t --vectors {name}",
        f"decode run sources.txt --beam-size 2 --strategy bidia --similarity wmd_t --vectors {name}",
    )
    return f"{name} {header[:20]}", chooser.choice(commands).split()


def _damage_corpus(chooser: random.Random, bases: Path, folder: Path) -> tuple[str, list[str]]:
    """A corpus with strange lines, in a file or an archive that may be damaged too."""
    corpora = _make_corpora((bases / "pairs.tsv").read_bytes())
    reader = chooser.choice(sorted(corpora))
    files = corpora[reader]
    member = chooser.choice(sorted(files))
    lines = files[member].split(b"\n")
    for _ in range(chooser.choice([0, 1, 1, 2])):
        lines[chooser.randrange(len(lines))] = _draw_line(chooser)
    files[member] = b"\n".join(lines)
    if chooser.random() < 0.2:
        files[member] = damage_bytes(files[member], chooser)[1]
    if chooser.random() < 0.1:
        files[chooser.choice(["../x.tsv", "/x.csv", ".x", "a\n.tsv", "a/", "x" * 90])] = files.pop(member)
    name, content = _archive(chooser, files)
    (folder / name).write_bytes(content)
    kept = ["--max-source-length", "3000000", "--max-response-length", "3000000"]
    shape = ["--tokenizer", chooser.choice(["bpe", "word"]), "--vocabulary-size", "300"]
    shape += LANGUAGES.get(reader, [])
    argv = ["prepare", reader, "--source", name, "--out", "out", *shape, *chooser.choice([[], kept])]
    return f"{reader} {name} {member}", argv


def _make_corpora(pairs: bytes) -> dict[str, dict[str, bytes]]:
    """A small corpus for every reader, by file."""
    said = [f"{one} {other} ." for one in WORDS for other in WORDS]
    turns = {f"c{at}": {"messages": [[{"text": text}], [{"text": text}]]} for at, text in enumerate(said)}
    own = [json.dumps({"source": text, "response": text}) for text in said]
    mark = " +++$+++ "
    lines = [mark.join((f"L{at}", "u", "m", "N", text)) for at, text in enumerate(said)]
    listed = [mark.join(("u", "v", "m", f"['L{at}', 'L{at + 1}']")) for at in range(len(said) - 1)]
    uttered = [
        json.dumps(
            {"id": f"u{at}", "root": f"u{at // 2 * 2}", "user": f"s{at % 2}", "text": text}
            | {"reply_to": f"u{at - 1}" if at % 2 else None}
        )
        for at, text in enumerate(said)
    ]
    header = "conversation_no,act_tag,caller,text"
    parts = {"train": said[6:], "dev": said[:3], "test": said[3:6]}
    spoken = {
        name: "\n".join(f"{text} __eou__ " * 3 for text in texts).encode() for name, texts in parts.items()
    }
    answered = [
        json.dumps({"dialogue": [{"text": text, "responses": [text, "no"]}]}) for text in parts["test"]
    ]

    def write_parts(form: str, ending: str) -> dict[str, bytes]:
        return {
            name + ending: "\n".join(
                form % (json.dumps(text) if "{" in form else text) for text in texts
            ).encode()
            for name, texts in parts.items()
        }

    return {
        "cmudict": write_parts("%s\tyes", ".tsv"),
        "e2e": write_parts('{"mr": %s, "refs": ["yes", "no"]}', ".jsonl"),
        "bitext": write_parts("%s", ".de") | write_parts("yes %s", ".en"),
        "inflection": {
            f"deu{ending}": text
            for ending, text in zip(
                (".trn", ".dev", ".tst"), write_parts("%s\tV;PST\tyes", "").values(), strict=True
            )
        },
        "dailydialog": {
            "dialogues_train.txt": spoken["train"],
            "dialogues_validation.txt": spoken["dev"],
            "multireftest.json": "\n".join(answered).encode(),
            "train_clean_lines.txt": "\n".join(map(str, range(1, 9))).encode(),
        },
        "tsv": {"pairs.tsv": pairs},
        "jsonl": {"pairs.jsonl": "\n".join(own).encode()},
        "chitchat": {"dataset.json": json.dumps(turns, indent=0).encode()},
        "cornell": {
            "movie_lines.txt": "\n".join(lines).encode(),
            "movie_conversations.txt": "\n".join(listed).encode(),
        },
        "convokit": {"utterances.jsonl": "\n".join(uttered).encode()},
        "swda": {
            f"sw{at}.utt.csv": f"{header}\n{at},sd,A,{text}\n{at},sd,B,{text}".encode()
            for at, text in enumerate(said)
        },
    }


def _draw_line(chooser: random.Random) -> bytes:
    return chooser.choice(
        (
            *(b"", b"\0\0\0", b"\xff\xfe\xff", b"\t\t\t\t", b"{}", b"[]", b"5", b"null", b"\r", b'"a', b","),
            *(b"[" * DEEP, b'{"a":' * DEEP, b"a\t" + b"b" * 2_000_000, b"8,sd,A," + b"b" * 2_000_000),
            b'{"source": "a", "response": "' + b"ab" * 1_000_000 + b'"}',
            b'{"source": "\\ud800", "response": "\\udc00", "id": "\\ud800"}',
            b'{"messages": [5, {"role": {}}], "id": {"a": []}, "text": {}}',
            b'{"mr": "a", "refs": [[], 5], "source": "a", "references": {}, "split": [], "dialogue": [[]]}',
            b'{"source": "a", "references": ["b"], "split": "test\\ud800", "dialogue": {"responses": 5}}',
            b'{"id": [], "root": 1e400, "user": {"id": NaN}, "text": "a", "reply_to": {}}',
            b"L1 +++$+++ u +++$+++ m +++$+++ N +++$+++ " + b"<" * 1_000_000,
            '{"source": "\u202e\u0301", "response": "\U000e0001", "id": 1e400}'.encode(),
        )
    )


def _pack(chooser: random.Random, name: str, content: bytes) -> tuple[str, bytes]:
    """A file as it is, as .gz or .xz, perhaps damaged, or as one that only says so."""
    kind = chooser.choice(["plain", "plain", "gz", "xz", "false"])
    if kind == "plain":
        return name, content
    packed = {"gz": gzip.compress(content, mtime=0), "xz": lzma.compress(content)}.get(kind, content)
    return f"{name}.{kind.replace('false', 'gz')}", _perhaps_damaged(chooser, packed)


def _archive(chooser: random.Random, files: Mapping[str, bytes]) -> tuple[str, bytes]:
    """Files as an archive, or as the one file that they are."""
    kind = chooser.choice(["plain", "plain", "zip", "locked.zip", "tar", "tar.gz", "tar.xz"])
    if kind == "plain" and len(files) == 1:
        return _pack(chooser, "corpus", next(iter(files.values())))
    stream = io.BytesIO()
    if "zip" in kind:
        with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
            for name, content in files.items():
                archive.writestr(zipfile.ZipInfo(name), content)
        packed = bytearray(stream.getvalue())
        if kind == "locked.zip":  # the flag of an encrypted member, in its header and in the directory
            packed[packed.find(b"PK\x03\x04") + 6] |= 1
            packed[packed.find(b"PK\x01\x02") + 8] |= 1
        return f"corpus.{kind}", _perhaps_damaged(chooser, bytes(packed))
    kind = kind.replace("plain", "tar")
    mode: Any = {"tar.gz": "w:gz", "tar.xz": "w:xz"}.get(kind, "w")
    with tarfile.open(fileobj=stream, mode=mode) as tape:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tape.addfile(info, io.BytesIO(content))
    return f"corpus.{kind}", _perhaps_damaged(chooser, stream.getvalue())


def _perhaps_damaged(chooser: random.Random, content: bytes) -> bytes:
    return damage_bytes(content, chooser)[1] if chooser.random() < 0.5 else content
