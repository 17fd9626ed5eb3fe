"""Moses n-best lists, which Marian writes too: `id ||| text ||| features ||| score`, one a line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import IO, TYPE_CHECKING, ClassVar

from bidibeam.errors import InputError
from bidibeam.interchange.formats import (
    LONGEST,
    OneDirection,
    make_hypothesis,
    one_line,
    parse_finite,
    spell_number,
)
from bidibeam.interchange.on_disk import IdsOnDisk
from bidibeam.interchange.text_lines import LineSource, describe, open_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from bidibeam.hypotheses import Beams, Hypothesis

SEPARATOR = " ||| "
SPLIT = re.compile(r" \|\|\|(?= |$)")
SENTENCE = re.compile(r"[0-9]{1,18}")
FIRST_LINE = re.compile(r" *[0-9]+ \|\|\| .*\|\|\|")


@dataclass(frozen=True)
class Moses(OneDirection):
    """Moses n-best lists: sentence number, text, features, total score.

    The number counts sentences from 0; where a source has no hypotheses, its number is left out. The total
    is the score, or empty where none is known. Our own features are LogProb, OtherLogProb, Length and
    Finished; others are passed over.

    Args:
        log_prob: The feature to read as the log-probability; LogProb, if there is one, unless given.
    """

    log_prob: str | None = None

    endings: ClassVar[tuple[str, ...]] = (".moses", ".nbest")
    has_tokens: ClassVar[bool | None] = False
    carries: ClassVar[tuple[str, ...]] = ("log_prob", "other_log_prob", "length", "score", "finished")

    @staticmethod
    def looks_like(lines: Sequence[str]) -> bool:
        """Whether the first line begins with a number and has the separators."""
        return bool(lines) and FIRST_LINE.match(lines[0]) is not None

    def read(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[Beams]:  # noqa: ARG002
        """Read a file one source at a time: the lines that follow each other with the same id."""
        lines = open_lines(source)
        ids = IdsOnDisk()
        parsed = ((number, *self._parse(line, lines.place(number))) for number, line in lines if line.strip())
        for id_, group in groupby(parsed, key=itemgetter(1)):
            numbers, _, hypotheses = zip(*group, strict=True)
            if (earlier := ids.find_earlier(id_, numbers[0])) is not None:
                raise InputError(
                    f"{lines.place(numbers[0])}: the id {id_} comes back, after its list began on line "
                    f"{earlier} and ended. Keep the lines of each id together; a file holds each list once."
                )
            yield self.make_beams(id_, hypotheses, line=numbers[0])

    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write one list of each source, numbered by its place."""
        for place, each in enumerate(beams):
            for rank, hypothesis in enumerate(self.list_to_write(each)):
                text = one_line(hypothesis.text)
                if SEPARATOR in f" {text} ":
                    raise InputError(
                        f"Source {each.id!r}, {self.direction.value}[{rank}]: its text holds {SEPARATOR!r}, "
                        "which separates the fields of a Moses n-best list, so it cannot be written as one."
                    )
                features = f"Length= {hypothesis.length} Finished= {int(hypothesis.finished)}"
                for name, value in (
                    ("OtherLogProb", hypothesis.other_log_prob),
                    ("LogProb", hypothesis.log_prob),
                ):
                    if value is not None:
                        features = f"{name}= {spell_number(value, each)} {features}"
                total = "" if hypothesis.score is None else spell_number(hypothesis.score, each)
                stream.write(f"{SEPARATOR.join((str(place), text, features, total))}\n")

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
        at = next(
            (at for at, each in enumerate(fields) if at > 2 and (not each or parse_finite(each) is not None)),
            3,
        )
        score = parse_finite(fields[at])
        if score is None and fields[at]:
            raise InputError(f"{place}: the score must be a finite number, received {describe(fields[at])}.")
        features = _read_features(" ".join(fields[2:at]))
        if self.log_prob is not None and self.log_prob not in features:
            raise InputError(
                f"{place}: there is no feature {self.log_prob!r}; there "
                f"{'are: ' + ', '.join(features) if features else 'are none'}."
            )
        return str(int(fields[0])), make_hypothesis(
            fields[1],
            log_prob=_read_value(features, self.log_prob or "LogProb", place),
            other_log_prob=_read_value(features, "OtherLogProb", place),
            length=_read_count(features, "Length", LONGEST, place),
            score=score,
            finished=_read_count(features, "Finished", 1, place) != 0,
        )


def _read_features(text: str) -> dict[str, list[str]]:
    """Values by name: `Name= v1 v2` is how Moses writes them, `Name=v` Marian, and `name: v` an old Moses."""
    features: dict[str, list[str]] = {}
    values: list[str] = []  # of the last name; those before the first, such as alignments, are nobody's
    for word in text.split():
        name, _, value = (word[:-1], ":", "") if word.endswith(":") else word.rpartition("=")
        if name:
            values = features.setdefault(name, [])
        if value:
            values.append(value)
    return features


def _read_value(features: Mapping[str, list[str]], name: str, place: str) -> float | None:
    """The value of a feature, or None if it is not there."""
    if name not in features:
        return None
    values = features[name]
    value = parse_finite(values[0]) if len(values) == 1 else None
    if value is None:
        raise InputError(
            f"{place}: the feature {name} must be one finite number, received {describe(' '.join(values))}."
        )
    return value


def _read_count(features: Mapping[str, list[str]], name: str, most: int, place: str) -> int | None:
    """The value of a feature that counts, or None if it is not there."""
    value = _read_value(features, name, place)
    if value is None:
        return None
    if not (value.is_integer() and 0 <= value <= most):
        raise InputError(
            f"{place}: the feature {name} must be a whole number between 0 and {most:,}, received {value:g}."
        )
    return int(value)
