"""Both directions as a custom generation method of a model on the Hub.

Push this folder with a model, then:

    model.generate(**inputs, custom_generate="you/your-model", trust_remote_code=True, num_beams=50)

The reverse model is the one that the config names (`bidibeam_reverse`), or `reverse_model=`.
"""

from __future__ import annotations

from typing import Any


def generate(
    model: Any,
    reverse_model: Any = None,
    strategy: str = "bidia",
    similarity: Any = None,
    tokenizer: Any = None,
    strategy_options: dict[str, Any] | None = None,
    **kwargs: Any,
) -> Any:
    """What `model.generate(custom_generate=...)` calls.

    Args:
        model: The model that writes from the beginning.
        reverse_model: The model that writes from the end, or its name or folder, with a tokenizer; by default
            what the model's config names as `bidibeam_reverse`.
        strategy: How a reply is chosen: bidia, bidis, vbs, or a system's name ("bidia bleu_t either").
        similarity: For bidia: bleu_t, token_f1, edit, or a callable.
        tokenizer: The models' tokenizer; with it replies are compared word by word.
        strategy_options: The strategy's own: {"lambda_": 0.5}, {"agreement": "expected"}.
        kwargs: All that `generate` takes.
    """
    from bidibeam import Direction
    from bidibeam.hf import BidiGenerate, load_pair

    reverse = reverse_model if reverse_model is not None else getattr(model.config, "bidibeam_reverse", None)
    if isinstance(reverse, str):
        how = {"device": str(model.device), "dtype": str(model.dtype).removeprefix("torch.")}
        reverse = load_pair(None, reverse, **how)[Direction.REVERSE].model
    options = strategy_options or {}
    chosen = BidiGenerate(reverse, strategy, similarity, tokenizer=tokenizer, **options)
    return model.generate(**kwargs, custom_generate=chosen)
