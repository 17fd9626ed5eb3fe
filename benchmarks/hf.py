"""Time of our search over a Hugging Face model beside the model's own `generate`, and of CTranslate2.

    python benchmarks/hf.py --size base --cells 1x10 8x10 8x50 --ct2 --out results/speed/hf-cpu.json
    python benchmarks/hf.py --size large --device cuda --dtype bfloat16 --cells 1x10 8x10 32x50

A cell is sources x beams. The weights are random, of BART's size; sources have 15 to 40 tokens, replies 20.
Every search runs with torch's default threads, a few times before it is timed, and in turns with the others.
A ratio is the median of `generate`'s times over the median of ours: above 1, ours is faster.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BartConfig, BartForConditionalGeneration, PreTrainedTokenizerFast

import bidibeam
from bidibeam.hf import BidiGenerate

SIZES = {
    "small": (256, 3, 4, 1024, 16_000),
    "base": (768, 6, 12, 3072, 50_265),
    "large": (1024, 12, 16, 4096, 50_265),
}
"""d_model, layers of either side, heads, inner width, vocabulary."""
LENGTH = 20
Search = Callable[[], list[list[list[int]]]]


def make_model(size: str, device: str, dtype: str, *, positions: int = 128, seed: int = 0) -> Any:
    """A BART with random weights, large enough that some tokens are likelier than others."""
    transformers.set_seed(seed)
    width, layers, heads, inner, vocabulary = SIZES[size]
    config = BartConfig(
        vocab_size=vocabulary,
        d_model=width,
        encoder_layers=layers,
        decoder_layers=layers,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=inner,
        decoder_ffn_dim=inner,
        max_position_embeddings=positions,
        forced_eos_token_id=None,
        init_std=0.05,
    )
    model = BartForConditionalGeneration(config).eval()
    return model.to(device=device, dtype=getattr(torch, dtype))


def make_sources(count: int, vocabulary: int) -> list[list[int]]:
    """Ids at random, of 15 to 40 tokens."""
    generator = torch.Generator().manual_seed(count)
    lengths = torch.randint(15, 41, (count,), generator=generator).tolist()
    return [torch.randint(4, vocabulary, (length,), generator=generator).tolist() for length in lengths]


def by_generate(model: Any, sources: list[list[int]], beams: int, **options: Any) -> Search:
    """The model's own beam search, or ours by `custom_generate`; all hypotheses are returned."""
    longest = max(map(len, sources))
    ids = torch.tensor([row + [1] * (longest - len(row)) for row in sources], device=model.device)
    mask = (ids != 1).long()

    def search() -> list[list[list[int]]]:
        found = model.generate(
            input_ids=ids,
            attention_mask=mask,
            num_beams=beams,
            num_return_sequences=beams,
            max_new_tokens=LENGTH,
            early_stopping=True,
            do_sample=False,
            **options,
        )
        rows = found[:, 1:].tolist()
        return [rows[start : start + beams] for start in range(0, len(rows), beams)]

    return search


def by_ctranslate2(
    model: Any, sources: list[list[int]], beams: int, quantization: str, folder: Path
) -> Search:
    """CTranslate2 by way of `bidibeam export --to ctranslate2`, texts to n-best lists."""
    from bidibeam.api.export import export_converted
    from bidibeam.hypotheses import Direction
    from bidibeam.search.settings import SearchSettings

    exported = folder / quantization
    if not exported.exists():
        saved = folder / "model"
        model.save_pretrained(saved)
        make_tokenizer(model.config.vocab_size).save_pretrained(saved)
        export_converted(
            bidibeam.load(saved, device="cpu"), exported, quantization=quantization, overwrite=False
        )
    loaded = bidibeam.load(exported)
    texts = [" ".join(f"t{token}" for token in row) for row in sources]
    settings = SearchSettings(beam_size=beams, max_length=LENGTH, stopping="constant")

    def search() -> list[list[list[int]]]:
        found = loaded.n_best(Direction.REGULAR, texts, settings)
        return [[list(each.ids) for each in nbest] for nbest in found]

    return search


def make_tokenizer(vocabulary: int) -> PreTrainedTokenizerFast:
    """A tokenizer whose word tN is the id N."""
    words = {f"t{number}": number for number in range(4, vocabulary)}
    special = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3}
    backend = Tokenizer(models.WordLevel({**special, **words}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    )


def take_times(searches: dict[str, Search], turns: int) -> dict[str, list[float]]:
    """Seconds of every search, by name, in turns."""
    times: dict[str, list[float]] = {name: [] for name in searches}
    for search in searches.values():
        for _ in range(3 if torch.cuda.is_available() else 1):  # a GPU's steps are captured first
            search()
    for _ in range(turns):
        for name, search in searches.items():
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            began = time.perf_counter()
            search()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            times[name].append(time.perf_counter() - began)
    return times


def measure(model: Any, cell: str, turns: int, folder: Path, *, with_ct2: bool) -> dict[str, Any]:
    """One cell: times in ms, and `generate`'s over the others'."""
    count, beams = map(int, cell.split("x"))
    sources = make_sources(count, model.config.vocab_size)
    searches = {
        "generate": by_generate(model, sources, beams),
        "bidibeam": by_generate(model, sources, beams, custom_generate=BidiGenerate(strategy="vbs")),
    }
    found = {name: search() for name, search in searches.items()}
    same = [
        strip(one) == strip(two)
        for line, other in zip(*found.values(), strict=True)
        for one, two in zip(line, other, strict=True)
    ]
    for quantization in ("int8", "float32") if with_ct2 else ():
        searches[f"ctranslate2 {quantization}"] = by_ctranslate2(model, sources, beams, quantization, folder)
    times = take_times(searches, turns)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return {
        "cell": cell,
        "ratios": {
            name: round(medians["generate"] / value, 3)
            for name, value in medians.items()
            if name != "generate"
        },
        "ms": {name: round(1000 * value, 2) for name, value in medians.items()},
        "turns_ms": {name: [round(1000 * value, 2) for value in values] for name, values in times.items()},
        "same_hypotheses": round(sum(same) / len(same), 4),
    }


def strip(ids: list[int]) -> list[int]:
    """Ids up to the end token."""
    return ids[: ids.index(2)] if 2 in ids else ids


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16", "float16"))
    parser.add_argument("--cells", nargs="+", default=["1x10", "8x10", "8x50"], metavar="SOURCESxBEAMS")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--ct2", action="store_true", help="time CTranslate2 in int8 and float32 too")
    parser.add_argument("--out", type=Path, help="write the numbers as JSON")
    given = parser.parse_args()
    model = make_model(given.size, given.device, given.dtype)
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for cell in given.cells:
            rows.append(measure(model, cell, given.turns, Path(folder), with_ct2=given.ct2))
            print(json.dumps({name: rows[-1][name] for name in ("cell", "ratios", "ms", "same_hypotheses")}))
    device = torch.cuda.get_device_name() if given.device.startswith("cuda") else platform.machine()
    signature = {
        "bidibeam": bidibeam.__version__,
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": device,
        "threads": torch.get_num_threads(),
        "size": given.size,
        "dtype": given.dtype,
        "max_new_tokens": LENGTH,
        "turns": given.turns,
    }
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(
            json.dumps({"signature": signature, "rows": rows}, indent=2) + "\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
