"""The file that tests of resumed output write to."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "new folder" / "best.jsonl"
