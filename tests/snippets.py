"""Runs the code blocks of a documentation page, one after the other in one folder, as its reader would.

- ```bash and ```console are commands, each on its line; behind a `$ ` in a console stands what it prints, or,
  behind `$ cat FILE`, a file that the reader writes. Commands are called in this process, on inputs so small
  and with settings so quick (`QUICK`) that the suite has time for them.
- ```python shares its names with all Python of the page; an ```output block behind it is what it prints.
- `<!-- file: NAME -->` in front of a block makes it a file, too.
- `bidibeam serve` serves until the next one, or the end of the page, whatever port the page names.
- `<!-- not run: WHY -->` in front leaves it out; a test counts these.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.unit.cli.calls import called

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>file|not run): (?P<what>.*?) -->\n+)?"
    r"^```(?P<language>\w+)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
RUN = ("bash", "console", "python", "output")
TINY = "--set model.embedding_size=5"
TINY += "".join(f" --set model.{part}_size=16" for part in ("encoder", "decoder", "attention", "readout"))
FEW = "--set beam_sizes=[2] --set systems=[vbs,bidis] --set sources=4 --set validation_sources=6"
FEW += " --set cost_sources=0 --set examples=0 --set search.max_length=9 --set prepare.limit=400"
QUICK = {
    "prepare, chitchat": "--limit 60",
    "train": f"--set training.max_steps=2 --no-tune {TINY}",
    "train, huggingface": "--set max_steps=2 --set tensorboard=false",
    "train, transformer": "--set training.max_steps=2 --set model.d_model=16 --no-tune",
    "tune": "--quick",
    "tune, wide": "--quick --max-length 12",
    "decode, wide": "--max-length 12",
    "reproduce": f"{FEW} --set training.max_steps=2 {TINY}",
    "reproduce, transformer": f"{FEW} --set training.max_steps=2 --set model.d_model=16",
    "reproduce, model": FEW,
}
"""What is added to commands that would take long, by the command and what else stands there."""
SIGNS = {
    "50": "wide",
    "chitchat": "chitchat",
    "transformer": "transformer",
    "--base": "huggingface",
    "--model": "model",
}


@dataclass(frozen=True)
class Block:
    """A piece of code on a page."""

    page: Path
    line: int
    language: str
    code: str
    mark: str
    what: str

    def __str__(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks_of(page: Path) -> list[Block]:
    """Every block of a page that names its language."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(
            page,
            text.count("\n", 0, found.start("language")) + 1,
            found["language"],
            found["code"],
            found["mark"] or "",
            found["what"] or "",
        )
        for found in BLOCK.finditer(text)
    ]


@dataclass
class Server:
    """A server that a page starts, at a port that is free."""

    process: subprocess.Popen[str]
    port: str

    @classmethod
    def start(cls, words: list[str]) -> Server:
        """Start it, and wait until it listens."""
        command = [sys.executable, "-m", "bidibeam", *words, "--port", "0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        line = next((line for line in process.stderr if " at http://" in line), "")
        return cls(process, re.findall(r":(\d+) ", line)[0])

    def close(self) -> None:
        """End it as Ctrl-C does."""
        self.process.terminate()
        self.process.communicate()


@dataclass
class Reader:
    """Somebody who types what stands on a page, in the current folder."""

    names: dict[str, Any] = field(default_factory=dict)
    printed: str = ""
    written: set[str] = field(default_factory=set)
    server: Server | None = None

    def close(self) -> None:
        """End a server that the page has started."""
        if self.server is not None:
            self.server.close()

    def read(self, page: Path) -> None:
        """Run the blocks of a page, but those that are marked as not run."""
        for block in blocks_of(page):
            if block.mark == "not run":
                continue
            if block.mark == "file":
                Path(block.what).parent.mkdir(parents=True, exist_ok=True)
                Path(block.what).write_text(block.code, encoding="utf-8")
            if block.language in RUN:
                getattr(self, block.language)(block)

    def python(self, block: Block) -> None:
        code = "\n" * block.line + self.localise(block.code)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(code, str(block.page), "exec"), self.names)
        self.printed = out.getvalue()

    def output(self, block: Block) -> None:
        check_shown(block.code, self.printed, str(block))

    def bash(self, block: Block) -> None:
        if "pip install" in block.code:
            self.printed = install(block.code)
            return
        for line in re.sub(r"\\\n\s*", " ", block.code).splitlines():
            self.command(line, str(block))

    def console(self, block: Block) -> None:
        for line, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.code, re.MULTILINE):
            words = shlex.split(line)
            if words[0] == "cat" and not Path(words[1]).exists():
                Path(words[1]).write_text(shown, encoding="utf-8")
            else:
                check_shown(shown, self.command(line, str(block)), f"{block}: {line}")

    def command(self, line: str, where: str) -> str:
        """Run a line of commands with pipes, and return what a terminal would show."""
        data, told, target = "", "", None
        for words in split_pipe(self.localise(line)):
            if ">" in words:
                target = words[words.index(">") + 1]
                words = words[: words.index(">")]
            if words[:2] == ["bidibeam", "serve"]:
                self.close()
                self.server = Server.start(words[1:])
            elif words[0] == "bidibeam":
                arguments = quickened(words[1:])
                self.make_room(arguments)
                call = called(*arguments, typed=data or "how are you?\n")
                assert call.status == 0, f"{where}: {line}\n{call.err}"
                data, told = call.out, told + call.err
            else:
                words += ["--fail-with-body"] if words[0] == "curl" else []
                done = subprocess.run(words, input=data, capture_output=True, text=True, check=True)
                data, told = done.stdout, told + done.stderr
        if target:
            Path(target).write_text(data, encoding="utf-8")
        return told if target else told + data

    def localise(self, code: str) -> str:
        """The code with the port of the page's server in place of the one that it names."""
        return (
            code if self.server is None else code.replace("localhost:8000", f"localhost:{self.server.port}")
        )

    def make_room(self, words: list[str]) -> None:
        """Remove an input of other pages where this page writes one of its own by that name."""
        for flag, name in pairwise(words):
            if flag in ("--out", "-o") and name not in self.written:
                self.written.add(name)
                if Path(name).is_dir():
                    shutil.rmtree(name)
                Path(name).unlink(missing_ok=True)


def install(code: str) -> str:
    """Run lines that install a package by a real shell, but beside the page and without the network."""
    found = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": "installed"}
    options = {
        "PIP_TARGET": "installed",
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "PIP_NO_INDEX": "1",
    }
    done = subprocess.run(
        ["bash", "-ec", code], env={**os.environ, **found, **options}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def split_pipe(line: str) -> list[list[str]]:
    """The commands of a line, each as its words; comments are left out."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        commands.append([]) if word == "|" else commands[-1].append(word)
    return [words for words in commands if words]


def quickened(words: list[str]) -> list[str]:
    """The call with what makes it quick behind it."""
    kind = words[0]
    for sign, which in SIGNS.items():
        if sign in words and f"{words[0]}, {which}" in QUICK:
            kind = f"{words[0]}, {which}"
    return [*words, *shlex.split(QUICK.get(kind, ""))]


def check_shown(shown: str, printed: str, where: str) -> None:
    """Make sure that the lines that a page shows were printed, in their order; `...` stands for any."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    for line in (" ".join(line.split()) for line in shown.splitlines()):
        if line not in ("", "..."):
            assert line in lines, f"{where} shows {line!r}, but this was printed:\n{printed}"
            del lines[: lines.index(line) + 1]


@contextlib.contextmanager
def own_modules(folder: Path) -> Iterator[None]:
    """Forget modules that were imported from a folder."""
    try:
        yield
    finally:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
                del sys.modules[name]
