"""Sensitivity: how much BidiA's settings matter, one changed at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from bidibeam.evaluation.analyses.evidence import Evidence, spread
from bidibeam.similarities.bleu import SMOOTHINGS, Bleu, brevity_penalties
from bidibeam.similarities.transport import to_similarities
from bidibeam.similarities.wmd import FORMS, WEIGHTS, Wmd
from bidibeam.strategies.bidia import Agreement, Answer, BidiA
from bidibeam.strategies.settings import StrategySettings
from bidibeam.strategies.tuning import PENALTIES

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams, Hypothesis
    from bidibeam.protocols import Matrix

    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]
    Recipe = Callable[[Floats, Mapping[str, Any]], Matrix]

OPTIONS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "bleu_t": {"smoothing": tuple(SMOOTHINGS), "order": (1, 2, 3, 4)},
    "wmd_t": {"form": tuple(FORMS), "weights": WEIGHTS, "remove_stop_words": (True, False)},
}
"""By similarity, its own settings besides T and the values that are tried."""
BIDIA_OPTIONS: Mapping[str, Sequence[str]] = {"answer": get_args(Answer), "agreement": get_args(Agreement)}
LEVELS = ("longest", "random")
"""Systems that look at length alone, or at nothing."""
SCORES = ("bleu", "length_ratio", "distinct-2")


def sensitivity(evidence: Evidence) -> dict[str, Any]:
    """Scores of BidiA on the same two beams for values of each of its settings.

    Beside them stand those of the longest hypothesis and of any, where these systems had the same N_B. WMD_T
    is left out where there are no word vectors, or no system that uses it; so are values that need
    log-probabilities where the beams have none.

    Raises:
        InputError: If there are no beams of both directions, or a reference is missing.
    """
    system, tally = evidence.agreeing, evidence.tally
    rows = []
    for similarity in OPTIONS:
        name = f"bidia {similarity}"
        if name not in evidence.systems or (similarity == "wmd_t" and evidence.space is None):
            continue
        variants = [each for each in variants_of(similarity, evidence.max_length) if _can(each, system.beams)]
        replies = replies_of(evidence, variants, system.beams)
        scores = {key: tally.scores(each, SCORES) for key, each in replies.items()}
        rows += [_row(name, each, scores[each.key]) for each in variants]
    for name in LEVELS:
        level = evidence.systems.get(name, {}).get(system.beam_size)
        if level is not None:
            about = Variant("baseline", name, StrategySettings(name), is_default=False)
            rows.append(_row(name, about, tally.scores(level.replies, SCORES)))
    return {"beam_size": system.beam_size, "rows": rows}


@dataclass(frozen=True)
class Variant:
    """BidiA with one setting at one of its values.

    Attributes:
        option: The setting's name; T is a similarity's maximum length.
        value: As tables show it.
        settings: The strategy; what is as always is not among its options.
        is_default: Whether the value is the default one.
    """

    option: str
    value: str
    settings: StrategySettings
    is_default: bool

    @property
    def key(self) -> str:
        """Equal where settings are."""
        settings = self.settings
        return repr((settings.similarity, settings.options, settings.similarity_options))

    @property
    def is_derived(self) -> bool:
        """Whether its similarities follow from what the default settings compared."""
        settings = self.settings
        return "answer" not in settings.options and settings.similarity_options.keys() <= {
            "max_length",
            "form",
        }


def variants_of(similarity: str, max_length: int) -> Iterator[Variant]:
    """Every value of every setting that BidiA has with a similarity, T first: those that tuning tries, too.

    Args:
        similarity: "bleu_t" or "wmd_t".
        max_length: T unless it is that which changes.
    """
    usual = StrategySettings(similarity=similarity)
    for length in sorted({*PENALTIES, max_length}):
        options = {} if length == max_length else {"max_length": length}
        yield Variant(
            "T", str(length), replace(usual, similarity_options=options), is_default=length == max_length
        )
    yield Variant("T", "none", replace(usual, similarity=similarity.removesuffix("_t")), is_default=False)
    for option, value, changed in _changes(Bleu if similarity == "bleu_t" else Wmd, OPTIONS[similarity]):
        settings = replace(usual, similarity_options=changed)
        yield Variant(option, str(value).lower(), settings, is_default=not changed)
    for option, value, changed in _changes(BidiA, BIDIA_OPTIONS):
        yield Variant(option, value, replace(usual, options=changed), is_default=not changed)


def _changes(of: type, values: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Each value of each field of a dataclass, and the options that make it so; none if it is so anyway."""
    defaults = {each.name: each.default for each in fields(of)}
    for option, tried in values.items():
        for value in tried:
            yield option, value, {} if value == defaults[option] else {option: value}


def _can(variant: Variant, beams: Sequence[Beams]) -> bool:
    """Whether the beams have log-probabilities, if those are needed."""
    return not variant.settings.requirements.log_prob or all(
        hypothesis.log_prob is not None for line in beams for hypothesis in line.reverse
    )


def _row(system: str, variant: Variant, scores: Mapping[str, float]) -> dict[str, Any]:
    about = {"option": variant.option, "value": variant.value, "is_default": variant.is_default}
    return {"system": system, **about, **scores}


def replies_of(
    evidence: Evidence, variants: Sequence[Variant], beams: Sequence[Beams]
) -> dict[str, list[str]]:
    """By key, what variants of one similarity choose.

    Comparing takes most of the time, and T, WMD's form and how agreement is counted come after it: variants
    that differ in those alone share what was compared.
    """
    different = {variant.key: variant for variant in variants}
    derived = {key: variant for key, variant in different.items() if variant.is_derived}
    is_wmd = any("wmd" in variant.settings.similarity for variant in variants)
    compare = _wmd(evidence) if is_wmd else _bleu()

    def chosen(line: Beams) -> list[str]:
        if not len(line.regular) or not len(line.reverse):
            nothing = Told(np.zeros((len(line.regular), len(line.reverse))))
            return [BidiA(nothing).rank(line).text] * len(derived)
        compared = Compared(line, compare(line), evidence.max_length)
        return [compared.reply(variant.settings) for variant in derived.values()]

    columns = zip(*spread(chosen, beams, workers=evidence.workers), strict=True)
    replies = {key: list(column) for key, column in zip(derived, columns, strict=True)}
    for key, variant in different.items():
        if key not in replies:
            replies[key] = evidence.choose(variant.settings, beams)
    return replies


def _bleu() -> Callable[[Beams], Recipe]:
    bleu = Bleu()

    def compare(line: Beams) -> Recipe:
        compared = bleu.pairwise(line.regular.hypotheses, line.reverse.hypotheses)
        return lambda penalties, _: compared * penalties[:, np.newaxis]

    return compare


def _wmd(evidence: Evidence) -> Callable[[Beams], Recipe]:
    wmd = Wmd(evidence.vectors)

    def compare(line: Beams) -> Recipe:
        distances = wmd.distances(line.regular.hypotheses, line.reverse.hypotheses)
        return lambda penalties, options: to_similarities(
            distances, penalties, FORMS[options.get("form", wmd.form)]
        )

    return compare


class Compared:
    """Two beams that were compared, neither empty.

    Args:
        line: The beams.
        recipe: Makes similarities of what was compared.
        max_length: T where settings do not say otherwise.
    """

    def __init__(self, line: Beams, recipe: Recipe, max_length: int) -> None:
        regular = line.regular.hypotheses
        self._line = line
        self._recipe = recipe
        self._max_length = max_length
        self._lengths = np.array([len(hypothesis.tokens) for hypothesis in regular], dtype=np.int32)
        finished = [place for place, hypothesis in enumerate(regular) if hypothesis.finished]
        self._allowed = finished or list(range(len(regular)))

    def reply(self, settings: StrategySettings) -> str:
        """What BidiA answers: with the closest pair at once, and by its own means where more counts."""
        matrix = self._recipe(self._penalties(settings), settings.similarity_options)  # (regular, reverse)
        if settings.options:
            return BidiA(Told(matrix), **settings.options).rank(self._line).text
        best = int(matrix[self._allowed].max(axis=1).argmax())  # the first of equal ones
        return self._line.regular[self._allowed[best]].text

    def _penalties(self, settings: StrategySettings) -> Floats:
        if not settings.similarity.endswith("_t"):
            return np.ones(len(self._lengths))
        max_length = settings.similarity_options.get("max_length", self._max_length)
        return brevity_penalties(self._lengths, max_length)


@dataclass(frozen=True)
class Told:
    """A similarity that was told its answer."""

    matrix: Matrix

    def pairwise(self, judged: Sequence[Hypothesis], others: Sequence[Hypothesis]) -> Matrix:  # noqa: ARG002
        """The answer."""
        return self.matrix
