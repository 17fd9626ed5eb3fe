"""The recipe of a number, as it is printed."""

from __future__ import annotations

from dataclasses import dataclass, field

from bidibeam.scores import OPTIONAL, Signature, recorded


def test_a_signature_prints_its_facts_in_order_and_more_go_behind() -> None:
    short = Signature((("metric", "bleu"),))

    assert str(short.extended(order=4, smooth="exp")) == "metric:bleu|order:4|smooth:exp"
    assert str(short) == "metric:bleu"
    assert Signature.parse("metric:bleu|path:a:b") == short.extended(path="a:b")


@dataclass(frozen=True)
class Inner:
    @property
    def signature(self) -> Signature:
        return Signature((("similarity", "inner"), ("order", "4")))


@dataclass(frozen=True)
class Settings:
    inner: Inner
    lambda_: float
    weights: tuple[float, ...] | None = None
    name: str = "x"
    is_on: bool = True
    hidden: int = field(default=3, repr=False)


def test_settings_stand_behind_the_facts_and_bring_their_own_signatures() -> None:
    signature = Signature.of_settings(Settings(Inner(), 0.5, (0.75, 0.25)), strategy="mine", version=2)

    assert str(signature) == (
        "strategy:mine|version:2|similarity:inner|order:4|lambda:0.5|weights:0.75,0.25|name:x|is_on:True"
    )


def test_what_is_not_set_is_left_out() -> None:
    assert "weights" not in str(Signature.of_settings(Settings(Inner(), 0.5)))


@dataclass(frozen=True)
class Grown:
    size: int = 3
    words: tuple[str, ...] = field(default=(), metadata={OPTIONAL: True})


def test_an_optional_setting_is_a_fact_only_where_it_is_not_the_default() -> None:
    grown = Grown(words=("a", "b|c"))

    assert (str(Signature.of_settings(Grown())), recorded(Grown())) == ("size:3", {"size": 3})
    assert recorded(grown) == {"size": 3, "words": ["a", "b|c"]}
    assert str(Signature.of_settings(grown)) == "size:3|words:a,b%7Cc"
    assert Signature.parse("size:3|words:a,b%7Cc") == Signature.of_settings(grown)


def test_numbers_are_written_in_full_and_whole_ones_short() -> None:
    def shown(value: float) -> str:
        return dict(Signature.of_settings(Settings(Inner(), value)).facts)["lambda"]

    assert [shown(value) for value in (1.0, 0.1, 10.0, -2.0, 1e-05)] == ["1", "0.1", "10", "-2", "1e-05"]
    assert shown(0.12345678) != shown(0.12345679)
