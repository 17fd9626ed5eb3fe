"""Moses n-best lists, which Marian writes too: `id ||| text ||| features ||| score`, one a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from typing import IO, TYPE_CHECKING, ClassVar, NamedTuple

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.formats import Format
from bidibeam.interchange.formats.single import chosen, finite, hypothesis, one_line, spelled
from bidibeam.interchange.lines import LineSource, describe, name_of, numbered_lines
from bidibeam.interchange.nbest import LONGEST

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

SEPARATOR = " ||| "
SPLIT = re.compile(r" \|\|\|(?= |$)")
SENTENCE = re.compile(r"[0-9]{1,18}")
FIRST_LINE = re.compile(r" *[0-9]+ \|\|\| .*\|\|\|")
Features = dict[str, list[str]]


class _Line(NamedTuple):
    """One hypothesis, and whose it is."""

    id: str
    number: int
    hypothesis: Hypothesis


@dataclass(frozen=True)
class Moses(Format):
    """Moses n-best lists: sentence number, text, features, total score.

    The number counts sentences from 0; where a source has no hypotheses, its number is left out. The total
    is the score, or empty where none is known. Our own features are LogProb, OtherLogProb, Length and
    Finished; others are passed over.

    Args:
        direction: Whose hypotheses the file holds.
        log_prob: The feature to read as the log-probability; LogProb, if there is one, unless given.
    """

    direction: Direction = Direction.REGULAR
    log_prob: str | None = None

    endings: ClassVar[tuple[str, ...]] = (".moses", ".nbest")
    has_tokens: ClassVar[bool | None] = False
    carries: ClassVar[tuple[str, ...]] = ()

    @staticmethod
    def looks_like(lines: Sequence[str]) -> bool:
        """Whether the first line begins with a number and has the separators."""
        return bool(lines) and FIRST_LINE.match(lines[0]) is not None

    def read_numbered(
        self,
        source: LineSource,
        *,
        allow_empty: bool = False,  # noqa: ARG002
    ) -> Iterator[tuple[int, Beams]]:
        """Read a file one source at a time: the lines that follow each other with the same id.

        Raises:
            InputError: With file and line, if a line does not fit, or an id comes back after another.
        """
        name = name_of(source)
        line_of_id: dict[str, int] = {}
        for id_, group in groupby(self._lines(source), key=lambda line: line.id):
            lines = list(group)
            number = lines[0].number
            earlier = line_of_id.setdefault(id_, number)
            if earlier != number:
                raise InputError(
                    f"{name}, line {number}: the id {id_} comes back, after its list began on line {earlier} "
                    "and ended. Keep the lines of each id together; a file holds each list once."
                )
            found = NBest(tuple(line.hypothesis for line in lines))
            yield number, Beams(id_, "").with_hypotheses(self.direction, found)

    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write one list of each source, numbered by its place.

        Raises:
            InputError: If a text holds the separator.
        """
        for place, each in enumerate(beams):
            for rank, found in enumerate(chosen(each, self.direction)):
                text = one_line(found.text)
                if SEPARATOR in f" {text} ":
                    raise InputError(
                        f"Source {each.id!r}, {self.direction.value}[{rank}]: its text holds {SEPARATOR!r}, "
                        "which separates the fields of a Moses n-best list, so it cannot be written as one."
                    )
                total = "" if found.score is None else spelled(found.score, each)
                stream.write(f"{SEPARATOR.join((str(place), text, _features(found, each), total))}\n")

    def _lines(self, source: LineSource) -> Iterator[_Line]:
        name = name_of(source)
        for number, line in numbered_lines(source):
            if line.strip():
                id_, found = self._parse(line, f"{name}, line {number}")
                yield _Line(id_, number, found)

    def _parse(self, line: str, place: str) -> tuple[str, Hypothesis]:
        fields = [each.strip(" ") for each in SPLIT.split(line)]
        if len(fields) < 4:
            raise InputError(
                f"{place}: expected `id ||| text ||| features ||| score`, received {len(fields)} "
                f"field{'' if len(fields) == 1 else 's'}."
            )
        if not SENTENCE.fullmatch(fields[0]):
            raise InputError(
                f"{place}: the id must be the number of a sentence, received {describe(fields[0])}."
            )
        # Marian has alignments and word scores before the features, Moses has alignments behind the total.
        at = next((at for at in range(3, len(fields)) if not fields[at] or _is_number(fields[at])), 3)
        score = finite(fields[at])
        if score is None and fields[at]:
            raise InputError(f"{place}: the score must be a finite number, received {describe(fields[at])}.")
        features = _read_features(" ".join(fields[2:at]))
        return str(int(fields[0])), hypothesis(
            fields[1],
            log_prob=self._log_prob(features, place),
            other_log_prob=_value(features, "OtherLogProb", place),
            length=_whole(features, "Length", LONGEST, place),
            score=score,
            finished=_whole(features, "Finished", 1, place) != 0,
        )

    def _log_prob(self, features: Features, place: str) -> float | None:
        if self.log_prob is not None and self.log_prob not in features:
            raise InputError(
                f"{place}: there is no feature {self.log_prob!r}; there "
                f"{'are: ' + ', '.join(features) if features else 'are none'}."
            )
        return _value(features, self.log_prob or "LogProb", place)


def _features(found: Hypothesis, beams: Beams) -> str:
    """What we know of a hypothesis, as features."""
    log_probs = {"LogProb": found.log_prob, "OtherLogProb": found.other_log_prob}
    known = [f"{name}= {spelled(value, beams)}" for name, value in log_probs.items() if value is not None]
    return " ".join([*known, f"Length= {found.length}", f"Finished= {int(found.finished)}"])


def _read_features(text: str) -> Features:
    """Values by name: `Name= v1 v2` is how Moses writes them, `Name=v` Marian, and `name: v` an old Moses."""
    features: Features = {}
    values: list[str] = []  # of the last name; those before the first, such as alignments, are nobody's
    for word in text.split():
        name, _, value = (word[:-1], ":", "") if word.endswith(":") else word.rpartition("=")
        if name:
            values = features.setdefault(name, [])
        if value:
            values.append(value)
    return features


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _value(features: Mapping[str, list[str]], name: str, place: str) -> float | None:
    """The value of a feature, or None if it is not there."""
    if name not in features:
        return None
    values = features[name]
    value = finite(values[0]) if len(values) == 1 else None
    if value is None:
        raise InputError(
            f"{place}: the feature {name} must be one finite number, received {describe(' '.join(values))}."
        )
    return value


def _whole(features: Mapping[str, list[str]], name: str, most: int, place: str) -> int | None:
    """The value of a feature that counts, or None if it is not there."""
    value = _value(features, name, place)
    if value is None:
        return None
    if not (value.is_integer() and 0 <= value <= most):
        raise InputError(
            f"{place}: the feature {name} must be a whole number between 0 and {most:,}, received {value:g}."
        )
    return int(value)
