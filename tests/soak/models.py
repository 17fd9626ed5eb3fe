"""Every architecture of transformers as a tiny random model: its lists equal `generate`, or it is refused.

A folder with the model is loaded by `bidibeam.load`. The n-best lists of a batch of sources, of different
lengths, are compared with `generate` for each source alone and unpadded, and with a teacher-forced pass of
the plain model; so are the scores of other texts.
"""

from __future__ import annotations

import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import current_thread, main_thread
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoConfig, PreTrainedTokenizerFast

import bidibeam
from bidibeam.errors import BidibeamError
from bidibeam.models.huggingface.quiet import quiet_transformers
from tests.soak.architectures import (
    DECODED,
    LETTERS,
    SPECIAL,
    VOCABULARY,
    NotTinyError,
    Variant,
    all_variants,
    find_class,
    tiny_config,
)

SECONDS = 90
"""For one variant."""
BEAMS, LENGTH = 4, 10
LENGTHS = (3, 1, 26, 5, 3)
"""Letters of the sources of a batch: the longest crosses windows and what rotary embeddings know."""
TOLERANCE = {"float32": 1e-4, "bfloat16": 0.1}
"""Of log-probabilities, relative to them where they are beyond 1."""
AGREEMENT = {"equal": 1, "by generate": 25}
"""How many times as much may be between a search and a teacher-forced pass: some caches are inexact."""
WEIGHTS = 20_000_000
"""A model with more is not tiny."""
OF_WEIGHTS = ("dtype", "std")
"""What a variant says of its weights, and not of its config."""
VARIES = ("llama dynamic rope", "phi3 longrope", "llama longrope")
"""What they say of a token depends on how long the text is by then, so one pass over the whole differs."""


class TooSlowError(BaseException):
    """A variant that took longer than it may; not an Exception, which a model's code may catch."""


def write_folder(folder: Path, variant: Variant, seed: int) -> None:
    """A model with strong opinions, and a tokenizer that knows as many letters."""
    kind, changes = variant
    torch.manual_seed(seed)
    try:
        config = tiny_config(kind, {name: value for name, value in changes.items() if name not in OF_WEIGHTS})
        with torch.device("meta"):
            size = sum(one.numel() for one in find_class(config).from_config(config).parameters())
        if size > WEIGHTS:
            raise NotTinyError(f"{size:,} weights")  # noqa: TRY301
        model = find_class(config).from_config(config).eval()
    except NotTinyError:
        raise
    except Exception as error:
        raise NotTinyError(f"{type(error).__name__}: {error}") from error
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                weight.normal_(0.0, changes.get("std", 0.3))
    model.generation_config.update(**SPECIAL, suppress_tokens=[0, 1, 3], forced_eos_token_id=None)
    model.generation_config.update(max_length=None, max_new_tokens=None)
    model.to(getattr(torch, changes.get("dtype", "float32"))).save_pretrained(folder)
    known = {token: number for number, token in enumerate(["<pad>", "<s>", "</s>", "<unk>", *LETTERS])}
    inner = Tokenizer(models.BPE(known, [], unk_token="<unk>"))
    inner.pre_tokenizer, inner.decoder = (
        pre_tokenizers.ByteLevel(add_prefix_space=False),
        decoders.ByteLevel(),
    )
    names = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    PreTrainedTokenizerFast(tokenizer_object=inner, **names).save_pretrained(folder)


@contextmanager
def limit_time(seconds: int) -> Iterator[None]:
    """Leave the block after so many seconds; only in the main thread, where signals arrive."""
    if current_thread() is not main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def generate(model: Any, ids: Sequence[int]) -> list[tuple[list[int], float]]:
    """What `generate` finds for one source: ids with their end, and log-probabilities, best first."""
    given = torch.tensor([ids])
    found = model.generate(
        input_ids=given,
        attention_mask=torch.ones_like(given),
        num_beams=BEAMS,
        num_return_sequences=BEAMS,
        do_sample=False,
        max_new_tokens=LENGTH,
        length_penalty=1.0,
        early_stopping=True,
        return_dict_in_generate=True,
        output_scores=True,
    )
    begun = 1 if model.config.is_encoder_decoder else len(ids)
    lists = []
    for row, score in zip(found.sequences[:, begun:].tolist(), found.sequences_scores.tolist(), strict=True):
        written = row[: row.index(2) + 1] if 2 in row else row
        lists.append((written, score * len(written)))
    return lists


@torch.no_grad()
def force(model: Any, ids: Sequence[int], written: Sequence[int], start: int = 1) -> float:
    """The log-probability of what was written, by one pass without a cache."""
    if model.config.is_encoder_decoder:
        read = torch.tensor([[start, *written[:-1]]])
        logits = model(input_ids=torch.tensor([ids]), decoder_input_ids=read, use_cache=False).logits
    else:
        model(input_ids=torch.tensor([[5]]), use_cache=False)  # dynamic rotary embeddings forget long texts
        logits = model(input_ids=torch.tensor([[*ids, *written[:-1]]]), use_cache=False).logits
    log_probs = logits[0, -len(written) :].float().log_softmax(-1)
    return float(log_probs.gather(1, torch.tensor(written)[:, None]).sum())


def can_generate(folder: Path) -> bool:
    """Whether transformers itself loads and searches a model."""
    try:
        model = find_class(AutoConfig.from_pretrained(folder)).from_pretrained(folder, dtype="float32").eval()
        return bool(generate(model, [5, 6, 7]))
    except Exception:
        return False


def is_near(one: float, other: float, tolerance: float) -> bool:
    return abs(one - other) <= tolerance * max(1.0, abs(other))


def find_difference(name: str, folder: Path, variant: Variant, seed: int) -> tuple[str, str | None]:
    """How a model is searched, and the first thing that is wrong, if any."""
    chance, precision = Random(seed), variant[1].get("dtype", "float32")
    rows = [[chance.randrange(4, VOCABULARY) for _ in range(length)] for length in LENGTHS]
    texts = ["".join(LETTERS[token - 4] for token in row) for row in rows]
    settings = bidibeam.SearchSettings(
        beam_size=BEAMS, max_length=LENGTH, min_length=0, length_penalty=1.0, length_formula="power",
        stopping="constant", unfinished="rank", allow_unknown=True,
    )  # fmt: skip
    model, tolerance = bidibeam.load(folder, device="cpu", dtype=precision), TOLERANCE[precision]
    way = "equal" if model.scorer(bidibeam.Direction.REGULAR) else "by generate"
    lists = model.n_best(bidibeam.Direction.REGULAR, texts, settings)
    others = [[[chance.randrange(4, VOCABULARY) for _ in range(5)] + [2]] for _ in rows]
    scores = model.sequence_scorer(bidibeam.Direction.REGULAR).log_probs(texts, others)
    config = AutoConfig.from_pretrained(folder)
    plain = find_class(config).from_pretrained(folder, dtype=getattr(torch, precision)).eval()
    for number, (row, line) in enumerate(zip(rows, lists, strict=True)):
        expected = generate(plain, row)
        where = f"source {number + 1} of {len(row)} letters"
        if len(line) != len(expected):
            return way, f"{where}: {len(line)} hypotheses, and generate has {len(expected)}"
        for one, (ids, log_prob) in zip(line, expected, strict=True):
            if not is_near(one.log_prob or 0.0, log_prob, tolerance):
                return way, f"{where}: log_prob {one.log_prob:.5f}, and generate has {log_prob:.5f}"
            if precision == "float32" and tuple(ids) not in {other.ids for other in line}:
                return way, f"{where}: {[*one.ids]}, and generate has {ids}"
            forced = force(plain, row, one.ids)
            if name not in VARIES and not is_near(one.log_prob or 0.0, forced, AGREEMENT[way] * tolerance):
                return way, f"{where}: log_prob {one.log_prob:.5f}, and teacher forcing {forced:.5f}"
        forced = force(plain, row, others[number][0])
        if not is_near(scores[number][0], forced, tolerance):
            return way, f"{where}: a text's {scores[number][0]:.5f}, and teacher forcing {forced:.5f}"
    return way, None


def judge(name: str, variant: Variant, seed: int) -> tuple[str, str]:
    """A variant's verdict, and what there is to say of it."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with limit_time(SECONDS):
                write_folder(Path(folder) / "model", variant, seed)
                way, difference = find_difference(name, Path(folder) / "model", variant, seed)
        except NotTinyError as error:
            return "not made", str(error)
        except TooSlowError:
            return "too slow", f"more than {SECONDS} s"
        except BidibeamError as error:
            verdict = "refused" if can_generate(Path(folder) / "model") else "fails in transformers"
            return verdict, str(error)
        except Exception as error:
            return "traceback", f"{type(error).__name__}: {error}"
    return ("wrong", difference) if difference else (way, "")


def run(seeds: Sequence[int], count: int | None, report: Callable[[str], None]) -> dict[str, Any]:
    """Judge every variant, or so many of those that must be searched, for every seed."""
    verdicts: Counter[str] = Counter()
    names: dict[str, dict[str, str]] = {}
    failures: list[str] = []
    variants = all_variants()
    for seed in seeds:
        chosen = list(variants) if count is None else Random(seed).sample(DECODED, count)
        for name in chosen:
            with quiet_transformers():
                verdict, said = judge(name, variants[name], seed)
            said = " ".join(said.split())[:200]
            verdicts[verdict] += 1
            names.setdefault(verdict, {})[name] = said
            report(f"{name}: {verdict} {said}")
            is_missed = name in DECODED and verdict not in AGREEMENT
            if is_missed or verdict in ("wrong", "traceback", "too slow"):
                failures.append(f"seed {seed}, {name}: {verdict}: {said}")
    return {"variants": sum(verdicts.values()), **verdicts, "names": names, "failures": failures}
