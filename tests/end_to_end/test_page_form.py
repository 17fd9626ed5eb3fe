"""The page's form in a real browser, before a server that answers what each test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from xml.etree import ElementTree

import pytest
from selenium.webdriver.common.keys import Keys

from bidibeam import Beams, Hypothesis, NBest
from bidibeam.decoding.explaining import explain_beams
from bidibeam.reporting.page import render_page
from bidibeam.strategies.settings import StrategySettings
from tests.end_to_end.browser import PHONE, Browser

OFFER = {
    "models": ["small", "large"],
    "strategies": ["bidis", "bidia wmd_t either"],
    "default": "bidia bleu_t",
    "similarities": ["bleu_t", "edit"],
    "examples": ["how are you?", "<b>no</b>"],
    "limits": {"beam_size": 50, "max_length": 40, "source_characters": 60},
    "version": "1.2.3",
}


def document(source: str, *texts: str) -> dict[str, Any]:
    beam = NBest(tuple(Hypothesis(text, tuple(text.split()), None, 3, None) for text in texts))
    strategy = StrategySettings.named("bidia bleu_t").build()
    return explain_beams(Beams("1", source, (), beam, beam), strategy).to_dict()


@dataclass
class Stub:
    """Answers /api/explain with what it is told to, and remembers what was asked."""

    status: int = 200
    answer: Any = None
    key: str = ""
    refused: Any = None
    asked: list[dict[str, Any]] = field(default_factory=list)
    address: str = ""

    def reply(self, body: dict[str, Any], authorization: str | None) -> tuple[int, Any]:
        self.asked.append(body)
        if self.key and authorization != f"Bearer {self.key}":
            return 401, {"error": {"message": "The API key is wrong.", "type": "authentication_error"}}
        if self.refused and body.get("list") == self.refused:
            return 400, {"error": {"message": "list: it is refused."}}
        return self.status, self.answer or document(
            body.get("source", "a list"), f"{body.get('source')} too", "no"
        )


@pytest.fixture
def stub(browser: Browser) -> Iterator[Stub]:
    stub = Stub()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send(200, render_page([], server=OFFER).encode(), "text/html; charset=utf-8")

        def do_POST(self) -> None:
            assert self.path == "/api/explain"
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, answer = stub.reply(body, self.headers["Authorization"])
            self.send(status, json.dumps(answer).encode(), "application/json")

        def send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    stub.address = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield stub
    finally:
        browser.driver.get("about:blank")
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_source_is_typed_and_sent_by_enter(browser: Browser, stub: Stub) -> None:
    browser.open(stub.address)

    browser.find("#source").send_keys("hello there", Keys.ENTER)
    browser.wait_for(".reply", "hello there too")

    assert stub.asked == [{"source": "hello there"}]
    assert browser.text("#status") == "The reply is: hello there too"
    assert browser.find("#status").size["height"] <= 1  # for screen readers: the reply itself is below
    assert browser.driver.current_url == f"{stub.address}#source=hello+there"
    assert browser.text("body > footer") == "bidibeam 1.2.3"
    errors, requests = browser.logs()
    assert errors == []
    assert {request.partition("#")[0].rstrip("/") for request in requests} <= {
        stub.address.rstrip("/"), f"{stub.address}api/explain", "about:blank", f"{stub.address}favicon.ico",
    }  # fmt: skip


def test_settings_ask_again_and_the_link_brings_all_of_it_back(browser: Browser, stub: Stub) -> None:
    browser.open(stub.address)
    browser.choose("#model", "large")
    browser.choose("#strategy", "bidis")

    browser.find(".examples button").click()
    browser.wait_for(".reply", "how are you? too")
    browser.find("#beam_size").send_keys("7", Keys.TAB)
    browser.wait_for(".reply", "too")
    browser.choose("#similarity", "edit")
    browser.wait_for("#status", "The reply is")

    first = {"source": "how are you?", "model": "large", "strategy": "bidis"}
    assert stub.asked == [first, {**first, "beam_size": 7}, {**first, "beam_size": 7, "similarity": "edit"}]
    browser.slide(0, 2)
    address = browser.driver.current_url
    browser.open(address)
    browser.wait_for(".reply", "how are you? too")
    assert stub.asked[-1] == stub.asked[-2]
    assert browser.find("#source").get_attribute("value") == "how are you?"
    assert browser.find("#similarity").get_attribute("value") == "edit"
    assert browser.text(".slider output") == "2"


LISTS = [{"regular": [{"text": "<i>a</i>"}], "reverse": [{"text": "b"}]}, {"regular": [{"text": "c"}]}]


def paste(browser: Browser, text: str) -> None:
    browser.run("document.getElementById('paste').open = true; document.getElementById('list').value = ''")
    browser.run("document.getElementById('list').value = arguments[0]", text)
    browser.find("#explain-list").click()


def test_a_list_is_pasted(browser: Browser, stub: Stub) -> None:
    browser.open(stub.address)

    paste(browser, json.dumps(LISTS[0], indent=1))
    browser.wait_for(".reply", "None too")

    assert stub.asked == [{"list": LISTS[0]}]
    assert not browser.find("#picker").is_displayed()


def test_a_list_too_long_for_a_link_is_said_to_be_left_out(browser: Browser, stub: Stub) -> None:
    browser.open(stub.address)

    paste(browser, json.dumps({"regular": [{"text": "a b " * 5000}]}))
    browser.wait_for("#status", "The reply is")
    browser.find("#link").click()

    browser.wait_for("#copied", "without the list, which is too long for one.")
    assert "list=" not in browser.driver.current_url


def test_a_picture_of_letters_that_xml_has_not_is_xml(browser: Browser, stub: Stub) -> None:
    stub.answer = document("odd", "a \ufffe b", "c", "a \uffff")
    browser.open(stub.address)

    browser.find("#source").send_keys("odd", Keys.ENTER)
    browser.wait_for("#status", "The reply is")
    picture = browser.run("return new XMLSerializer().serializeToString(document.querySelector('svg.tree'))")

    assert ElementTree.fromstring(picture).tag.endswith("svg")


@pytest.mark.parametrize("text", [
    "\n\n".join(map(json.dumps, LISTS)), json.dumps(LISTS, indent=1),
], ids=["lines", "array"])  # fmt: skip
def test_several_lists_are_explained_and_gone_through(browser: Browser, stub: Stub, text: str) -> None:
    browser.open(stub.address)

    paste(browser, text)
    browser.wait_for("#picker", "→")

    assert stub.asked == [{"list": each} for each in LISTS]
    assert browser.texts("#which option") == ["1. a list", "2. a list"]
    browser.find("#next").click()
    assert "explanation=2" in browser.driver.current_url
    browser.open(browser.driver.current_url)
    browser.wait_for("#picker", "→")
    assert browser.find("#which").get_attribute("selectedIndex") == "1"


@pytest.mark.parametrize(("text", "told"), [
    ('{"regular": []}}', "The list is no JSON object: Unexpected"),
    ('{"regular": []}\n{"regular": [}', "List 2 is no JSON object: Unexpected"),
    ("[]", "The list is no JSON object, {\"regular\""),
    ('[{"regular": []}, 7]', "List 2 is no JSON object, {\"regular\""),
])  # fmt: skip
def test_what_is_no_list_is_said_and_not_sent(browser: Browser, stub: Stub, text: str, told: str) -> None:
    browser.open(stub.address)

    paste(browser, text)

    browser.wait_for("#problem", told)
    assert stub.asked == []


def test_which_of_several_lists_the_server_refuses_is_said(browser: Browser, stub: Stub) -> None:
    stub.refused = LISTS[1]
    browser.open(stub.address)

    paste(browser, json.dumps(LISTS))

    browser.wait_for("#problem", "refused")
    assert browser.text("#problem") == "List 2: list: it is refused."


def test_back_and_forward_lead_through_questions_and_not_through_sliders(
    browser: Browser, stub: Stub
) -> None:
    browser.open(stub.address)
    for source in ("one", "two"):
        browser.find("#source").clear()
        browser.find("#source").send_keys(source, Keys.ENTER)
        browser.wait_for(".reply", f"{source} too")
    browser.slide(0, 2)
    browser.slide(0, 3)

    browser.driver.back()
    browser.wait_for(".reply", "one too")
    assert browser.find("#source").get_attribute("value") == "one"
    browser.driver.forward()
    browser.wait_for(".reply", "two too")
    assert browser.text(".slider output") == "3"
    browser.driver.back()
    browser.driver.back()
    browser.wait_for(".intro", "appear here")
    assert browser.find("#source").get_attribute("value") == ""
    assert not browser.find("#actions").is_displayed()


def test_any_strategy_can_be_typed(browser: Browser, stub: Stub) -> None:
    browser.open(stub.address)
    assert browser.find("#strategy").get_attribute("placeholder") == "bidia bleu_t"

    browser.find("#strategy").send_keys("loglinear edit both")
    browser.find("#source").send_keys("hello", Keys.ENTER)
    browser.wait_for(".reply", "hello too")
    browser.find("#strategy").clear()
    browser.find("#strategy").send_keys("mbr mean", Keys.ENTER)
    browser.wait_for(".reply", "hello too")

    assert [each.get("strategy") for each in stub.asked] == ["loglinear edit both", None, "mbr mean"]


@pytest.mark.parametrize(("status", "answer", "told"), [
    (400, {"error": {"message": "Unknown <b>strategy</b>."}}, "Unknown <b>strategy</b>."),
    (429, {"error": {"message": "Too many."}}, "Too many."),
    (502, "no object", "The server answered with status 502."),
])  # fmt: skip
def test_what_the_server_refuses_is_one_sentence(
    browser: Browser, stub: Stub, status: int, answer: Any, told: str
) -> None:
    browser.open(stub.address)
    browser.find("#source").send_keys("hell", Keys.ENTER)
    browser.wait_for(".reply", "hell too")

    stub.status, stub.answer = status, answer
    browser.find("#source").send_keys("o", Keys.ENTER)
    browser.wait_for("#problem", ".")

    assert browser.text("#problem") == told
    assert not browser.find_all(".reply")  # that of the question before
    assert browser.find("#problem").get_attribute("role") == "alert"
    assert browser.text("#status") == ""
    stub.status, stub.answer = 200, None
    browser.find("#explain").click()
    browser.wait_for(".reply", "hello too")
    assert browser.text("#problem") == ""


def test_a_key_is_asked_for_sent_and_kept_for_the_session_alone(browser: Browser, stub: Stub) -> None:
    stub.key = "secret"
    browser.open(stub.address)
    assert not browser.find("#key").is_displayed()

    browser.find("#source").send_keys("hello", Keys.ENTER)
    browser.wait_for("#problem", "Enter the API key, which this server wants.")
    browser.press("sec", Keys.ENTER)  # the field has the focus
    browser.wait_for("#problem", "The API key is wrong: enter another one.")
    browser.press("ret", Keys.ENTER)
    browser.wait_for(".reply", "hello too")

    assert browser.run("return [sessionStorage.length, localStorage.length, document.cookie]") == [1, 0, ""]
    assert "secret" not in browser.driver.current_url
    browser.run("sessionStorage.clear()")


def test_a_server_that_is_gone_is_told(browser: Browser, stub: Stub) -> None:
    browser.open(stub.address)
    browser.run("window.fetch = () => Promise.reject(new TypeError('no'))")
    browser.find("#source").send_keys("hello")

    browser.find("#explain").click()
    browser.wait_for("#problem", "The server")
    assert browser.text("#problem") == "The server does not answer. Is it running?"
    assert stub.asked == []


def test_the_form_fits_a_phone_and_examples_are_text(browser: Browser, stub: Stub) -> None:
    browser.open(stub.address, size=PHONE)
    browser.find("#paste summary").click()

    assert browser.find("#list").size["width"] > PHONE[0] * 0.75
    assert browser.texts(".examples button") == OFFER["examples"]
    assert browser.run("return document.documentElement.scrollWidth") <= PHONE[0]
    assert browser.find("#source").get_attribute("maxlength") == "60"
    assert browser.find("#beam_size").get_attribute("max") == "50"
