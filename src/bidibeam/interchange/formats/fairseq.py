"""What `fairseq-generate` and `fairseq-interactive` print: lines S-, T-, H-, D- and P-, each with an id.

As of fairseq 0.12.2 (`fairseq_cli/generate.py`, `sequence_generator.py`): the score in H- and D- is the
log-probability over the length to the power of --lenpen; P- has the log-probability of each token that the
model wrote, before BPE was undone, the end token included. Both are divided by log(2) to be printed, P- with
four decimals. No hypothesis is printed without an end token, which is forced at the maximum length.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import IO, TYPE_CHECKING, ClassVar

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.interchange.formats import (
    OneDirection,
    check_source,
    make_hypothesis,
    one_line,
    parse_finite,
    spell_number,
)
from bidibeam.interchange.on_disk import IdsOnDisk, OnDisk
from bidibeam.interchange.text_lines import LineSource, describe, open_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

LOG_2 = math.log(2)
LINE = re.compile(r"([STHDP])-([0-9]{1,18})(?:\t(.*))?")


@dataclass(frozen=True)
class Fairseq(OneDirection):
    """fairseq's output, sorted by id; lines that are not of a sample, such as logs, are passed over."""

    endings: ClassVar[tuple[str, ...]] = (".fairseq", ".out")
    has_tokens: ClassVar[bool | None] = True
    carries: ClassVar[tuple[str, ...]] = ("source", "reference", "tokens", "log_prob", "length", "score")

    @staticmethod
    def looks_like(lines: Sequence[str]) -> bool:
        """Whether one of the lines is that of a sample."""
        return any((match := LINE.fullmatch(line)) is not None and match[3] is not None for line in lines)

    def read(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[Beams]:
        """Read a file, then give its sources by rising id: fairseq sorts them by length."""
        lines = open_lines(source)
        samples, ids = OnDisk[Beams](), IdsOnDisk()
        beams, hypotheses, other = None, list[Hypothesis](), ""
        for number, line in lines:
            match = LINE.fullmatch(line)
            if match is None:
                other = other or line.strip()
                continue
            kind, id_, text, place = match[1], str(int(match[2])), match[3] or "", lines.place(number)
            if beams is None or id_ != beams.id:
                if beams is not None:
                    samples.add(self._complete(beams, hypotheses), int(beams.id))
                if (earlier := ids.find_earlier(id_, number)) is not None:
                    raise InputError(
                        f"{place}: the id {id_} comes back, after its lines began on line {earlier} and "
                        "ended. Read the output of one run at a time."
                    )
                beams, hypotheses = Beams(id_, "", line=number), []
            if kind == "S":
                beams = replace(beams, source=text)
            elif kind == "T":
                beams = replace(beams, references=(text,))
            else:
                _read_hypothesis(kind, text, hypotheses, place)
        if beams is not None:
            samples.add(self._complete(beams, hypotheses), int(beams.id))
        elif other:
            raise InputError(
                f"{lines.name} has no line of fairseq's (H-0, D-0, ...) but such as {describe(other)}: name "
                "another `from_format`, or leave it out."
            )
        for each in samples:
            check_source(each, lines.place(each.line), ids=None, allow_empty=allow_empty)
            yield each

    def _complete(self, beams: Beams, hypotheses: Iterable[Hypothesis]) -> Beams:
        return beams.with_hypotheses(self.direction, NBest(tuple(hypotheses)))

    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write one list of each source, numbered by its place.

        Of the log-probabilities of its tokens, P-, only the sum is known: each gets an equal share.
        """
        for place, each in enumerate(beams):
            stream.write(f"S-{place}\t{one_line(each.source)}\n")
            if each.reference is not None:
                stream.write(f"T-{place}\t{one_line(each.reference)}\n")
            for rank, hypothesis in enumerate(self.list_to_write(each)):
                where = f"Source {each.id!r}, {self.direction.value}[{rank}]"
                if hypothesis.score is None:
                    raise InputError(
                        f'{where} has no "score", and fairseq\'s H- lines need one; moses and mbrs do not.'
                    )
                for token in hypothesis.tokens:
                    if not token or " " in token or one_line(token) != token:
                        raise InputError(
                            f"{where}: the token {token!r} cannot be written, for spaces separate tokens in "
                            "fairseq's output."
                        )
                score, tokens = _spell_in_base_2(hypothesis.score, each), " ".join(hypothesis.tokens)
                stream.write(
                    f"H-{place}\t{score}\t{tokens}\nD-{place}\t{score}\t{one_line(hypothesis.text)}\n"
                )
                if hypothesis.log_prob is not None:
                    steps = max(hypothesis.length, 1)
                    share = _spell_in_base_2(hypothesis.log_prob / steps, each)
                    stream.write(f"P-{place}\t{' '.join([share] * steps)}\n")


def _read_hypothesis(kind: str, text: str, hypotheses: list[Hypothesis], place: str) -> None:
    """Read an H- line, which begins a hypothesis, or a D- or P- line, which says more of the last one."""
    if kind == "H":
        score, _, written = text.partition("\t")
        tokens = tuple(token for token in written.split(" ") if token)
        hypotheses.append(make_hypothesis(written, tokens=tokens, score=_parse_number(score, place) * LOG_2))
    elif not hypotheses:
        raise InputError(f"{place}: this {kind}- line stands before any H- line of its id.")
    elif kind == "D":
        hypotheses[-1] = hypotheses[-1]._replace(text=text.partition("\t")[2])
    elif log_probs := [_parse_number(each, place) for each in text.split()]:
        log_prob = math.fsum(log_probs) * LOG_2
        hypotheses[-1] = hypotheses[-1]._replace(log_prob=log_prob, length=len(log_probs))


def _parse_number(text: str, place: str) -> float:
    value = parse_finite(text)
    if value is None:
        raise InputError(f"{place}: expected a finite number, received {describe(text)}.")
    return value


def _spell_in_base_2(log_prob: float, beams: Beams) -> str:
    """A logarithm as fairseq prints it, but never as 1e-05: its own readers look for digits and a point."""
    return format(Decimal(spell_number(log_prob / LOG_2, beams)), "f")
