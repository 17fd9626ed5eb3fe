"""Fixtures of the tests of reports."""

from __future__ import annotations

import pytest

from tests.unit.reporting.made_results import made_results
from tests.unit.reporting.reports import Report


@pytest.fixture(scope="session")
def single(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """The report of an experiment of one seed."""
    return Report(made_results(), tmp_path_factory.mktemp("single"))
