"""Cost: what the paper's formulas come to."""

from __future__ import annotations

from math import log
from typing import Any

from bidibeam.errors import SettingsError


def formulas(beam_size: int, max_length: int, vocabulary: int) -> list[dict[str, Any]]:
    """The paper's complexities with every constant taken as 1 and natural logarithms, and ratios to VBS's.

    The paper counts B^2 / 8 word mover's distances; two beams of B / 2 have (B / 2)^2 pairs, which is a row
    of its own.

    Args:
        beam_size: B.
        max_length: T.
        vocabulary: V.

    Reference: Colombo et al. (2021), arXiv:2110.03389, "Proofs of Complexity analysis".

    Raises:
        SettingsError: If one of them is below 1, or V below 2.
    """
    for name, value, smallest in (("N_B", beam_size, 1), ("T", max_length, 1), ("V", vocabulary, 2)):
        if value < smallest:
            raise SettingsError(f"{name} must be at least {smallest} for the formulas, not {value}.")
    pool = beam_size * vocabulary
    vbs = max_length * pool * log(pool)
    halves = 2 * max_length * (pool / 2) * log(pool / 2)
    distance = 8 * max_length**3 * log(2 * max_length)
    searches, each = "2 T * B/2 V log(B V / 2)", "8 T^3 log(2 T)"
    rows = [
        ("vbs", "T * B V log(B V)", vbs),
        ("bidis", "T * B V log(B V)", vbs),
        (
            "bidia wmd_t, as printed",
            f"{searches} + B^2/8 * {each} + T",
            halves + beam_size**2 / 8 * distance + max_length,
        ),
        (
            "bidia wmd_t, all pairs",
            f"{searches} + (B/2)^2 * {each} + T",
            halves + (beam_size / 2) ** 2 * distance + max_length,
        ),
        ("bidia bleu_t", searches, halves),
    ]
    return [
        {"strategy": name, "formula": formula, "value": value, "ratio": value / vbs}
        for name, formula, value in rows
    ]
