"""Terms of ours, each defined in a sentence where a report first uses it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import NamedTuple

from bidibeam.reporting.blocks import Examples, Section


class Term(NamedTuple):
    """A term and what it means; the pattern finds it in a text, if the term itself does not."""

    name: str
    meaning: str
    pattern: str = ""

    def is_in(self, text: str) -> bool:
        """Whether a text uses the term."""
        pattern = self.pattern or rf"(?<![\w-]){re.escape(self.name)}(?![\w-])"
        return re.search(pattern, text) is not None


TERMS = (
    Term("N_B", "the number of hypotheses that a system chooses from, the size of its beam"),
    Term(
        "vbs",
        "vanilla beam search, the likeliest hypothesis of the regular model, which writes left to right",
        r"(?i)(?<![\w-])vbs(?![\w-])",
    ),
    Term("vbs-tuned", "vbs with its length settings tuned on validation, the baseline to beat"),
    Term("reverse-vbs", "vbs of the reverse model, which writes right to left"),
    Term("bidis", "adds the reverse model's log-probability, times lambda, to the regular one's"),
    Term("bidia", "takes the hypothesis that agrees most with a hypothesis of the other direction's beam"),
    Term("loglinear", "weighs both log-probabilities, length and agreement, by weights tuned on validation"),
    Term("mbr", "takes the hypothesis that agrees most with the rest of one beam (minimum Bayes risk)"),
    Term("longest", "takes the longest hypothesis, to show what length alone does", r"(?m)^longest$"),
    Term("random", "takes any hypothesis, to show what chance does", r"(?m)^random$"),
    Term("oracle", "takes the hypothesis nearest the reference, the most that choosing could reach"),
    Term(
        "control",
        "the same strategy and tuning with a second regular network in the reverse one's place",
        r"(?<![\w-])control(?![\w-])",
    ),
    Term("either", "in a bidia, hypotheses of both beams may answer", r"bidia \S+( tuned)? either"),
    Term(
        "expected",
        "in a system's name, agreement is a mean weighted by probability",
        r"\w expected(?![\w-])",
    ),
    Term("both", "in a loglinear, the hypotheses of both beams may answer", r"loglinear( \w+)? both"),
    Term(
        "BLEU_T", "n-grams that two hypotheses share, times a penalty for fewer tokens than T", "(?i)bleu_t"
    ),
    Term("WMD_T", "closeness by word mover's distance, times a penalty for fewer tokens than T", "(?i)wmd_t"),
    Term(
        "T",
        "a number of tokens, the most that a reply may have or what a penalty asks for",
        r"(?m)(?<![\w-])T(?= =| \*|,|\)|$)",
    ),
    Term("V", "the number of tokens in the vocabulary", r"(?<![\w-])V = "),
    Term("headroom", "what the oracle gains over vbs-tuned, of which a system captures a share"),
    Term("distinct-n", "different n-grams over all words of the replies", r"distinct-[n\d]"),
    Term("length ratio", "words of the replies over words of the references"),
    Term("SER", "sequence error rate, the percentage of replies that equal no reference"),
)
"""In the order in which they are explained."""


def define_terms(texts: Mapping[str, str]) -> dict[str, list[Term]]:
    """Returns, for each of some texts in their order, the terms that it, or what defines them, uses first."""
    waiting, found = [*TERMS], {}
    for name, text in texts.items():
        used: list[Term] = []
        while more := [term for term in waiting if term not in used and term.is_in(text)]:
            used += more
            text = "\n".join(term.meaning for term in more)
        found[name] = [term for term in TERMS if term in used]
        waiting = [term for term in waiting if term not in used]
    return found


def read_section(section: Section) -> str:
    """Returns all text of a section but that of examples, which corpora and systems wrote."""
    return "\n".join(_read((section.title, section.sentence, section.blocks)))


def _read(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif is_dataclass(value) and not isinstance(value, Examples):
        yield from _read([getattr(value, field.name) for field in fields(value)])
    elif isinstance(value, Iterable):
        for one in value:
            yield from _read(one)
