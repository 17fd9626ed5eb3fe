"""Every option of `generate`, alone and with others: ours equals `generate`, or refuses the option by name.

`vbs` is the regular beam alone, so that it must find what `generate` finds; `bidis` ranks the same hypotheses,
`bidia` those of half as many beams; `reverse-vbs` must find what the reverse model's own `generate` finds with the
options in its writing order. A folder's generation config is followed by `bidibeam.load` too.
"""

from __future__ import annotations

import inspect
import json
import signal
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
    GenerationMixin,
)

import bidibeam
from bidibeam.errors import BidibeamError
from bidibeam.hf import BidiGenerate, mark, reverse_labels
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.quiet import quiet_transformers
from tests.soak.option_values import SCORE_CHANGING, TOGETHER, UNTRIED, VALUES, WITH, Made
from tests.unit.models.huggingface.folders import SOURCES, write_model
from tests.unit.models.huggingface.test_parity import model_of, random_inputs

KINDS = ("bart", "gpt2", "t5", "llama")
BEAMS = (1, 2, 4)
COMBINATIONS = 600
"""Random pairs and triples of options, for each seed."""
CLOSE = 1e-4
PATIENCE = 60
"""Seconds after which a search is taken to hang."""
FAILURES = ("ignored", "wrong", "unnamed", "traceback")
VERDICTS = ("equal", "refused", "generate fails", *FAILURES)
"""Where `generate` itself fails, and we do not, there is nothing to compare."""


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
"""What a search returned, source after source, best first: what was written, and the score if there is one."""


def find_untried() -> set[str]:
    """Fields and arguments that this transformers has and this sweep has no value for."""
    fields = {name for name in vars(GenerationConfig()) if not name.startswith("_")}
    return (fields | {*inspect.signature(GenerationMixin.generate).parameters}) - {*VALUES} - UNTRIED


def make_cases(seed: int) -> list[Case]:
    """All options alone, and some known to meddle, by every route; random ones together."""
    chance = Random(seed)
    alone = [{**WITH.get(name, {}), name: value} for name, values in VALUES.items() for value in values]
    known = [(options, kind) for options in (*alone, *TOGETHER) for kind in KINDS[:2]]
    cases = [Case("vbs", kind, beams, options, seed) for options, kind in known for beams in BEAMS]
    for _ in range(COMBINATIONS):
        names = chance.sample(sorted(VALUES), chance.choice((2, 2, 3)))
        options = {**WITH.get(names[0], {}), **{name: chance.choice(VALUES[name]) for name in names}}
        cases.append(Case("vbs", chance.choice(KINDS), chance.choice(BEAMS), options, seed))
    ways = ("reverse-vbs", "bidia", "bidis")
    cases += [Case(way, kind, 4, options, seed) for options, kind in known for way in ways]
    return cases + [Case("folder", kind, 4, options, seed) for options, kind in known if is_saved(options)]


def is_saved(options: dict[str, Any]) -> bool:
    """Whether a generation_config.json can have these."""
    return {*options} <= {*vars(GenerationConfig())} and "null" not in json.dumps(options, default=lambda _: None)


@contextmanager
def patience() -> Iterator[None]:
    """Inside the block, a search that hangs raises TimeoutError, where signals can tell."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"no answer within {PATIENCE} s")

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def attempt(search: Callable[[], Any]) -> Any:
    """What a search returns, or the exception that it raises."""
    try:
        with patience(), quiet_transformers(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return search()
    except Exception as error:  # whatever it is, the verdict tells
        return error


class Runner:
    """Runs cases; models of a seed are made once."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._models = folder, dict[Any, Any]()

    def model(self, kind: str, seed: int, direction: Direction = Direction.REGULAR) -> Any:
        key = kind, seed, direction
        if key not in self._models:
            self._models[key] = model_of(kind, 2 * seed + (direction is Direction.REVERSE))
            mark(self._models[key], direction)
        return self._models[key]

    def judge(self, case: Case) -> tuple[str, str]:
        """The verdict, and what was seen."""
        search = self.load if case.route == "folder" else self.generate
        ours, theirs = (attempt(lambda way=way: search(case, way)) for way in ("ours", "theirs"))
        if isinstance(ours, Exception):
            return judge_refusal(ours, theirs, case)
        if isinstance(theirs, Exception):
            is_refusal = isinstance(theirs, ValueError | NotImplementedError)
            return "ignored" if is_refusal else "generate fails", f"generate says: {theirs}"
        difference = compare(ours, theirs, case.route)
        if not difference:
            return "equal", ""
        plain = attempt(lambda: search(case._replace(options={}), "theirs"))
        is_ignored = isinstance(plain, list) and not compare(ours, plain, case.route)
        return "ignored" if is_ignored else "wrong", difference

    def generate(self, case: Case, way: str) -> Found:
        """What `generate` finds with our search or with its own; that of the reverse model from the end."""
        model = self.model(case.kind, case.seed)
        inputs = random_inputs(model, Random(case.seed))
        options = {
            name: one.of(model, inputs) if isinstance(one, Made) else one for name, one in case.options.items()
        }
        beams = options.pop("num_beams", case.beams)
        count = options.pop("num_return_sequences", beams if case.route != "bidia" else beams // 2) or 1
        how = {"num_beams": beams, "num_return_sequences": count, "return_dict_in_generate": True}
        how |= {} if {"max_length", "max_new_tokens"} & {*options} else {"max_new_tokens": 8}
        reverse = self.model(case.kind, case.seed, Direction.REVERSE)
        if way == "ours":
            chosen = BidiGenerate(None if case.route == "vbs" else reverse, case.route)
            output = attempt(lambda: model.generate(**{**inputs, **how, **options}, custom_generate=chosen))
            is_ours = not isinstance(output, Exception) or isinstance(output, BidibeamError)
            if is_ours and "streamer" in options and not options["streamer"].is_ended:
                raise TimeoutError("whoever reads the streamer waits for ever")
            if isinstance(output, Exception):
                raise output
        else:
            if case.route == "reverse-vbs":
                begun = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
                model, options = reverse, mirror(options, inputs, begun)
            if case.route == "bidia":
                how["num_beams"] = beams - beams // 2
            if count <= how["num_beams"]:  # those cut off are ranked last by us
                how["num_return_sequences"] = how["num_beams"]
            output = model.generate(**{**inputs, "output_scores": True, **how, **options})
        is_plain = case.route == "vbs" and beams > 1 and not {*options} & SCORE_CHANGING
        count = None if way == "ours" or case.route in ("bidia", "bidis") else count
        found = self.read(output, model, inputs, options, count)
        if way == "ours" and is_plain and found[0][1] is not None:
            check_forced(model, inputs, found)
        if case.route == "reverse-vbs" and way == "theirs":
            special = {0, 1, 2, *ends_of(options), options.get("forced_bos_token_id")}
            found = [(tuple(reverse_labels([*ids], special - {None})), score) for ids, score in found]
        return found

    def read(
        self, output: Any, model: Any, inputs: dict[str, Tensor], options: dict[str, Any], count: int | None
    ) -> Found:
        """The written ids of every row; of the rows of each source the first `count`, finished ones first."""
        rows = output if isinstance(output, Tensor) else output.sequences
        scores = getattr(output, "sequences_scores", None)
        begun = 1 if model.config.is_encoder_decoder else inputs["input_ids"].shape[1]
        if not model.config.is_encoder_decoder and "inputs_embeds" in options:
            begun = 0
        if model.config.is_encoder_decoder and "decoder_input_ids" in options:
            first = options["decoder_input_ids"][0].tolist()
            begun = len(first) + (first[0] != options.get("decoder_start_token_id", 2))
        values = [None] * len(rows) if scores is None else scores.tolist()
        found = [(cut(row[begun:].tolist(), ends_of(options)), value) for row, value in zip(rows, values, strict=True)]
        if count is None:
            return found
        each = len(found) // len(inputs["input_ids"])
        lines = [found[first : first + each] for first in range(0, len(found), each)]
        for line in lines:
            line.sort(key=lambda one: not one[0] or one[0][-1] not in ends_of(options))
        return [one for line in lines for one in line[:count]]

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
        found = list(zip(texts, output.sequences_scores.tolist(), strict=True))
        return best_of_texts([found[first : first + case.beams] for first in range(0, len(found), case.beams)])


def best_of_texts(lines: Sequence[Sequence[tuple[str, float | None]]]) -> Found:
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
        read: dict[str, Any] = {"input_ids": torch.tensor([source])}
        begun = [2] if model.config.is_encoder_decoder else source
        name = "decoder_input_ids" if model.config.is_encoder_decoder else "input_ids"
        read[name] = torch.tensor([[*begun, *ids[:-1]]])
        with torch.no_grad():
            log_probs = model(**read).logits[0, len(begun) - 1 :].log_softmax(-1)
        expected = float(log_probs[torch.arange(len(ids)), list(ids)].sum()) / len(ids)
        if score is None or abs(score - expected) > CLOSE:
            raise AssertionError(f"{ids} scores {score}, and {expected} by teacher forcing")


def compare(ours: Found, theirs: Found, route: str) -> str:
    """How the two differ; nothing where they do not."""
    if route in ("bidia", "bidis"):  # some of the same hypotheses, in an order of their own
        return str(sorted({ids for ids, _ in ours} - {ids for ids, _ in theirs}) or "")
    if route == "folder":
        ours, theirs = sorted(ours), sorted(theirs)
    for (ids, score), (expected, other) in zip(ours, theirs, strict=False):
        if ids != expected:
            return f"{ids} instead of {expected}"
        if None not in (score, other) and abs(score - other) > CLOSE:  # type: ignore[operator]
            return f"{ids} scores {score} instead of {other}"
    return "" if len(ours) == len(theirs) else f"{len(ours)} hypotheses instead of {len(theirs)}"


def judge_refusal(ours: Exception, theirs: Any, case: Case) -> tuple[str, str]:
    """Whether an exception is a refusal: a message that names an option, or what `generate` itself raises."""
    said = f"{type(ours).__name__}: {ours}"
    message = str(ours).lower().replace("_", " ").replace("`", "")
    names = {*case.options, "num_return_sequences"}  # of which every call asks for all
    is_named = any(name.replace("_", " ") in message for name in names)
    if isinstance(ours, BidibeamError):
        is_ours = "--" in str(ours) or "beam_size" in str(ours)
        is_theirs = isinstance(theirs, Exception) and str(theirs).split(".")[0] in str(ours)
        return ("refused" if (is_named or is_theirs) and not is_ours else "unnamed"), said
    is_same = type(ours) is type(theirs) and str(ours) == str(theirs)
    is_theirs = isinstance(ours, ValueError) and (is_named or isinstance(theirs, ValueError))
    return ("refused" if is_same or is_theirs else "traceback"), said


def run(seeds: Sequence[int], count: int | None, report: Callable[[str], None]) -> dict[str, Any]:
    """Try every option for each seed, or `count` cases of it by chance: verdicts by route, and failures."""
    counts: dict[str, Counter[str]] = {}
    failures = [f"{name}: no value is tried" for name in sorted(find_untried())]
    tried: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(Path(folder))
        for seed in seeds:
            cases = make_cases(seed)
            chosen = cases if count is None else Random(seed).sample(cases, count)
            for number, case in enumerate(chosen, start=1):
                verdict, seen = runner.judge(case)
                tried.update(case.options)
                counts.setdefault(case.route, Counter())[verdict] += 1
                if verdict in FAILURES:
                    failures.append(f"{verdict}: {case}: {seen[:200]}")
                if number % 200 == 0:
                    report(f"seed {seed}: {number} of {len(chosen)} calls, {len(failures)} failures")
    total = sum(counts.values(), Counter[str]())
    return {
        "options": len(tried),
        "calls": total.total(),
        "verdicts": {name: total[name] for name in VERDICTS},
        "by_route": {route: dict(sorted(found.items())) for route, found in sorted(counts.items())},
        "failures": failures,
    }
