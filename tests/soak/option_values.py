"""Values of every option of `generate` that the sweep in `options` tries."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import (
    CompileConfig,
    DynamicCache,
    GenerationConfig,
    LogitsProcessorList,
    MaxLengthCriteria,
    MinLengthLogitsProcessor,
    MinNewTokensLengthLogitsProcessor,
    SuppressTokensLogitsProcessor,
    TemperatureLogitsWarper,
)


class Made(NamedTuple):
    """A value that is made anew for every call, of the model and its inputs."""

    label: str
    of: Callable[[Any, dict[str, Tensor]], Any]

    def __repr__(self) -> str:
        return self.label


class Streamer:
    """What `generate` puts tokens into; whoever reads it waits for `end`."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.is_ended = False

    def put(self, value: Tensor) -> None:
        self.tokens += value.flatten().tolist()

    def end(self) -> None:
        self.is_ended = True


def allowed(source: int, ids: Tensor) -> list[int]:
    return [2, *range(5, 20)] if (source + len(ids)) % 2 else [2, *range(15, 30)]


def processors(*made: Any) -> Made:
    return Made(f"[{', '.join(type(one).__name__ for one in made)}]", lambda *_: LogitsProcessorList(made))


def embed(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        return model.get_input_embeddings()(inputs["input_ids"])  # type: ignore[no-any-return]


def read_before(model: Any, inputs: dict[str, Tensor]) -> Any:
    if model.config.is_encoder_decoder:
        return None
    with torch.no_grad():
        return model(input_ids=inputs["input_ids"][:, :-1], past_key_values=DynamicCache()).past_key_values


def column(value: int, width: int = 1) -> Made:
    return Made(f"{value} x {width}", lambda _, inputs: torch.full((len(inputs["input_ids"]), width), value))


VALUES: dict[str, list[Any]] = {
    "max_length": [14, 20], "max_new_tokens": [1, 3, 12, 2.5, 0], "min_length": [6, 14, 99],
    "min_new_tokens": [3, 8, 20], "early_stopping": [True, "never", "x"], "max_time": [9.0],
    "stop_strings": ["x"], "do_sample": [False, True], "num_beams": [0, 3], "use_mtp": [True],
    "use_cache": [False, True], "cache_implementation": ["static", "offloaded", "quantized"],
    "cache_config": [{"nbits": 4}], "max_cache_len": [50], "temperature": [0.5], "top_k": [3], "top_p": [0.3],
    "min_p": [0.2], "top_h": [0.4], "typical_p": [0.3], "epsilon_cutoff": [0.1], "eta_cutoff": [0.1],
    "repetition_penalty": [1.8, 0.5, -1.0], "encoder_repetition_penalty": [2.0],
    "length_penalty": [0.0, 2.5, -1.0, 40.0], "no_repeat_ngram_size": [1, 2],
    "bad_words_ids": [[[7], [8], [9]], [[8], [9, 10]], [[2]]], "renormalize_logits": [True],
    "forced_bos_token_id": [7, 2], "forced_eos_token_id": [2, [2, 9]], "remove_invalid_values": [True],
    "exponential_decay_length_penalty": [(2, 1.6)], "suppress_tokens": [[5, 6, 7, 8, 9, 10], [2]],
    "begin_suppress_tokens": [[2, 9, 11], [2]], "sequence_bias": [[[[7], 4.0], [[9, 10], -3.0]]],
    "token_healing": [True], "guidance_scale": [1.0, 1.5],
    "watermarking_config": [{"bias": 3.0, "seeding_scheme": "lefthash"}], "num_return_sequences": [1, 2, 9],
    "output_attentions": [True], "output_hidden_states": [True], "output_scores": [True],
    "output_logits": [True], "return_dict_in_generate": [False, True], "pad_token_id": [20, 2],
    "bos_token_id": [5], "eos_token_id": [[2, 9, 12], 9], "encoder_no_repeat_ngram_size": [1, 2],
    "decoder_start_token_id": [0, 5], "is_assistant": [True], "num_assistant_tokens": [3],
    "num_assistant_tokens_schedule": ["heuristic"], "assistant_confidence_threshold": [0.9],
    "prompt_lookup_num_tokens": [2], "max_matching_ngram_size": [2], "assistant_early_exit": [1],
    "assistant_lookbehind": [2], "target_lookbehind": [2], "assistant_ensemble_weight": [0.5],
    "speculation_type": ["dflash"], "compile_config": [CompileConfig()], "disable_compile": [True],
    "low_memory": [True, False], "penalty_alpha": [0.6], "dola_layers": ["high"],
    "diversity_penalty": [1.5], "num_beam_groups": [2], "constraints": [[1]], "force_words_ids": [[[7]]],
    "prefill_chunk_size": [2], "transformers_version": ["4.0.0"],
    "inputs": [Made("input_ids", lambda _, inputs: inputs["input_ids"])],
    "generation_config": [Made("repetition_penalty", lambda *_: GenerationConfig(repetition_penalty=1.8))],
    "logits_processor": [
        processors(MinLengthLogitsProcessor(7, 12)),
        processors(MinNewTokensLengthLogitsProcessor(1, 5, [2, 12])),
        processors(SuppressTokensLogitsProcessor([2, 8])), processors(TemperatureLogitsWarper(2.0)),
    ],
    "stopping_criteria": [Made("[MaxLengthCriteria]", lambda *_: [MaxLengthCriteria(5)])],
    "prefix_allowed_tokens_fn": [allowed], "synced_gpus": [False, True],
    "assistant_model": [Made("a copy", lambda model, _: deepcopy(model))],
    "streamer": [Made("Streamer", lambda *_: Streamer())],
    "negative_prompt_ids": [column(5, 2)], "negative_prompt_attention_mask": [column(1, 2)],
    "attention_mask": [
        Made("of ones", lambda _, inputs: torch.ones_like(inputs["input_ids"])), Made("None", lambda *_: None)
    ],
    "inputs_embeds": [Made("embeddings", embed)],
    "past_key_values": [Made("of all but the last", read_before)],
    "position_ids": [Made("from 3", lambda _, given: torch.arange(3, 3 + given["input_ids"].shape[1])[None])],
    "token_type_ids": [Made("of 5", lambda _, inputs: torch.full_like(inputs["input_ids"], 5))],
    "decoder_input_ids": [column(2, 1), column(5, 3)], "decoder_attention_mask": [column(0), column(1)],
    "logits_to_keep": [1, 2], "tokenizer": [Made("object", lambda *_: object())],
    "output_router_logits": [True], "labels": [column(3)], "unheard_of": [1],
}  # fmt: skip
"""Values of every field of a generation config, of every argument of `generate`, and of what models read."""
NEED = {"output_attentions", "output_hidden_states", "output_scores", "output_logits"}
WITH: dict[str, dict[str, Any]] = {
    **{name: {"return_dict_in_generate": True} for name in NEED},
    "penalty_alpha": {"top_k": 4},
    "diversity_penalty": {"num_beam_groups": 2},
}
"""What an option does nothing without."""
UNTRIED = {"self", "kwargs", "custom_generate", "continuous_batching_config"}
TOGETHER: list[dict[str, Any]] = [
    {"forced_bos_token_id": 7, "bad_words_ids": [[7]]}, {"forced_bos_token_id": 7, "suppress_tokens": [7]},
    {"forced_bos_token_id": 7, "begin_suppress_tokens": [7]}, {"forced_bos_token_id": 2, "min_new_tokens": 4},
    {"forced_bos_token_id": 7, "forced_eos_token_id": 2, "max_new_tokens": 1},
    {"forced_eos_token_id": 2, "min_new_tokens": 20}, {"guidance_scale": 1.5, "negative_prompt_ids": None},
    {"eos_token_id": [2, 9], "bad_words_ids": [[9]]}, {"eos_token_id": [2, 9], "suppress_tokens": [9]},
]  # fmt: skip
SCORE_CHANGING = {
    *("repetition_penalty", "encoder_repetition_penalty", "renormalize_logits", "forced_bos_token_id"),
    *("forced_eos_token_id", "exponential_decay_length_penalty", "sequence_bias", "watermarking_config"),
    *("generation_config", "logits_processor", "remove_invalid_values", "attention_mask", "inputs_embeds"),
    *("position_ids", "token_type_ids", "past_key_values", "decoder_input_ids", "decoder_attention_mask"),
    *("decoder_start_token_id", "length_penalty", "eos_token_id"),
}
"""Options with which a score is another one than a plain teacher-forced pass gives."""
