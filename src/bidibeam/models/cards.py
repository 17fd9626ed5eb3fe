"""Model cards as Markdown, and that of a fine-tuned model, from what its folder knows about itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from bidibeam.text import escape_markdown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

WRITES = {
    "regular": "writes replies from their first token to their last",
    "reverse": "writes replies from their last token to their first",
    "both": "has one encoder and two decoders, of which one writes replies from their first token to their "
    "last, and one from their last to their first",
}
LOADED = {
    "regular": "Load it with `from_pretrained` like any other model.",
    "reverse": "Load it with `from_pretrained` like any other model; what it generates must be turned "
    "around, special tokens aside, which `bidibeam decode` and `bidibeam.hf` do by themselves.",
    "both": "Load it with `bidibeam.hf.BidirectionalSeq2Seq.from_pretrained`; `model.regular` and "
    "`model.reverse` are ordinary models.",
}
SOURCES = (
    " The tokenizer is that of replies; sources are read by another, "
    '`PreTrainedTokenizerFast(tokenizer_file="source_tokenizer.json", pad_token="<pad>")`.'
)
LIMITS = "It learnt from what people said to each other, unfiltered: it may be wrong, rude or biased."


def format_table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown, whatever its cells say; what is code, in backticks, stays code."""
    shown = [
        [cell if re.fullmatch(r"`[\w ./=-]*`", cell) else escape_markdown(cell) for cell in line]
        for line in (headers, *rows)
    ]
    shown.insert(1, ["---"] * len(headers))
    return "\n".join(f"| {' | '.join(line)} |" for line in shown)


def model_card(metadata: Mapping[str, Any]) -> str:
    """The card of a fine-tuned model, with the header that the Hub reads, from its bidibeam.json."""
    base, data, settings, evaluations = (metadata[key] for key in ("base", "data", "settings", "evaluations"))
    origin = "fresh weights of the config" if metadata["is_fresh"] else "fine-tuned from"
    name = base if isinstance(base, str) else ", ".join(f"{key}={value}" for key, value in base.items())
    summary = (
        f"A model of {metadata['parameters']:,} parameters that {WRITES[metadata['direction']]}: {origin} "
        f"`{name}`, by bidibeam {metadata['bidibeam_version']}."
    )
    losses = [name for name in evaluations[0] if name.startswith("loss")] if evaluations else []
    rows = {
        "corpus": str(data["corpus"]),
        **{f"{split} pairs": f"{count:,}" for split, count in data["pairs"].items()},
        "pairs trained on": f"{metadata['trained_on']:,}",
        "fingerprint": f"`{data['fingerprint']}`",
    }
    by_step = [
        (f"{each['epoch']:.3g}", str(each["step"]), *(f"{each[name]:.4f}" for name in losses))
        for each in evaluations
    ]
    parts = [
        "---\nlibrary_name: transformers\ntags:\n- bidibeam\n---",
        f"# Model card\n{summary}",
        f"## Use\n{LOADED[metadata['direction']]}{SOURCES if metadata.get('source_tokenizer') else ''}",
        "## Data\n" + format_table(("data", ""), rows.items()),
        "## Settings\n"
        + format_table(
            ("setting", ""), [(key.replace("_", " "), f"`{value!r}`") for key, value in settings.items()]
        ),
        f"## Validation loss\nNats by target token; the {settings['keep']} weights are kept.\n\n"
        + format_table(("epoch", "step", *(name.replace("_", " ") for name in losses)), by_step),
        f"## Limits\n{LIMITS}",
    ]
    return "\n\n".join(parts) + "\n"
