"""Choosing among hypotheses: pure functions of what was found, whoever found it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam.registry import Registry

if TYPE_CHECKING:
    from bidibeam.protocols import Selection

STRATEGIES: Registry[Selection] = Registry(
    "strategy",
    group="bidibeam.strategies",
    locations={
        "vbs": "bidibeam.selection.likelihood:LikelihoodSelection",
    },
)
"""Every strategy, by the name that reports and the command line use."""
