"""Ways to damage a file, an entry of a folder, or a value; all of them drawn from a seeded generator."""

from __future__ import annotations

import codecs
import json
import os
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

LONG = "x" * 100_000
DEEP = 100_000
WILD_VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 7, 0.5, -1e308, 10**20, -(10**20), 10**400, 2**31, 2**63),
    *(float("nan"), float("inf"), float("-inf"), "", " ", "1", "x", "nan", LONG, "\ud800", "a\0b", "\u202e"),
    *("a\nb", "../../x", "\x1b[31m", [], {}, [[]], [None], [1, "x"], {"": 0}, {"x": {"y": []}}),
]
"""What a field of JSON may turn out to be."""
WILD_FLAGS = [
    *("", " ", "nan", "inf", "-inf", "-1", "0", "1e400", "1e-400", "99999999999999999999", "-" + "9" * 20),
    *("1" * 5000, LONG, "\udcff", "!!python/object/apply:os.system [ls]", "!!binary x", "2020-01-01", "~"),
    *("&a [*a]", "&a {x: *a}", "*x", "{a: b, a: c}", "[1, 2", "{", "? [x]", "null", "yes", "0x1F", "1_000"),
    *("&a [x,x,x,x]", "!x y", "2020-01-01T00:00:00Z", "!!timestamp x", "[" * 5000, "{" * 5000 + "}" * 5000),
    *("[nan, inf]", "<<: x", "{<<: 1}", "!!set {a}", "!!omap [a: 1]", "@x", "`x`", "%x", "'", '"'),
]
"""What a flag, or a setting given by one, may turn out to be."""


def draw_bomb(levels: int = 40) -> str:
    """YAML that would be a list of 9 ** levels items if its aliases were written out."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{at}: &a{at} [{', '.join([f'*a{at - 1}'] * 9)}]" for at in range(1, levels)]
    return "\n".join(lines)


def damage_bytes(content: bytes, chooser: random.Random) -> tuple[str, bytes]:
    """How a file was damaged, and what it holds now."""
    at = chooser.randrange(len(content) + 1)
    lines = content.splitlines(keepends=True) or [b""]
    line = chooser.randrange(len(lines))
    ways: dict[str, Callable[[], bytes]] = {
        "flipped": lambda: flip(content, chooser),
        "cut": lambda: content[:at],
        "cut before": lambda: content[at:],
        "empty": lambda: b"",
        "line deleted": lambda: b"".join(lines[:line] + lines[line + 1 :]),
        "line doubled": lambda: b"".join([*lines[: line + 1], *lines[line:]]),
        "lines shuffled": lambda: b"".join(chooser.sample(lines, len(lines))),
        "BOM": lambda: codecs.BOM_UTF8 + content,
        "BOM inside": lambda: content[:at] + codecs.BOM_UTF8 + content[at:],
        "UTF-16": lambda: content.decode("utf-8", "replace").encode("utf-16"),
        "Latin-1": lambda: content[:at] + b"\xe9\xff" + content[at:],
        "CRLF": lambda: content.replace(b"\n", b"\r\n"),
        "CR": lambda: content.replace(b"\n", b"\r"),
        "NUL": lambda: content[:at] + b"\0" * chooser.choice([1, 1000]) + content[at:],
        "separators": lambda: content[:at] + "\u2028\x85\x0b\x1c".encode() + content[at:],
        "surrogate": lambda: content[:at] + b"\xed\xa0\x80" + content[at:],
        "long line": lambda: content[:at] + LONG.encode() + content[at:],
        "nested list": lambda: b"".join([*lines[:line], b"[" * DEEP, b"]" * DEEP, b"\n", *lines[line:]]),
        "nested object": lambda: b"".join([*lines[:line], b'{"a":' * DEEP, b"\n", *lines[line:]]),
        "no end": lambda: content.rstrip(b"\n"),
        "blank lines": lambda: content.replace(b"\n", b"\n\n \n"),
        "tabs": lambda: content.replace(b" ", b"\t"),
        "noise": lambda: chooser.randbytes(200),
        "ZIP": lambda: b"PK\x03\x04" + content,
    }
    name = chooser.choice(list(ways))
    return name, ways[name]()


def flip(content: bytes, chooser: random.Random) -> bytes:
    """The content with a few bits turned."""
    changed = bytearray(content)
    for _ in range(chooser.choice([1, 1, 2, 10]) if changed else 0):
        changed[chooser.randrange(len(changed))] ^= 1 << chooser.randrange(8)
    return bytes(changed)


def damage_value(value: Any, chooser: random.Random) -> tuple[str, Any]:
    """How a value of JSON was damaged at a place drawn at random, and the value."""
    is_deeper = isinstance(value, dict | list) and value and chooser.random() < 0.8
    if not is_deeper:
        wild = chooser.choice(WILD_VALUES)
        return f"={json.dumps(wild)[:20]}", wild
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = chooser.choice(keys)
    copy: Any = value.copy()
    way = chooser.random()
    if way < 0.12:
        del copy[key]
        return f"[{key}] missing", copy
    if way < 0.2 and isinstance(copy, dict):
        copy[chooser.choice(["", "x", f"{key}s", LONG, "\ud800"])] = chooser.choice(WILD_VALUES)
        return "extra key", copy
    if way < 0.2:
        return f"[{key}] twice", [*copy, copy[key]]
    name, copy[key] = damage_value(copy[key], chooser)
    return f"[{key}]{name}", copy


def damage_json(content: bytes, chooser: random.Random) -> tuple[str, bytes]:
    """How a value in a file of JSON or JSON lines was damaged, and what the file holds now."""
    text = content.decode("utf-8")
    is_whole = text.startswith("{\n")
    lines = [text] if is_whole else text.splitlines()
    at = chooser.randrange(len(lines))
    name, value = damage_value(json.loads(lines[at]), chooser)
    lines[at] = json.dumps(value, ensure_ascii=chooser.random() < 0.7)
    if chooser.random() < 0.1:
        lines[at] = lines[at].replace("{", '{"id": 1, "id": [], ', 1)
        name += ", doubled key"
    return f"line {at + 1} {name}", "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass")


def damage_entry(path: Path, chooser: random.Random) -> str:
    """Put something else in place of a file or folder: how that was done."""
    was_folder = path.is_dir()
    ways = ["missing", "folder", "loop", "dangling", "null", "itself", "name"]
    way = chooser.choice(ways if not was_folder else ["missing", "file", "loop", "empty"])
    if was_folder:
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
    if way in ("folder", "empty"):
        path.mkdir()
    elif way == "file":
        path.write_text("{}")
    elif way == "null":
        path.symlink_to(os.devnull)
    elif way in ("loop", "itself"):
        path.symlink_to(path.name)
    elif way in ("dangling", "name"):
        path.symlink_to("nowhere" if way == "dangling" else "n" * 255)
    return way


def damage_file(path: Path, chooser: random.Random) -> str:
    """Damage a file in one of all these ways; JSON that is still JSON is the likeliest: how it was done."""
    if chooser.random() < 0.08:
        return damage_entry(path, chooser)
    content = path.read_bytes()
    is_json = path.suffix in (".json", ".jsonl")
    name, content = (damage_json if is_json and chooser.random() < 0.6 else damage_bytes)(content, chooser)
    path.write_bytes(content)
    return name
