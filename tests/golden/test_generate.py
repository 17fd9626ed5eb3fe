"""Over Hugging Face models the search finds what `generate` finds: the same texts, the same scores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    PreTrainedTokenizerFast,
    set_seed,
)

from bidibeam import Direction
from bidibeam.hf import BidiGenerate, BidirectionalSeq2Seq, mark, special_ids
from tests.golden.calls import check_same, parse_lists
from tests.unit.cli.calls import called

WORDS = [
    *("<pad>", "<unk>", "<s>", "</s>"),
    *["red", "green", "blue", "black", "white", "cat", "dog", "bird", "fish", "horse", "!", "?"],
]
IDS: dict[str, Any] = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3, "forced_eos_token_id": None}
SOURCES = ["red cat", "dog dog blue horse", "fish ?"]
_BART = {
    **{f"{half}_{part}": 2 for half in ("encoder", "decoder") for part in ("layers", "attention_heads")},
    "d_model": 32,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "init_std": 0.3,
    "dropout": 0.0,
    "max_position_embeddings": 64,
    "decoder_start_token_id": 2,
}
_T5 = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_layers": 2, "num_heads": 2, "initializer_factor": 2.0}
_LLAMA = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
SHAPES: dict[str, dict[str, Any]] = {
    "bart": _BART,
    "t5": {**_T5, "decoder_start_token_id": 2, "dropout_rate": 0.0},
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64, "initializer_range": 0.3},
    "llama": {**_LLAMA, "max_position_embeddings": 64, "initializer_range": 0.3},
}
RULES: dict[str, Any] = {"constant": True, "heuristic": False, "optimal": "never"}
BEAMS, NEW = 5, 7
CLOSE = 1e-4


def reader_of(kind: str) -> PreTrainedTokenizerFast:
    """A tokenizer of whole words; encoder-decoders read an end token behind the source."""
    words = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = WhitespaceSplit()
    if kind in ("bart", "t5"):
        words.post_processor = TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 3)])
    names = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    side = "right" if kind in ("bart", "t5") else "left"
    return PreTrainedTokenizerFast(tokenizer_object=words, padding_side=side, **names)


def model_of(kind: str, direction: str, seed: int) -> Any:
    """A model of random weights, strong enough that rounding decides nothing."""
    set_seed(seed)
    config = AutoConfig.for_model(kind, **SHAPES[kind], **IDS, vocab_size=len(WORDS))
    auto = AutoModelForSeq2SeqLM if config.is_encoder_decoder else AutoModelForCausalLM
    model = auto.from_config(config).eval()
    model.generation_config.suppress_tokens = [0, 1, 2]  # words alone are written, and the end
    mark(model, Direction(direction))
    return model


@pytest.fixture(scope="module", params=SHAPES)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, dict[str, Path]]:
    """The folders of a regular and of a reverse model."""
    folder, kind = tmp_path_factory.mktemp(request.param), request.param
    for seed, direction in enumerate(("regular", "reverse"), start=1):
        model_of(kind, direction, seed).save_pretrained(folder / direction)
        reader_of(kind).save_pretrained(folder / direction)
    return kind, {direction: folder / direction for direction in ("regular", "reverse")}


def generated(kind: str, folder: Path, early_stopping: Any) -> list[dict[str, float]]:
    """What transformers finds for each source: texts in the order that the model wrote, with their scores."""
    auto = AutoModelForSeq2SeqLM if kind in ("bart", "t5") else AutoModelForCausalLM
    model, reader = auto.from_pretrained(folder).eval(), reader_of(kind)
    found = []
    for source in SOURCES:
        inputs = reader([source], return_tensors="pt", return_token_type_ids=False)
        done = model.generate(
            **inputs,
            num_beams=BEAMS,
            num_return_sequences=BEAMS,
            max_new_tokens=NEW,
            early_stopping=early_stopping,
            length_penalty=1.0,
            do_sample=False,
            return_dict_in_generate=True,
            output_scores=True,
            min_new_tokens=1,
        )
        prompt = 1 if kind in ("bart", "t5") else inputs["input_ids"].shape[1]
        lines = [[WORDS[number] for number in row[prompt:]] for row in done.sequences.tolist()]
        words = [[word for word in line if word not in WORDS[:4]] for line in lines]
        scores = done.sequences_scores.tolist()
        found.append({" ".join(line): score for line, score in list(zip(words, scores, strict=True))[::-1]})
    return found


def searched(pair: dict[str, Path], tmp_path: Path, *flags: object) -> list[dict[str, Any]]:
    """What `bidibeam decode` finds."""
    out, sources = tmp_path / "out.jsonl", tmp_path / "sources.txt"
    sources.write_text("".join(f"{source}\n" for source in SOURCES))
    models = ("--regular", pair["regular"], "--reverse", pair["reverse"])
    search = ("--beam-size", 2 * BEAMS, "--max-length", NEW, "--min-length", 1, "--unfinished", "rank")
    length = ("--length-formula", "power", "--length-penalty", "1")
    strategy = () if "--strategy" in flags else ("--strategy", "bidia")
    done = called("decode", *models, sources, *search, *length, *strategy, "--n-best", out, *flags)
    assert done.status == 0, done.err
    lines = parse_lists(out)
    assert done.out.splitlines() == [line["ranking"]["replies"][0]["text"] for line in lines]
    return lines


@pytest.mark.parametrize("rule", RULES)
def test_lists_of_both_directions_are_those_of_generate(
    pair: tuple[str, dict[str, Path]], rule: str, tmp_path: Path
) -> None:
    kind, folders = pair

    lines = searched(folders, tmp_path, "--stopping", rule)

    for direction, folder in folders.items():
        expected = generated(kind, folder, RULES[rule])
        for line, texts in zip(lines, expected, strict=True):
            turn = -1 if direction == "reverse" else 1
            found = {" ".join(each["tokens"][::turn]): each["score"] for each in line[direction]}
            assert set(found) == set(texts)
            check_same({text: found[text] for text in texts}, texts, tolerance=CLOSE)
            assert list(found.values()) == sorted(found.values(), reverse=True)


def test_scores_of_a_search_are_those_of_teacher_forcing(
    pair: tuple[str, dict[str, Path]], tmp_path: Path
) -> None:
    _, folders = pair
    lines = searched(folders, tmp_path)
    scored = tmp_path / "scored.jsonl"

    for direction, other in (("regular", "reverse"), ("reverse", "regular")):
        flags = ("--model", folders[direction], "--overwrite", "--out", scored)
        assert called("score", tmp_path / "out.jsonl", *flags).status == 0
        for line, again in zip(lines, parse_lists(scored), strict=True):
            for key, way in (("log_prob", direction), ("other_log_prob", other)):
                before, after = (
                    [each[key] for each in one[way] if each["finished"]] for one in (line, again)
                )
                check_same(after, before, tolerance=CLOSE, where=f"{key} {way}")


@pytest.mark.parametrize("strategy", ["bidia edit either", "bidis", "vbs"])
def test_inside_generate_the_choice_is_that_of_the_command(
    pair: tuple[str, dict[str, Path]], strategy: str, tmp_path: Path
) -> None:
    kind, folders = pair
    size = 2 * BEAMS if strategy.startswith("bidia") else BEAMS
    flags = ("--strategy", strategy, "--stopping", "constant", "--beam-size", size)
    lines = searched(folders, tmp_path, *flags)
    model, reverse = (model_of(kind, way, seed) for seed, way in enumerate(("regular", "reverse"), start=1))
    reader = reader_of(kind)

    for source, line in zip(SOURCES, lines, strict=True):
        inputs = reader([source], return_tensors="pt", return_token_type_ids=False)
        chosen = model.generate(
            **inputs,
            custom_generate=BidiGenerate(reverse, strategy, tokenizer=reader),
            num_beams=size,
            max_new_tokens=NEW,
            early_stopping=True,
            length_penalty=1.0,
            min_new_tokens=1,
        )
        prompt = 0 if kind in ("bart", "t5") else inputs["input_ids"].shape[1]
        text = reader.decode(chosen[0][prompt:], skip_special_tokens=True)
        assert text == line["ranking"]["replies"][0]["text"]


def test_a_shared_encoder_is_both_models(tmp_path: Path) -> None:
    reader = reader_of("bart")
    set_seed(3)
    config = AutoConfig.for_model("bart", **_BART, **IDS, vocab_size=len(WORDS))
    model = BidirectionalSeq2Seq.from_encoder_decoder(config, special_ids=special_ids(reader)).eval()
    model.save_pretrained(tmp_path / "joint")
    reader.save_pretrained(tmp_path / "joint")
    joint = {"regular": tmp_path / "joint", "reverse": tmp_path / "joint"}

    lines = searched(joint, tmp_path, "--stopping", "constant")

    inputs = reader(SOURCES[:1], return_tensors="pt", return_token_type_ids=False)
    with torch.no_grad():
        best = model.regular.generate(
            **inputs,
            num_beams=BEAMS,
            max_new_tokens=NEW,
            min_new_tokens=1,
            early_stopping=True,
            length_penalty=1.0,
            suppress_tokens=[0, 1],
        )
    assert reader.decode(best[0], skip_special_tokens=True) == lines[0]["regular"][0]["text"]
    assert json.loads(called("info", tmp_path / "joint", "--json").out)["direction"] == "both"
