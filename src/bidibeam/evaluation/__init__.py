"""Systems against references and each other, and the analyses that lie behind their scores.

An analysis is a function of the evidence to plain values, named here; its section stands in `reporting`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bidibeam.errors import InputError
from bidibeam.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bidibeam.evaluation.systems import Evidence

RESULTS_VERSION = 1
"""The format of every file of results."""

ANALYSES: Registry[dict[str, Any]] = Registry(
    "analysis",
    group="bidibeam.analyses",
    locations={
        "ranks": "bidibeam.evaluation.choices:ranks",
        "headroom": "bidibeam.evaluation.choices:headroom",
        "diversity": "bidibeam.evaluation.diversity:diversity",
        "sensitivity": "bidibeam.evaluation.sensitivity:sensitivity",
        "examples": "bidibeam.evaluation.choices:examples",
    },
)
"""Every analysis, by the name that results and the command line use. Each is called with the evidence."""


def analyse(evidence: Evidence, names: Iterable[str] | None = None) -> tuple[dict[str, Any], dict[str, str]]:
    """Makes the analyses named, or all that can be made; returns them, and why others are missing."""
    if names is not None:
        return {name: ANALYSES.create(name, evidence) for name in names}, {}
    contents: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name in ANALYSES.names():
        try:
            contents[name] = ANALYSES.create(name, evidence)
        except InputError as error:
            missing[name] = str(error)
    return contents, missing
