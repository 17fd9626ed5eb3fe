"""N-best lists on their way in: what `rerank`, `convert`, `score`, `evaluate` and `analyse` share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.options import together
from bidibeam.interchange.formats import FORMATS

if TYPE_CHECKING:
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.hypotheses import Beams
    from bidibeam.interchange.lists import ListReader
    from bidibeam.protocols import Strategy
    from bidibeam.similarities.word_vectors import WordVectors

DIRECTIONS = click.Choice(["regular", "reverse"])
FORMAT_SETTINGS = ("direction", "per_source", "log_prob", "ranked")
SUBWORD_MARKS = ("\u0120", "\u2581", "##")
"""How byte-level BPE, SentencePiece and WordPiece mark where words begin, or go on."""
UNENDED_MARK = "@@"
"""How subword-nmt, and so fairseq, marks a piece that does not end its word."""

from_option = click.option(
    "--from",
    "from_format",
    metavar="FORMAT",
    help=f"How the lists are written: {', '.join(FORMATS.names())}.  [default: as their first lines or the "
    "file's ending tell]",
)
reverse_option = click.option(
    "--reverse",
    "reverse_file",
    metavar="FILE",
    help="The reverse lists of the same sources, by id, where they are in a file of their own.",
)
DIRECTION_HELP = "Whose hypotheses a file holds that has one list a source.  [default: regular]"
file_options = together(
    [
        click.option(
            "--per-source",
            type=click.IntRange(min=1),
            metavar="N",
            help="mbrs: how many hypotheses, a line each, every source has.",
        ),
        click.option("--log-prob", metavar="NAME", help="moses: the feature to read as log-probability."),
        click.option(
            "--sources",
            "sources_file",
            metavar="FILE",
            help="The sources, one a line, in the order of the lists.",
        ),
        click.option(
            "--references",
            "references_file",
            metavar="FILE",
            help="The references, in the same way; of a .tsv file its second column.",
        ),
    ]
)
lists_options = together(
    [
        from_option,
        reverse_option,
        click.option("--direction", type=DIRECTIONS, help=DIRECTION_HELP),
        file_options,
        click.option(
            "--words", is_flag=True, help="Split the texts into words, whatever tokens the file gives."
        ),
    ]
)
"""The options of what is read."""


def list_reader(input_file: str, flags: dict[str, Any], **options: Any) -> ListReader:
    """Take what is said about lists out of a command's parameters."""
    from bidibeam.hypotheses import Direction
    from bidibeam.interchange.lists import ListReader

    settings = {key: value for key in FORMAT_SETTINGS if (value := flags.pop(key, None))}
    if "direction" in settings:
        settings["direction"] = Direction(settings["direction"])
    names = ("from_format", "reverse_file", "sources_file", "references_file", "words")
    given = {name: flags.pop(name, None) for name in names}
    return ListReader(input_file, **given, settings=settings, **options)


def vocabulary_of(lists: Iterable[Beams]) -> tuple[set[str], int]:
    """All tokens of lists, and how many the longest hypothesis has."""
    tokens = {one.tokens for beams in lists for one in (*beams.regular, *beams.reverse)}
    return set().union(*tokens), max(map(len, tokens), default=0)


def word_space(path: Path | None, words: Collection[str]) -> Callable[[], WordVectors] | None:
    """Reads the vectors of the words that lists hold, when they are asked for."""
    if path is None:
        return None

    def read() -> WordVectors:
        from bidibeam.cli.console import console, notice_if_slow
        from bidibeam.errors import SettingsError
        from bidibeam.similarities.word_vectors import WordVectors

        pieces = (
            word
            for word in sorted(words)
            if word.startswith(SUBWORD_MARKS) or (word.endswith(UNENDED_MARK) and word != UNENDED_MARK)
        )
        piece = next(pieces, None)
        if piece is not None:
            raise SettingsError(
                f"The lists hold subwords, such as {piece!r}, and --vectors are vectors of words. Leave "
                '"tokens" out of the file, so that texts are split into words, or use another similarity.'
            )
        with notice_if_slow(f"Reading {path} ..."):
            space = WordVectors.from_file(path, wanted=words)
        console.print(f"{len(space.words):,} of {len(words):,} words have a vector.", style="dim")
        return space

    return read


def note_length(strategy: Strategy, longest: int) -> None:
    """Say so if T is far from what the lists hold: length then counts for more than agreement."""
    from bidibeam.cli.console import console

    limit = getattr(getattr(strategy, "similarity", None), "max_length", 0)
    if limit >= 2 * longest:
        console.print(
            f"Note: T is {limit}, but the longest hypothesis has {longest} tokens, so length weighs heavily. "
            "If the search's maximum was lower, say --max-length; or use a similarity without T: bleu, wmd.",
            style="dim",
        )


def note_other_model(tuned: TunedSettings, file: str, model: str | None) -> None:
    """Say so if lists were written by another model than settings were tuned for, where both are known."""
    from bidibeam.cli.console import note

    weights = tuned.content.get("weights")
    if model is not None and weights is not None and model != weights:
        note(
            f"{tuned.path} was tuned for another model ({weights}) than the one that wrote {file} ({model})."
        )
