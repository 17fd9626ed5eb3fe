"""Calls of `generate` with one case of options each, by our search and by its own, and what they find."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    EncoderNoRepeatNGramLogitsProcessor,
    LogitsProcessor,
    LogitsProcessorList,
)

import bidibeam
from bidibeam.errors import BidibeamError
from bidibeam.hf import BidiGenerate, mark, reverse_labels
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.quiet import quiet_transformers
from tests.soak.models import TooSlowError, force, limit_time
from tests.soak.option_values import SCORE_CHANGING, Made
from tests.unit.models.huggingface.folders import SOURCES, write_model
from tests.unit.models.huggingface.tiny import model_of, random_inputs

CLOSE = 1e-4
PATIENCE = 60
"""Seconds after which a search is taken to hang."""


class Case(NamedTuple):
    """One call: by which route, of which model, with which options."""

    route: str
    kind: str
    beams: int
    options: dict[str, Any]
    seed: int

    def __repr__(self) -> str:
        return f"seed {self.seed}, {self.route}, {self.kind}, {self.beams} beams, {self.options}"


Found = list[tuple[Any, float | None]]
"""What a search returned, source after source, best first: what was written, and the score if any."""


def attempt(search: Callable[[], Any]) -> Any:
    """What a search returns, or the exception that it raises."""
    try:
        with limit_time(PATIENCE), quiet_transformers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return search()
    except TooSlowError:
        return TimeoutError(f"no answer within {PATIENCE} s")
    except Exception as error:  # whatever it is, the verdict tells
        return error


class Caller:
    """Makes the calls."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def generate(self, case: Case, way: str) -> Found:
        """What `generate` finds with our search or with its own; that of the reverse model from the end."""
        # Made anew, since what goes wrong inside may leave a model changed.
        model, reverse = (model_of(case.kind, 2 * case.seed + number) for number in range(2))
        mark(reverse, Direction.REVERSE)
        inputs: dict[str, Any] = random_inputs(model, Random(case.seed))
        made = case.options.items()
        options = {name: one.of(model, inputs) if isinstance(one, Made) else one for name, one in made}
        beams = options.pop("num_beams", case.beams)
        count = options.pop("num_return_sequences", beams // 2 if case.route == "bidia" else beams) or 1
        how = {**inputs, "num_beams": beams, "num_return_sequences": count, "return_dict_in_generate": True}
        how |= {} if {"max_length", "max_new_tokens"} & {*options} else {"max_new_tokens": 8}
        how |= {"input_ids": None} if {"inputs", "inputs_embeds"} & {*options} else {}
        if way == "ours":
            chosen = BidiGenerate(None if case.route == "vbs" else reverse, case.route)
            output = attempt(lambda: model.generate(**{**how, **options}, custom_generate=chosen))
            is_ours = not isinstance(output, Exception) or isinstance(output, BidibeamError)
            if is_ours and "streamer" in options and not options["streamer"].is_ended:
                raise TimeoutError("whoever reads the streamer waits for ever")
            if isinstance(output, Exception):
                raise output
            lines = read(output, model, inputs, options)
            if case.route == "vbs":
                check_order(lines, ends_of(options))
            found = [one for line in lines for one in by_score(line)]
            is_plain = case.route == "vbs" and beams > 1 and not {*options} & SCORE_CHANGING
            if is_plain and found[0][1] is not None:
                check_forced(model, inputs, found)
            return found
        if case.route == "reverse-vbs":
            begun = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
            model, options = reverse, mirror(options, inputs, begun)
        if case.route == "bidia":  # which shares them out
            how["num_beams"] = beams - beams // 2
        if count <= how["num_beams"]:  # those cut off are ranked last by us
            how["num_return_sequences"] = how["num_beams"]
        lines = read(model.generate(**{"output_scores": True, **how, **options}), model, inputs, options)
        for line in lines:
            line.sort(key=lambda one: one[0][-1] not in ends_of(options))
        most = None if case.route in ("bidia", "bidis") else count
        found = [one for line in lines for one in by_score(line[:most])]
        if case.route == "reverse-vbs":
            special = {0, 1, 2, *ends_of(options), options.get("forced_bos_token_id", 2)}
            found = [(tuple(reverse_labels([*ids], special)), score) for ids, score in found]
        return found

    def load(self, case: Case, way: str) -> Found:
        """What a folder's model finds with its generation config: by `bidibeam.load`, or by `generate`."""
        folder = self._folder / f"{case.kind}{case.seed}"
        if not folder.exists():
            write_model(folder, case.kind, seed=case.seed)
            (folder / "generation_config.json").rename(folder / "usual.json")
        usual = json.loads((folder / "usual.json").read_text())
        asked = usual | case.options
        asked["suppress_tokens"] = [0, *asked.get("suppress_tokens", ())]  # padding, which we never write
        (folder / "generation_config.json").write_text(json.dumps(asked))
        if way == "ours":
            settings = bidibeam.SearchSettings(
                beam_size=case.beams, max_length=8, min_length=0, length_penalty=1.0, length_formula="power",
                stopping="constant", unfinished="rank", allow_unknown=True,
            )  # fmt: skip
            lists = bidibeam.load(folder).n_best(Direction.REGULAR, SOURCES, settings)
            return best_of_texts([[(one.text, one.score) for one in line] for line in lists])
        auto = AutoModelForSeq2SeqLM if case.kind in ("bart", "t5") else AutoModelForCausalLM
        model, reader = auto.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)
        reader.padding_side = "right" if model.config.is_encoder_decoder else "left"
        given = reader(SOURCES, padding=True, return_tensors="pt", return_token_type_ids=False)
        output = model.generate(
            **given, num_beams=case.beams, num_return_sequences=case.beams, max_new_tokens=8, do_sample=False,
            early_stopping=True, length_penalty=1.0, return_dict_in_generate=True, output_scores=True,
        )  # fmt: skip
        begun = 1 if model.config.is_encoder_decoder else given["input_ids"].shape[1]
        ends = ends_of({"eos_token_id": 3} | case.options)
        rows = [cut(row, ends) for row in output.sequences[:, begun:].tolist()]
        texts = reader.batch_decode(rows, skip_special_tokens=True)
        scores = output.sequences_scores.tolist() if case.beams > 1 else [None] * len(texts)
        found: Found = list(zip(texts, scores, strict=True))
        return best_of_texts(split(found, case.beams))


def read(output: Any, model: Any, inputs: dict[str, Tensor], options: dict[str, Any]) -> list[Found]:
    """The written ids of every row, and its score if there is one, by source."""
    rows = output if isinstance(output, Tensor) else output.sequences
    scores = getattr(output, "sequences_scores", None)
    begun = 0 if "inputs_embeds" in options else inputs["input_ids"].shape[1]
    if model.config.is_encoder_decoder:
        first = options["decoder_input_ids"][0].tolist() if "decoder_input_ids" in options else [2]
        start = options.get("decoder_start_token_id", 2) if "decoder_input_ids" in options else 2
        begun = len(first) + (first[0] != start)
    values = [None] * len(rows) if scores is None else scores.tolist()
    written = [cut(row[begun:].tolist(), ends_of(options)) for row in rows]
    return split(list(zip(written, values, strict=True)), len(rows) // len(inputs["input_ids"]))


def by_score(line: Found) -> Found:
    """The hypotheses of a source, the best first; as they are where they have no scores."""
    return sorted(line, key=lambda one: 0.0 if one[1] is None else -one[1])


def check_order(lines: Sequence[Found], ends: list[int]) -> None:
    """Ours come by score, those cut off behind the others; `generate` ranks all of them by score."""
    for line in lines:
        for (ids, score), (following, other) in pairwise(line):
            are_cut_off = ids[-1] not in ends, following[-1] not in ends
            is_falling = score is None or other is None or score >= other - CLOSE
            if are_cut_off == (True, False) or (len({*are_cut_off}) == 1 and not is_falling):
                raise AssertionError(f"{ids}, {score}, comes before {following}, {other}")


def split(found: Found, each: int) -> list[Found]:
    """Parts of so many."""
    return [found[first : first + each] for first in range(0, len(found), each)]


def best_of_texts(lines: Sequence[Found]) -> Found:
    """Every text of each source with its best score."""
    found: dict[tuple[int, str], float | None] = {}
    for number, line in enumerate(lines):
        for text, score in line:
            found.setdefault((number, text.strip()), score)
    return [*found.items()]


def mirror(options: dict[str, Any], inputs: dict[str, Tensor], begun: int) -> dict[str, Any]:
    """The options for a model that writes from the end: ids of several tokens reversed."""
    options = dict(options)
    if "bad_words_ids" in options:
        options["bad_words_ids"] = [word[::-1] for word in options["bad_words_ids"]]
    if "sequence_bias" in options:
        options["sequence_bias"] = [[word[::-1], bias] for word, bias in options["sequence_bias"]]
    if size := options.pop("encoder_no_repeat_ngram_size", None):
        own = [EncoderNoRepeatNGramLogitsProcessor(size, inputs["input_ids"].flip(1))]
        options["logits_processor"] = LogitsProcessorList([*options.get("logits_processor", ()), *own])
    if size := options.pop("no_repeat_ngram_size", None):
        own = [NoRepeatInReadingOrder(size, begun)]
        options["logits_processor"] = LogitsProcessorList([*options.get("logits_processor", ()), *own])
    return options


class NoRepeatInReadingOrder(LogitsProcessor):  # type: ignore[misc]
    """Tries every token: none may complete an n-gram that the prompt or the rest of the reply has."""

    def __init__(self, size: int, begun: int) -> None:
        self.size, self.begun = size, begun

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        scores = scores.clone()
        for row, ids in enumerate(input_ids.tolist()):
            prompt, reply = ids[: self.begun], ids[: self.begun - 1 : -1]  # so far, in reading order
            known = {tuple(part[n : n + self.size]) for part in (prompt, reply) for n in range(len(part))}
            for token in range(scores.shape[1]):
                if tuple([token, *reply][: self.size]) in known and len(reply) + 1 >= self.size:
                    scores[row, token] = -torch.inf
        return scores


def ends_of(options: dict[str, Any]) -> list[int]:
    ends = options.get("eos_token_id", 2)
    return ends if isinstance(ends, list) else [ends]


def cut(row: list[int], ends: list[int]) -> tuple[int, ...]:
    """A row up to its first end."""
    last = next((place for place, token in enumerate(row, start=1) if token in ends), len(row))
    return tuple(row[:last])


def check_forced(model: Any, inputs: dict[str, Tensor], found: Found) -> None:
    """Compare scores with those of a plain teacher-forced pass, row by row."""
    each = len(found) // len(inputs["input_ids"])
    for number, (ids, score) in enumerate(found):
        source = inputs["input_ids"][number // each][inputs["attention_mask"][number // each].bool()].tolist()
        expected = force(model, source, ids, start=2) / len(ids)
        if score is None or abs(score - expected) > CLOSE:
            raise AssertionError(f"{ids} scores {score}, and {expected} by teacher forcing")
