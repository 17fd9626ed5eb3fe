"""What may be written: the same for both directions, and as `generate` means it."""

from __future__ import annotations

import json
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import (
    EncoderNoRepeatNGramLogitsProcessor,
    LogitsProcessor,
    LogitsProcessorList,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    NoBadWordsLogitsProcessor,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    SequenceBiasLogitsProcessor,
)

from bidibeam.errors import InputError, SettingsError
from bidibeam.hf import BidiGenerate, mark
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.adapter import HuggingFaceModel
from bidibeam.models.huggingface.reversal import reverse_processor
from bidibeam.search.constraints import ConstrainedScorer
from bidibeam.search.settings import SearchSettings, VocabularyRoles
from tests.unit.api.test_custom_generate import ended, inputs, pair
from tests.unit.models.huggingface.folders import SOURCES, write_model, write_pair
from tests.unit.models.huggingface.tiny import model_of
from tests.unit.search.test_constraints import Fixed, options, sequences

HOW: dict[str, Any] = {"num_beams": 4, "max_new_tokens": 8}
WRITING = ("reverse-vbs", "bidia", "bidia bleu_t either")
"""Strategies in which the reverse model writes."""


def sources(count: int) -> dict[str, Tensor]:
    ids = torch.tensor([[5 + number, 6, 7, 8] for number in range(count)])
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}


def allowed(source: int, ids: Tensor) -> list[int]:  # noqa: ARG001
    """Other words for every other source."""
    return [2, *range(5, 15)] if source % 2 == 0 else [2, *range(20, 30)]


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("strategy", ["vbs", "bidis"])
def test_a_function_of_the_prefix_binds_each_source(kind: str, count: int, strategy: str) -> None:
    model, reverse = pair(kind)
    prompt = 1 if kind == "bart" else 4
    options = {**HOW, "prefix_allowed_tokens_fn": allowed, "num_return_sequences": 2}
    given = sources(count)

    found = model.generate(**given, **options, custom_generate=BidiGenerate(reverse, strategy))

    assert len(found) == 2 * count
    for row, ids in enumerate(found[:, prompt:].tolist()):
        assert {*ids} - {1} <= {*allowed(row // 2, found)}
    if strategy == "vbs":
        assert torch.equal(found, model.generate(**given, **options))


class Watched(LogitsProcessor):  # type: ignore[misc]
    """Changes nothing, and keeps what it was shown."""

    def __init__(self) -> None:
        self.shown: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        self.shown.append(input_ids.clone())
        return scores


@pytest.mark.parametrize("strategy", ["vbs", "bidia"])
def test_processors_are_shown_as_many_rows_as_in_generate(strategy: str) -> None:
    model, reverse = pair("gpt2")
    given = sources(3)
    how: dict[str, Any] = {**HOW, "early_stopping": True, "max_new_tokens": 20}
    watched = Watched()
    free = model.generate(**given, **how, custom_generate=BidiGenerate(reverse, strategy))

    found = model.generate(
        **given,
        **how,
        logits_processor=LogitsProcessorList([watched]),
        custom_generate=BidiGenerate(reverse, strategy),
    )

    assert torch.equal(found, free)
    assert {len(ids) for ids in watched.shown} == {3 * 4}
    for ids in watched.shown:  # whether or not a source has left
        assert torch.equal(ids[:, :4], given["input_ids"].repeat_interleave(4, 0))


def bigrams(ids: list[int]) -> set[tuple[int, int]]:
    """Words that stand side by side, special tokens aside."""
    words = [token for token in ids if token > 2]
    return {*pairwise(words)}


@pytest.mark.parametrize("strategy", ["reverse-vbs", "bidia bleu_t either"])
@pytest.mark.parametrize("name", ["bad_words_ids", "sequence_bias"])
def test_words_of_several_tokens_are_forbidden_in_reading_order(strategy: str, name: str) -> None:
    tried = 0
    for seed in range(4):
        model, reverse = model_of("bart", seed), model_of("bart", seed + 20)
        mark(reverse, Direction.REVERSE)
        how = {**HOW, **sources(1), "num_return_sequences": 3, "suppress_tokens": [0]}
        how["custom_generate"] = BidiGenerate(reverse, strategy)
        free = [two for row in model.generate(**how).tolist() for two in bigrams(row)]
        for word in sorted({two for two in free if two[0] != two[1]})[:3]:
            tried += 1
            words: Any = [[*word]] if name == "bad_words_ids" else [[[*word], -1e4]]
            for row in model.generate(**how, **{name: words}).tolist():
                assert word not in bigrams(row)
    assert tried > 6


def total(processor: Any, ids: list[int]) -> float:
    """What a processor adds to a whole reply, token by token."""
    read = [0, *ids]
    zeros = torch.zeros(1, 10)
    return sum(
        float(processor(torch.tensor([read[:place]]), zeros)[0, read[place]]) for place in range(1, len(read))
    )


words = st.lists(st.integers(3, 6), min_size=1, max_size=3)


@settings(max_examples=30, deadline=None)
@given(
    biased=st.lists(st.tuples(words, st.sampled_from([-2.0, 0.5, 3.0])), min_size=1, max_size=4),
    reply=st.lists(st.integers(3, 6), max_size=7),
)
def test_a_reversed_processor_makes_as_much_of_a_reversed_reply(
    biased: list[tuple[list[int], float]], reply: list[int]
) -> None:
    source = torch.tensor([[ids for word, _ in biased for ids in word] * 2])
    for processor in (
        SequenceBiasLogitsProcessor([[word, bias] for word, bias in biased]),
        NoBadWordsLogitsProcessor([word for word, _ in biased], eos_token_id=2),
        EncoderNoRepeatNGramLogitsProcessor(2, source),
    ):
        assert total(reverse_processor(processor, {0, 2}), reply[::-1]) == pytest.approx(
            total(processor, reply)
        )


@settings(max_examples=40, deadline=None)
@given(options, sequences, st.lists(st.integers(0, 5), min_size=1, max_size=8), st.integers(0, 10**6))
def test_log_probabilities_are_those_of_the_processors_of_transformers(
    more: dict[str, Any], forbidden: frozenset[tuple[int, ...]], read: list[int], seed: int
) -> None:
    logits = torch.randn(1, 6, generator=torch.Generator().manual_seed(seed))
    scorer = ConstrainedScorer(
        Fixed(logits), SearchSettings(**more), VocabularyRoles(0, 1, forbidden_sequences=forbidden)
    )
    state = scorer.start(torch.zeros(1, 1, dtype=torch.long))
    for token in read:
        found, state = scorer.step(torch.tensor([token]), state)

    expected, seen = logits.log_softmax(-1), torch.tensor([read])
    if more["repetition_penalty"] != 1:
        expected = RepetitionPenaltyLogitsProcessor(more["repetition_penalty"])(seen, expected)
    if more["no_repeat_ngram_size"]:
        expected = NoRepeatNGramLogitsProcessor(more["no_repeat_ngram_size"])(seen, expected)
    if forbidden:
        expected = NoBadWordsLogitsProcessor([[*one] for one in sorted(forbidden)])(seen, expected)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


ABOUT_BEGINNINGS: dict[str, dict[str, Any]] = {
    "begin_suppress_tokens": {"begin_suppress_tokens": [9]},
    "prefix_allowed_tokens_fn": {"prefix_allowed_tokens_fn": allowed},
    "watermarking_config": {"watermarking_config": {"bias": 2.5, "seeding_scheme": "lefthash"}},
    r"\[7, 2\] of bad_words_ids or sequence_bias has a special token": {"bad_words_ids": [[7, 2]]},
}


@pytest.mark.parametrize("name", ABOUT_BEGINNINGS)
def test_what_goes_by_beginnings_is_refused_where_the_reverse_model_writes(name: str) -> None:
    model, reverse = pair("bart")
    how = {**HOW, **sources(2), **ABOUT_BEGINNINGS[name]}

    for strategy in WRITING:
        with pytest.raises(SettingsError, match=rf"^{name}.* writes.*: leave it out, or choose a strategy"):
            model.generate(**how, custom_generate=BidiGenerate(reverse, strategy))
    for strategy in ("vbs", "bidis", "longest"):
        assert len(model.generate(**how, custom_generate=BidiGenerate(reverse, strategy))) == 2


@pytest.mark.parametrize("more", [{}, {"no_repeat_ngram_size": 3}])
def test_special_tokens_may_be_forced_or_suppressed_at_the_beginning(more: dict[str, Any]) -> None:
    model, reverse = pair("bart")
    how = {**HOW, **sources(2), **more, "custom_generate": BidiGenerate(reverse, "reverse-vbs")}

    found = model.generate(**how, begin_suppress_tokens=[2], forced_bos_token_id=17)

    assert found[:, 1].tolist() == [17, 17]  # what is forced is taken for a special token
    with pytest.raises(SettingsError, match=r"^begin_suppress_tokens goes by what a reply begins with"):
        model.generate(**how, begin_suppress_tokens=[2, 9])


def test_a_word_that_must_come_first_is_refused(tmp_path: Path) -> None:
    how = SearchSettings(beam_size=4, max_length=7)
    for number, more in enumerate(({}, {"no_repeat_ngram_size": 3})):
        generation = {"forced_bos_token_id": 8, **more}
        model = HuggingFaceModel.load(*write_pair(tmp_path / str(number), "bart", generation=generation))
        with pytest.raises(SettingsError, match=r"^forced_bos_token_id goes by what a reply begins with"):
            model.n_best(Direction.REVERSE, SOURCES, how)
        assert all(map(len, model.n_best(Direction.REGULAR, SOURCES, how)))
        assert model.sequence_scorer(Direction.REVERSE).log_probs(SOURCES[:1], [[(5, 3)]])


def test_both_directions_forbid_words_in_reading_order(tmp_path: Path) -> None:
    how = SearchSettings(beam_size=6, max_length=7, stopping="constant")
    free = HuggingFaceModel.load(*write_pair(tmp_path / "free", "bart"))
    found = free.n_best(Direction.REVERSE, SOURCES, how)
    tokens = next(one.tokens for nbest in found for one in nbest if len({*one.tokens}) > 2)
    first, second = next((a, b) for a, b in pairwise(tokens) if a != b)
    word = free.tokenizer.convert_tokens_to_ids([first, second])

    bound = HuggingFaceModel.load(
        *write_pair(tmp_path / "bound", "bart", generation={"bad_words_ids": [word]})
    )

    for direction in Direction:
        for nbest in bound.n_best(direction, SOURCES, how):
            assert all((first, second) not in {*pairwise(one.tokens)} for one in nbest)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_beam_groups": 2}, "num_beam_groups is 2, which this beam search does not do: leave it out,"),
        ({"diversity_penalty": 1.0}, "diversity_penalty is 1.0, which this beam search does not do: leave"),
        ({"force_words_ids": [[7]]}, r"force_words_ids is \[\[7\]\], which this beam search does not do"),
        ({"constraints": [1]}, r"constraints is \[1\], which this beam search does not do: leave it out,"),
        ({"low_memory": True}, "low_memory is True, which this beam search does not do: leave it out,"),
        ({"guidance_scale": 1.5}, "guidance_scale keeps a cache of its own, row by row, which does not"),
    ],
)
def test_what_beam_search_does_not_do_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=f"^{message}"):
        model_of("bart", 3).generate(
            **sources(2), **HOW, **options, custom_generate=BidiGenerate(None, "vbs")
        )


@pytest.mark.parametrize("kind", ["t5", "gpt2"])
def test_a_mask_may_be_of_any_kind_but_not_empty(kind: str) -> None:
    model, reverse = pair(kind)
    given = inputs(model)
    how: dict[str, Any] = {**HOW, "custom_generate": BidiGenerate(reverse)}
    expected = model.generate(**given, **how)

    for dtype in (torch.float32, torch.bool):
        mask = given["attention_mask"].to(dtype)
        assert torch.equal(model.generate(input_ids=given["input_ids"], attention_mask=mask, **how), expected)
    given["attention_mask"][1] = 0
    with pytest.raises(InputError, match=r"^Source 2 of 3 has no tokens: its attention_mask is all 0\.$"):
        model.generate(**given, **how)


class Late(MinLengthLogitsProcessor):  # type: ignore[misc]
    """Forbids another token than the class that it derives from."""

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        scores = scores.clone()
        scores[:, 18] = -torch.inf
        return super().__call__(input_ids, scores)  # type: ignore[no-any-return]


OFTEN = [9, 14, 16, 18, 25, 39]
CONTRARY: dict[str, dict[str, Any]] = {
    "ends of its own": {"logits_processor": [MinLengthLogitsProcessor(8, OFTEN)]},
    "more ends of its own": {"logits_processor": [MinNewTokensLengthLogitsProcessor(1, 6, [2, *OFTEN])]},
    "another length": {
        "logits_processor": [MinNewTokensLengthLogitsProcessor(2, 5, [2, *OFTEN])],
        "eos_token_id": [2, *OFTEN],
    },
    "a derived class": {"logits_processor": [Late(5, 2)]},
    "a forced bad word": {"forced_bos_token_id": 7, "bad_words_ids": [[7]]},
    "an end that is forced too early": {"forced_bos_token_id": 2, "min_new_tokens": 4},
    "two tokens forced at once": {"forced_bos_token_id": 7, "forced_eos_token_id": 2, "max_new_tokens": 1},
    "an end that is a bad word": {"logits_processor": [NoBadWordsLogitsProcessor([[2], [9]])]},
    "penalties of logits": {"repetition_penalty": 1.8},
    "a decay of logits": {"exponential_decay_length_penalty": (2, 1.6)},
    "long replies": {"early_stopping": "never", "length_penalty": 2.5, "eos_token_id": [2, *OFTEN]},
}


@pytest.mark.parametrize("name", CONTRARY)
def test_what_contradicts_something_is_settled_as_in_generate(name: str) -> None:
    changed = 0
    for seed, (kind, beams) in enumerate(product(("bart", "gpt2"), (1, 1, 3))):
        model = model_of(kind, seed)
        how = {**HOW, "num_beams": beams, **inputs(model)}
        expected = model.generate(**{**how, **CONTRARY[name]})

        found = model.generate(**{**how, **CONTRARY[name]}, custom_generate=BidiGenerate(None, "vbs"))

        for row, other in zip(found.tolist(), expected.tolist(), strict=True):
            if beams == 1 or 2 in other[4:]:  # with several, one that is cut off ranks last
                assert ended(row) == ended(other)
        changed += not torch.equal(expected, model.generate(**how))
    assert changed


def test_ngrams_of_a_prompt_are_not_repeated_in_reading_order() -> None:
    tried = 0
    for seed in range(6):
        model, reverse = model_of("gpt2", seed), model_of("gpt2", seed + 20)
        mark(reverse, Direction.REVERSE)
        how = {**HOW, "custom_generate": BidiGenerate(reverse, "reverse-vbs")}
        free = model.generate(**how, **sources(1))[0, 4:].tolist()
        for word in sorted(bigrams(free)):
            tried += 1
            prompt = torch.tensor([[6, *word, 5]])
            given = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
            found = model.generate(**how, **given, no_repeat_ngram_size=2)[0].tolist()
            within = [*pairwise(found[:4]), *pairwise(token for token in found[4:] if token > 2)]
            assert len(within) == len({*within})
    assert tried > 10


@pytest.mark.parametrize(
    "rule", [{"stop_strings": "x"}, {"penalty_alpha": 0.6}, {"cache_implementation": "quantized"}]
)
def test_what_a_folders_generation_config_asks_for_and_nobody_does_is_refused(
    rule: dict[str, Any], tmp_path: Path
) -> None:
    folder, (name,) = write_model(tmp_path / "bart", "bart"), rule
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "do_sample": True, "temperature": 0.5}))
    assert HuggingFaceModel.load(folder)  # how to search is for our own settings to say

    path.write_text(json.dumps({**json.loads(path.read_text()), **rule}))
    with pytest.raises(
        SettingsError, match=rf"^{name} is .* leave it out, also of generation_config\.json\.$"
    ):
        HuggingFaceModel.load(folder)


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_penalties_of_a_folder_are_those_of_generate_in_a_beam_of_one(kind: str, tmp_path: Path) -> None:
    rules = {"repetition_penalty": 1.8, "suppress_tokens": [0]}  # padding, which we never write
    greedy = SearchSettings(beam_size=1, max_length=8, min_length=0, allow_unknown=True)
    changed = 0
    for seed in range(4):
        model = HuggingFaceModel.load(write_model(tmp_path / str(seed), kind, seed=seed, generation=rules))
        loaded = model.models[Direction.REGULAR]
        ids, mask = loaded.encode_sources(SOURCES, [None] * len(SOURCES))
        how: dict[str, Any] = {"input_ids": ids, "attention_mask": mask, "max_new_tokens": 8}
        expected, free = (
            loaded.tokenizer.batch_decode(rows[:, 1 if kind == "bart" else ids.shape[1] :], True)
            for rows in (loaded.model.generate(**how), loaded.model.generate(**how, repetition_penalty=1.0))
        )

        found = model.n_best(Direction.REGULAR, SOURCES, greedy)

        assert [line[0].text for line in found] == expected
        changed += expected != free
    assert changed
