"""Choosing among hypotheses: pure functions of what was found, whoever found it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam.registry import Registry

if TYPE_CHECKING:
    from bidibeam.protocols import Strategy

STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    group="bidibeam.strategies",
    locations={
        "bidia": "bidibeam.strategies.bidia:BidiA",
        "bidis": "bidibeam.strategies.bidis:BidiS",
        "vbs": "bidibeam.strategies.likelihood:Vbs",
        "vbs-tuned": "bidibeam.strategies.likelihood:VbsTuned",
        "reverse-vbs": "bidibeam.strategies.likelihood:ReverseVbs",
        "longest": "bidibeam.strategies.longest:Longest",
        "random": "bidibeam.strategies.chance:Chance",
        "oracle": "bidibeam.strategies.oracle:Oracle",
    },
)
"""Every strategy, by the name that reports and the command line use."""
