"""The page of a real server: what it shows is what the model answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from bidibeam import SearchSettings, load_decoder
from tests.end_to_end.browser import PHONE, Browser
from tests.end_to_end.test_serve import Process, started


@pytest.fixture(scope="module")
def server(browser: Browser, toy_run: Path) -> Iterator[Process]:
    del browser  # which skips where there is none
    with started(toy_run, "--example", "blue dog") as running:
        yield running


def test_a_typed_source_is_answered_as_by_decode(browser: Browser, server: Process, toy_run: Path) -> None:
    decoder = load_decoder(toy_run, "bidia", settings=SearchSettings(beam_size=6, max_length=9))
    address = f"http://127.0.0.1:{server.port}/"
    browser.open(address)
    browser.choose("#strategy", "bidia")
    browser.find("#beam_size").send_keys("6")
    browser.find("#source").send_keys("red cat", Keys.ENTER)

    browser.wait_for(".reply", decoder.decode(["red cat"])[0].best.text)
    browser.choose("#similarity", "edit")
    browser.wait_for("#status", "The reply is")
    link = browser.driver.current_url
    browser.open(link, size=PHONE)
    browser.wait_for(".reply", "red cat")

    assert "strategy=bidia" in link
    assert browser.find("#similarity").get_attribute("value") == "edit"
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE[0]
    errors, requests = browser.logs()
    assert errors == []
    assert {request.partition("#")[0] for request in requests} <= {
        "about:blank",
        address,
        f"{address}api/explain",
        "data:,",
    }


def test_an_example_and_a_list_are_explained(browser: Browser, server: Process) -> None:
    browser.open(f"http://127.0.0.1:{server.port}/")
    browser.find(".examples button").click()
    browser.wait_for(".reply", "blue dog!")

    browser.find("#paste summary").click()
    browser.find("#list").send_keys(
        json.dumps({"regular": [{"text": "<script>no"}, {"text": "<script>no no"}]})
    )
    browser.find("#explain-list").click()
    browser.wait_for(".reply", "<script>no")

    assert browser.logs()[0] == []


def test_what_the_server_refuses_is_shown(browser: Browser, server: Process) -> None:
    browser.open(f"http://127.0.0.1:{server.port}/")
    browser.find("#beam_size").send_keys("1")
    browser.choose("#strategy", "bidia")
    browser.find("#source").send_keys("red", Keys.ENTER)

    browser.wait_for("#problem", "beam_size")
    assert browser.text("#problem").startswith("beam_size must be at least 2 for bidia")
    assert not browser.find_all(".reply")


def test_the_reference_fits_a_phone_and_leaves_nothing_out(browser: Browser, server: Process) -> None:
    address = f"http://127.0.0.1:{server.port}/docs"
    browser.open(address)
    wide = browser.texts(".fields tbody td:not(:empty)")

    browser.open(address, size=PHONE)

    assert browser.texts(".fields tbody td:not(:empty)") == wide
    label = "getComputedStyle(document.querySelector('[data-label=\"at most\"]'), '::before').content"
    assert "at most" in browser.run(f"return {label}")
    widest = "Math.max(...[...document.querySelectorAll('*')].map((it) => it.getBoundingClientRect().right))"
    assert browser.run(f"return {widest}") <= PHONE[0]
