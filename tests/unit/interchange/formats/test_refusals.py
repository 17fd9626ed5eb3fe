"""What cannot be read or written in each format is told in one sentence, with its line or its source."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from bidibeam.errors import BidibeamError
from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.interchange.formats import Format
from bidibeam.interchange.formats.fairseq import Fairseq
from bidibeam.interchange.formats.mbrs import Mbrs
from bidibeam.interchange.formats.moses import Moses
from bidibeam.interchange.formats.openai import OpenAI
from bidibeam.interchange.nbest import Jsonl
from tests.unit.interchange.formats.lists import FOUND, LINE, listed, ranked_line, read, reply, said, written

NO_LISTS = 'the fields "regular" and "reverse" are both missing; one of them must be there, a list of'
NOTHING = 'the source with the id "{}" has no hypotheses. Give it at least one, or leave the line out.'
SAME_ID = 'the id "{}" stands on line 1 already. Give every source an id of its own, or leave all ids out.'
FIELDS = "expected `id ||| text ||| features ||| score`, received {}."
OF_SENTENCE = "the id must be the number of a sentence, received"
UNRANKED = 'line 1: there is no "ranking"; `bidibeam rerank --n-best FILE` writes one.'

JSON_LINES = {  # behind a good line
    '{"id": "7", ': "this is not JSON: Expecting property name enclosed in double quotes at column 13.",
    "[1]": "expected a JSON object, received a list.",
    '{"id": NaN}': "this is not usable JSON: NaN is not a number in JSON.",
    '{"id": -Infinity}': "this is not usable JSON: -Infinity is not a number in JSON.",
    "[" * 100_000: "this is not usable JSON: maximum recursion depth exceeded",
    "9" * 5_000: "this is not usable JSON: Exceeds the limit",
}
SOURCES: list[tuple[dict[str, Any], str]] = [
    ({"id": 7.5}, ': "id" must be a string or a whole number, received the number 7.5.'),
    ({"id": True}, ': "id" must be a string or a whole number, received the boolean true.'),
    ({"source": 3}, ': "source" must be a string, received the number 3.'),
    ({"reference": ["a"]}, ': "reference" must be a string, received a list.'),
    ({"regular": {}}, ': "regular" must be a list, received an object.'),
    ({"regular": "hi"}, ': "regular" must be a list, received the string "hi".'),
    ({"regular": ["hi"]}, ', regular[0]: expected a hypothesis object, received the string "hi".'),
    ({"regular": None, "reverse": None}, f": {NO_LISTS}"),
    ({"regular": [], "id": None}, f": {NOTHING.format(2)}"),
    ({"id": "7"}, f": {SAME_ID.format(7)}"),
    ({"id": 7}, f": {SAME_ID.format(7)}"),
    (
        {"regular": [], "reverse": [{"text": "hi"}]},
        ', reverse[0]: this hypothesis has no "tokens", unlike that of line 1, regular[0]. Give',
    ),
]
HYPOTHESES: list[tuple[dict[str, Any], str]] = [
    ({"text": True}, '"text" must be a string, received the boolean true.'),
    ({"tokens": "hello"}, '"tokens" must be a list, received the string "hello".'),
    ({"tokens": ["a", 1]}, 'every one of "tokens" must be a string, received the number 1.'),
    ({"text": None, "tokens": None}, 'the fields "text" and "tokens" are both missing; one of them must be'),
    ({"log_prob": "-1"}, '"log_prob" must be a finite number, received the string "-1".'),
    ({"log_prob": True}, '"log_prob" must be a finite number, received the boolean true.'),
    ({"log_prob": 10**400}, f'"log_prob" must be a finite number, received the number 1{"0" * 36}....'),
    ({"log_prob": -math.inf}, '"log_prob" must be a finite number, received the number -Infinity.'),
    ({"score": []}, '"score" must be a finite number, received a list.'),
    ({"other_log_prob": {}}, '"other_log_prob" must be a finite number, received an object.'),
    ({"length": 1.5}, '"length" must be a whole number, received the number 1.5.'),
    ({"length": True}, '"length" must be a whole number, received the boolean true.'),
    ({"length": -1}, '"length" must lie between 0 and 1,000,000, received the number -1.'),
    ({"finished": 1}, '"finished" must be true or false, received the number 1.'),
]
RANKED = {
    ranked_line(ranking=None): UNRANKED,
    ranked_line(ranking={"replies": 3}): UNRANKED,
    ranked_line(3): "line 1, replies[0]: expected an object, received the number 3.",
    ranked_line(reply("regular", 2)): "line 1, replies[0]: there is no hypothesis regular[2] on this line.",
    ranked_line(reply("up", 0)): "line 1, replies[0]: there is no hypothesis up[0] on this line.",
    ranked_line({"direction": "regular", "place": 0}): (
        'line 1, replies[0]: the field "score" is missing; it must be a finite number.'
    ),
    ranked_line(): f"line 1: {NOTHING.format('x')}",
    f"{ranked_line(reply('regular', 0))}\n" * 2: f"line 2: {SAME_ID.format('x')}",
}
MOSES = {  # behind two good lines
    "a b": FIELDS.format("1 field"),
    "0 ||| a ||| -1.5": FIELDS.format("3 fields"),
    "x ||| a ||| F= 1 ||| -1": f'{OF_SENTENCE} the string "x".',
    "-1 ||| a ||| F= 1 ||| -1": f'{OF_SENTENCE} the string "-1".',
    f"{'9' * 5000} ||| a ||| F= 1 ||| -1": OF_SENTENCE,
    "0 ||| a ||| F= 1 ||| high": 'the score must be a finite number, received the string "high".',
    "0 ||| a ||| F= 1 ||| nan": 'the score must be a finite number, received the string "nan".',
    "0 ||| a ||| LogProb= x ||| -1": "the feature LogProb must be one finite number, received",
    "0 ||| a ||| OtherLogProb= 1 2 ||| -1": "the feature OtherLogProb must be one finite number, received",
    "0 ||| a ||| Length= 1.5 ||| -1": "the feature Length must be a whole number between 0 and 1,000,000,",
    "0 ||| a ||| Finished= 2 ||| -1": "the feature Finished must be a whole number between 0 and 1,",
    "3 ||| a ||| ||| -1": "the id 3 comes back, after its list began on line 1 and ended",
}
FAIRSEQ = {
    "S-1\ta\nH-1\t-1\tb\nS-2\tc\nH-2\t-1\td\nS-1\ta": "line 5: the id 1 comes back, after its lines began on",
    "H-0\thigh\ta": 'line 1: expected a finite number, received the string "high".',
    "H-0\t-inf\ta": 'line 1: expected a finite number, received the string "-inf".',
    "H-0\t-1\ta\nP-0\t-1 x": 'line 2: expected a finite number, received the string "x".',
    "S-0\ta\nD-0\t-1\ta": "line 2: this D- line stands before any H- line of its id.",
    "P-0\t-1": "line 1: this P- line stands before any H- line of its id.",
    "S-0\ta\nH-0\t-1\ta\nS-3\tb": f"line 3: {NOTHING.format(3)}",
}


def line(**body: Any) -> str:
    return json.dumps(body)


def choice(**fields: Any) -> str:
    return line(choices=[{"text": "a"}, fields])


OPENAI = {
    "{oops": ": this is not JSON: ",
    line(id="x"): ': the field "choices" is missing; it must be a list.',
    line(id=[], choices=[]): ': "id" must be a string or a whole number, received a list.',
    line(id="x", choices=[]): f": {NOTHING.format('x')}",
    line(choices=["a"]): ', choices[0]: expected an object, received the string "a".',
    choice(message={"content": None}): ", choices[1]: there is no text, neither in",
    choice(text=3): ', choices[1]: "text" must be a string, received the number 3.',
    choice(text="b", index="0"): ', choices[1]: "index" must be a whole number, received the string',
    choice(text="b", finish_reason=1): ', choices[1]: "finish_reason" must be a string, received',
    choice(text="b", logprobs={"token_logprobs": [-1, "x"]}): (
        ', choices[1], logprobs: "logprob" must be a finite number'
    ),
    choice(text="b", logprobs={"content": 3}): ', choices[1], logprobs: "content" must be a list',
    line(custom_id="r", response=None, error={"message": "long"}): ": this request failed (long), so it has",
    line(custom_id="r", response={"body": {"error": {"message": "no"}}}): ": this request failed (no), so",
    line(custom_id="r", response=None, error=None): ": this request failed, so it has no choices",
    line(custom_id="r", response={"body": "x"}): ': "body" must be an object, received the string "x".',
}
TWICE = f"{line(id='x', choices=[{'text': 'a'}])}\n\n" * 2
MIXED = line(regular=[{"text": "a"}, {"text": "b"}], reverse=[{"text": "c"}, {"tokens": []}])


def behind(second: dict[str, Any]) -> str:
    return f"{json.dumps(LINE)}\n{json.dumps(LINE | {'id': '8'} | second)}".replace("-Infinity", "-1e999")


@pytest.mark.parametrize(
    ("format_", "content", "message"),
    [
        *((Jsonl(), f"{json.dumps(LINE)}\n{bad}", f"in, line 2: {said}") for bad, said in JSON_LINES.items()),
        *((Jsonl(), behind(changes), f"in, line 2{said}") for changes, said in SOURCES),
        *(
            (Jsonl(), behind({"regular": [FOUND, FOUND | changes]}), f"in, line 2, regular[1]: {said}")
            for changes, said in HYPOTHESES
        ),
        (
            Jsonl(),
            MIXED,
            'in, line 1, reverse[1]: this hypothesis has "tokens", unlike that of line 1, regular[0]. Give',
        ),
        *((Jsonl(ranked=True), content, f"in, {said}") for content, said in RANKED.items()),
        *(
            (Moses(), f"3 ||| a ||| ||| -1\n4 ||| b ||| ||| -1\n{bad}\n", f"in, line 3: {said}")
            for bad, said in MOSES.items()
        ),
        (
            Moses(log_prob="F9"),
            "0 ||| a ||| F0= -1 F1= -2 ||| -1",
            "in, line 1: there is no feature 'F9'; there are: F0, F1.",
        ),
        (Moses(log_prob="F9"), "0 ||| a ||| ||| -1", "in, line 1: there is no feature 'F9'; there are none."),
        *((Fairseq(), content, f"in, {said}") for content, said in FAIRSEQ.items()),
        *((OpenAI(), content, f"in, line 1{said}") for content, said in OPENAI.items()),
        (OpenAI(), TWICE, f"in, line 3: {SAME_ID.format('x')}"),
        (Mbrs(), "a\n", "in: flat text does not say how many hypotheses a source has. Say it by per_source."),
        (Mbrs(per_source=3), "a\nb\nc\nd\n", "in has 4 lines, which is not a multiple of per_source, 3."),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(format_: Format, content: str, message: str) -> None:
    """A message that ends in a full stop is the whole of what is said."""
    with pytest.raises(BidibeamError, match=f"^{re.escape(message)}{'$' * message.endswith('.')}"):
        read(format_, content)


NOT_FINITE = (
    "The hypotheses for source 'x' hold a number that is not finite; an n-best file has no way to write one."
)
SEPARATED = (
    "Source 'x', regular[1]: its text holds ' ||| ', which separates the fields of a Moses n-best list, so "
    "it cannot be written as one."
)
SAME_NUMBER = "in mbrs' flat text every source has the same number of lines."
OTHER_LIST = (
    "Source 'x' has reverse hypotheses only, where regular ones are to be written. Choose the direction "
    "reverse to write those."
)
UNSCORED = "Source 'x', regular[1] has no \"score\", and fairseq's H- lines need one; moses and mbrs do not."
INSEPARABLE = "cannot be written, for spaces separate tokens in fairseq's output."
REVERSE = Beams("x", "", reverse=NBest((said("a", -1.0),)))


@pytest.mark.parametrize(
    ("format_", "beams", "message"),
    [
        *((format_, [REVERSE], OTHER_LIST) for format_ in (Moses(), Fairseq(), Mbrs(), OpenAI())),
        *(
            (Jsonl(), [listed("x", found)], NOT_FINITE)
            for value in (math.nan, math.inf, -math.inf)
            for found in (
                said("a", value),
                said("a")._replace(log_prob=value),
                said("a")._replace(other_log_prob=value),
            )
        ),
        (Moses(), [listed("x", said("a", -math.inf))], NOT_FINITE),
        (Fairseq(), [listed("x", said("a", -math.inf))], NOT_FINITE),
        *(
            (Moses(), [listed("x", "fine", text)], SEPARATED)
            for text in ("a ||| b", "|||", "a |||", "||| a", "a\n||| b")
        ),
        (Fairseq(), [listed("x", said("fine", -1.0), "odd")], UNSCORED),
        *(
            (
                Fairseq(),
                [listed("x", Hypothesis("a b", ("a", token), None, 3, -1.0))],
                f"Source 'x', regular[0]: the token {token!r} {INSEPARABLE}",
            )
            for token in ("a b", "", "a\nb")
        ),
        (
            Mbrs(),
            [listed("a", "x", "y"), listed("b", "z")],
            f"Source 'b' has 1 regular hypotheses, but source 'a' has 2; {SAME_NUMBER}",
        ),
        (
            Mbrs(per_source=3),
            [listed("a", "x", "y")],
            f"Source 'a' has 2 regular hypotheses, but per_source says 3; {SAME_NUMBER}",
        ),
        (
            Mbrs(),
            [Beams("a", "")],
            f"Source 'a' has 0 regular hypotheses, but source 'a' has at least 1; {SAME_NUMBER}",
        ),
    ],
)
def test_what_cannot_be_written_is_named_with_its_source(
    format_: Format, beams: list[Beams], message: str
) -> None:
    with pytest.raises(BidibeamError, match=f"^{re.escape(message)}$"):
        written(format_, beams)


def test_a_count_below_one_is_refused() -> None:
    with pytest.raises(BidibeamError, match=r"^per_source must be at least 1, not 0\.$"):
        Mbrs(per_source=0)
