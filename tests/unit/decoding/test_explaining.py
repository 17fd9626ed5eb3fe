"""Explanations: whose choices they are, the numbers in their reasons, and what notebooks and figures show."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bidibeam
from bidibeam import (
    Beams,
    Direction,
    Explanation,
    Hypothesis,
    NBest,
    SearchSettings,
    figures,
    load_decoder,
    per_pair,
)
from bidibeam.decoding.decoder import Decoder, Ranker
from bidibeam.decoding.explaining import ASKED, explain_beams
from bidibeam.errors import InputError
from bidibeam.figures import VERMILLION
from bidibeam.models.base import Model, usual_length
from bidibeam.models.gru.network import BidirectionalModel
from bidibeam.models.run import RunModel
from bidibeam.similarities.bleu import Bleu, BleuT
from bidibeam.strategies.settings import StrategySettings
from tests.conftest import TINY_MODEL
from tests.unit.models.huggingface.folders import write_pair

NASTY = "<script>alert('x')</script> & \"quoted\""
WIDE = "\N{CJK UNIFIED IDEOGRAPH-4E00}"
OWN = ["bidia bleu_t", "bidia bleu either mean", "bidis", "vbs", "reverse-vbs", "longest", "random"]


@pytest.fixture(scope="module")
def run(unsure_run: Path) -> Model:
    return bidibeam.load(unsure_run)


def made(text: str, log_prob: float | None = -2.0, *, length: int = 4, **given: Any) -> Hypothesis:
    score = None if log_prob is None else log_prob / 2
    return Hypothesis(text, tuple(text.split()), log_prob, length, score, **given)


def beams_of(regular: list[Hypothesis], reverse: list[Hypothesis], source: str = "hello") -> Beams:
    return Beams("1", source, (), NBest(tuple(regular)), NBest(tuple(reverse)))


BEAMS = beams_of(
    [
        made("no", -1.0, other_log_prob=-8.0),
        made("see you at noon", -3.0, other_log_prob=-2.0),
        made("at noon", -4.0, other_log_prob=-3.0, finished=False),
    ],
    [made("yes", -1.5, other_log_prob=-9.0), made("see you at noon then", -2.5, other_log_prob=-4.0)],
)


def explained(strategy: str = "bidia bleu", beams: Beams = BEAMS, **given: Any) -> Explanation:
    return explain_beams(beams, StrategySettings.named(strategy).build(), **given)


def choice(explanation: Explanation, system: str) -> Any:
    return next(each for each in explanation.choices if each.system == system)


@pytest.mark.parametrize("strategy", OWN)
def test_a_decoder_explains_the_reply_that_it_gives_and_the_others_choose_as_they_do(
    run: Model, strategy: str
) -> None:
    decoder = load_decoder(run, strategy, settings=SearchSettings(beam_size=7, max_length=8))

    explanation = decoder.explain("blue dog fish")

    assert explanation.reply == decoder.decode(["blue dog fish"])[0].best.text
    assert explanation.system == explanation.choices[0].system == strategy
    assert explanation.source == "blue dog fish"
    assert explanation.signature == str(decoder.signature)
    similarity = "bleu" if strategy.startswith("bidia bleu e") else "bleu_t"
    systems = {f"{name} {similarity}" if name in ("bidia", "mbr") else name for name in ASKED} | {strategy}
    length = usual_length(run)
    assert {each.system for each in explanation.choices} == systems
    for each in explanation.choices:
        settings = StrategySettings.named(each.system)
        expected = settings.build(max_length=length).rank(explanation.beams).entries[0]
        assert each.ranked == expected
        assert each.reason.startswith(f"{expected.direction.value} hypothesis {expected.place + 1} ")
        assert f"{each.system}: {each.text!r}, since {each.reason}" in str(explanation).splitlines()
    both = explanation.beams.regular.hypotheses, explanation.beams.reverse.hypotheses
    assert length is not None
    compared = BleuT(max_length=length) if similarity == "bleu_t" else Bleu()
    assert np.array_equal(explanation.matrix, compared.pairwise(*both))
    assert all(one.other_log_prob is not None for beam in both for one in beam)


@pytest.mark.parametrize(("strategy", "sizes"), [("bidia", (4, 3)), ("vbs", (7, 7)), ("reverse-vbs", (7, 7))])
def test_the_decoders_own_search_stays_and_a_missing_direction_is_searched_as_widely(
    run: Model, strategy: str, sizes: tuple[int, int]
) -> None:
    settings = SearchSettings(beam_size=7, max_length=8)
    decoder = load_decoder(run, strategy, settings=settings, replies_only=True)

    explanation = decoder.explain("blue dog fish")

    (answer,) = decoder.answers([Beams("1", "blue dog fish")])
    for direction, size in zip(Direction, sizes, strict=True):
        found, own = explanation.beams.of(direction), answer.beams.of(direction)
        assert len(found) == size
        if len(own):
            assert [(one.text, one.score) for one in found] == [(one.text, one.score) for one in own]
        else:
            assert (
                f"does not search the {direction.value} direction: that beam of 7 is" in explanation.notes[0]
            )
    assert len(explanation.notes) == (strategy != "bidia")


def test_a_model_of_one_direction_is_explained_without_the_other(run: RunModel) -> None:
    network = BidirectionalModel(replace(TINY_MODEL, directions=("regular",)), run.vocabulary_size).eval()
    decoder = load_decoder(replace(run, network=network), "vbs")

    explanation = decoder.explain("red")

    assert len(explanation.beams.regular) > 0 == len(explanation.beams.reverse)
    assert explanation.matrix.size == 0
    assert [each.system for each in explanation.choices] == ["vbs", "mbr bleu_t", "longest"]
    assert explanation.notes == (
        f"{run.name} has the regular direction alone: nothing is compared or scored by two.",
        "Not asked, since something that they need is missing: reverse-vbs, bidis, bidia bleu_t.",
    )
    assert explanation.reply in explanation._repr_html_()
    assert "no reverse beam" in texts_of(explanation)
    assert json.loads(json.dumps(explanation.to_dict()))["reverse"] == []


def test_hugging_face_models_are_explained_too(tmp_path: Path) -> None:
    decoder = load_decoder(bidibeam.load(*write_pair(tmp_path, "t5")), "bidis")

    explanation = decoder.explain("red cat")

    assert explanation.reply == decoder.decode(["red cat"])[0].best.text
    assert len(explanation.choices) == len(ASKED)


def test_the_first_tuned_system_of_each_other_strategy_is_asked() -> None:
    weights = {"regular_weight": 0.0, "reverse_weight": 1.0, "length_weight": 0.0}
    tuned = {
        "bidis": {"lambda_": 0.0},
        "vbs-tuned": {"length_exponent": 0.0, "word_reward": 5.0},
        "loglinear both": weights,
        "loglinear": {"regular_weight": 1.0, "reverse_weight": 0.0, "length_weight": 0.0},
    }

    explanation = explained(tuned=tuned)

    added = {each.system: each.text for each in explanation.choices[len(ASKED) :]}
    assert added == {"vbs-tuned": "no", "loglinear both": "yes"}  # that is the likeliest backwards
    assert choice(explanation, "bidis").text == "no"


def test_reasons_give_the_numbers_that_decided() -> None:
    normalised = "has the highest length-normalised log-probability"
    expected = {
        "bidia bleu": (
            "regular hypothesis 2 agrees most, with reverse hypothesis 2: bleu 1; the next, regular "
            "hypothesis 1 with reverse hypothesis 1, has 0."
        ),
        "vbs": (
            f"regular hypothesis 1 {normalised}, -0.50 (log P -1.00, |Y| 4); the next, regular hypothesis 2, "
            "has -1.50."
        ),
        "reverse-vbs": (
            f"reverse hypothesis 1 {normalised}, -0.75 (log P -1.50, |Y| 4); the next, reverse hypothesis 2, "
            "has -1.25."
        ),
        "bidis": (
            "regular hypothesis 2 has the highest regular + lambda * reverse score, -1.50 + 1 * -1.00 = "
            "-2.50; the next, regular hypothesis 1, has -4.50."
        ),
        "mbr bleu": (
            "regular hypothesis 1 has the highest expected bleu with its own beam, 0.15; the next, regular "
            "hypothesis 2, has 0.12."
        ),
        "longest": (
            "regular hypothesis 2 has the highest number of tokens, 4; the next, regular hypothesis 1, has 1."
        ),
    }

    assert {each.system: each.reason for each in explained().choices} == expected


def test_reasons_tell_ties_lone_hypotheses_cut_off_ones_and_the_length_term() -> None:
    def reason(strategy: str, regular: list[Hypothesis], reverse: list[Hypothesis], **options: Any) -> str:
        built = replace(StrategySettings.named(strategy), similarity_options=options).build()
        return str(explain_beams(beams_of(regular, reverse), built).choices[0].reason)

    word, four = made("a"), made("a b c d")
    assert reason("vbs", [word], []).endswith("(log P -2.00, |Y| 4); there is no other.")
    assert reason("longest", [word, made("b")], []).endswith(
        ", 1; regular hypothesis 2 has as much, and ties go to the better rank."
    )
    assert reason("longest", [word, made("a b c", finished=False)], []) == (
        "regular hypothesis 1 has the highest number of tokens of those that finished, 1; all others were "
        "cut off at the maximum length, and rank behind it."
    )
    assert reason("vbs", [made("a", -2.002), made("b", -2.004)], []).endswith(
        "-1.001 (log P -2.00, |Y| 4); the next, regular hypothesis 2, has -1.002."
    )
    assert reason("bidia bleu_t", [word, four], [four], max_length=8).startswith(
        f"regular hypothesis 2 agrees most, with reverse hypothesis 1: bleu_t {np.exp(-1):.2f} (1.00 without "
        "the length term BP_T); the next, regular hypothesis 1 with reverse hypothesis 1, has "
    )
    assert reason("bidia token_f1 mean", [word, four], [four, word]).startswith(
        "regular hypothesis 1 has the highest mean token_f1 with the reverse beam, 0.70, and is closest to "
        "reverse hypothesis 2; regular hypothesis 2 has as much"
    )
    assert reason("bidia bleu", [word, four], []) == (
        "regular hypothesis 1 leads its own beam, and the reverse beam is empty."
    )
    assert reason("random", [word, four], []).startswith("regular hypothesis ")


def test_lists_that_know_nothing_but_texts_are_explained_as_far_as_they_go() -> None:
    @per_pair
    def same_start(one: str, other: str) -> float:
        return float(one[0] == other[0])

    class Lists:
        def generate(self, beams: Any) -> list[Beams]:
            (line,) = beams
            return [beams_of([made("no", None), made("yes", None)], [made("yep", None)], line.source)]

    decoder = Decoder(Lists(), Ranker(StrategySettings("bidia", similarity=same_start).build()))

    explanation = decoder.explain("well?")

    assert explanation.reply == decoder.decode(["well?"])[0].best.text == "yes"
    assert [each.system for each in explanation.choices] == [explanation.system, "longest"]
    assert explanation.system.startswith("bidia ")
    assert explanation.system.endswith(":same_start")
    assert explanation.matrix.tolist() == [[0.0], [1.0]]
    assert explanation.matrix_without_length is None
    within = explanation.system.replace("bidia", "mbr")
    assert explanation.notes == (
        f"Not asked, since something that they need is missing: vbs, reverse-vbs, bidis, {within}.",
    )
    assert "well?" in explanation._repr_html_()
    assert "yes" in " ".join(texts_of(explanation))


def test_nothing_found_is_explained_as_an_empty_reply() -> None:
    explanation = explained("vbs", beams_of([], []))

    assert (explanation.reply, explanation.choices) == ("", ())
    assert "no regular beam" in texts_of(explanation)
    assert "hello" in explanation._repr_html_()


@pytest.mark.parametrize("strategy", ["bidia bleu_t", "bidia bleu either"])
def test_a_dictionary_holds_all_of_it_as_json_does(strategy: str) -> None:
    explanation = explained(strategy, notes=["a note"], signature="strategy:bidia")

    known = explanation.to_dict()

    assert json.loads(json.dumps(known, allow_nan=False)) == known
    assert (known["source"], known["reply"], known["system"]) == ("hello", explanation.reply, strategy)
    assert [each["text"] for each in known["regular"]] == ["no", "see you at noon", "at noon"]
    assert known["reverse"][1] == {
        "text": "see you at noon then",
        "tokens": ["see", "you", "at", "noon", "then"],
        "log_prob": -2.5,
        "other_log_prob": -4.0,
        "length": 4,
        "score": -1.25,
        "finished": True,
    }
    both = BEAMS.regular.hypotheses, BEAMS.reverse.hypotheses
    plain = Bleu().pairwise(*both).tolist()
    assert known["similarity"]["without_length"] == (plain if "bleu_t" in strategy else None)
    assert known["similarity"]["matrix"] == explanation.matrix.tolist()
    first = known["choices"][0]
    place = explanation.choices[0].ranked
    assert (first["rank"], first["partner"]) == (place.place + 1, (place.partner or 0) + 1)
    assert first["direction"] == place.direction
    assert (known["notes"], known["signature"]) == (["a note"], "strategy:bidia")


class Page(HTMLParser):
    """The tags, the text of each cell, and the cells that are outlined."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.cells: list[str] = []
        self.outlined: list[str] = []
        self._is_outlined = False
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update(name for name, _ in attrs)
        self._is_outlined = "outline:" in str(dict(attrs).get("style"))

    def handle_data(self, data: str) -> None:
        self.cells.append(data)
        if self._is_outlined:
            self.outlined.append(data)


def test_a_notebook_shows_every_text_as_text_and_nothing_from_elsewhere() -> None:
    nasty = made(NASTY, -1.0, other_log_prob=-2.0)
    beams = beams_of([nasty, *BEAMS.regular], [nasty, *BEAMS.reverse], f"\x1b[31m{NASTY}")

    page = Page(explained(beams=beams, notes=[NASTY])._repr_html_())

    assert page.tags == {"div", "b", "table", "caption", "tr", "th", "td"}
    assert page.attributes == {"style"}
    assert page.cells.count(NASTY) > 4
    assert all("\x1b" not in cell for cell in page.cells)
    for hypothesis in (*beams.regular, *beams.reverse):
        assert hypothesis.text + " [cut off]" * (not hypothesis.finished) in page.cells


def test_a_notebook_outlines_the_pair_that_agrees_and_names_who_chooses() -> None:
    page = Page(explained()._repr_html_())

    assert page.outlined == ["1.00"]
    assert {"strategy", "chooses", "since", "regular beam", "reverse beam"} <= set(page.cells)
    at = page.cells.index
    assert page.cells[at("-1.50") + 1] == "bidia bleu, bidis, longest"
    assert "bleu with the reverse hypotheses" in page.cells


def texts_of(explanation: Explanation) -> list[str]:
    from matplotlib.text import Text

    return [each.get_text() for each in explanation.plot().findobj(Text)]


def test_a_figure_shows_both_beams_the_matrix_and_the_winners(tmp_path: Path) -> None:
    from matplotlib.patches import Rectangle

    explanation = explained()
    figure = explanation.plot(tmp_path / "beams.svg")

    picture = (tmp_path / "beams.svg").read_text(encoding="utf-8")
    shown = re.findall(r"<text[^>]*>([^<]*)</text>", picture)
    for text in (
        "regular beam (rows) and scores",
        "reverse beam (columns) and scores",
        "no   -0.50",
        "column 2:   see you at noon then   -1.25",
    ):
        assert text in shown
    assert "bidia bleu, bidis, longest" in shown
    left, middle, right = figure.axes
    red = [each.get_text() for axes in (left, right) for each in axes.texts if each.get_color() == VERMILLION]
    assert [text.partition("   -")[0] for text in red if "   -" in text] == [
        "see you at noon",
        "column 2:   see you at noon then",
    ]
    (image,) = middle.images
    drawn: Any = image.get_array()
    assert np.array_equal(drawn, explanation.matrix)
    frames = [each for each in middle.patches if isinstance(each, Rectangle)]
    assert [each.get_xy() for each in frames] == [(0.5, 0.5)]  # around row 2, column 2
    assert explanation.plot(str(tmp_path / "again.svg"))
    assert (tmp_path / "again.svg").read_bytes() == (tmp_path / "beams.svg").read_bytes()
    explanation.plot(tmp_path / "beams.png")
    assert (tmp_path / "beams.png").read_bytes().startswith(b"\x89PNG")


def test_a_figure_shows_the_best_of_wide_beams_and_all_that_are_chosen() -> None:
    texts = [f"red {number}" for number in range(30)]
    regular = [made(text, -2.0 - place, other_log_prob=-1.0) for place, text in enumerate(texts)]
    regular[26] = made("see you at noon", -28.0, other_log_prob=-1.0)

    explanation = explained(beams=beams_of(regular, [made("see you at noon", other_log_prob=-1.0)]))

    assert explanation.reply == "see you at noon"
    shown = texts_of(explanation)
    assert "regular beam (rows) and scores, 21 of 30" in shown
    assert "reverse beam (columns) and scores" in shown
    assert {"red 19   -10.50", "see you at noon   -14.00", "27"} < set(shown)
    assert not {"red 20   -11.00", "28"} & set(shown)
    _, middle, _ = explanation.plot().axes
    assert [each.get_xy() for each in middle.patches] == [(-0.5, 19.5)]  # type: ignore[attr-defined]


def test_a_reply_of_the_reverse_beam_is_shown_with_what_decided_for_it() -> None:
    longer, shorter = made("a b c d e f", other_log_prob=-1.0), made("a b c d e", other_log_prob=-1.0)
    beams = beams_of([made("x y"), longer], [made("u v"), shorter])

    explanation = explained("bidia bleu either", beams)

    (own, *_), pair = explanation.choices, explanation.matrix[1, 1]
    decided = Bleu().pairwise([shorter], [longer])[0, 0]
    (image,) = explanation.plot().axes[1].images
    drawn: Any = image.get_array()
    assert (own.ranked.direction, own.ranked.score) == (Direction.REVERSE, decided)
    assert drawn[1, 1] == decided != pair
    assert f"{decided:.2f}" in Page(explanation._repr_html_()).outlined


def test_long_texts_are_cut_and_markup_stays_text_in_a_figure(tmp_path: Path) -> None:
    long = [made("word " * 90 + str(number), -2.0, other_log_prob=-2.0) for number in range(20)]
    odd = [made("$a_1$ \\frac", other_log_prob=-1.0), made(90 * WIDE, other_log_prob=-1.0)]

    explanation = explained(beams=beams_of(long, odd, "line\nbreak " * 50))
    explanation.plot(tmp_path / "beams.png")

    texts = texts_of(explanation)
    assert max(map(len, texts)) < 150
    assert not any("\n" in text for text in texts)
    assert "column 1:   $a_1$ \\frac   -1.00" in texts
    assert f"column 2:   {24 * WIDE}\N{HORIZONTAL ELLIPSIS}   -1.00" in texts


def test_a_figure_that_cannot_be_drawn_is_refused_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(
        InputError, match=r"^A figure cannot be written as 'beams\.doc': end it in one of .*\.svg"
    ):
        explained().plot(tmp_path / "beams.doc")
    with pytest.raises(InputError, match=r"^A figure cannot be written as 'beams': end it in one of"):
        explained().plot(tmp_path / "beams")
    monkeypatch.setattr(figures, "find_spec", lambda _: None)
    with pytest.raises(
        InputError, match=r"^matplotlib draws an explanation, and matplotlib is not installed: pip"
    ):
        explained().plot()
    assert list(tmp_path.iterdir()) == []


def test_what_is_no_text_or_needs_a_reference_is_not_explained(run: Model) -> None:
    with pytest.raises(InputError, match=r"^Source 1 must be a string, not 3\.$"):
        load_decoder(run).explain(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"^The oracle chooses by references, and strings have none"):
        load_decoder(run, "oracle").explain("red")
