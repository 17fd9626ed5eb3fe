"""Everything bidibeam raises on purpose; a message says what is wrong, which value came, and what to do."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

LONGEST_REASON = 300
LONGEST_WORD = 400
LONGEST_MESSAGE = 1800
"""What is longer than this, in characters, nobody reads: a value of megabytes would hide the message."""


class BidibeamError(Exception):
    """Base of every error that a user can mend; the command line prints it as one sentence."""

    def __str__(self) -> str:
        return shorten(super().__str__())


class UnknownNameError(BidibeamError):
    """A name that no registry holds."""


class SettingsError(BidibeamError):
    """A setting that is unknown, of the wrong type or out of range, and which it is where that is known."""

    def __init__(self, message: str, setting: str | None = None) -> None:
        super().__init__(message)
        self.setting = setting


class CorpusError(BidibeamError):
    """A corpus that is missing, malformed or empty."""


class InputError(BidibeamError):
    """A file of sources or hypotheses that cannot be used."""


class RunError(BidibeamError):
    """A run or data directory that is damaged, incomplete or of another version."""


class TrainingError(BidibeamError):
    """Training that cannot go on."""


class ScorerError(BidibeamError):
    """A model whose answers a search cannot use."""


class SimilarityError(BidibeamError):
    """A similarity whose answers a strategy cannot use."""


class MetricError(BidibeamError):
    """A metric whose answers an evaluation cannot use."""


class ProcessLostError(BidibeamError):
    """A process that shared the work ended before it was done."""


class RayError(BidibeamError):
    """Ray could not be started, or gave up."""


class RayMissingError(BidibeamError, ImportError):
    """The extra that brings Ray is not installed."""


class TransformersMissingError(BidibeamError, ImportError):
    """The extra that brings transformers is not installed."""


def shorten(message: str) -> str:
    """The message with the middle left out of any word, and of the whole, that is too long to be read."""
    message = re.sub(rf"\S{{{LONGEST_WORD},}}", lambda word: _leave_out(word[0], LONGEST_WORD), message)
    return _leave_out(message, LONGEST_MESSAGE)


def _leave_out(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 4 * 3]} ... {text[-most // 4 :]}"


OUT_OF_MEMORY = "There is not enough memory; a smaller batch, beam or vocabulary needs less."


def is_out_of_memory(error: BaseException) -> bool:
    """Whether Python, torch or CUDA could not have the memory that it asked for."""
    is_torchs = type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
    return isinstance(error, MemoryError) or is_torchs


def is_panic(error: BaseException) -> bool:
    """Whether a library in Rust has given up over what it was given; it raises no Exception then."""
    return type(error).__name__ == "PanicException"


def describe_error(error: Exception) -> str:
    """What an error says, in the middle of a sentence."""
    if isinstance(error, KeyError) and error.args:
        return f"it has no {error.args[0]!r}"
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]} ..."


@contextmanager
def wrapping(kind: type[BidibeamError], tell: Callable[[Exception], str]) -> Iterator[None]:
    """Makes an error of this kind of whatever a user's own code raises; `tell` writes its message."""
    try:
        yield
    except BidibeamError:
        raise
    except Exception as error:
        raise kind(tell(error)) from error


def check_setting(is_met: bool, name: str, value: object, rule: str) -> None:
    """Refuse a setting's value that does not follow its rule."""
    if not is_met:
        raise SettingsError(f"{name} must be {rule}, not {value!r}.", name)


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Refuse a value that is none of those there are."""
    check_setting(isinstance(value, str) and value in choices, name, value, f"one of {', '.join(choices)}")


def check_finite(name: str, value: object, largest: int) -> None:
    """Refuse what is no finite number, or one so large that powers or sums with it mean nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SettingsError(f"{name} must be a finite number, not {value!r}.", name)
    if abs(value) > largest:
        raise SettingsError(f"{name} must lie between -{largest:,} and {largest:,}, not {value!r}.", name)
