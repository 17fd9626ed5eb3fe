"""Settings, roles and scorers that cannot be are refused; what stopping rules and penalties compute."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from typing import Any
from unittest.mock import patch

import pytest
import torch
from torch import Tensor

from bidibeam import registry
from bidibeam.errors import ScorerError, SettingsError, UnknownNameError
from bidibeam.protocols import SearchProgress
from bidibeam.scores import Signature
from bidibeam.search.beam import beam_search
from bidibeam.search.length import GNMTPenalty
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from bidibeam.search.stopping import STOPPING, stopping_rule
from tests.unit.search.tables import ROLES, TableScorer, search, source_batch


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "beam_size must be at least 1, not 0."),
        ({"beam_size": 2.5}, "beam_size must be a whole number, not 2.5."),
        ({"beam_size": True}, "beam_size must be a whole number, not True."),
        ({"beam_size": 10**11}, "beam_size must be at most 100,000, not 100,000,000,000."),
        ({"max_length": 0}, "max_length must be at least 1, not 0."),
        ({"max_length": "9"}, "max_length must be a whole number, not '9'."),
        ({"min_length": -1}, "min_length must be at least 0, not -1."),
        ({"min_length": 5, "max_length": 5}, "min_length must be below max_length"),
        ({"length_penalty": float("nan")}, "length_penalty must be a finite number, not nan."),
        ({"length_penalty": "long"}, "length_penalty must be a finite number, not 'long'."),
        ({"length_penalty": -11}, "length_penalty must lie between -10 and 10, not -11."),
        ({"no_repeat_ngram_size": -1}, "no_repeat_ngram_size must be at least 0, not -1."),
        ({"no_repeat_ngram_size": 2.0}, "no_repeat_ngram_size must be a whole number, not 2.0."),
        ({"repetition_penalty": 0}, "repetition_penalty must be a finite number above 0, not 0."),
        ({"repetition_penalty": -1.5}, "repetition_penalty must be a finite number above 0, not -1.5."),
        ({"repetition_penalty": math.nan}, "repetition_penalty must be a finite number above 0, not nan."),
        ({"repetition_penalty": math.inf}, "repetition_penalty must be a finite number above 0, not inf."),
        ({"repetition_penalty": "2"}, "repetition_penalty must be a finite number above 0, not '2'."),
        ({"bad_words": "damn"}, "bad_words must be a list of words, not 'damn'."),
        ({"bad_words": ["damn", " "]}, "bad_words must be words, none empty, not ' '."),
        ({"bad_words": (3,)}, "bad_words must be words, none empty, not 3."),
        ({"unfinished": "hide"}, "unfinished must be one of keep, rank, drop, not 'hide'."),
        ({"stopping": 3}, "stopping must be a name, not 3."),
        ({"stopping": "constant=2"}, "stopping must be 'constant', not 'constant=2'"),
        ({"stopping": "patience=long"}, "stopping must have a number after 'patience=', not 'long'."),
        ({"stopping": "patience="}, "stopping must have a number after 'patience=', not ''."),
        (
            {"stopping": "patience=0"},
            "stopping must have a factor of patience above 0 and at most 1,000,000, not 0.",
        ),
        (
            {"stopping": "patience=inf"},
            "stopping must have a factor of patience above 0 and at most 1,000,000, not inf.",
        ),
        ({"stopping": "patience=1e308"}, "patience above 0 and at most 1,000,000, not 1e+308."),
    ],
)
def test_a_setting_out_of_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        SearchSettings(**options)


def test_an_unknown_rule_is_refused_with_a_hint_and_the_defaults_are_our_reading_of_the_paper() -> None:
    with pytest.raises(UnknownNameError, match=r"Unknown stopping rule 'patient'. Did you mean 'patience'\?"):
        SearchSettings(stopping="patient=2")
    assert SearchSettings() == SearchSettings(
        10, 20, 1, 0.6, "gnmt", True, "shrinking", "keep", False, 0, 1.0, ()
    )
    assert hash(SearchSettings(bad_words=["a"])) == hash(SearchSettings(bad_words=("a",)))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"start": -1, "end": 2}, "Token ids start at 0; received -1."),
        ({"start": 1, "end": 2, "forbidden": frozenset({-3})}, "Token ids start at 0; received -3."),
        ({"start": 1, "end": 2, "forbidden": frozenset({2})}, "The end token (2) is forbidden, so no hypo"),
        ({"start": 1, "end": 2, "forbidden_sequences": {(4, -3)}}, "Token ids start at 0; received -3."),
        ({"start": 1, "end": 2, "forbidden_sequences": {()}}, "A forbidden sequence must have a token, and"),
    ],
)
def test_roles_that_cannot_be_are_refused(roles: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        VocabularyRoles(**roles)


@pytest.mark.parametrize(
    "settings",
    [
        SearchSettings(),
        SearchSettings(beam_size=3, count_end=False, length_penalty=1.0, stopping="patience=1.5"),
        SearchSettings(bad_words=("well, no", "a|b"), repetition_penalty=1.2, no_repeat_ngram_size=3),
        SearchSettings(bad_words=("50%", "%2C", "%7C", "%257C")),
    ],
)
def test_a_signature_tells_how_a_search_was_done(settings: SearchSettings) -> None:
    printed = str(Signature.of_settings(settings, model="abc"))

    assert SearchSettings.from_signature(Signature.parse(printed)) == settings
    for other in ("beam_size:many", "beam_size:0", "stopping:nothing", "count_end:no"):
        broken = re.sub(rf"{other.partition(':')[0]}:[^|]*", other, printed)
        assert SearchSettings.from_signature(Signature.parse(broken)) is None
    assert SearchSettings.from_signature(Signature.parse("model:abc|beam_size:3")) is None


def test_another_package_may_add_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    def entry_points(*, group: str) -> Iterable[EntryPoint]:
        assert group == "bidibeam.stopping"
        return [EntryPoint("thrifty", "bidibeam.search.stopping:Constant", group)]

    monkeypatch.setattr(registry, "entry_points", entry_points)

    assert stopping_rule("thrifty") == stopping_rule("constant")
    assert stopping_rule("patience=1.5") == STOPPING.create("patience", 1.5)


def progress(
    finished: list[int], *, kept: list[float], live: list[float], exponent: float = 1.0
) -> SearchProgress:
    return SearchProgress(
        beam_size=2,
        current=3,
        shortest=4,
        longest=7,
        finished=torch.tensor(finished),
        kept_scores=torch.tensor([kept] * len(finished)),
        live_log_probs=torch.tensor([live] * len(finished)),
        penalty=GNMTPenalty(exponent),
    )


@pytest.mark.parametrize(
    ("rule", "live_beams", "is_done"),
    [
        ("shrinking", [2, 1, 0], [False, False, True]),
        ("constant", [2, 2, 2], [False, False, True]),
        ("patience=0.6", [2, 2, 2], [False, False, True]),  # 1.2 finished is 2 finished
        ("patience=0.5", [2, 2, 2], [False, True, True]),
        ("patience", [2, 2, 2], [False, False, False]),
        ("exhaust", [2, 2, 2], [False, False, False]),
    ],
)
def test_rules_that_count(rule: str, live_beams: list[int], is_done: list[bool]) -> None:
    counts = progress([0, 1, 2], kept=[-1.0, -2.0], live=[-3.0, -4.0])

    assert stopping_rule(rule).live_beams(2, counts.finished).tolist() == live_beams
    assert stopping_rule(rule).is_done(counts).tolist() == is_done


@pytest.mark.parametrize(
    ("kept", "live", "exponent", "is_done"),
    [
        ([-1.0, -2.0], [-3.9, -5.0], 1.0, False),  # |Y| = 7 halves: -1.95 would enter
        ([-1.0, -2.0], [-4.0, -5.0], 1.0, True),  # a tie does not
        ([-1.0, -torch.inf], [-9.0, -10.0], 1.0, False),  # there is room
        ([-1.0, -torch.inf], [-torch.inf, -torch.inf], 1.0, True),  # nothing is left
        ([-1.0, -2.0], [-1.3, -5.0], -1.0, False),  # |Y| = 4 makes -1.3 a -1.95
        ([-1.0, -2.0], [-1.4, -5.0], -1.0, True),  # and -1.4 a -2.1
    ],
)
def test_optimal_knows_what_is_out_of_reach(
    kept: list[float], live: list[float], exponent: float, is_done: bool
) -> None:
    reached = progress([2], kept=kept, live=live, exponent=exponent)

    assert stopping_rule("optimal").is_done(reached).tolist() == [is_done]
    assert stopping_rule("optimal").live_beams(2, reached.finished).tolist() == [2]


@pytest.mark.parametrize(("length", "score"), [(1, -6.0), (7, -3.0), (13, -2.0)])
def test_the_penalty_is_five_more_over_six(length: int, score: float) -> None:
    assert GNMTPenalty(1.0).score(torch.tensor([-6.0]), length).tolist() == pytest.approx([score])
    assert GNMTPenalty(0.6).score(torch.tensor(-1.0), 10).item() == pytest.approx(-(6**0.6) / 15**0.6)


@pytest.mark.parametrize("exponent", [-1.0, 0.0, 0.6, 2.0])
def test_no_score_within_reach_is_above_the_bound(exponent: float) -> None:
    penalty, log_prob = GNMTPenalty(exponent), torch.tensor([-3.0])

    bound = penalty.bound(log_prob, 3, 9)

    scores = [penalty.score(log_prob - loss, length) for length in range(3, 10) for loss in (0.0, 0.5)]
    assert max(scores) == bound


@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("step", [1, 2, 4])
def test_logits_that_are_not_numbers_stop_the_search(value: float, step: int) -> None:
    def row(source: int, prefix: tuple[int, ...]) -> list[float]:
        is_broken = source == 7 and len(prefix) == step - 1
        return [0.0, 0.0, 0.0, value if is_broken else 0.0, 0.0]

    with pytest.raises(ScorerError, match=rf"for source 2 were NaN or infinite at step {step}, so .* we"):
        search(row, SearchSettings(beam_size=3, max_length=4, min_length=3), sources=[5, 6, 7])


@pytest.mark.parametrize("shape", [(2, 5, 1), (3, 5), (5,)])
def test_logits_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    class Misshapen(TableScorer):
        def step(self, last_tokens, state):  # type: ignore[no-untyped-def]  # noqa: ARG002
            return torch.zeros(shape), state

    with pytest.raises(ScorerError, match=re.escape(f"logits have shape {shape}, not (2, vocabulary).")):
        beam_search(Misshapen(lambda *_: []), source_batch([0, 1]), SearchSettings(), ROLES)


@pytest.mark.parametrize(
    "roles", [VocabularyRoles(6, 1), VocabularyRoles(0, 6), VocabularyRoles(0, 1, frozenset({2, 6}))]
)
def test_tokens_beyond_the_vocabulary_are_refused(roles: VocabularyRoles) -> None:
    with pytest.raises(SettingsError, match="Token 6 is not in the model's vocabulary of 6 tokens"):
        search(lambda *_: [0.0] * 6, SearchSettings(), roles=roles)


def test_a_beam_too_large_for_the_keys_is_refused() -> None:
    message = "beam_size 5 is too large for a vocabulary of 6 tokens; use at most 4"
    with patch("bidibeam.search.beam.PLACES", 29), pytest.raises(SettingsError, match=message):
        search(lambda *_: [0.0] * 6, SearchSettings(beam_size=5))


def test_the_search_builds_no_graph() -> None:
    class Learning(TableScorer):
        def step(self, last_tokens: Tensor, state):  # type: ignore[no-untyped-def]
            logits, state = super().step(last_tokens, state)
            seen.append(torch.is_grad_enabled())
            return logits, state

    seen: list[bool] = []

    beam_search(Learning(lambda *_: [0.0] * 6), source_batch([0]), SearchSettings(max_length=3), ROLES)

    assert seen
    assert not any(seen)
