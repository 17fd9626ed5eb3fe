"""The sections of a report: each a function of results, which answers None if they lack its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bidibeam.errors import InputError
from bidibeam.reporting.blocks import Section
from bidibeam.reporting.results import Results
from bidibeam.reporting.sections.cost import cost
from bidibeam.reporting.sections.diversity import diversity
from bidibeam.reporting.sections.examples import examples
from bidibeam.reporting.sections.positions import positions
from bidibeam.reporting.sections.provenance import provenance
from bidibeam.reporting.sections.quality import headroom, quality
from bidibeam.reporting.sections.ranks import ranks
from bidibeam.reporting.sections.sensitivity import sensitivity
from bidibeam.reporting.sections.summary import summary

SECTIONS: tuple[Callable[[Results], Section | None], ...] = (
    summary,
    quality,
    headroom,
    ranks,
    diversity,
    positions,
    cost,
    sensitivity,
    provenance,
    examples,
)
"""In the order of the report."""


def sections_of(results: Results) -> list[Section]:
    """The sections that results have numbers for.

    Raises:
        InputError: If there is none, or what is there has not the shape that results have.
    """
    found = []
    for make in SECTIONS:
        with reading(f"section {make.__name__!r}"):
            section = make(results)
        if section is not None:
            found.append(section)
    if not found:
        raise InputError("There is nothing to report: these results have no systems and no analyses.")
    return found


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Blame the results, by name, for whatever is not where or what it should be.

    Raises:
        InputError: If so.
    """
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise InputError(
            f"The {what} cannot be made: these results are not as bidibeam writes them "
            f"({type(error).__name__}: {error})."
        ) from error
