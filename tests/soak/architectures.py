"""Tiny configs of every architecture of transformers that writes text, and variants of the known ones."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_letters, digits
from typing import Any

import transformers
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForSeq2SeqLM
from transformers.models.auto import modeling_auto

LETTERS = (ascii_letters + digits)[:60]
"""Tokens, which every tokenizer class reads alike; four special ones come before them."""
VOCABULARY = 4 + len(LETTERS)
SIZES: dict[tuple[str, ...], int] = {
    (
        *("hidden_size", "d_model", "n_embd", "embed_dim", "dim", "emb_dim", "embedding_size", "hidden_dim"),
        *("word_embed_proj_dim", "attention_hidden_size", "lru_width", "projection_dim", "out_hidden_size"),
        *("intermediate_size", "ffn_dim", "d_ff", "encoder_ffn_dim", "decoder_ffn_dim", "n_inner", "dff"),
        *("ffn_hidden_size", "moe_intermediate_size", "shared_expert_intermediate_size", "d_inner"),
        *("shared_intermediate_size", "mlp_hidden_size", "intermediate_size_mlp", "feed_forward_size"),
        *("expert_ffn_hidden_size", "ffn_intermediate_size", "block_ff_dim", "dim_ff", "image_size"),
    ): 32,
    (
        *("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers", "decoder_layers"),
        *("num_decoder_layers", "num_encoder_layers", "depth", "num_experts_per_tok", "moe_topk", "moe_k"),
        *("moe_top_k", "num_key_value_heads", "num_kv_heads", "linear_num_key_heads", "num_global_layers"),
    ): 2,
    (
        *("num_attention_heads", "n_head", "n_heads", "num_heads", "encoder_attention_heads"),
        *("decoder_attention_heads", "attention_heads", "num_encoder_attention_heads", "num_experts"),
        *("num_decoder_attention_heads", "linear_num_value_heads", "num_local_experts", "n_routed_experts"),
        *("moe_num_experts", "state_size", "mamba_d_state"),
    ): 4,
    (
        *("head_dim", "d_kv", "dim_head", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"),
        *("q_lora_rank", "rotary_dim", "linear_key_head_dim", "linear_value_head_dim", "qk_head_dim"),
        *("global_head_dim", "kv_channels", "index_head_dim", "swa_head_dim", "attention_head_dim"),
        *("kv_lora_rank", "patch_size"),
    ): 8,
    ("vocab_size", "src_vocab_size", "tgt_vocab_size"): VOCABULARY,
    (
        *("max_position_embeddings", "n_positions", "n_ctx", "max_source_positions", "max_seq_len"),
        *("max_target_positions", "max_encoder_position_embeddings", "max_decoder_position_embeddings"),
        "max_sequence_length",
    ): 128,
    ("n_group", "topk_group", "n_shared_experts", "num_expert_group"): 1,
}
TINY = {name: size for names, size in SIZES.items() for name in names}
"""What a config's field becomes where it has that field."""
ROPE = {"rope_theta": 10_000.0, "factor": 4.0, "original_max_position_embeddings": 16}
FACTORS = {"short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 3.0, 5.0, 8.0]}
BERT = ("bert", {"is_decoder": False})
CROSS = {"is_decoder": True, "add_cross_attention": True}
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_chunk_size": 8}
WINDOWS = (
    *("mistral", "mixtral", "phi3", "starcoder2", "gemma2", "gemma3_text", "cohere2", "gpt_oss", "exaone4"),
    *("olmo3", "ministral"),
)
HYBRID = ["linear_attention", "full_attention"]
SECTIONS = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [1, 1, 2]}
LATENT = (
    *("deepseek_v2", "deepseek_v3", "deepseek_v32", "axk1", "axk2", "glm4_moe_lite", "glm_moe_dsa", "youtu"),
)
ENCODERS = (
    *("bert", "roberta", "electra", "camembert", "xlm-roberta", "ernie", "rembert", "megatron-bert"),
    *("bert-generation", "big_bird", "data2vec-text", "roberta-prelayernorm", "roformer", "xlm-roberta-xl"),
)
Variant = tuple[str, dict[str, Any]]
"""A model type, and what its config has besides small sizes."""
CHANGES: dict[str, dict[str, Any]] = {
    "bamba": {**MAMBA, "attn_layer_indices": [1]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], "window_size": 8},
    "granitemoehybrid": {**MAMBA, "layer_types": ["mamba", "attention"]},
    "falcon_h1": {**MAMBA, "mamba_d_ssm": 64},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2},
    "mamba2": {"num_heads": 4, "head_dim": 16, "n_groups": 1, "chunk_size": 8},
    "reformer": {"is_decoder": True, "axial_pos_embds": False},
    "zamba": {"num_hidden_layers": 4, "layer_types": ["mamba", "hybrid"] * 2, "n_mamba_heads": 2}
    | {"attention_hidden_size": 64, "attention_head_dim": 16},
    "zamba2": {"layer_types": ["mamba", "hybrid"], "n_mamba_heads": 4, "head_dim": 16}
    | {"num_key_value_heads": 4, "attention_hidden_size": 64},
    "kimi_linear": {"num_experts_per_token": 2},
    "zaya": {"num_experts_per_tok": 1},
    "nemotron_h": {"layers_block_type": ["mamba", "attention"], "mamba_num_heads": 4, "mamba_head_dim": 16}
    | {"n_groups": 1},
    "longcat_flash": {"head_dim": 8, "qk_head_dim": 16, "num_key_value_heads": 4},
    "minicpm3": {"head_dim": None, "num_key_value_heads": 4},
    "dbrx": {
        "attn_config": {"kv_n_heads": 2, "rope_theta": 10_000.0, "clip_qkv": 8.0},
        "ffn_config": {"ffn_hidden_size": 32, "moe_num_experts": 4, "moe_top_k": 2},
    },
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "gemma3n_text": {"layer_types": ["sliding_attention", "full_attention"], "num_kv_shared_layers": 0}
    | {"vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 8, "laurel_rank": 4},
    "gemma4_text": {"vocab_size_per_layer_input": VOCABULARY, "hidden_size_per_layer_input": 8},
    "roc_bert": {"pronunciation_vocab_size": 64, "shape_vocab_size": 64, "is_decoder": True},
    "led": {"attention_window": 8},
    "xmod": {"is_decoder": True, "default_language": "en_XX"},
    **{kind: {"layer_types": HYBRID} for kind in ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")},
    **{kind: {"head_dim": 8, "num_key_value_heads": 4} for kind in LATENT},
    **{kind: {"rope_parameters": SECTIONS} for kind in ("qwen2_vl_text", "qwen2_5_vl_text", "glm4v_text")},
    **{kind: {"is_decoder": True} for kind in ENCODERS},
}
"""What else a model type needs to be tiny, or to write."""
VARIANTS: dict[str, Variant] = {
    "llama linear rope": ("llama", {"rope_parameters": {**ROPE, "rope_type": "linear"}}),
    "llama dynamic rope": (
        "llama",
        {"max_position_embeddings": 16, "rope_parameters": {**ROPE, "rope_type": "dynamic"}},
    ),
    "llama yarn rope": ("llama", {"rope_parameters": {**ROPE, "rope_type": "yarn"}}),
    "llama llama3 rope": (
        "llama",
        {"rope_parameters": {**ROPE, "rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}},
    ),
    **{
        f"{kind} longrope": (
            kind,
            {
                "original_max_position_embeddings": 16,
                "rope_parameters": {**ROPE, "rope_type": "longrope", **FACTORS},
            },
        )
        for kind in ("phi3", "llama")
    },
    "llama biases, tied": ("llama", {"attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}),
    **{
        f"{kind} window": (kind, {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 1})
        for kind in ("qwen2", "qwen3", "qwen2_moe", "qwen3_moe")
    },
    **{f"{kind} window": (kind, {"sliding_window": 8}) for kind in WINDOWS},
    "gemma2 no caps": ("gemma2", {"attn_logit_softcapping": None, "final_logit_softcapping": None}),
    "modernbert-decoder window": ("modernbert-decoder", {"local_attention": 8}),
    "falcon alibi": ("falcon", {"alibi": True}),
    "falcon new decoder": ("falcon", {"new_decoder_architecture": True}),
    "falcon old decoder": ("falcon", {"multi_query": False, "parallel_attn": False, "num_kv_heads": 4}),
    "bloom after norm": ("bloom", {"apply_residual_connection_post_layernorm": True}),
    "opt after norm": ("opt", {"do_layer_norm_before": False, "word_embed_proj_dim": 16}),
    "opt relu": ("opt", {"activation_function": "relu", "enable_bias": False}),
    "gpt2 scaled": ("gpt2", {"scale_attn_by_inverse_layer_idx": True, "reorder_and_upcast_attn": True}),
    "gpt_bigcode many heads": ("gpt_bigcode", {"multi_query": False}),
    "gpt_neox serial": ("gpt_neox", {"use_parallel_residual": False, "rotary_pct": 0.5}),
    "granite scaled": ("granite", {"logits_scaling": 3.0, "residual_multiplier": 0.5}),
    "cohere scaled": ("cohere", {"logit_scale": 0.5, "use_qk_norm": True}),
    "stablelm parallel": ("stablelm", {"use_parallel_residual": True, "qk_layernorm": True}),
    "t5 gated": ("t5", {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}),
    "t5 untied, scaled": ("t5", {"tie_word_embeddings": False, "scale_decoder_outputs": True}),
    "t5 large logits": ("t5", {"tie_word_embeddings": False, "std": 2.0}),
    "mt5 gated": ("mt5", {"feed_forward_proj": "gated-gelu"}),
    "longt5 global": ("longt5", {"encoder_attention_type": "transient-global", "local_radius": 4}),
    "longt5 local": ("longt5", {"encoder_attention_type": "local", "local_radius": 4}),
    "bart scaled": ("bart", {"scale_embedding": True}),
    "mbart no scale": ("mbart", {"scale_embedding": False}),
    "marian apart": ("marian", {"share_encoder_decoder_embeddings": False, "tie_word_embeddings": False}),
    "blenderbot deep": ("blenderbot", {"encoder_layers": 1, "decoder_layers": 3}),
    "bigbird_pegasus full": ("bigbird_pegasus", {"attention_type": "original_full"}),
    "bert and bert": ("encoder-decoder", {"encoder": BERT, "decoder": ("bert", CROSS)}),
    "bert and gpt2": ("encoder-decoder", {"encoder": BERT, "decoder": ("gpt2", CROSS)}),
    "bert and roberta": ("encoder-decoder", {"encoder": BERT, "decoder": ("roberta", CROSS)}),
    "bert that looks ahead": ("bert", {"is_decoder": False}),
    **{f"{kind} bfloat16": (kind, {"dtype": "bfloat16"}) for kind in ("bart", "llama", "gemma2", "mamba")},
}
MULTIMODAL = (
    *("gemma3", "llava", "qwen2_vl", "qwen2_5_vl", "mllama", "paligemma", "idefics2", "idefics3", "smolvlm"),
    *("llama4", "mistral3", "internvl", "aya_vision", "qwen3_vl", "got_ocr2", "emu3", "blip-2", "kosmos-2"),
    *("florence2", "llava_next", "fuyu", "chameleon", "glm4v", "lfm2_vl"),
)
DECODED = (
    *("gemma2", "gemma2 window", "gemma3", "gemma3_text", "mistral window", "qwen2 window", "phi3 window"),
    *("starcoder2 window", "falcon", "falcon alibi", "falcon new decoder", "falcon old decoder", "bloom"),
    *("mpt", "mamba", "mamba2", "falcon_mamba", "qwen3_next", "jamba", "bamba", "lfm2", "granitemoehybrid"),
    *("falcon_h1", "llama4_text", "modernbert-decoder", "led", "bert and bert", "bert and gpt2", "doge"),
    *("llava", "qwen2_vl", "mllama", "idefics2", "phi3 longrope", "llama dynamic rope", "cohere", "granite"),
    *("bart", "gpt2", "llama", "marian", "t5", "t5 large logits", "gpt_oss", "deepseek_v3", "mixtral"),
)
"""Those that must be searched, by us or by their own `generate`, and not refused."""
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
START = {"decoder_start_token_id": 1, "forced_eos_token_id": None, "forced_bos_token_id": None}


class NotTinyError(Exception):
    """A model that the sweep cannot make."""


def all_variants() -> dict[str, Variant]:
    """The variants above, and a tiny model of every type that writes text, known here or not."""
    names = (
        *modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        *modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
        *MULTIMODAL,
    )
    # An encoder-decoder of two others is among the variants.
    return {**VARIANTS, **{name: (name, {}) for name in names if name != "encoder-decoder"}}


def tiny_config(kind: str, changes: Mapping[str, Any]) -> Any:
    """A config of a type with every size that it knows made small."""
    usual = transformers.CONFIG_MAPPING[kind]
    parts = {name: tiny_config(*part).to_dict() for name, part in changes.items() if isinstance(part, tuple)}
    if parts:
        return AutoConfig.for_model(kind, **SPECIAL, **START, **parts)
    known = usual()
    fields = known.to_dict()
    small: dict[str, Any] = {name: size for name, size in TINY.items() if is_size(fields.get(name, ""))}
    for name in known.sub_configs:
        part: Any = getattr(known, name, None)
        if getattr(part, "model_type", None) in transformers.CONFIG_MAPPING:
            small[name] = tiny_config(part.model_type, {}).to_dict()
    small |= SPECIAL | (START if known.is_encoder_decoder else {})
    return AutoConfig.for_model(kind, **{**small, **CHANGES.get(kind, {}), **changes})


def is_size(value: object) -> bool:
    return value is None or (isinstance(value, int) and not isinstance(value, bool))


def find_class(config: Any) -> Any:
    """What loads a model by its config."""
    text = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    seeing = AutoModelForImageTextToText
    for auto in (seeing, text) if config.model_type in MULTIMODAL else (text, seeing):
        if type(config) in auto._model_mapping:
            return auto
    raise NotTinyError(f"no class writes text with a {config.model_type} config")
