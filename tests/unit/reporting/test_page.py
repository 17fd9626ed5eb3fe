"""The page as a document: what it embeds cannot leave its place, and its policy lets nothing else run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from bidibeam.reporting.page import embed_json, render_page

NASTY = "</script><script>alert(1)</script><!-- <i>\u2028 \ud800 & \"quoted\" 'single' --> {{ 7 * 7 }}"
SERVER: dict[str, Any] = {
    "models": ["small"],
    "strategies": ["bidis", NASTY[:50]],
    "default": "bidia <i>",
    "similarities": ["bleu_t"],
    "examples": ["how are you?", "<i>no</i>"],
    "limits": {"beam_size": 50, "max_length": 40, "source_characters": 1000},
    "version": "1.2.3",
}


class Tags(HTMLParser):
    """Every tag with its attributes, and what scripts, style sheets and options hold."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.held: dict[str, list[str]] = {"script": [], "style": [], "option": [], "button": [], "title": []}
        self._open = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        if tag in self.held:
            self.held[tag].append("")

    def handle_data(self, data: str) -> None:
        if self._open in self.held:
            self.held[self._open][-1] += data

    def handle_endtag(self, tag: str) -> None:  # noqa: ARG002
        self._open = ""

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def policy(self) -> dict[str, str]:
        (content,) = (each["content"] for each in self.all("meta") if "http-equiv" in each)
        parts = (part.strip().partition(" ") for part in str(content).split(";"))
        return {name: value for name, _, value in parts}


def hashed(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def test_what_is_embedded_comes_back_and_ends_no_element() -> None:
    documents: list[Any] = [{"source": NASTY, NASTY: [NASTY, 0.1, None]}]

    page = Tags(render_page(documents))

    known, script = page.held["script"]
    assert json.loads(known) == documents
    assert "alert(1)" not in script
    assert "<" not in known
    assert len(page.held["script"]) == 2
    assert not page.all("i") + page.all("form")


@pytest.mark.parametrize("server", [None, SERVER])
def test_the_policy_lets_run_and_connect_what_the_page_needs_and_nothing_else(server: Any) -> None:
    page = Tags(render_page([], server=server))

    assert page.policy == {
        "default-src": "'none'",
        "script-src": hashed(page.held["script"][-1]),
        "style-src": hashed(page.held["style"][0]),
        "img-src": "data:",
        "connect-src": "'self'" if server else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    for tag, attributes in page.tags:
        assert not [name for name in attributes if name.startswith("on") or name in ("style", "src")]
        assert tag != "link" or attributes == {"rel": "icon", "href": "data:,"}
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page.held["script"][-1])


def test_the_form_offers_what_the_server_has() -> None:
    page = Tags(render_page([], server=SERVER))

    assert page.held["option"] == ["small", *SERVER["strategies"], "the strategy's own", "bleu_t"]
    (strategy,) = (each for each in page.all("input") if each.get("id") == "strategy")
    assert strategy["placeholder"] == "bidia <i>"
    (model,) = (each for each in page.all("label") if each.get("for") == "model")
    assert "hidden" in model  # there is no other
    assert {"how are you?", "<i>no</i>"} <= {*page.held["button"]}
    (beam,) = (each for each in page.all("input") if each.get("id") == "beam_size")
    assert (beam["max"], page.all("textarea")[0]["maxlength"]) == ("50", "1000")


def test_a_choice_of_models_is_offered_and_the_first_answers() -> None:
    page = Tags(render_page([], server={**SERVER, "models": ["small", "large"]}))

    (model,) = (each for each in page.all("label") if each.get("for") == "model")
    assert "hidden" not in model
    assert page.held["option"][:2] == ["small", "large"]
    assert [each.get("value") for each in page.all("option")[:2]] == ["", None]


def test_a_server_without_a_model_has_lists_explained_alone() -> None:
    page = Tags(render_page([], server={**SERVER, "models": []}))

    (paste,) = (each for each in page.all("details") if each.get("id") == "paste")
    assert "open" in paste
    assert next(each for each in page.all("div") if "hidden" in each)["class"] == "row"
    assert "how are you?" not in page.held["button"]


def test_a_title_is_text() -> None:
    assert Tags(render_page([], title="a <b> & c\x1b")).held["title"] == ["a <b> & c"]


def test_numbers_that_json_does_not_have_are_refused() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        embed_json([float("nan")])
