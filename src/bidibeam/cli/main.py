"""The `bidibeam` command: a table of commands, each imported only when it runs, and one door for errors."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from bidibeam._version import __version__
from bidibeam.cli import streams
from bidibeam.errors import OUT_OF_MEMORY, BidibeamError, is_out_of_memory, is_panic, shorten
from bidibeam.registry import suggest
from bidibeam.text import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMANDS = {
    "prepare": "Turn a corpus into pairs of token ids that training reads.",
    "train": "Train a regular and a reverse decoder on prepared data, or fine-tune a Hugging Face model.",
    "tune": "Find out on the validation split which strategy serves a model best.",
    "decode": "Answer one source per line; write one reply per line.",
    "chat": "Talk to a model.",
    "explain": "Show both beams of a source and why a reply won, as a page.",
    "serve": "Answer over HTTP: a page that shows both beams, an API, and OpenAI's API.",
    "rerank": "Choose again among hypotheses from anywhere; no model needed.",
    "convert": "Read and write n-best lists as other tools do.",
    "score": "Add a model's log-probabilities to n-best lists from anywhere.",
    "evaluate": "Score replies from anywhere, and test whether they differ by more than chance.",
    "analyse": "Look behind the scores of n-best lists: ranks, headroom, diversity and more.",
    "report": "Write a report of results: a page, a document and figures.",
    "reproduce": "Run the paper's whole experiment on a corpus, and report on it.",
    "export": "Write a model as a folder to pass on.",
    "info": "Show what a model's folder holds.",
}
"""The commands in the order of their use, each with the first line of its help."""
MODULES = {"report": "reproduce", "info": "export"}
"""Commands that share the module of another; the others have one of their name."""

os.environ.setdefault("GOMP_SPINCOUNT", "3000")
"""How long an idle thread of a parallel loop spins before it sleeps; the OpenMP that PyTorch brings reads it.

Left to itself it spins a hundred times longer, and takes the core from whatever the other threads wait for:
beside one more busy process, training was ten times slower. On an idle machine it makes no difference.
"""

os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
"""Lets the library that multiplies matrices on x86 round alike however many threads it has.

So what one process writes with all cores, and several that share them, is the same byte for byte, but for
matrices of a few dozen columns.
"""

PACKAGE = f"{Path(__file__).parent.parent}{os.sep}"
"""How the paths of our own files begin."""
OTHERS_WAIT_S = 5.0
"""How long the other processes of a launcher let the first one tell what is wrong."""
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Signals that end a command at its next line of Python: what is open is closed, and what is done is kept."""


@dataclass
class Session:
    """What is known about the whole call: what the group's options say, and the command that runs."""

    show_traceback: bool = False
    command: click.Command | None = None


def load_command(name: str) -> click.Command:
    """Import a command."""
    return cast("click.Command", getattr(import_module(f"bidibeam.cli.{MODULES.get(name, name)}"), name))


class CommandGroup(click.Group):
    """Commands that are stubs until one runs, so that help and completion import nothing."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The names, in the order of the table."""
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Import the command; a name that is none is answered with the nearest that is."""
        name = args[0]
        if name not in self.commands and not name.startswith("-") and not ctx.resilient_parsing:
            hint = suggest(name, self.commands)
            ctx.fail(f"No command is called {name!r}.{hint} There are: {', '.join(self.commands)}.")
        found, command, rest = super().resolve_command(ctx, args)
        if name in COMMANDS:
            command = load_command(name)
        ctx.ensure_object(Session).command = command
        return found, command, rest


@click.group(
    cls=CommandGroup,
    commands={name: click.Command(name, short_help=told) for name, told in COMMANDS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
)
@click.version_option(__version__, prog_name="bidibeam", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def bidibeam(ctx: click.Context, debug: bool) -> None:
    """Answer from both ends: train, search and rerank response generators.

    \b
    bidibeam chat                                # the model in the box
    bidibeam reproduce                           # the whole experiment, small
    bidibeam prepare chitchat --out data         # a corpus becomes data
    bidibeam train data --out run --preset demo  # both directions learn
    bidibeam tune run                            # lambda, length settings and T
    bidibeam decode run sources.txt              # a reply for each line
    bidibeam rerank beams.jsonl                  # choose again, without a model
    bidibeam evaluate a.txt b.txt --references r.txt

    Replies, and scores of evaluate, go to stdout; all else goes to stderr. Every command explains itself
    with --help.
    """  # noqa: D301
    ctx.ensure_object(Session).show_traceback = debug


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit status: 0, 1 for an error, 2 for wrong usage, 130, 143."""
    is_launched = os.environ.get("WORLD_SIZE", "1") != "1"  # torchrun ends its processes at once, all of them
    for number in STOP_SIGNALS[: 1 if is_launched else None]:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has it
            signal.signal(number, _interrupt)
    streams.set_up()
    status = run(args)
    streams.drop_unwritten()
    for number in STOP_SIGNALS:  # all is said and done
        signal.signal(number, signal.SIG_IGN)
    if is_launched:  # all is written, and while Python ends gloo's threads may abort the process
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


class Interruption(KeyboardInterrupt):
    """What a signal raises, with its number.

    It is a class of its own because Python, run by -c or -m, ends with its own status, not with ours, once a
    plain KeyboardInterrupt was raised.
    """

    received: int | None = None
    """The signal that was received; a library that was being imported may have swallowed what it raised."""


def _interrupt(number: int, _frame: object) -> None:
    """Unwind what runs; a second signal ends it at once."""
    for each in STOP_SIGNALS:
        signal.signal(each, signal.SIG_DFL)
    Interruption.received = number
    raise Interruption(number)


def run(args: Sequence[str] | None = None) -> int:
    """Run the command line; every exception becomes one sentence."""
    session = Session()
    try:
        if hasattr(signal, "pthread_sigmask"):  # what came while we were imported comes now
            signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
        status = bidibeam.main(args, prog_name="bidibeam", standalone_mode=False, obj=session)
        sys.stdout.flush()
    except click.ClickException as error:
        vars(error)["message"] = printable(shorten(error.message))  # to click's types it is final
        _let_the_first_speak()
        error.show()
        return error.exit_code
    except BrokenPipeError:  # the reader of our output has left: so do we
        return 1
    except (click.Abort, KeyboardInterrupt) as error:
        cause = error.__cause__ or error  # click's own does not know the signal
        return _end_interrupted(cause.args[0] if isinstance(cause, Interruption) else signal.SIGINT, args)
    except BaseException as error:
        if not (isinstance(error, Exception) or is_panic(error)):
            raise
        _let_the_first_speak()
        if session.show_traceback:
            click.echo(printable(traceback.format_exc()), err=True, nl=False)
        if Interruption.received is not None:  # and half a module fails later
            return _end_interrupted(Interruption.received, args)
        sentence = " ".join(name_flags(shorten(_sentence(error)), session.command).splitlines())
        click.echo(f"Error: {printable(sentence)}", err=True)
        return 1
    return status if isinstance(status, int) else 0


def _let_the_first_speak() -> None:
    """Of processes that train together, wait until the launcher ends this one, as it does once one fails.

    What is wrong with all of them is then told once; what is wrong with this one alone is told a bit later.
    """
    if os.environ.get("RANK", "0") != "0":
        time.sleep(OTHERS_WAIT_S)


def _end_interrupted(number: int, args: Sequence[str] | None) -> int:
    if os.environ.get("RANK", "0") == "0":  # of several processes only the first says it
        click.echo(f"Interrupted.{way_on(sys.argv[1:] if args is None else args)}", err=True)
    return 128 + int(number)  # as shells report it


def way_on(words: Sequence[str]) -> str:
    """How to go on with a command that was interrupted, perhaps before it was even imported."""
    name = next((word for word in words if not word.startswith("-")), "chat")
    if name == "chat":
        return ""
    if name == "train" or any(word.partition("=")[0] == "--n-best" for word in words):
        return " The same command with --resume goes on from what is done."
    if name == "reproduce" or "--executor=ray" in words or "--executor ray" in " ".join(words):
        return " The same command goes on from what is done."
    return " The same command begins again."


def name_flags(message: str, command: click.Command | None) -> str:
    """The message with a command's flags in place of the parameters that the library names.

    A parameter is known by its underscore (beam_size), by backticks (`words`), or where it begins a sentence
    (stopping must be ...). What is quoted, or part of a path or a signature, stays as it is; so do the
    options of a similarity and the settings of a preset, which have no flags of their own.
    """
    is_of_others = message.startswith(("The similarity ", "Unknown setting "))
    for option in command.params if command is not None else ():
        name = re.escape(option.name or "")
        flag = next((flag for flag in option.opts if flag.startswith("--")), None)
        if flag is not None:
            quoted = rf"`({name}|{re.escape(flag[2:])})`"
            word = rf"(?<![\w./'\"-]){name}(?![\w/'\"-]|[.:]\w)" if "_" in name else rf"^{name}(?= must )"
            message = re.sub(quoted if is_of_others else rf"{quoted}|{word}", flag, message)
    return message


def _sentence(error: BaseException) -> str:
    """What to tell a user who can mend it; of what nobody but us can, that it is a bug."""
    if isinstance(error, BidibeamError):
        return str(error)
    told = " ".join(str(error).split())
    if is_out_of_memory(error):
        return OUT_OF_MEMORY
    if isinstance(error, OSError):
        where = "<stdout>" if streams.is_of_stdout(error) else error.filename
        where = "" if where is None else f"{where}: "
        return f"{where}{error.strerror}." if error.strerror else told
    ours = [each for each in traceback.extract_tb(error.__traceback__) if PACKAGE in each.filename]
    place = f" in {ours[-1].filename.rpartition(PACKAGE)[2]}:{ours[-1].lineno}" if ours else ""
    return (
        f"This is a bug of bidibeam ({type(error).__name__}: {told}{place}); please report it with what "
        "`bidibeam --debug` shows of the same call."
    )


if __name__ == "__main__":
    main()
