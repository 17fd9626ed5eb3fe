"""Metrics that somebody else wrote: how they are named and made, and what is refused of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from bidibeam.errors import BidibeamError, InputError, MetricError, SettingsError, UnknownNameError
from bidibeam.metrics import METRICS, build_metric, build_metrics
from bidibeam.metrics.bleu import CorpusBleu
from bidibeam.metrics.custom import per_reply
from bidibeam.metrics.scoring import measure, score
from bidibeam.scores import Signature

HERE = __name__
Texts = Sequence[Sequence[str]]


class Letters:
    """The share of letters that are right, place by place; lower-cased if asked for."""

    name = "letters"
    higher_is_better = True

    def __init__(self, lowercase: bool = False) -> None:
        self.lowercase = lowercase

    def statistics(self, replies: Sequence[str], references: Texts) -> list[list[float]]:
        rows = []
        for reply, texts in zip(replies, references, strict=True):
            own = reply.lower() if self.lowercase else reply
            right = [sum(a == b for a, b in zip(own, text, strict=False)) for text in texts]
            rows.append([float(max(right)), float(max(1, len(reply)))])
        return rows

    def values(self, sums: Any) -> Any:
        return sums[:, 0] / sums[:, 1]


@per_reply(higher_is_better=False)
def letters_off(reply: str, references: Sequence[str]) -> float:
    return min(abs(len(reply) - len(text)) for text in references)


class Longest:
    """Known for a whole corpus alone, and with a signature of its own."""

    higher_is_better = False
    signature = Signature((("metric", "longest"), ("unit", "letters")))

    def score(self, replies: Sequence[str], _references: Texts) -> int:
        return max(map(len, replies))


class Broken:
    """Whatever is given, where it stands."""

    higher_is_better = True

    def __init__(self, statistics: Any = ((1.0, 1.0),), values: Any = (1.0,)) -> None:
        self.given = {"statistics": statistics, "values": values}

    def statistics(self, *_: Any) -> Any:
        return self._answer("statistics")

    def values(self, *_: Any) -> Any:
        return self._answer("values")

    def _answer(self, name: str) -> Any:
        if isinstance(self.given[name], Exception):
            raise self.given[name]
        return self.given[name]


class Whole(Longest):
    answer: Any = math.nan

    def score(self, *_: Any) -> Any:
        return self.answer


class Undecided(Letters):
    higher_is_better = None  # type: ignore[assignment]


class Costly(Letters):
    def __init__(self, model: str) -> None:
        self.model = model


def make_letters(lowercase: bool = False) -> Letters:
    return Letters(lowercase)


letters = Letters()
nan = Broken([[math.nan, 1.0]])
flat = Broken([1.0, 2.0])
few = Broken([[1.0, 1.0]] * 2)
words = Broken("many")
zero = Broken(values=[math.inf])
rows = Broken(values=[1.0, 2.0])
failing = Broken(ZeroDivisionError("division by zero"))
honest = Broken(InputError("Its own sentence."))
text_score = Whole()
text_score.answer = "good"
whole = Whole()
number = 5


def value(name: str, replies: list[str], references: list[tuple[str, ...]], **options: Any) -> float:
    metric = build_metric(f"{HERE}:{name}", **options)
    return score(metric, measure(metric, replies, references))


def test_a_metric_is_an_object_a_class_or_a_function_by_its_place() -> None:
    for name in ("letters", "Letters", "make_letters"):
        assert value(name, ["Ab", "c"], [("ab", "Ax"), ("d",)]) == 1 / 3
    assert value("Letters", ["Ab", "c"], [("ab", "Ax"), ("d",)], lowercase=True) == 2 / 3
    assert value("letters_off", ["ab", "c"], [("a", "abcd"), ("cde",)]) == 1.5
    assert value("Longest", ["ab", "c"], [("a",), ("a",)]) == 2


def test_name_and_signature_are_its_own_or_its_place() -> None:
    named, unnamed = build_metric(f"{HERE}:letters"), build_metric(f"{HERE}:Longest")

    assert (named.name, unnamed.name) == ("letters", f"{HERE}:Longest")
    assert str(named.signature).startswith(f"metric:{HERE}:letters|bidibeam:")
    assert str(unnamed.signature) == "metric:longest|unit:letters"
    assert not build_metric(f"{HERE}:letters_off").higher_is_better


def test_an_entry_point_brings_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(METRICS, "_plugins", lambda: {"letters": f"{HERE}:Letters"})

    metric = build_metric("letters", lowercase=True)

    assert score(metric, measure(metric, ["AB"], [("ab",)])) == 1.0
    with pytest.raises(InputError, match="There are no replies to score"):
        measure(metric, [], [])


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (
            "nan",
            MetricError,
            r"answered with nan for the reply 'a'\. Its statistics must be finite numbers\.$",
        ),
        (
            "flat",
            MetricError,
            r"statistics of shape \(2,\) for 1 replies\. It must return a row for each of ",
        ),
        ("few", MetricError, r"statistics of shape \(2, 2\) for 1 replies\. It must return a row for each"),
        (
            "words",
            MetricError,
            r"answered its statistics with str, which is no array of numbers \(could not ",
        ),
        (
            "zero",
            MetricError,
            r"answered with inf for the sums 1, 1\. Its values must be finite numbers, also",
        ),
        (
            "rows",
            MetricError,
            r"values of shape \(2,\) for 1 rows of sums\. It must return one number for each ",
        ),
        (
            "failing",
            MetricError,
            r"failed in statistics with ZeroDivisionError: division by zero\. The traceb",
        ),
        ("honest", InputError, r"^Its own sentence\.$"),
        ("whole", MetricError, r"answered with nan for 1 replies\. Its score must be a finite number\.$"),
        ("text_score", MetricError, r"answered with str\. Its score must be a number\.$"),
        (
            "number",
            MetricError,
            r"number, of type int, has none of these methods\. A metric has .*\.custom\.per_reply\.$",
        ),
        (
            "Undecided",
            MetricError,
            r"has no higher_is_better, True or False\. A metric has higher_is_better,",
        ),
        (
            "Costly",
            MetricError,
            r"Costly cannot be made: .*missing 1 required positional argument: 'model'\. A ",
        ),
        (
            "nowhere",
            UnknownNameError,
            r"nowhere' cannot be imported: module .* has no attribute 'nowhere'\. W",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_sentence(
    name: str, error: type[BidibeamError], message: str
) -> None:
    with pytest.raises(error, match=message):
        value(name, ["a"], [("a",)])


def test_options_that_a_metric_does_not_take_are_refused_by_name() -> None:
    with pytest.raises(
        SettingsError, match=r"^The metric wer takes no `tokenize`, received '13a': leave it "
    ):
        build_metric("wer", tokenize="13a")
    with pytest.raises(SettingsError, match=r"^The metric distinct-1 takes no `lowercase`, received True"):
        build_metric("distinct-1", lowercase=True)
    with pytest.raises(SettingsError, match=r":letters takes no `lowercase`, received True: leave it out\.$"):
        build_metric(f"{HERE}:letters", lowercase=True)
    with pytest.raises(
        UnknownNameError, match=r"^Unknown metric 'weer'\. Did you mean 'wer'\? Choose one of: b"
    ):
        build_metric("weer")


def test_of_several_metrics_each_takes_the_options_that_it_has() -> None:
    assert build_metrics(["ter", "bleu", "bleu"], "intl") == [build_metric("ter"), CorpusBleu("intl")]
    assert build_metrics(["wer", "distinct-1"], None, lowercase=True)[0] == build_metric(
        "wer", lowercase=True
    )
    with pytest.raises(SettingsError, match=r"^None of the metrics wer, ter takes `tokenize`, received '13"):
        build_metrics(["wer", "ter"], "13a")


def test_sums_keep_their_rows() -> None:
    metric = build_metric(f"{HERE}:letters")

    assert metric.values(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [0.5, 0.75]


def test_two_metrics_of_one_name_are_refused() -> None:
    class Named(CorpusBleu):
        name = "chrf"

    globals()["named"] = Named()
    try:
        with pytest.raises(
            SettingsError, match=r"^Two metrics are called 'chrf': give one of them another `name`"
        ):
            build_metrics(["chrf", f"{HERE}:named"])
    finally:
        del globals()["named"]
