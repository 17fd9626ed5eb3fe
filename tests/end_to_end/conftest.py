"""One Chromium for all tests that look at pages; they skip where there is none."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.end_to_end.browser import Browser, open_browser


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("downloads")) as opened:
        yield opened
