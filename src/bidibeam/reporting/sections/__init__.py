"""The sections of a report: each a function of results, which answers None if they lack its numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bidibeam.errors import InputError
from bidibeam.reporting.blocks import Picture, Section
from bidibeam.reporting.results import Results
from bidibeam.reporting.sections.constant import constant
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
    constant,
    ranks,
    diversity,
    positions,
    cost,
    sensitivity,
    provenance,
    examples,
)
"""In the order of the report."""


def sections_of(files: Mapping[str, Results]) -> list[Section]:
    """The sections that results have numbers for; those of several files stand beside each other.

    Args:
        files: By the name of the file, what it holds.

    Raises:
        InputError: If there is none, or what is there has not the shape that results have.
    """
    found: list[Section] = []
    for make in SECTIONS:
        for file, results in files.items():
            of = f" of {file}" if len(files) > 1 else ""
            with reading(f"section {make.__name__!r}{of}"):
                section = make(results)
            if section is not None:
                found.append(_named(section, file) if len(files) > 1 else section)
    if not found:
        raise InputError("There is nothing to report: these results have no systems and no analyses.")
    return found


def _named(section: Section, file: str) -> Section:
    """A section that says which file it is of, as its figures' names do."""
    stem = Path(file).stem
    blocks = [
        replace(block, name=f"{block.name}-{stem}") if isinstance(block, Picture) else block
        for block in section.blocks
    ]
    return replace(section, name=f"{section.name}-{stem}", title=f"{section.title} ({file})", blocks=blocks)


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
