"""The report in a real browser, on a phone and on a desktop; skips where there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from bidibeam.reporting.report import write_report
from tests.end_to_end.browser import DESKTOP, PHONE, Browser
from tests.unit.reporting.made_results import made_evaluation, made_results

LEAST_TEXT = 11
"""Pixels: smaller letters are hard to read on a phone."""

SIZES_OF_TEXT = """
return [...document.querySelectorAll("section > figure > svg text")].map(text => {
  const svg = text.ownerSVGElement;
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  return parseFloat(getComputedStyle(text).fontSize) * scale;
})"""
OUTSIDE = """
return [...document.querySelectorAll("section > figure > svg text")]
  .map(text => [text.textContent, text.getBoundingClientRect()])
  .filter(([_, box]) => box.left < -1 || box.right > innerWidth + 1).map(([words, _]) => words)"""
BOXES_OF_CONTENTS = """
return [...document.querySelectorAll("nav a")].flatMap((link, place) =>
  [...link.getClientRects()].map(box => [place, box.left, box.top, box.right, box.bottom]))"""
TABLES = """
const done = arguments[0];
document.querySelectorAll("details").forEach(one => { one.open = true; });
const measure = () => done([...document.querySelectorAll("section > .wide, details > .wide")].map(box => {
  const caption = box.querySelector("caption span"), cell = box.querySelector("tbody td");
  box.scrollLeft = 60;
  const moved = box.scrollLeft > 0;
  return {
    overflows: box.scrollWidth > box.clientWidth, moved,
    isSticky: getComputedStyle(cell).position === "sticky",
    cellStays: Math.abs(cell.getBoundingClientRect().left - box.getBoundingClientRect().left) < 2,
    captionEnd: caption ? caption.getBoundingClientRect().right - box.getBoundingClientRect().right : 0,
    hint: parseFloat(getComputedStyle(box, "::before").height) || 0,
    role: box.getAttribute("role"), label: box.getAttribute("aria-label"), tabIndex: box.tabIndex,
  };
}));
requestAnimationFrame(() => requestAnimationFrame(measure));"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """An experiment's page, with every section, and the page of several files, with long titles."""
    several = {"results.json": made_results(seeds=3), "evaluation.json": made_evaluation()}
    return {
        name: write_report(files, tmp_path_factory.mktemp(name)).page
        for name, files in (("experiment", {"results.json": made_results()}), ("several", several))
    }


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", ["experiment", "several"])
def test_a_report_fits_its_screen_and_every_figure_can_be_read(
    browser: Browser, pages: dict[str, Path], name: str, size: tuple[int, int]
) -> None:
    browser.open(pages[name], size=size)

    assert browser.run("return document.documentElement.scrollWidth") <= size[0]
    sizes = browser.run(SIZES_OF_TEXT)
    assert len(sizes) > 100
    assert min(sizes) >= LEAST_TEXT
    assert browser.run(OUTSIDE) == []
    assert browser.logs()[0] == []


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
@pytest.mark.parametrize("name", ["experiment", "several"])
def test_contents_do_not_overlap_and_lead_to_headings(
    browser: Browser, pages: dict[str, Path], name: str, size: tuple[int, int]
) -> None:
    browser.open(pages[name], size=size)

    boxes = browser.run(BOXES_OF_CONTENTS)
    assert len({place for place, *_ in boxes}) >= 11
    for place, left, top, right, bottom in boxes:
        assert (left >= 0, right <= size[0]) == (True, True)
        others = [box for box in boxes if box[0] > place]
        assert not [
            b for b in others if left < b[3] and b[1] < right and top < b[4] - 1 and b[2] < bottom - 1
        ]
    for link in browser.find_all("nav a"):
        link.click()
        heading = "return document.querySelector(':target h2').getBoundingClientRect().top"
        assert 0 <= browser.run(heading) < 844


def test_wide_tables_scroll_in_a_box_that_takes_the_focus_and_only_they_show_it(
    browser: Browser, pages: dict[str, Path]
) -> None:
    browser.open(pages["experiment"], size=PHONE)

    tables = browser.driver.execute_async_script(TABLES)

    wide = [table for table in tables if table["overflows"]]
    assert 3 < len(wide) < len(tables)
    for table in tables:
        assert table["moved"] == table["overflows"] == (table["hint"] > 0), table
        assert (table["role"], table["tabIndex"]) == ("region", 0)
        assert table["label"]
        assert table["captionEnd"] <= 1, table  # read to its end without scrolling
        assert not table["isSticky"] or table["cellStays"]
    assert sum(table["isSticky"] for table in wide) > 3


def test_the_glance_is_on_the_first_screen_of_a_phone(browser: Browser, pages: dict[str, Path]) -> None:
    browser.open(pages["experiment"], size=PHONE)

    top = "return document.querySelector('.glance').getBoundingClientRect().top"
    answers = browser.find_all(".glance dt")
    assert browser.run(top) < 200
    assert [answer.text for answer in answers[:3]] == ["What won", "By how much", "How sure"]
    assert all(answer.location["y"] < 844 for answer in answers)
