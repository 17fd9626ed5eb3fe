"""Data that Hugging Face models are trained on."""

from __future__ import annotations

import pytest

from bidibeam.data.prepared import PreparedData
from tests.unit.models.huggingface.tiny import prepared


@pytest.fixture(scope="session")
def copies(tmp_path_factory: pytest.TempPathFactory) -> PreparedData:
    """24 pairs in which the response repeats the source, with their text."""
    return prepared(tmp_path_factory.mktemp("copies"))
