"""`bidibeam score`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.options import device_option
from bidibeam.interchange.formats import FORMATS

if TYPE_CHECKING:
    from bidibeam.cli.lists import Lists
    from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
    from bidibeam.models.huggingface.texts import TextScorer
    from bidibeam.protocols import LengthPenalty

BATCH_SIZE = 32
DIRECTIONS = click.Choice(["regular", "reverse"])


@click.command()
@click.argument("input_file", metavar="FILE")
@click.option(
    "--model",
    metavar="MODEL",
    help="Who scores: a run, a Hugging Face model's folder or its name on the Hub.  [default: the small "
    "model that comes with bidibeam]",
)
@click.option(
    "--direction",
    type=DIRECTIONS,
    help="The only direction of the model that scores; or what a Hugging Face model is whose config does not "
    "say.  [default: all that it has]",
)
@click.option(
    "-o", "--out", "out_file", metavar="OUT", default="-", help="Where to; - is stdout.  [default: -]"
)
@click.option("--overwrite", is_flag=True, help="Replace the numbers that are there already, too.")
@click.option(
    "--length-penalty",
    type=float,
    default=0.6,
    show_default=True,
    help="Exponent a of the formula by which a log-probability becomes a score.",
)
@click.option(
    "--length-formula",
    type=click.Choice(["gnmt", "power"]),
    default="gnmt",
    show_default=True,
    help="What it is divided by: (5+|Y|)^a / 6^a, the paper's; or |Y|^a, Hugging Face's.",
)
@click.option(
    "--from",
    "from_format",
    metavar="FORMAT",
    help=f"How the lists are written: {', '.join(FORMATS.names())}.  [default: as their first lines or the "
    "file's ending tell]",
)
@click.option("--reverse", "reverse_file", metavar="FILE", help="The reverse lists, in a file of their own.")
@click.option(
    "--list-direction",
    type=DIRECTIONS,
    help="Whose hypotheses a file holds that has one list a source.  [default: regular]",
)
@click.option(
    "--per-source", type=click.IntRange(min=1), metavar="N", help="mbrs: how many hypotheses a source has."
)
@click.option("--log-prob", metavar="NAME", help="moses: the feature to read as log-probability.")
@click.option("--sources", "sources_file", metavar="FILE", help="The sources, in the order of the lists.")
@click.option("--references", "references_file", metavar="FILE", help="The references, in the same way.")
@click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    default=BATCH_SIZE,
    show_default=True,
    help="Sources scored at once.",
)
@device_option
def score(
    input_file: str,
    model: str | None,
    direction: str | None,
    out_file: str,
    device: str | None,
    *,
    overwrite: bool,
    length_penalty: float,
    length_formula: str,
    batch_size: int,
    **flags: Any,
) -> None:
    """Add a model's log-probabilities to n-best lists from anywhere.

    FILE is a file of lists in any format that `bidibeam convert` reads, or - for stdin; OUT gets JSON lines
    (docs/nbest.md). The model's own direction decides what it adds: to a list that was written in the same
    direction "log_prob", "score" and the "length" between them, to a list of the other direction
    "other_log_prob". So a reverse model completes regular lists for `bidibeam rerank --strategy bidis`, which
    then needs no model. Texts are tokenised by the model's own tokenizer; the end token counts. Numbers that
    are there already stay, unless --overwrite. Nothing is written unless all of it can be.

    \b
    bidibeam score beams.jsonl --model bart-reverse --out scored.jsonl
    bidibeam score marian.nbest --sources test.src --model runs/first --out scored.jsonl
    bidibeam score - --model facebook/bart-base --direction regular < lists.jsonl > scored.jsonl
    """  # noqa: D301
    from bidibeam.cli.lists import Lists
    from bidibeam.hypotheses import Direction
    from bidibeam.models.huggingface.texts import load_text_scorers
    from bidibeam.search.length import LENGTH_PENALTIES
    from bidibeam.search.settings import SearchSettings

    settings = SearchSettings(length_penalty=length_penalty)  # which refuses what is no exponent
    reading = _reading(input_file, out_file, flags)
    lists = Lists(reading, others=("direction",))
    _check_list_direction(lists, reading.settings)
    count = _checked(lists, input_file)
    wanted = None if direction is None else Direction(direction)
    scorers = load_text_scorers(_model_or_bundled(model), wanted, device=device)
    penalty = LENGTH_PENALTIES.create(length_formula, settings.length_penalty)
    adding = Adding(scorers, penalty, overwrite=overwrite)
    began = time.perf_counter()
    _write(adding.added(lists.read(), batch_size, total=count), out_file)
    adding.tell(count, time.perf_counter() - began)


@dataclass
class Adding:
    """What models say of hypotheses, added where it is missing.

    Attributes:
        scorers: The directions of a model.
        penalty: What a log-probability is divided by.
        overwrite: Whether numbers that are there are replaced.
        written: How many hypotheses got which numbers, by direction of the list and field.
    """

    scorers: Sequence[TextScorer]
    penalty: LengthPenalty
    overwrite: bool = False
    written: dict[tuple[Direction, str], int] = field(default_factory=dict)

    def added(self, lists: Iterable[Beams], batch_size: int, *, total: int) -> Iterator[Beams]:
        """The same lists with more numbers, a batch at a time."""
        from bidibeam.cli.console import track

        return track(self._added(iter(lists), batch_size), total, "scoring")

    def _added(self, lists: Iterator[Beams], batch_size: int) -> Iterator[Beams]:
        from bidibeam.hypotheses import Direction

        while batch := list(islice(lists, batch_size)):
            for scorer in self.scorers:
                for direction in Direction:
                    batch = self._batch(batch, direction, scorer)
            yield from batch

    def _batch(self, batch: list[Beams], direction: Direction, scorer: TextScorer) -> list[Beams]:
        """A batch with one scorer's opinion of one direction's lists."""
        from bidibeam.errors import InputError
        from bidibeam.models.huggingface.texts import Asked, EmptyTextError

        is_own = scorer.direction is direction
        lines = [self._places(beams.of(direction), is_own=is_own) for beams in batch]
        asked = [  # an opinion is always that of a whole reply
            [
                Asked(beams.of(direction)[place].text, beams.of(direction)[place].finished or not is_own)
                for place in places
            ]
            for beams, places in zip(batch, lines, strict=True)
        ]
        if not any(asked):
            return batch
        try:
            found = scorer.scores([beams.source for beams in batch], asked)
        except EmptyTextError as error:
            beams, place = batch[error.source], lines[error.source][error.place]
            raise InputError(
                f"Source {beams.id!r}: the hypothesis {direction.value}[{place}], "
                f"{beams.of(direction)[place].text!r}, has no token under the tokenizer of {error.label}; "
                "leave it out."
            ) from error
        self._count(direction, "log_prob and score" if is_own else "other_log_prob", sum(map(len, asked)))
        return [
            beams.with_hypotheses(direction, self._with(beams.of(direction), places, values, is_own=is_own))
            for beams, places, values in zip(batch, lines, found, strict=True)
        ]

    def _places(self, nbest: NBest, *, is_own: bool) -> list[int]:
        """Which hypotheses of a list lack a number."""
        names = ("log_prob", "score") if is_own else ("other_log_prob",)
        return [
            place
            for place, one in enumerate(nbest)
            if self.overwrite or any(getattr(one, name) is None for name in names)
        ]

    def _with(self, nbest: NBest, places: Sequence[int], values: Sequence[Any], *, is_own: bool) -> NBest:
        from bidibeam.hypotheses import NBest

        hypotheses = list(nbest)
        for place, value in zip(places, values, strict=True):
            if is_own:
                hypotheses[place] = self._scored(hypotheses[place], value.log_prob, value.length)
            else:
                hypotheses[place] = hypotheses[place]._replace(other_log_prob=value.log_prob)
        return NBest(tuple(hypotheses))

    def _scored(self, one: Hypothesis, log_prob: float, length: int) -> Hypothesis:
        import torch

        value = float(self.penalty.score(torch.tensor(log_prob, dtype=torch.float64), length))
        return one._replace(log_prob=log_prob, length=length, score=value)

    def _count(self, direction: Direction, name: str, number: int) -> None:
        self.written[direction, name] = self.written.get((direction, name), 0) + number

    def tell(self, sources: int, took_s: float) -> None:
        """Say what was added, on stderr."""
        from bidibeam.cli.console import console

        told = [
            f"{name} of {number:,} {direction.value} hypothes{'is' if number == 1 else 'es'}"
            for (direction, name), number in self.written.items()
        ]
        models = " and ".join(f"{scorer.label} ({scorer.direction.value})" for scorer in self.scorers)
        if not told:
            console.print(
                f"Nothing was missing that {models} could add; --overwrite replaces what is there.",
                style="dim",
                soft_wrap=True,
            )
            return
        console.print(
            f"{sources:,} source{'' if sources == 1 else 's'} in {took_s:.1f} s: {', '.join(told)}, by "
            f"{models}.",
            style="dim",
            soft_wrap=True,
        )


def _reading(input_file: str, out_file: str, flags: dict[str, Any]) -> Any:
    """What was said of the lists.

    Raises:
        SettingsError: If it contradicts itself, or the output would overwrite an input.
    """
    from bidibeam.cli.lists import Reading
    from bidibeam.errors import SettingsError

    flags["direction"] = flags.pop("list_direction")
    reading = Reading.taken(input_file, {**flags, "words": False})
    for name in reading.files:
        if "-" not in (name, out_file) and Path(name).resolve() == Path(out_file).resolve():
            raise SettingsError(f"--out would overwrite the input, {name}. Name another file.")
    return reading


def _check_list_direction(lists: Lists, settings: Any) -> None:
    from bidibeam.cli.lists import settings_of
    from bidibeam.errors import SettingsError

    if "direction" in settings and "direction" not in settings_of(lists.format_name):
        raise SettingsError(
            f"The format {lists.format_name} says itself whose its lists are: leave out --list-direction."
        )


def _checked(lists: Lists, name: str) -> int:
    """How many sources there are; all are read once, so that nothing is scored in vain.

    Raises:
        InputError: If one cannot be used.
    """
    from bidibeam.errors import InputError

    count = 0
    for beams in lists.read():
        count += 1
        if not beams.source.strip():
            raise InputError(
                f"{name}: the list with the id {beams.id!r} has no source, and a model reads that first; "
                "give the sources by --sources FILE."
            )
    if not count:
        raise InputError(f"{name} holds no lists, so there is nothing to score.")
    return count


def _model_or_bundled(model: str | None) -> str | None:
    if model is None:
        from bidibeam.cli.console import console

        console.print("No model was named: this is the small one that comes with bidibeam.", style="dim")
    return model


def _write(lists: Iterable[Beams], out_file: str) -> None:
    """Write JSON lines, all or nothing."""
    import shutil
    import tempfile

    from bidibeam.interchange import nbest

    if out_file != "-":
        nbest.write(lists, Path(out_file))
        return
    with tempfile.TemporaryFile("w+", encoding="utf-8", newline="\n") as kept:
        kept.writelines(f"{nbest.to_json(each)}\n" for each in lists)
        kept.seek(0)
        shutil.copyfileobj(kept, sys.stdout)
