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
        "bidia": "bidibeam.selection.bidia:BidiA",
        "bidis": "bidibeam.selection.bidis:BidiS",
        "vbs": "bidibeam.selection.likelihood:Vbs",
        "vbs-tuned": "bidibeam.selection.likelihood:VbsTuned",
        "reverse-vbs": "bidibeam.selection.likelihood:ReverseVbs",
        "longest": "bidibeam.selection.longest:Longest",
        "random": "bidibeam.selection.chance:Chance",
        "oracle": "bidibeam.selection.oracle:Oracle",
    },
)
"""Every strategy, by the name that reports and the command line use."""
