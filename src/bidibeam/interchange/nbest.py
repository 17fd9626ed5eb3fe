"""The n-best format: JSON lines, one object a source. `docs/nbest.md` describes it for other programs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter
from typing import IO, TYPE_CHECKING, Any, ClassVar

from bidibeam.errors import InputError
from bidibeam.files import create_text, replacing
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.formats import LONGEST, Format, check_source, make_hypothesis, not_finite
from bidibeam.interchange.on_disk import IdsOnDisk
from bidibeam.interchange.text_lines import (
    JsonObject,
    LineSource,
    describe,
    guess_object,
    open_lines,
    to_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from bidibeam.hypotheses import Ranking
    from bidibeam.scores import Signature

WRITTEN = ("text", "tokens", "log_prob", "other_log_prob", "length", "score", "finished")
"""What a line says of a hypothesis."""
GET_WRITTEN = attrgetter(*WRITTEN)


def to_json(
    beams: Beams,
    ranking: Ranking | None = None,
    signature: Signature | None = None,
    *,
    batch_size: int | None = None,
) -> str:
    """One line of an n-best file, without its end: what `to_object` gives."""
    try:
        return to_line(to_object(beams, ranking, signature, batch_size=batch_size))
    except ValueError as error:
        raise not_finite(beams) from error


def to_object(
    beams: Beams,
    ranking: Ranking | None = None,
    signature: Signature | None = None,
    *,
    batch_size: int | None = None,
) -> dict[str, Any]:
    """What an n-best file says of a source: what was found, and a strategy's ranking of it, if any.

    With the ranking stands the batch size of the search, where it is given.
    """
    value: dict[str, Any] = {"id": beams.id, "source": beams.source}
    several = len(beams.references) > 1
    value["references" if several else "reference"] = beams.references if several else beams.reference
    for direction in Direction:
        value[direction.value] = [
            dict(zip(WRITTEN, values, strict=True)) for values in map(GET_WRITTEN, beams.of(direction))
        ]
    if ranking is not None:
        replies = [
            {
                "text": entry.hypothesis.text,
                "score": entry.score,
                "direction": entry.direction.value,
                "place": entry.place,
                "partner": entry.partner,
            }
            for entry in ranking
        ]
        value["ranking"] = {
            "signature": None if signature is None else str(signature),
            **({} if batch_size is None else {"batch_size": batch_size}),
            "replies": replies,
        }
    return value


def write(beams: Iterable[Beams], path: Path) -> None:
    """Write an n-best file in one step, compressed if its name ends in .gz or .xz."""
    with replacing(path) as partial, create_text(partial, named=path) as stream:
        Jsonl().write(beams, stream)


def read(source: LineSource, *, allow_empty: bool = False) -> Iterator[Beams]:
    """Read an n-best file one source at a time; see `Format.read`."""
    return Jsonl().read(source, allow_empty=allow_empty)


@dataclass(frozen=True)
class Jsonl(Format):
    """The format of this module as one of many.

    Args:
        ranked: Whether to read what a strategy made of the lists, in its order and with its scores, instead
            of the lists themselves; all of it becomes the regular list.
    """

    ranked: bool = False

    endings: ClassVar[tuple[str, ...]] = (".jsonl",)
    has_tokens: ClassVar[bool | None] = None

    @staticmethod
    def looks_like(lines: Sequence[str]) -> bool:
        """Whether the first line is an object with a list of one of the directions."""
        value = guess_object(lines)
        return any(direction in value for direction in Direction)

    def read(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[Beams]:
        """Read a file one source at a time; blank lines are skipped."""
        lines = open_lines(source)
        ids = IdsOnDisk()
        first_place: dict[bool, str] = {}
        for entry in lines.objects():
            beams = parse_beams(entry)
            if self.ranked:
                order = NBest(tuple(_read_ranking(entry, beams)))
                beams = replace(beams, regular=order, reverse=NBest())
            else:
                check_tokens_alike(entry, lines.name, first_place)
            check_source(beams, entry.place, ids=ids, allow_empty=allow_empty)
            yield beams

    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write all sources, with all that is known of them."""
        stream.writelines(f"{to_json(each)}\n" for each in beams)


def parse_beams(entry: JsonObject) -> Beams:
    """What the object on a line says; the number of the line is its id if it has no other."""
    if all(entry.fields.get(direction) is None for direction in Direction):
        raise InputError(
            f'{entry.place}: the fields "regular" and "reverse" are both missing; '
            "one of them must be there, a list of hypotheses."
        )
    source = entry.get("source", str) or ""
    beams = Beams(entry.get_id(), source, entry.get_references(), line=entry.number)
    for direction in Direction:
        items: list[Any] = entry.get(direction, list) or []
        hypotheses = [
            _parse_hypothesis(item, f"{entry.place}, {direction}[{rank}]") for rank, item in enumerate(items)
        ]
        beams = beams.with_hypotheses(direction, NBest(tuple(hypotheses)))
    return beams


def _parse_hypothesis(value: object, place: str) -> Hypothesis:
    entry = JsonObject.of(value, place, "a hypothesis object")
    text = entry.get("text", str)
    items: list[Any] | None = entry.get("tokens", list)
    odd = [item for item in items or () if not isinstance(item, str)]
    if odd:
        raise InputError(f'{place}: every one of "tokens" must be a string, received {describe(odd[0])}.')
    if text is None and items is None:
        raise InputError(
            f'{place}: the fields "text" and "tokens" are both missing; one of them must be there.'
        )
    length = entry.get("length", int)
    if length is not None and not 0 <= length <= LONGEST:
        raise InputError(
            f'{place}: "length" must lie between 0 and {LONGEST:,}, received {describe(length)}.'
        )
    return make_hypothesis(
        " ".join(items or ()) if text is None else text,
        tokens=None if items is None else tuple(items),
        log_prob=entry.get("log_prob", float),
        other_log_prob=entry.get("other_log_prob", float),
        length=length,
        score=entry.get("score", float),
        finished=entry.get("finished", bool) is not False,
    )


def check_tokens_alike(entry: JsonObject, name: str, first_place: dict[bool, str]) -> None:
    """Refuse tokens here and none there: similarities would compare subwords with words.

    `first_place` keeps where the file first had a hypothesis with tokens, and where one without.
    """
    for direction in Direction:
        for rank, hypothesis in enumerate(entry.fields.get(direction) or ()):
            has_tokens = hypothesis.get("tokens") is not None
            here = f"line {entry.number}, {direction}[{rank}]"
            first_place.setdefault(has_tokens, here)
            there = first_place.get(not has_tokens)
            if there is not None:
                raise InputError(
                    f'{name}, {here}: this hypothesis has {"" if has_tokens else "no "}"tokens", unlike that '
                    f"of {there}. Give tokens to every hypothesis of a file, or to none."
                )


def _read_ranking(entry: JsonObject, beams: Beams) -> Iterator[Hypothesis]:
    """The hypotheses in the order of the ranking, with the scores it gave them."""
    ranking = entry.fields.get("ranking")
    replies = ranking.get("replies") if isinstance(ranking, dict) else None
    if not isinstance(replies, list):
        raise InputError(f'{entry.place}: there is no "ranking"; `bidibeam rerank --n-best FILE` writes one.')
    for index, item in enumerate(replies):
        reply = JsonObject.of(item, f"{entry.place}, replies[{index}]")
        direction, rank = reply.require("direction", str), reply.require("place", int)
        if direction not in list(Direction) or not 0 <= rank < len(beams.of(Direction(direction))):
            raise InputError(f"{reply.place}: there is no hypothesis {direction}[{rank}] on this line.")
        hypothesis = beams.of(Direction(direction))[rank]._replace(score=reply.require("score", float))
        if direction == Direction.REVERSE:  # what was its own direction is the other one in a regular list
            hypothesis = hypothesis._replace(
                log_prob=hypothesis.other_log_prob, other_log_prob=hypothesis.log_prob
            )
        yield hypothesis
