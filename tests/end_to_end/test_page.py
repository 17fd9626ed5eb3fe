"""The page of explanations in a real browser: what it shows, and what pointer, keys, sliders and links do."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import numpy as np
import pytest
from selenium.webdriver.common.keys import Keys

from bidibeam import Beams, Hypothesis, NBest
from bidibeam.decoding.explaining import explain_beams
from bidibeam.reporting.page import render_page
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.settings import StrategySettings
from tests.end_to_end.browser import DESKTOP, PHONE, Browser

NASTY = "<script>document.title = 'broken'</script><img src=x onerror=alert(1)>"
LONG = "and so on and on " * 30 + "w" * 200
WORDS = ["see", "you", "noon", "midday", "friend"]
SPACE = WordVectors(WORDS, np.array([[0.0, 5, 9, 9.5, 4]]).T)
APOSTROPHE = "\N{RIGHT SINGLE QUOTATION MARK}"
RING = "[role=gridcell].ringed.own"


def made(text: str, log_prob: float | None = -2.0, tokens: str = "", **given: Any) -> Hypothesis:
    words = tuple((tokens or text).split())
    length = len(words) + 1
    score = None if log_prob is None else log_prob * ((5 + length) / 6) ** -0.6
    return Hypothesis(text, words, log_prob, length, score, **given)


def explained(
    system: str, regular: list[Hypothesis], reverse: list[Hypothesis], source: str = "when?"
) -> dict[str, Any]:
    settings = StrategySettings.named(system)
    strategy = settings.build(max_length=9, space=lambda: SPACE)
    beams = Beams("1", source, (), NBest(tuple(regular)), NBest(tuple(reverse)))
    signature = (
        "length_penalty:0.6|length_formula:gnmt" if regular and regular[0].log_prob is not None else ""
    )
    return explain_beams(beams, strategy, signature=signature).to_dict()


REGULAR = [
    made("noon", -1.0, other_log_prob=-9.0),
    made("see you at noon", -3.0, other_log_prob=-2.0),
    made("see you at noon my friend", -6.0, other_log_prob=-3.5),
    made("see you at", -4.0, other_log_prob=-8.0, finished=False),
]
REVERSE = [
    made("noon", -1.5, other_log_prob=-1.0),
    made("see you at noon then", -2.5, other_log_prob=-4.0),
    made("until noon my friend", -5.0, other_log_prob=-6.0),
]
MANY = [
    made(f"see you at {number} {'noon' if number % 3 else 'midday'}", -1.0 - number / 9, other_log_prob=-5.0)
    for number in range(50)
]
TWINS = [made("see you"), made("see you at noon"), made("see you at noon then friend")]
PIECES = [made("it's café time", tokens="it âĢĻ s Ġc af Ã© Ġtime")]
DOCUMENTS = {
    "bleu": explained("bidia bleu_t", REGULAR, REVERSE),
    "wmd": explained("bidia wmd_t", [made("see you noon")], [made("see you midday"), made("friend")]),
    "edit": explained("bidia edit", REGULAR, REVERSE),
    "nasty": explained("bidia bleu", [made(NASTY, None, NASTY)], [made(NASTY, None)], NASTY),
    "many": explained("vbs", MANY, MANY[::-1]),
    "long": explained("bidia bleu_t", [made(LONG), made("no")], [made(LONG + " yes")], LONG),
    "pieces": explained("bidia bleu", PIECES, [made("time", tokens="Ġtime")]),
    "arabic": explained(
        "bidia bleu_t", [made("أنا بخير شكرا"), made("أنا هنا")], [made("بخير شكرا")], "كيف حالك؟"
    ),
    "one beam": explained("vbs", REGULAR, []),
    "texts": explained(
        "bidia bleu_t", [made("at work", None), made("no", None)], [made("at work now", None)]
    ),
    "nothing": explained("bidia bleu_t", [], []),
    "vbs": explained("vbs", REGULAR, REVERSE),
    "longest": explained("longest", REGULAR, REVERSE),
    "twins": explained("bidia bleu_t", TWINS, TWINS),
    "random": explained("random", REGULAR, REVERSE),
}
PLACES = {name: place for place, name in enumerate(DOCUMENTS, start=1)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("page")
    (folder / "one.html").write_text(render_page([DOCUMENTS["bleu"]]), encoding="utf-8")
    (folder / "all.html").write_text(render_page([*DOCUMENTS.values()]), encoding="utf-8")
    return folder


@pytest.fixture
def browser(browser: Browser) -> Iterator[Browser]:
    """One whose console stays empty, and which asks nobody for anything."""
    browser.logs()
    yield browser
    errors, requests = browser.logs()
    assert errors == []
    assert {urlparse(address).scheme for address in requests} <= {"file", "about", "blob", "data"}


def open_one(browser: Browser, folder: Path, name: str, state: str = "", **given: Any) -> None:
    browser.open(folder / "all.html", f"explanation={PLACES[name]}&{state}", **given)


def pick(row: int, column: int) -> str:
    """The cell of a pair, counted from 1."""
    return f"[role=grid] tbody tr:nth-child({row}) td:nth-of-type({column})"


def selected(browser: Browser) -> tuple[str, str]:
    """The texts that are lit up in either beam."""
    one, other = (browser.text(f".beam.{side} li.selected .text") for side in ("regular", "reverse"))
    return one, other


def test_it_shows_the_reply_why_both_beams_and_each_winner(browser: Browser, folder: Path) -> None:
    known = DOCUMENTS["bleu"]

    browser.open(folder / "one.html")

    assert browser.text(".source") == "when?"
    assert browser.text(".reply") == known["reply"] == "see you at noon my friend"
    assert browser.text(".why") == f"bidia bleu_t answers so, since {known['choices'][0]['reason']}"
    assert browser.text(".decides").startswith(
        "Length decides: without the length term BP_T, bidia bleu_t would"
    )
    rows = [(each["system"], each["text"], each["reason"]) for each in known["choices"]]
    shown = zip(*(browser.texts(f".choices tbody {part}") for part in ("th", ".text", ".since")), strict=True)
    assert [(name.removesuffix(" answers"), *rest) for name, *rest in shown] == rows
    assert browser.texts(".beam.reverse .text") == [each["text"] for each in known["reverse"]]
    assert browser.texts(".beam.regular li .score") == [f"{each['score']:.2f}" for each in known["regular"]]
    assert browser.text(".beam.regular h4").endswith("score")
    assert browser.texts(".beam.regular li:nth-child(4) .cut") == ["cut off"]
    assert browser.texts(".beam.regular li:nth-child(1) .badge") == ["vbs"]
    label = browser.label(RING)
    assert (
        label
        == f"regular 3 with reverse 2: {known['similarity']['matrix'][2][1]:.2f}, chosen by bidia bleu_t"
    )
    assert not browser.find("#picker").is_displayed()


def test_a_cell_lights_up_its_pair_and_shows_what_they_share(browser: Browser, folder: Path) -> None:
    browser.open(folder / "one.html")

    browser.hover(pick(2, 3))

    assert selected(browser) == ("see you at noon", "until noon my friend")
    assert browser.texts(".line.regular .shared") == browser.texts(".line.reverse .shared") == ["noon"]
    assert browser.texts(".grams tr") == [
        "1-grams 1 of 4 noon",
        "2-grams 0 of 3",
        "3-grams 0 of 2",
        "4-grams 0 of 1",
    ]
    assert browser.text(".grams caption").endswith("where none is shared, a tenth of one counts")
    assert "BP_T 0.287" in browser.text(".pair h4")  # exp(1 - 9 / 4)

    browser.hover("h1")

    assert selected(browser) == ("see you at noon my friend", "see you at noon then")
    assert browser.texts(".grams tr")[3] == "4-grams 1 of 3 see you at noon"
    assert "tenth" not in browser.text(".grams caption")
    assert browser.text(".pair .hint") == "chosen by bidia bleu_t"

    browser.find(".beam.regular li:nth-child(1)").click()

    assert selected(browser) == ("noon", "noon")


def test_a_pair_shows_the_transport_of_words_or_common_tokens(browser: Browser, folder: Path) -> None:
    open_one(browser, folder, "wmd")

    assert browser.text(".moves caption") == "Transport of words: word mover's distance 0.250"
    assert browser.texts(".moves tbody tr") == ["noon → midday 50 % 0.50", "see → see 50 % stays"]

    browser.hover(pick(1, 2))

    assert browser.texts(".moves tbody tr") == ["noon → friend 50 % 5.00", "see → friend 50 % 4.00"]

    open_one(browser, folder, "edit")

    assert not browser.find_all(".pair table")
    assert browser.texts(".line.regular .shared") == ["noon"]
    browser.hover(pick(4, 2))
    assert browser.texts(".line.reverse .shared") == ["see", "you", "at"]


def test_a_screen_reader_is_told_what_each_slider_moves(browser: Browser, folder: Path) -> None:
    browser.open(folder / "one.html")

    names = [slider.accessible_name for slider in browser.find_all(".slider input")]
    assert names == ["T", "lambda", "length exponent"]


def test_sliders_rank_again_and_say_what_changed(browser: Browser, folder: Path) -> None:
    browser.open(folder / "one.html")

    browser.slide(0, 1)  # T

    assert browser.text(".reply") == "see you at noon changed"
    changed = browser.text(".choices .own")
    assert "changed, was see you at noon my friend" in changed
    assert "regular hypothesis 2 now has the most, 1.000, closest to reverse hypothesis 2;" in changed
    assert "With these settings, bidia bleu_t: see you at noon" in browser.text("[role=status]")
    assert browser.text(".decides") == ""  # at T = 1 the length term changes nothing
    assert browser.label(RING).startswith("regular 2 with reverse 2: 1.00, chosen by bidia")
    assert browser.texts(".badge.new") == ["bidia bleu_t", "mbr bleu_t"]
    assert browser.text(".slider output") == "1"

    unchanged = {each["system"]: each["reason"] for each in DOCUMENTS["bleu"]["choices"]}
    assert unchanged["vbs"] in browser.texts(".choices .since")  # T is nothing to it

    browser.slide(1, 0)  # lambda
    browser.slide(2, 2)  # length exponent

    assert browser.texts(".choices .text")[3] == "noon changed, was see you at noon"
    assert browser.text(".slider:nth-child(3) output") == "2"

    browser.find(".controls button").click()

    assert browser.text(".reply") == "see you at noon my friend"
    assert not browser.find_all(".changed")
    assert browser.texts(".slider output") == ["9, as it was", "1, as it was", "0.6, as it was"]


@pytest.mark.parametrize(("name", "told"), [
    ("bleu", "λ and length exponent do not change what answers here, bidia bleu_t, only what others choose."),
    ("vbs", "T and λ do not change what answers here, vbs, only what others choose."),
    ("longest", "These do not change what answers here, longest, only what others choose."),
])  # fmt: skip
def test_sliders_that_are_nothing_to_what_answers_say_so(
    browser: Browser, folder: Path, name: str, told: str
) -> None:
    open_one(browser, folder, name)

    assert browser.text(".idle") == told
    assert (browser.text(".decides") == "") is (name != "bleu")


def test_a_tie_is_said_to_be_one(browser: Browser, folder: Path) -> None:
    open_one(browser, folder, "twins", "T=1")

    assert "has as much, and ties go to the better rank." in browser.text(".why")
    browser.slide(0, 6)
    assert browser.text(".decides") == (
        "Length decides: without the length term BP_T, bidia bleu_t would choose see you at noon, "
        "which is first of several that agree as much."
    )


def test_the_reply_stands_out_whoever_answers(browser: Browser, folder: Path) -> None:
    open_one(browser, folder, "vbs")

    assert browser.texts("li.own .text") == [DOCUMENTS["vbs"]["reply"]] == ["noon"]
    assert selected(browser) == ("noon", "noon")
    assert browser.text(".pair .hint") == "the reply of vbs is one of them"
    assert not browser.find_all(RING)
    assert browser.find(".rank.own").get_attribute("data-place") == "regular,0"
    assert browser.text(".matrix .caption").endswith("ringed, as strategies choose by them: 2 with 2")
    browser.hover(pick(2, 2))
    assert browser.text(".pair .hint") == "chosen by bidia bleu_t"


def test_a_link_carries_the_whole_state(browser: Browser, folder: Path) -> None:
    open_one(browser, folder, "bleu")
    browser.slide(0, 3)
    browser.slide(1, 0.25)
    browser.hover(pick(2, 3))
    browser.find(pick(2, 3)).click()
    reply, address = browser.text(".reply"), browser.driver.current_url

    assert address.endswith("#explanation=1&T=3&lambda=0.25&pair=2%2C3")
    browser.open(address)

    assert browser.texts(".slider output") == ["3", "0.25", "0.6, as it was"]
    assert browser.text(".reply") == reply
    assert selected(browser) == ("see you at noon", "until noon my friend")

    open_one(browser, folder, "bleu", "T=x&lambda=1e999&pair=99,99")  # a link that somebody cut short

    assert browser.text(".reply") == DOCUMENTS["bleu"]["reply"]
    assert selected(browser) == ("see you at noon my friend", "see you at noon then")


def test_the_keyboard_does_all_that_the_pointer_does(browser: Browser, folder: Path) -> None:
    browser.open(folder / "one.html")
    stops = []
    for _ in range(12):
        browser.press(Keys.TAB)
        stops.append(
            browser.run(
                "const it = document.activeElement; return it.getAttribute('aria-label') ?? it.textContent"
            )
        )
    cell = next(place for place, stop in enumerate(stops) if stop.startswith("regular 3 with reverse 2"))
    assert sum(stop.startswith("regular ") for stop in stops) == 1  # one stop for the whole matrix
    assert [stop for stop in stops if stop in ("Copy link", "Save as JSON", "Save trees as SVG")]
    assert cell < stops.index("Copy link")

    browser.run("document.querySelector('[role=gridcell][tabindex=\"0\"]').focus()")
    for keys, expected in (
        ((Keys.ARROW_UP,), "regular 2 with reverse 2"),
        ((Keys.ARROW_LEFT, Keys.ARROW_LEFT), "regular 2 with reverse 1"),
        ((Keys.END,), "regular 2 with reverse 3"),
        ((Keys.ARROW_DOWN,) * 5, "regular 4 with reverse 3"),
        ((Keys.HOME,), "regular 4 with reverse 1"),
    ):
        browser.press(*keys)
        label = browser.run("return document.activeElement.getAttribute('aria-label')")
        assert label.startswith(expected)
        assert browser.label("[role=gridcell][aria-selected=true]") == label
    outline = browser.run("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"

    browser.run("document.querySelector('.slider input').focus()")
    browser.press(Keys.HOME)

    assert browser.text(".reply") == "see you at noon changed"


def test_trees_meet_in_the_middle_and_say_the_same_in_words(browser: Browser, folder: Path) -> None:
    browser.open(folder / "one.html")

    pieces = browser.run("return [...document.querySelectorAll('svg.tree > g')].slice(0, 2).map((side) =>"
                         "[...side.querySelectorAll('.piece')].map((text) => text.textContent))")  # fmt: skip
    assert sorted(pieces[0]) == ["my friend", "noon", "noon", "see you at"]
    assert sorted(pieces[1]) == ["noon", "see you at noon then", "until noon my friend"]
    assert browser.find(".link.own").get_attribute("data-pair") == "2,1"
    middle = browser.run(
        "const box = document.querySelector('.link.own').getBBox();"
        "return (box.x + box.width / 2) / document.querySelector('.tree').width.baseVal.value"
    )
    assert 0.3 < middle < 0.7
    assert browser.find(".tree").get_attribute("role") == "img"
    browser.find(".trees summary").click()
    listed = browser.texts(".trees li")
    assert listed[0].endswith(
        ": regular 3, see you at noon my friend \N{EN DASH} reverse 2, see you at noon then"
    )
    assert len(listed) == len(browser.find_all(".link"))


def test_text_stays_text_wherever_it_comes_from(browser: Browser, folder: Path) -> None:
    open_one(browser, folder, "nasty")

    assert browser.text(".source") == browser.text(".beam.regular .text") == browser.text(".reply") == NASTY
    assert browser.driver.title == "bidibeam: why this reply"
    assert not browser.find_all("main script, main img")
    assert browser.run("return document.querySelector('.piece title').textContent") == NASTY
    assert NASTY[:20] in browser.text("#which")


def test_pieces_of_words_are_shown_without_their_marks(browser: Browser, folder: Path) -> None:
    open_one(browser, folder, "pieces")

    assert browser.texts(".line.regular .token") == ["it", APOSTROPHE, "s", "c", "af", "é", "time"]
    assert browser.texts(".line.regular .token.on") == [APOSTROPHE, "s", "af", "é"]
    assert browser.run("return document.querySelector('.piece').textContent") == f"it{APOSTROPHE}s café time"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("one beam", "There is no reverse beam."),
        ("texts", "Not asked, since something that they need is missing"),
        ("nothing", "No strategy has anything to choose from."),
        ("random", "random"),
    ],
)
def test_what_is_missing_is_said_and_never_a_number_that_is_none(
    browser: Browser, folder: Path, name: str, says: str
) -> None:
    open_one(browser, folder, name)

    told = browser.text("main")

    assert says in told
    assert not re.search(
        r"NaN|undefined|null|Infinity|\[object",
        browser.run("return document.querySelector('main').innerHTML"),
    )


def test_a_strategy_that_the_page_does_not_know_keeps_its_choice_and_says_so(
    browser: Browser, folder: Path
) -> None:
    open_one(browser, folder, "random", "T=1")

    row = browser.text(".choices .own")

    assert DOCUMENTS["random"]["reply"] in row
    assert "(The page cannot ask this one again.)" in row


TEXTS = """[...document.querySelectorAll("body *")].filter((it) =>
  !it.closest("script, style, [hidden], noscript")
  && [...it.childNodes].some((each) => each.nodeType === 3 && each.data.trim()))"""
"""Every element of a page that holds text itself."""


@pytest.mark.parametrize("name", PLACES)
def test_a_phone_shows_everything_without_scrolling_the_page_sideways(
    browser: Browser, folder: Path, name: str
) -> None:
    open_one(browser, folder, name, size=PHONE)

    width = browser.run("return document.documentElement.scrollWidth")
    small = browser.run(
        f"return {TEXTS}.filter((it) => parseFloat(getComputedStyle(it).fontSize) < 12)"
        ".map((it) => it.outerHTML)"
    )

    assert width <= PHONE[0]
    assert small == []
    for box in browser.find_all(".scroll"):
        told = browser.run("return arguments[0].nextElementSibling.textContent", box)
        overflows = browser.run("return arguments[0].scrollWidth > arguments[0].clientWidth + 1", box)
        assert ("sideways" in told) == (overflows and box.is_displayed())


CONTRAST = f"""
const parse = (text) => {{
  const found = text.match(/[\\d.]+/gu).map(Number);
  return text.startsWith("color(") ? found.map((each, place) => (place < 3 ? each * 255 : each)) : found;
}};
const over = (top, under) => [0, 1, 2].map((i) => (top[3] ?? 1) * top[i] + (1 - (top[3] ?? 1)) * under[i]);
const behind = (it) => {{
  if (!it) return [255, 255, 255];
  const own = parse(getComputedStyle(it).backgroundColor);
  return (own[3] ?? 1) === 1 ? own : over(own, behind(it.parentElement));
}};
const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
const light = (rgb) => {{
  const [r, g, b] = rgb.map((each) => linear(each / 255));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}};
const contrast = (it) => {{
  const ink = getComputedStyle(it)[it.closest("svg") ? "fill" : "color"];
  const [a, b] = [light(parse(ink).slice(0, 3)), light(behind(it))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}};
const isPlain = (it) => !it.closest(".rank, option, title") && it.checkVisibility();
return {TEXTS}.filter((it) => isPlain(it) && contrast(it) < 4.5)
  .map((it) => [contrast(it), it.outerHTML]);
"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("name", ["bleu", "wmd"])
def test_every_text_has_contrast_enough(browser: Browser, folder: Path, name: str, dark: bool) -> None:
    open_one(browser, folder, name, "T=2", dark=dark)

    assert browser.run(CONTRAST) == []
    background = browser.run("return getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(19, 18, 23)") is dark


def test_large_beams_show_the_best_and_all_on_demand(browser: Browser, folder: Path) -> None:
    open_one(browser, folder, "many")

    assert sum(each.is_displayed() for each in browser.find_all(".beam.regular li")) < 20
    browser.find(".beam.regular .all").click()
    assert sum(each.is_displayed() for each in browser.find_all(".beam.regular li")) == 50
    assert len(browser.find_all("[role=gridcell]")) == 2500
    assert "Of each beam the best 20" in browser.text(".trees .hint")
    assert browser.text(".matrix .more") == "scrolls sideways ↔ and down ↕"
    assert browser.run(
        "const box = document.querySelector('.matrix .scroll'); return [box.scrollLeft, box.scrollTop]"
    ) == [0, 0]


def test_explanations_are_gone_through_one_by_one(browser: Browser, folder: Path) -> None:
    browser.open(folder / "all.html", "T=3")

    browser.find("#next").click()
    assert browser.text(".reply") == DOCUMENTS["wmd"]["reply"]
    assert browser.driver.current_url.endswith("#explanation=2")
    browser.find("#previous").click()
    browser.find("#previous").click()
    assert browser.text(".reply") == DOCUMENTS["random"]["reply"]
    assert len(browser.find_all("#which option")) == len(DOCUMENTS)


def test_exports_are_the_document_and_a_picture_that_needs_no_style_sheet(
    browser: Browser, folder: Path
) -> None:
    browser.open(folder / "one.html")

    browser.find("#json").click()
    browser.find("#svg").click()

    for name in ("explanation.json", "beams.svg"):
        wait_for_file(browser, browser.downloads / name)
    assert json.loads((browser.downloads / "explanation.json").read_text(encoding="utf-8")) == json.loads(
        json.dumps(DOCUMENTS["bleu"])
    )
    picture = (browser.downloads / "beams.svg").read_text(encoding="utf-8")
    assert picture.startswith("<svg")
    assert 'stroke="rgb(107, 47, 179)"' in picture
    assert not re.search(r"var\(|light-dark", picture)


def wait_for_file(browser: Browser, path: Path) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser.driver, 20).until(lambda _: path.is_file() and path.stat().st_size > 0)


def test_motion_is_for_those_who_want_it_and_sizes_differ(browser: Browser, folder: Path) -> None:
    browser.open(folder / "one.html", size=DESKTOP)
    browser.command(
        "Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}]
    )

    assert (
        browser.run("return getComputedStyle(document.querySelector('[role=gridcell]')).transitionDuration")
        == "0s"
    )
