"""Plain functions as a model: what is found, against enumeration and against the network's own scorer."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import bidibeam
from bidibeam import (
    Direction,
    FunctionModel,
    SearchSettings,
    VocabularyRoles,
    beam_search,
    load_decoder,
    scorer_from_function,
)
from bidibeam.data.batching import pad_sources
from bidibeam.errors import BidibeamError, InputError, RunError, ScorerError, SettingsError
from bidibeam.models.run import RunModel
from tests.unit.search.oracle import enumerate_all

VOCABULARY = ["<start>", "<end>", "a", "b", "c"]
ROLES = VocabularyRoles(start=0, end=1, forbidden=frozenset({0}))
WIDE = SearchSettings(beam_size=200, max_length=4, min_length=0, stopping="optimal")
SOURCES = ["a b", "", "c"]


def prefix_logits(seed: int) -> Callable[[list[int], list[list[int]]], Any]:
    """Logits that depend on all that was read, the same whenever asked."""

    def next_logits(source: list[int], prefixes: list[list[int]]) -> Any:
        rows = [np.random.default_rng([seed, *source, 9, *prefix]).normal(size=5) for prefix in prefixes]
        return 2.0 * np.array(rows)

    return next_logits


FUNCTIONS = dict(zip(Direction, map(prefix_logits, (1, 2)), strict=True))


def row(direction: Direction, source: list[int], prefix: tuple[int, ...]) -> list[float]:
    logits: list[float] = FUNCTIONS[direction](source, [[ROLES.start, *prefix]])[0].tolist()
    return logits


def encode(text: str) -> list[int]:
    return [VOCABULARY.index(word) for word in text.split()]


def model_of(*functions: Any, **given: Any) -> FunctionModel:
    options: dict[str, Any] = {
        "encode": encode,
        "decode": lambda ids: " ".join(VOCABULARY[each] for each in ids),
        "roles": ROLES,
        "vocabulary_size": 5,
        **given,
    }
    return FunctionModel(*functions, **options)


@pytest.fixture(scope="module")
def model() -> FunctionModel:
    return model_of(*FUNCTIONS.values())


@pytest.mark.parametrize("direction", Direction)
def test_bad_words_are_in_no_reply_and_all_others_are_found(
    model: FunctionModel, direction: Direction
) -> None:
    one, two, three = VOCABULARY[2:5]
    every = {hypothesis.text for hypothesis in model.n_best(direction, SOURCES[:1], WIDE)[0]}
    bad = replace(WIDE, bad_words=(one, f"{two} {three}"))

    found = {hypothesis.text for hypothesis in model.n_best(direction, SOURCES[:1], bad)[0]}

    allowed = {text for text in every if one not in text.split() and f"{two} {three}" not in text}
    assert found == allowed
    assert len(found) < len(every)
    with pytest.raises(SettingsError, match="cannot spell"):
        model.check_settings(replace(WIDE, bad_words=(VOCABULARY[0],)))


@pytest.mark.parametrize("direction", Direction)
def test_a_wide_beam_finds_every_reply_of_an_enumeration(model: FunctionModel, direction: Direction) -> None:
    lists = model.n_best(direction, SOURCES, WIDE)

    for source, nbest in zip(SOURCES, lists, strict=True):
        ids = encode(source)
        every = {
            " ".join(VOCABULARY[each] for each in direction.arrange(tokens)): log_prob
            for tokens, log_prob in enumerate_all(partial(row, direction, ids), WIDE, ROLES)
        }
        found = {one.text: one.log_prob for one in nbest if one.finished}
        assert len(found) == 1 + 3 + 9 + 27
        assert found == pytest.approx(every, abs=1e-4)
        given = [(*encode(text), ROLES.end) for text in every]
        scored = model.sequence_scorer(direction).log_probs([source], [given])[0]
        assert scored == pytest.approx([*every.values()], abs=1e-4)


@pytest.mark.parametrize("direction", Direction)
def test_the_first_tokens_of_a_reply_are_those_that_the_direction_writes_first(
    model: FunctionModel, direction: Direction
) -> None:
    scorer, ids = model.sequence_scorer(direction), encode("a b c")
    first = ids[0] if direction is Direction.REGULAR else ids[-1]

    logits = torch.tensor(FUNCTIONS[direction]([4], [[0]])[0])

    expected = logits.log_softmax(-1)[first].item()
    assert scorer.log_probs(["c"], [[(*ids, 1), ids]], first=1) == [pytest.approx([expected] * 2, abs=1e-5)]
    assert scorer.encode(["a b"]) == [(2, 3, 1)]


@pytest.fixture(scope="module")
def run(unsure_run: Path) -> RunModel:
    model = bidibeam.load(unsure_run)
    assert isinstance(model, RunModel)
    return model


@pytest.fixture(scope="module")
def wrapped(run: RunModel) -> FunctionModel:
    """The run's network, asked for whole prefixes each time."""

    def function(direction: Direction) -> Any:
        def next_logits(source: list[int], prefixes: list[list[int]]) -> torch.Tensor:
            scorer, tokens = run.scorer(direction), torch.tensor(prefixes)
            state = scorer.start(pad_sources([source]))
            state = scorer.select(state, torch.zeros(1, len(prefixes), dtype=torch.long))
            for column in tokens.T:
                logits, state = scorer.step(column, state)
            assert isinstance(logits, torch.Tensor)
            return logits

        return next_logits

    tokenizer = run.tokenizer
    forbidden = frozenset({tokenizer.pad_id, tokenizer.start_id, tokenizer.unknown_id})
    return FunctionModel(
        *map(function, Direction),
        encode=tokenizer.encode,
        decode=lambda ids: tokenizer.text(tokenizer.tokens(ids)),
        roles=VocabularyRoles(tokenizer.start_id, tokenizer.end_id, forbidden),
        vocabulary_size=tokenizer.vocabulary_size,
        max_length=run.limits.max_length,
    )


@pytest.mark.parametrize("strategy", ["vbs", "reverse-vbs", "bidia bleu_t", "bidis", "longest"])
def test_a_network_answers_the_same_as_by_its_own_scorer(
    run: RunModel, wrapped: FunctionModel, strategy: str
) -> None:
    sources = ["red cat", "blue dog fish", "white"]

    own, found = (load_decoder(each, strategy).decode(sources) for each in (run, wrapped))

    for one, other in zip(own, found, strict=True):
        assert [each.text for each in other] == [each.text for each in one]
        assert [each.ids for each in other] == [each.ids for each in one]
        for name in ("log_prob", "score", "other_log_prob"):
            expected = [getattr(each, name) for each in one]
            assert [getattr(each, name) for each in other] == pytest.approx(expected, abs=1e-4)


def test_a_batch_finds_what_each_source_finds_alone_whichever_library_answers(model: FunctionModel) -> None:
    listed = model_of(*(lambda *given, f=f: f(*given).tolist() for f in FUNCTIONS.values()))
    in_torch = model_of(
        *(lambda *given, f=f: torch.tensor(f(*given), requires_grad=True) for f in FUNCTIONS.values())
    )
    settings = SearchSettings(beam_size=4, max_length=5)

    for direction in Direction:
        batch = model.n_best(direction, SOURCES, settings)
        assert batch == [model.n_best(direction, [source], settings)[0] for source in SOURCES]
        assert batch == listed.n_best(direction, SOURCES, settings)
        assert batch == in_torch.n_best(direction, SOURCES, settings)
        assert model.n_best(direction, [], settings) == []


def test_prefixes_of_a_call_are_of_one_length_begin_with_the_start_token_and_may_be_changed() -> None:
    seen: list[list[list[int]]] = []

    def next_logits(source: list[int], prefixes: list[list[int]]) -> Any:
        logits = FUNCTIONS[Direction.REGULAR](source, prefixes)
        seen.append([[*prefix] for prefix in prefixes])
        prefixes[0].clear()
        source.append(7)
        return logits

    model = model_of(next_logits)
    found = model.n_best(Direction.REGULAR, ["a b"], SearchSettings(beam_size=3, max_length=4))
    model.sequence_scorer(Direction.REGULAR).log_probs(["a b"], [[(2, 3, 1), (2, 1), (4,)]])

    assert found == model_of(FUNCTIONS[Direction.REGULAR]).n_best(
        Direction.REGULAR, ["a b"], SearchSettings(beam_size=3, max_length=4)
    )
    assert all(len({*map(len, prefixes)}) == 1 for prefixes in seen)
    assert all(prefix[0] == ROLES.start for prefixes in seen for prefix in prefixes)
    assert seen[-3:] == [[[0]], [[0, 2]], [[0, 2, 3]]]  # a beginning that replies share is asked for once


def test_what_cannot_come_is_never_written_and_scores_stay_finite() -> None:
    def only_a(source: list[int], prefixes: list[list[int]]) -> Any:  # noqa: ARG001
        return [[-math.inf, 0.0, 0.0, -math.inf, -math.inf] for _ in prefixes]

    def silent(source: list[int], prefixes: list[list[int]]) -> Any:  # noqa: ARG001
        return np.full((len(prefixes), 5), -math.inf)

    settings = SearchSettings(beam_size=4, max_length=4)
    model = model_of(only_a, silent)

    (nbest,) = load_decoder(model, "bidis", settings=settings).decode(["b"])

    assert {word for one in nbest for word in one.tokens} == {"a"}
    assert all(math.isfinite(one.other_log_prob or math.nan) for one in nbest)
    assert nbest.best.log_prob == pytest.approx(2 * math.log(0.5), abs=1e-5)
    assert len(model.n_best(Direction.REVERSE, ["b"], settings)[0]) == 0


def test_a_scorer_of_a_function_is_searched_as_any_other_and_never_sees_padding() -> None:
    sources: list[list[int]] = []

    def next_logits(source: list[int], prefixes: list[list[int]]) -> Any:
        sources.append(source)
        return FUNCTIONS[Direction.REGULAR](source, prefixes)

    scorer = scorer_from_function(next_logits, vocabulary_size=5, padding=0)
    settings = SearchSettings(beam_size=3, max_length=4)

    lists = beam_search(scorer, torch.tensor([[2, 3], [4, 0]]), settings, ROLES)

    model = model_of(FUNCTIONS[Direction.REGULAR])
    expected = model.n_best(Direction.REGULAR, ["a b", "c"], settings)
    assert [[one.tokens for one in line] for line in lists] == [
        [one.ids[: -1 if one.finished else None] for one in line] for line in expected
    ]
    assert {*map(tuple, sources)} == {(2, 3), (4,)}


def ones(rows: int = 1, columns: int = 5, fill: float = 1.0) -> Any:
    return lambda *_: np.full((rows, columns), fill)


def fail(*_: Any) -> Any:
    raise IndexError("list index out of range")


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            ones(columns=4),
            r"answered with shape \(1, 4\) for 1 prefixes\. It must return shape \(1, 5\): a row",
        ),
        (ones(rows=2), r"answered with shape \(2, 5\) for 1 prefixes"),
        (lambda *_: np.zeros(5), r"answered with shape \(5,\) for 1 prefixes"),
        (
            ones(fill=math.nan),
            r"answered with nan for token 0 after the prefix \[0\] of the source \[2, 3\]\. It",
        ),
        (
            ones(fill=math.inf),
            r"answered with inf for token 0 .* finite numbers, or -inf for what cannot come\.$",
        ),
        (ones(fill=1e300), "answered with inf for token 0"),
        (
            lambda *_: None,
            r"answered with NoneType, which is no array of numbers\. It must .* shape \(1, 5\)\.$",
        ),
        (lambda *_: "five", "answered with str, which is no array of numbers"),
        (lambda *_: [[1.0], [1.0, 2.0]], "answered with list, which is no array of numbers"),
        (
            fail,
            r"^The function fail failed with IndexError: list index out of range\. It is called with a sou",
        ),
    ],
)
def test_answers_that_are_no_logits_are_told_in_a_sentence(function: Any, message: str) -> None:
    model = model_of(function, function)

    with pytest.raises(ScorerError, match=message) as error:
        load_decoder(model, "vbs").decode(["a b"])
    assert str(error.value).startswith("The function ")
    with pytest.raises(ScorerError):
        model.sequence_scorer(Direction.REVERSE).log_probs(["a b"], [[(2, 1)]])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"encode": lambda _: None}, InputError, r"^`encode` of mine answered with None for 'a b'; it must"),
        (
            {"encode": lambda text: text},
            InputError,
            "answered with 'a b' for 'a b'; it must return a list of",
        ),
        ({"encode": lambda _: [0.5]}, InputError, r"answered with \[0\.5\] for"),
        ({"encode": lambda _: [-1]}, InputError, r"answered with \[-1\] for"),
        (
            {"encode": fail},
            InputError,
            "^`encode` of mine failed with IndexError for 'a b': list index out of",
        ),
        ({"decode": lambda _: 3}, InputError, "^`decode` of mine answered with 3; it must return a string"),
        ({"decode": fail}, InputError, r"^`decode` of mine failed with IndexError for \["),
        ({"decode": "text"}, SettingsError, "^decode must be a function, not 'text'"),
        ({"roles": 3}, SettingsError, r"^roles must be VocabularyRoles, not 3\.$"),
        ({"roles": VocabularyRoles(0, 9)}, SettingsError, "^Token 9 is not in the model's vocabulary of 5"),
        (
            {"vocabulary_size": 0},
            SettingsError,
            "^vocabulary_size must be a whole number of at least 1, not 0",
        ),
    ],
)
def test_other_bad_parts_of_a_model_are_told_in_a_sentence(
    given: dict[str, Any], error: type[BidibeamError], message: str
) -> None:
    with pytest.raises(error, match=message):
        load_decoder(model_of(*FUNCTIONS.values(), **{"name": "mine", **given}), "vbs").decode(["a b"])


def test_what_a_function_model_lacks_is_refused_with_a_way_out(model: FunctionModel) -> None:
    one_way = model_of(None, FUNCTIONS[Direction.REVERSE], name="mine")

    assert load_decoder(one_way, "reverse-vbs").decode(["a"])[0].best.text
    with pytest.raises(
        RunError, match=r"^The strategy bidia needs the regular direction, and mine has only: rev"
    ):
        load_decoder(one_way, "bidia")
    with pytest.raises(RunError, match=r"^mine has no regular decoder, only: reverse"):
        one_way.sequence_scorer(Direction.REGULAR)
    with pytest.raises(SettingsError, match="has no function: give `regular`, `reverse` or both"):
        model_of()
    with pytest.raises(SettingsError, match="function must be a function of a source and prefixes, not 3"):
        model_of(3)
    with pytest.raises(SettingsError, match="compares words by their vectors, and function has none: give a"):
        load_decoder(model, "bidia wmd_t")
    with pytest.raises(SettingsError, match=r"^function does not know which token is the unknown one: leave"):
        load_decoder(model, "vbs", settings=SearchSettings(allow_unknown=True))
    with pytest.raises(InputError, match=r"^The ids \[7, 1\] are not all among the 5 tokens of function"):
        model_of(FUNCTIONS[Direction.REGULAR], encode_reply=lambda _: [7]).sequence_scorer(
            Direction.REGULAR
        ).log_probs(["a"], [[(7, 1)]])


def test_word_vectors_of_a_file_and_other_ids_for_replies(model: FunctionModel, tmp_path: Path) -> None:
    path = tmp_path / "two.vec"
    path.write_text("2 2\na 1.0 0.0\nb 0.0 1.0\n", encoding="utf-8")
    other = model_of(FUNCTIONS[Direction.REGULAR], encode_reply=lambda text: [3] * len(text))

    assert sorted(model.word_vectors(path).words) == ["a", "b"]
    assert other.sequence_scorer(Direction.REGULAR).encode(["xx"]) == [(3, 3, 1)]
