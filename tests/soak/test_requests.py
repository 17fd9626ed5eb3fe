"""A short part of the soak of requests."""

from __future__ import annotations

from pathlib import Path

import bidibeam
from tests.soak.requests import VALID, send_all


def test_random_requests_get_documented_answers(toy_run: Path) -> None:
    found = send_all(bidibeam.load(toy_run, device="cpu"), [0], 300, lambda _: None)

    assert found["failures"] == []
    assert found["requests"] >= 300
    assert found["statuses"]["400"] > 50
    for path in VALID:
        assert found["routes"][f"{path} 200"] > 5, path
