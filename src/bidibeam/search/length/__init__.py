"""How a log-probability becomes a score. A new formula is a file here and a line in `LENGTH_PENALTIES`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bidibeam.registry import Registry

if TYPE_CHECKING:
    from bidibeam.protocols import LengthPenalty

LENGTH_PENALTIES: Registry[LengthPenalty] = Registry(
    "length formula",
    group="bidibeam.length_penalties",
    locations={
        "gnmt": "bidibeam.search.length.gnmt:GNMTPenalty",
        "power": "bidibeam.search.length.power:PowerPenalty",
    },
)
