"""What tests of the report's words share."""

from __future__ import annotations

import pytest

from bidibeam.reporting import report


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Figures are made and not saved, which takes most of a report's time."""
    monkeypatch.setattr(report, "saved", lambda _: {"svg": b"<svg></svg>", "png": b""})
