"""Sensitivity: how much BidiA's settings matter, one changed at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from bidibeam.evaluation.systems import Evidence
from bidibeam.similarities.bleu import MEDIAN, SMOOTHINGS, Bleu, brevity_penalties, find_length
from bidibeam.similarities.transport import to_similarities
from bidibeam.similarities.wmd import FORMS, WEIGHTS, Wmd
from bidibeam.strategies.bidia import Agreement, Answerer, BidiA
from bidibeam.strategies.ranking import map_in_threads
from bidibeam.strategies.settings import StrategySettings
from bidibeam.strategies.tuning import PENALTIES

if TYPE_CHECKING:
    from bidibeam.hypotheses import Beams
    from bidibeam.protocols import Matrix

    Floats = np.ndarray[tuple[int], np.dtype[np.float64]]

OPTIONS: Mapping[str, Mapping[str, Sequence[Any]]] = {
    "bleu_t": {"smoothing": tuple(SMOOTHINGS), "order": (1, 2, 3, 4)},
    "wmd_t": {"form": tuple(FORMS), "weights": WEIGHTS, "remove_stop_words": (True, False)},
}
"""By similarity, its own settings besides T and the values that are tried."""
BIDIA_OPTIONS: Mapping[str, Sequence[str]] = {"answer": get_args(Answerer), "agreement": get_args(Agreement)}
LEVELS = ("longest", "random")
"""Systems that look at length alone, or at nothing."""
SENSITIVITY_SCORES = ("length_ratio", "distinct-2")


def sensitivity(evidence: Evidence) -> dict[str, Any]:
    """Scores BidiA on the same two beams for values of each of its settings.

    Beside them stand the scores of the longest hypothesis and of a random one, where these systems had the
    same N_B. WMD_T is left out where there are no word vectors, or no system that uses it; so are values that
    need log-probabilities where the beams have none.
    """
    system = evidence.agreeing
    rows: list[dict[str, Any]] = []
    for similarity in OPTIONS:
        name = f"bidia {similarity}"
        if name not in evidence.systems or (similarity == "wmd_t" and evidence.load_vectors is None):
            continue
        variants = [
            variant
            for variant in list_variants(similarity, evidence.max_length)
            if not variant.settings.requirements.log_prob
            or all(each.log_prob is not None for line in system.beams for each in line.reverse)
        ]
        replies = choose_replies(evidence, variants, system.beams)
        scores = {key: evidence.scores(each, SENSITIVITY_SCORES) for key, each in replies.items()}
        rows += [
            {
                "system": name,
                "option": variant.option,
                "value": variant.value,
                "is_default": variant.is_default,
                **scores[variant.key],
            }
            for variant in variants
        ]
    for name in LEVELS:
        level = evidence.systems.get(name, {}).get(system.beam_size)
        if level is not None:
            about = {"system": name, "option": "baseline", "value": name, "is_default": False}
            rows.append({**about, **evidence.scores(level.replies, SENSITIVITY_SCORES)})
    return {"metric": evidence.metric.name, "beam_size": system.beam_size, "rows": rows}


@dataclass(frozen=True)
class Variant:
    """BidiA with one setting at one of its values; the option "T" is a similarity's maximum length."""

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
        known = {"max_length", "form"}
        return "answer" not in settings.options and settings.similarity_options.keys() <= known


def list_variants(similarity: str, max_length: int | None) -> Iterator[Variant]:
    """Yields every value of every setting that BidiA has with a similarity; T as tuning tries it."""
    usual = StrategySettings(similarity=similarity)
    if max_length is None:
        yield Variant("T", MEDIAN, usual, is_default=True)
    for length in sorted({*PENALTIES, *filter(None, [max_length])}):
        options = {} if length == max_length else {"max_length": length}
        settings = replace(usual, similarity_options=options)
        yield Variant("T", str(length), settings, is_default=length == max_length)
    yield Variant("T", "none", replace(usual, similarity=similarity.removesuffix("_t")), is_default=False)
    for option, value, changed in _changes(Bleu if similarity == "bleu_t" else Wmd, OPTIONS[similarity]):
        settings = replace(usual, similarity_options=changed)
        yield Variant(option, str(value).lower(), settings, is_default=not changed)
    for option, value, changed in _changes(BidiA, BIDIA_OPTIONS):
        yield Variant(option, value, replace(usual, options=changed), is_default=not changed)


def _changes(of: type, values: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yields each value of each field of a dataclass, and the options that make it so; none for a default."""
    defaults = {each.name: each.default for each in fields(of)}
    for option, tried in values.items():
        for value in tried:
            yield option, value, {} if value == defaults[option] else {option: value}


def choose_replies(
    evidence: Evidence, variants: Sequence[Variant], beams: Sequence[Beams]
) -> dict[str, list[str]]:
    """Returns by key what variants of one similarity choose.

    Comparing takes most of the time, and T, WMD's form and how agreement is counted come after it: variants
    that differ in those alone share what was compared.
    """
    different = {variant.key: variant for variant in variants}
    derived = {key: variant for key, variant in different.items() if variant.is_derived}
    is_wmd = any("wmd" in variant.settings.similarity for variant in variants)
    wmd = Wmd(evidence.vectors) if is_wmd else None
    compare = Bleu().pairwise if wmd is None else wmd.distances

    def choose(line: Beams) -> list[str]:
        regular = line.regular.hypotheses
        compared = compare(regular, line.reverse.hypotheses)  # (regular, reverse)
        lengths = np.array([len(hypothesis.tokens) for hypothesis in regular], dtype=np.int32)
        reverse_lengths = np.array([len(each.tokens) for each in line.reverse], dtype=np.int32)
        replies = []
        for settings in (variant.settings for variant in derived.values()):
            options = settings.similarity_options
            wanted = options.get("max_length", evidence.max_length or MEDIAN)
            max_length = find_length(wanted, reverse_lengths)
            has_penalty = settings.similarity.endswith("_t")
            penalties = brevity_penalties(lengths, max_length) if has_penalty else np.ones(len(lengths))
            if wmd is None:
                matrix = compared * penalties[:, np.newaxis]  # (regular, reverse)
            else:
                matrix = to_similarities(compared, penalties, FORMS[options.get("form", wmd.form)])
            replies.append(BidiA(KnownSimilarity(matrix), **settings.options).rank(line).text)
        return replies

    columns = zip(*map_in_threads(choose, beams, evidence.workers), strict=True)
    replies = {key: list(column) for key, column in zip(derived, columns, strict=True)}
    for key, variant in different.items():
        if key not in replies:
            rankings = evidence.rank(variant.settings, beams, replies_only=True)
            replies[key] = [ranking.text for ranking in rankings]
    return replies


@dataclass(frozen=True)
class KnownSimilarity:
    """A similarity whose matrix is known."""

    matrix: Matrix

    def pairwise(self, *_: object, **__: object) -> Matrix:
        """Returns the matrix."""
        return self.matrix
