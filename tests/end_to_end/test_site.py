"""The documentation site as `make docs` leaves it, opened from its folder in a real browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import make_once
from tests.end_to_end.browser import DESKTOP, PHONE, Browser, open_browser
from tests.test_docs import build

LEAST_WIDTH = 640
"""Pixels of a wide picture: narrower, its letters cannot be read."""
HINTS = """
const done = arguments[0];
const boxes = [...document.querySelectorAll(".table-wrapper, p:has(> img:only-child)")];
requestAnimationFrame(() => requestAnimationFrame(() => done(boxes.map(box =>
  [box.scrollWidth > box.clientWidth, (parseFloat(getComputedStyle(box, "::before").height) || 0) > 0]))));"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_once(tmp_path_factory, "site", build)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with open_browser(tmp_path_factory.mktemp("downloads")) as found:
        yield found


def test_a_search_asks_for_no_file_and_finds_the_manual_not_the_reports(site: Path, browser: Browser) -> None:
    browser.open(f"{(site / 'search.html').as_uri()}?q=beam")
    browser.wait_for("#search-results .search-summary, #search-results p", "found")

    found = browser.texts("#search-results li")
    assert any("How a reply is chosen" in each for each in found)
    assert not [each for each in found if " on cornell" in each]
    errors, requests = browser.logs()
    assert errors == []
    assert not [each for each in requests if "/docs/" in each.removeprefix(site.as_uri())]


def test_every_report_has_a_title_of_its_own(site: Path) -> None:
    pages = [*site.glob("results/*/report.html")]
    titles = {re.findall("<title>(.*?)</title>", page.read_text(encoding="utf-8"))[0] for page in pages}

    assert len(titles) == len(pages) > 1


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
@pytest.mark.parametrize("page", ["index", "which-strategy", "similarities"])
def test_wide_tables_and_pictures_scroll_and_say_so(
    site: Path, browser: Browser, page: str, size: tuple[int, int]
) -> None:
    browser.open(site / "docs" / f"{page}.html", size=size)

    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    pictures = browser.run("return [...document.querySelectorAll('.content img')].map(one => one.width)")
    assert all(width >= LEAST_WIDTH for width in pictures)
    boxes = browser.driver.execute_async_script(HINTS)
    assert boxes
    assert all(overflows == has_hint for overflows, has_hint in boxes)
    assert size == DESKTOP or any(overflows for overflows, _ in boxes)


def test_two_buttons_on_a_phone_stand_apart(site: Path, browser: Browser) -> None:
    browser.open(site / "docs" / "which-strategy.html", size=PHONE)

    theme, contents = (
        browser.find(f".mobile-header {one}").rect for one in (".theme-toggle", ".toc-header-icon")
    )
    assert contents["x"] - (theme["x"] + theme["width"]) > 8
