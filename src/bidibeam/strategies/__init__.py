"""Strategies choose among hypotheses: pure functions of beams, whichever decoder or file they come from."""

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
        "loglinear": "bidibeam.strategies.loglinear:LogLinear",
        "mbr": "bidibeam.strategies.mbr:Mbr",
        "vbs": "bidibeam.strategies.baselines:Vbs",
        "vbs-tuned": "bidibeam.strategies.baselines:VbsTuned",
        "reverse-vbs": "bidibeam.strategies.baselines:ReverseVbs",
        "longest": "bidibeam.strategies.baselines:Longest",
        "random": "bidibeam.strategies.baselines:Random",
        "oracle": "bidibeam.strategies.baselines:Oracle",
    },
)
"""Every strategy, by the name that reports and the command line use."""
