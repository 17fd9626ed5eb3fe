"""Why a decoder answers as it does: both beams, how similar they are, and each strategy's choice."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Ranked
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.bidia import name_similarity, similarity_matrix
from bidibeam.strategies.ranking import check_requirements
from bidibeam.strategies.reasons import explain_choice
from bidibeam.strategies.settings import StrategySettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from bidibeam.protocols import Matrix, Similarity, Strategy

ASKED = ("vbs", "reverse-vbs", "bidis", "bidia", "mbr", "longest")
"""The strategies that are asked besides the decoder's own; others that were tuned are asked too."""


@dataclass(frozen=True)
class Choice:
    """What a strategy chooses from two beams, and why.

    Attributes:
        system: The strategy's name as tables have it, such as "bidia bleu_t".
        ranked: The hypothesis, whose beam it is from, its place there, and what the strategy ranked by.
        reason: A sentence with the numbers that decided.
        strategy: The strategy itself.
    """

    system: str
    ranked: Ranked
    reason: str
    strategy: Strategy = field(repr=False)

    @property
    def text(self) -> str:
        """The reply."""
        return self.ranked.hypothesis.text

    def __str__(self) -> str:
        return f"{self.system}: {self.text!r}, since {self.reason}"


@dataclass(frozen=True, eq=False)
class Explanation:
    """Both beams of a source, how similar they are, and what each strategy chooses from them.

        explanation = load_decoder().explain("i love pizza.")
        print(explanation)  # each strategy's choice, and why
        explanation.plot("pizza.svg")
        explanation  # at the end of a notebook's cell: everything as a table

    Attributes:
        beams: The source and both beams, each hypothesis with its numbers.
        system: The decoder's own strategy.
        choices: What each strategy chooses, the decoder's own first.
        similarity: What `matrix` compares by.
        notes: Sentences on what is missing, or was searched for this explanation alone.
        signature: That of the decoder.
    """

    beams: Beams
    system: str
    choices: tuple[Choice, ...]
    similarity: Similarity
    notes: tuple[str, ...] = ()
    signature: str = ""

    @property
    def source(self) -> str:
        """The source."""
        return self.beams.source

    @property
    def reply(self) -> str:
        """What the decoder answers; empty where nothing was found."""
        return next((choice.text for choice in self.choices if choice.system == self.system), "")

    @property
    def similarity_name(self) -> str:
        """What signatures call the similarity."""
        return name_similarity(self.similarity)

    @cached_property
    def matrix(self) -> Matrix:
        """How similar each regular hypothesis is to each reverse one, (regular, reverse)."""
        return similarity_matrix(
            self.similarity, self.beams.regular.hypotheses, self.beams.reverse.hypotheses
        )

    @cached_property
    def matrix_without_length(self) -> Matrix | None:
        """The same without the length term BP_T; None if the similarity has none."""
        plain = getattr(self.similarity, "without_length", None)
        hypotheses, references = self.beams.regular.hypotheses, self.beams.reverse.hypotheses
        return None if plain is None else similarity_matrix(plain, hypotheses, references)

    def choosers(self, direction: Direction) -> dict[int, list[str]]:
        """Who chooses each place of one beam, by name."""
        names: dict[int, list[str]] = {}
        for choice in self.choices:
            if choice.ranked.direction is direction:
                names.setdefault(choice.ranked.place, []).append(choice.system)
        return names

    def pairs(self) -> dict[tuple[int, int], list[str]]:
        """Who chooses by each pair of places, (regular, reverse), where a strategy compares."""
        names: dict[tuple[int, int], list[str]] = {}
        for choice in self.choices:
            entry = choice.ranked
            if entry.partner is not None:
                pair = entry.place, entry.partner
                pair = pair if entry.direction is Direction.REGULAR else pair[::-1]
                names.setdefault(pair, []).append(choice.system)
        return names

    def to_dict(self) -> dict[str, Any]:
        """All of it as JSON takes it, which the page shows and ranks by; ranks are counted from 1."""
        from bidibeam.decoding.documents import make_document  # brings every strategy

        return make_document(self)

    def plot(self, path: Path | str | None = None) -> Figure:
        """Draws both beams and the matrix between them, winners marked.

        Args:
            path: Where to write the figure, whose suffix is its format, such as .svg, .png or .pdf; None to
                write nothing and use the figure that is returned.

        Raises:
            InputError: If matplotlib is not installed, or does not write such files.
        """
        from bidibeam.decoding.views import draw_explanation

        return draw_explanation(self, None if path is None else Path(path))

    def __str__(self) -> str:
        lines = [f"{self.source!r} is answered with {self.reply!r}."]
        for direction in Direction:
            beam = [
                f"{place:4}  {'' if each.score is None else f'{each.score:.2f}':>7}  {each.text}"
                for place, each in enumerate(self.beams.of(direction), start=1)
            ]
            lines += [f"{direction.value} beam, rank and score:", *beam] if beam else []
        return "\n".join([*lines, *map(str, self.choices), *self.notes])

    def _repr_html_(self) -> str:
        """What a notebook shows: tables, which need nothing from elsewhere."""
        from bidibeam.decoding.views import explanation_html

        return explanation_html(self)


def explain_beams(
    beams: Beams,
    strategy: Strategy,
    *,
    max_length: int | None = None,
    tuned: Mapping[str, Mapping[str, Any]] | None = None,
    notes: Sequence[str] = (),
    signature: str = "",
) -> Explanation:
    """Asks the strategy, and others besides, to choose from the same beams.

    `max_length` is T, for a similarity with a length term where the strategy has no similarity of its own;
    `tuned` are options of the others, by system.
    """
    own, similarity = system_of(strategy), getattr(strategy, "similarity", None)
    asked, bidia, tuned = {own: strategy}, strategy, tuned or {}
    first: dict[str, str] = {name: name for name in ASKED}  # system of each strategy
    for name in tuned:
        first.setdefault(name.split()[0], name)
    for name in first.values():
        settings = StrategySettings.named(name).with_tuned(tuned)
        if similarity is not None and settings.compares and name in ASKED:
            settings = replace(settings, similarity=similarity)
        other = settings.build(max_length=max_length)
        bidia = other if name == "bidia" else bidia
        asked.setdefault(system_of(other), other)
    choices: list[Choice] = []
    unable: list[str] = []
    for system, each in asked.items():
        try:
            if each is not strategy:  # which answers whatever it was given
                check_requirements(beams, each.requirements, system)
            ranking = each.rank(beams)
        except InputError:
            unable.append(system)
            continue
        if ranking.entries:
            choices.append(Choice(system, ranking.entries[0], explain_choice(each, beams, ranking), each))
    if unable:
        notes = [*notes, f"Not asked, since something that they need is missing: {', '.join(unable)}."]
    compared: Any = bidia
    return Explanation(beams, own, tuple(choices), compared.similarity, tuple(notes), signature)


def system_of(strategy: Strategy) -> str:
    """The name that tables have for a strategy, such as "bidia bleu_t either"."""
    known = dict(strategy.signature.facts)
    name = known.get("strategy", type(strategy).__name__)
    is_ours = name in STRATEGIES.names()
    return StrategySettings(name, known, known.get("similarity")).untuned if is_ours else name
