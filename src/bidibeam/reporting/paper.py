"""The numbers that Colombo et al. (2021), arXiv:2110.03389, print in tables and in the text, beside ours."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

NAMES = {
    "vbs": "VBS",
    "bidis": "BidiS",
    "bidia bleu_t": "BidiA BLEU_T",
    "bidia wmd_t": "BidiA WMD_T",
    "oracle": "Best Hypothesis",
}
"""The paper's names of our systems."""

BEAM_SIZES = (1, 6, 10, 50)
"""The beam sizes of its table of VBS and Best Hypothesis."""
DISTINCT_BEAM_SIZE = 50
"""N_B of its table of distinct-n."""
RANKED = ("bidia bleu_t", "bidia wmd_t", "oracle")
"""The systems of its figure of indices."""


@dataclass(frozen=True)
class PaperCorpus:
    """The paper's numbers on one corpus."""

    name: str
    """The paper's name of it."""
    bleu: Mapping[str, Mapping[int, float]]
    """BLEU-4, by our name of a system and by beam size."""
    distinct: Mapping[str, tuple[float, float]]
    """distinct-1 and distinct-2 at N_B = 50, by our name of a system."""
    gain: float
    """The relative improvement over VBS that it claims for BidiA with BLEU_T, at an unknown N_B."""
    positions: str = ""
    """Its sentence on words at the first position."""

    def score(self, system: str, metric: str, beam_size: int) -> float | None:
        """Returns the score that the paper prints; None if it prints none."""
        if metric == "bleu":
            return self.bleu.get(system, {}).get(beam_size)
        if metric in ("distinct-1", "distinct-2") and beam_size == DISTINCT_BEAM_SIZE:
            pair = self.distinct.get(system)
            return None if pair is None else pair[metric == "distinct-2"]
        return None


PAPER = {
    "cornell": PaperCorpus(
        "Cornell",
        bleu={
            "vbs": {1: 1.19, 6: 1.23, 10: 1.30, 50: 1.30},
            "oracle": {1: 1.19, 6: 1.40, 10: 1.60, 50: 2.56},
        },
        distinct={
            "vbs": (0.051, 0.250),
            "bidis": (0.051, 0.257),
            "bidia bleu_t": (0.056, 0.261),
            "bidia wmd_t": (0.054, 0.270),
        },
        gain=0.09,
        positions="The paper says of the same corpus that all fifty words appear more than 1000 times at "
        "position 1 from the left, and fewer than five from the right.",
    ),
    "swda": PaperCorpus(
        "Switchboard",
        bleu={
            "vbs": {1: 2.39, 6: 2.45, 10: 2.47, 50: 2.52},
            "oracle": {1: 2.39, 6: 3.40, 10: 4.30, 50: 5.77},
        },
        distinct={
            "vbs": (0.042, 0.231),
            "bidis": (0.046, 0.240),
            "bidia bleu_t": (0.050, 0.240),
            "bidia wmd_t": (0.048, 0.241),
        },
        gain=0.05,
    ),
}
"""By the name of our corpus reader."""

COMPLEXITY = {
    "VBS": "T * O(B V log(B V))",
    "BidiS": "T * O(B V log(B V))",
    "BidiA BLEU_T": "2 T * O(B/2 V log(B V / 2))",
    "BidiA WMD_T": "2 T * O(B/2 V log(B V / 2)) + B²/8 * O(8 T³ log(2 T)) + O(T)",
}
"""The paper's formulas."""

FOOTNOTE = (
    "V is the size of the vocabulary, B of the beam, T the greatest length. The paper's footnote puts VBS at "
    "1.4 times BidiA for T = 30, B = 30, V = 35,000; its formulas give "
    f"{math.log(30 * 35_000) / math.log(30 * 35_000 / 2):.2f} there before any comparison of replies."
)
