"""The model card of a fine-tuned model, from what its folder knows about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

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

LIMITS = "It learnt from what people said to each other, unfiltered: it may be wrong, rude or biased."


def model_card(facts: Mapping[str, Any]) -> str:
    """The card as Markdown, with the header that the Hub reads.

    Args:
        facts: "base", "direction", "data", "settings", "parameters", "evaluations" and "best", as
            `bidibeam.json` has them.
    """
    direction, data = facts["direction"], facts["data"]
    parts = [
        "---\nlibrary_name: transformers\ntags:\n- bidibeam\n---",
        f"# Model card\n{_summary(facts)}",
        f"## Use\n{LOADED[direction]}",
        "## Data\n"
        + _table(
            ("data", ""),
            [
                ("corpus", str(data["corpus"])),
                *((f"{split} pairs", f"{count:,}") for split, count in data["pairs"].items()),
                ("pairs trained on", f"{facts['trained_on']:,}"),
                ("fingerprint", f"`{data['fingerprint']}`"),
            ],
        ),
        "## Settings\n"
        + _table(
            ("setting", ""),
            [(name.replace("_", " "), f"`{value!r}`") for name, value in facts["settings"].items()],
        ),
        f"## Validation loss\nNats by target token; the {facts['settings']['keep']} weights are kept.\n\n"
        + _losses(facts),
        f"## Limits\n{LIMITS}",
    ]
    return "\n\n".join(parts) + "\n"


def _summary(facts: Mapping[str, Any]) -> str:
    base = facts["base"]
    origin = "fresh weights of the config" if facts["is_fresh"] else "fine-tuned from"
    name = base if isinstance(base, str) else ", ".join(f"{key}={value}" for key, value in base.items())
    return (
        f"A model of {facts['parameters']:,} parameters that {WRITES[facts['direction']]}: {origin} "
        f"`{name}`, by bidibeam {facts['bidibeam_version']}."
    )


def _losses(facts: Mapping[str, Any]) -> str:
    evaluations = facts["evaluations"]
    names = [name for name in evaluations[0] if name.startswith("loss")] if evaluations else []
    rows = [
        (f"{each['epoch']:.3g}", str(each["step"]), *(f"{each[name]:.4f}" for name in names))
        for each in evaluations
    ]
    return _table(("epoch", "step", *(name.replace("_", " ") for name in names)), rows)


def _table(headers: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [headers, ("---",) * len(headers), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
