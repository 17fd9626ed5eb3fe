"""Names of the systems that others are measured by, as results, reports and command lines have them."""

from __future__ import annotations

BASE = "vbs"
"""The most likely hypothesis."""
TUNED = "vbs-tuned"
"""The same with its length settings tuned: what a gain must be a gain over."""
ORACLE = "oracle"
"""The hypothesis nearest the reference: what a perfect choice would reach."""
AGREEMENT = "bidia"
"""The strategy in which both directions decide; its systems have more words behind it."""
