"""Models that our own search does not run: their own `generate` does, in a batch as for each source alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import PrefixTuningConfig, PromptTuningConfig, TaskType, get_peft_model
from torch import nn
from transformers import GPT2LMHeadModel

from bidibeam.errors import ScorerError, SettingsError
from bidibeam.hf import BidiGenerate, load_models
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.adapter import HuggingFaceModel
from bidibeam.models.huggingface.bases import wrap_tokenizer
from bidibeam.models.huggingface.directional import DirectionalModel
from bidibeam.search.settings import SearchSettings
from tests.unit.models.huggingface.folders import SOURCES, options_of, tokenizer_of, write_model
from tests.unit.models.huggingface.tiny import tiny_model

BEAMS, LENGTH = 4, 6
SEARCH = SearchSettings(BEAMS, LENGTH, length_penalty=1.0, length_formula="power", stopping="constant")
ROPE: dict[str, Any] = {"rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 8}
ROPES: dict[str, dict[str, Any]] = {
    "dynamic": {"max_position_embeddings": 8, "rope_parameters": {**ROPE, "rope_type": "dynamic"}},
    "longrope": {
        "rope_parameters": {
            **ROPE,
            "rope_type": "longrope",
            "short_factor": [1.0] * 8,
            "long_factor": [float(place + 2) for place in range(8)],
        }
    },
}


def model_of(kind: str, seed: int = 0, **changes: Any) -> Any:
    return tiny_model(kind, seed=seed, **{**options_of(kind, tokenizer_of()), **changes})


def adapted(kind: str, how: str) -> Any:
    """A model with virtual tokens of peft's before what it reads."""
    model = model_of(kind)
    task = TaskType.SEQ_2_SEQ_LM if model.config.is_encoder_decoder else TaskType.CAUSAL_LM
    config = {"prefix": PrefixTuningConfig, "prompt": PromptTuningConfig}[how]
    found = get_peft_model(model, config(task_type=task, num_virtual_tokens=3)).eval()
    with torch.no_grad():
        for weight in found.parameters():
            if weight.requires_grad:
                weight.normal_(0.0, 0.7)
    return found


def quantised(kind: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has a newer way, too
        quantize: Any = torch.ao.quantization.quantize_dynamic
        return quantize(model_of(kind), {nn.Linear}, dtype=torch.qint8)


MODELS: dict[str, Callable[[], Any]] = {
    **{kind: partial(model_of, kind) for kind in ("bloom", "mamba", "gemma2", "mvp")},
    **{f"{kind}, quantised": partial(quantised, kind) for kind in ("llama", "bart")},
    **{f"llama, {name} rope": partial(model_of, "llama", **ROPES[name]) for name in ROPES},
    **{
        f"{kind}, {how}": partial(adapted, kind, how)
        for kind in ("llama", "bart")
        for how in ("prefix", "prompt")
    },
}
VIRTUAL = pytest.mark.filterwarnings("ignore:Position ids are not supported for parameter efficient tuning")


def near(values: list[Any]) -> Any:
    return pytest.approx(values, abs=1e-4)


def loaded(model: Any, direction: Direction = Direction.REGULAR) -> DirectionalModel:
    reader = wrap_tokenizer(tokenizer_of(), is_encoder_decoder=model.config.is_encoder_decoder)
    return DirectionalModel(model, reader, direction)


def generate(one: DirectionalModel, sources: list[str], **options: Any) -> Any:
    """What `generate` returns, with scores."""
    ids, mask = one.encode_sources(sources, [None] * len(sources))
    how: dict[str, Any] = {"num_beams": BEAMS, "num_return_sequences": BEAMS, "max_new_tokens": LENGTH}
    how |= {
        "length_penalty": 1.0,
        "early_stopping": True,
        "do_sample": False,
        "return_dict_in_generate": True,
    }
    how |= {"suppress_tokens": [0, 1, 2], **options}
    return one.model.generate(input_ids=ids, attention_mask=mask, **how)


def listed(output: Any) -> set[tuple[str, float]]:
    """Sequences without padding and end, each with its score; those cut off rank elsewhere."""
    pairs = zip(output.sequences.tolist(), output.sequences_scores.tolist(), strict=True)
    shown = [(" ".join(str(token) for token in row if token), score) for row, score in pairs]
    return {(row.partition(" 3")[0], round(score, 3)) for row, score in shown}


@VIRTUAL
@pytest.mark.parametrize("name", MODELS)
def test_a_search_inside_generate_finds_what_generate_finds(name: str) -> None:
    one = loaded(MODELS[name]())
    inside = BidiGenerate(strategy="vbs", tokenizer=one.tokenizer)

    for sources in (SOURCES[1:2], SOURCES):
        found = generate(one, sources, custom_generate=inside)
        assert listed(found) == listed(generate(one, sources, output_scores=True))


@pytest.mark.parametrize("kind", ["gemma2", "mvp"])
def test_a_watermark_is_put_on_once(kind: str) -> None:
    one = loaded(model_of(kind))
    inside = BidiGenerate(strategy="vbs", tokenizer=one.tokenizer)
    how: dict[str, Any] = {"watermarking_config": {"greenlist_ratio": 0.25, "bias": 3.0}}

    found = generate(one, SOURCES, custom_generate=inside, **how)

    assert listed(found) == listed(generate(one, SOURCES, output_scores=True, **how))


@VIRTUAL
@pytest.mark.parametrize("name", MODELS)
def test_lists_and_scores_are_those_of_each_source_alone(name: str) -> None:
    one = loaded(MODELS[name]())
    model, sources = HuggingFaceModel({Direction.REGULAR: one}), [*SOURCES, " ".join(SOURCES[1:3] * 2)]

    lists = model.n_best(Direction.REGULAR, sources, SEARCH)
    scores = one.log_probs(sources, [[one.ids for one in nbest] for nbest in lists])

    for source, nbest, values in zip(sources, lists, scores, strict=True):
        (alone,) = model.n_best(Direction.REGULAR, [source], SEARCH)
        assert [each.ids for each in nbest] == [each.ids for each in alone]
        assert [each.log_prob for each in nbest] == near([each.log_prob for each in alone])
        assert values == near([one.log_probs([source], [[each.ids]])[0][0] for each in nbest])


@pytest.mark.parametrize("kind", ["mamba", "mvp"])
def test_one_beam_is_generate_s_greedy_search(kind: str) -> None:
    one = loaded(model_of(kind))
    one.model.generation_config.suppress_tokens = [0, 1, 2]
    how = replace(SEARCH, beam_size=1, min_length=0)

    lists = HuggingFaceModel({Direction.REGULAR: one}).n_best(Direction.REGULAR, SOURCES, how)

    for source, nbest in zip(SOURCES, lists, strict=True):
        (row,) = generate(one, [source], num_beams=1, num_return_sequences=1).sequences.tolist()
        (best,) = nbest
        assert row[-len(best.ids) :] == [*best.ids]
        assert [best.log_prob] == near(one.log_probs([source], [[best.ids]])[0])


@pytest.mark.parametrize("strategy", ["bidia", "bidis"])
def test_both_directions_are_searched_inside_generate(strategy: str) -> None:
    regular, reverse = model_of("bloom"), model_of("bloom", seed=1, bidibeam_direction="reverse")
    one = loaded(regular)
    inside = BidiGenerate(reverse, strategy, tokenizer=one.tokenizer)

    found = generate(one, SOURCES, custom_generate=inside, num_return_sequences=1, num_beams=2 * BEAMS)

    beams = BEAMS if strategy == "bidia" else 2 * BEAMS
    expected = generate(one, SOURCES, num_beams=beams, num_return_sequences=beams, output_scores=True)
    assert {ids for ids, _ in listed(found)} <= {ids for ids, _ in listed(expected)}


def test_a_model_that_looks_ahead_or_cannot_be_searched_is_refused(tmp_path: Path) -> None:
    ahead = r"is a bert model, which cannot be searched here \(its generate and its .*is_decoder\)"
    for kind, message in (("bert", ahead), ("rwkv", r"cannot be searched here \(RwkvForCausalLM cannot use")):
        folder = write_model(tmp_path / kind, kind)
        with pytest.raises(ScorerError, match=message):
            load_models(folder)


@pytest.mark.parametrize("name", ROPES)
def test_threads_do_not_mix_up_embeddings_that_change_with_the_length(name: str) -> None:
    model = HuggingFaceModel({Direction.REGULAR: loaded(model_of("llama", **ROPES[name]))})

    def search(number: int) -> list[tuple[str, float | None]]:
        source = SOURCES[1] if number % 2 else " ".join(SOURCES[1:3] * 2)
        (nbest,) = model.n_best(Direction.REGULAR, [source], SEARCH)
        return [(one.text, one.log_prob) for one in nbest]

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(search, range(24))) == [search(number) for number in range(2)] * 12


class Sharper(GPT2LMHeadModel):  # type: ignore[misc]
    """A network of another package, of a type that our own search knows."""

    def prepare_inputs_for_generation(self, input_ids: Any, **kwargs: Any) -> Any:
        return super().prepare_inputs_for_generation(input_ids.clamp(min=7), **kwargs)


def test_a_class_of_somebody_else_s_is_searched_by_its_own_generate() -> None:
    plain = model_of("gpt2")
    own = Sharper(plain.config).eval()
    own.load_state_dict(plain.state_dict())
    one = loaded(own)

    found = generate(one, SOURCES[1:2], custom_generate=BidiGenerate(strategy="vbs", tokenizer=one.tokenizer))

    assert listed(found) == listed(generate(one, SOURCES[1:2], output_scores=True))
    assert listed(found) != listed(generate(loaded(plain), SOURCES[1:2], output_scores=True))


def test_two_ways_to_say_what_is_read_are_refused() -> None:
    one = loaded(model_of("mvp"))
    ids, mask = one.encode_sources(SOURCES[1:2], [None])
    given = {"encoder_outputs": one.model.get_encoder()(ids, attention_mask=mask)}

    with pytest.raises(SettingsError, match=r"input_ids and encoder_outputs, .* leave encoder_outputs out"):
        generate(one, SOURCES[1:2], custom_generate=BidiGenerate(strategy="vbs"), **given)


def test_what_a_user_s_processor_raises_is_the_user_s() -> None:
    def fail(*_: Any) -> Any:
        raise KeyError("mine")

    one = loaded(model_of("bloom"))
    with pytest.raises(KeyError, match="mine"):
        generate(one, SOURCES[:1], custom_generate=BidiGenerate(strategy="vbs"), logits_processor=[fail])
