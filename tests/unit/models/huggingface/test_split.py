"""Products on a GPU's matrix units: as near to the true ones as plain products, whatever the shape."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.sides import Side, task_of
from bidibeam.models.huggingface.steps import layout
from tests.unit.models.huggingface.tiny import tiny_model

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda")


@needs_gpu
@pytest.mark.parametrize("has_more", [False, True])
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(
    ("count", "depth", "width"),
    [(1, 32, 1), (127, 64, 63), (128, 256, 64), (129, 256, 65), (1300, 96, 777), (400, 256, 16_003)],
)
def test_a_product_is_as_near_as_a_plain_one(
    count: int, depth: int, width: int, has_bias: bool, has_more: bool
) -> None:
    from bidibeam.models.huggingface.split import times

    torch.manual_seed(count + width)
    rows, weight = numbers(count, depth), numbers(width, depth)
    bias = numbers(width) if has_bias else None
    more = numbers(count, width) if has_more else None
    around = torch.full((count + 2, width + 5), torch.nan, device="cuda")
    expected = rows.double() @ weight.double().t()
    expected = expected if bias is None else expected + bias
    expected = expected if more is None else expected + more
    plain = torch.nn.functional.linear(rows, weight, bias) + (0.0 if more is None else more)

    found = times(rows, weight, bias, around[1:-1, :width], more)

    worst, plainly = ((one - expected).abs().max().item() for one in (found, plain))
    assert worst <= 2 * plainly + 1e-6
    assert torch.isnan(around[0]).all()
    assert torch.isnan(around[-1]).all()
    assert torch.isnan(around[:, width:]).all()


@needs_gpu
def test_rows_may_lie_apart_and_numbers_that_are_none_stay() -> None:
    from bidibeam.models.huggingface.split import times

    wide, weight = numbers(200, 96), numbers(70, 32)
    wide[3, 5], wide[4, 40] = torch.nan, torch.inf

    for rows in (wide[:, :32], wide[:, 32:64], wide[:32, :64].t()[:, :32]):
        found = times(rows, weight, None, torch.empty(len(rows), 70, device="cuda"))
        torch.testing.assert_close(found, rows @ weight.t(), rtol=1e-4, atol=1e-4, equal_nan=True)


@needs_gpu
def test_it_is_for_many_rows_in_full_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = numbers(16_000, 64)
    split = layout.split_for(weight.device, torch.float32)

    assert split.is_taken(256, weight)
    assert not split.is_taken(100, weight)
    assert not split.is_taken(256, weight[:, :30].contiguous())
    assert not split.is_taken(256, weight[:, :32])
    assert layout.split_for(weight.device, torch.bfloat16) is None
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert layout.split_for(weight.device, torch.float32) is None


@needs_gpu
def test_searches_that_take_it_find_what_generate_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny_model("bart", d_model=64, vocab_size=16_000, init_std=0.2).eval().cuda()
    side, rows = Side.of(model, Direction.REGULAR), list[int]()
    split = layout.split_on(model.device)
    times = split.times

    def watched(*given: Any) -> torch.Tensor:
        rows.append(len(given[0]))
        found: torch.Tensor = times(*given)
        return found

    monkeypatch.setattr(split, "times", watched)
    ids = torch.randint(4, 16_000, (8, 9), device="cuda")
    options = {"num_beams": 50, "max_new_tokens": 6, "early_stopping": True, "do_sample": False}
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    theirs = model.generate(**given, num_return_sequences=50, **options)[:, 1:].tolist()

    for _ in range(3):  # plainly, recorded, and played
        task = model.generate(**given, custom_generate=task_of, **options)
        found = side.sequences(task, task.rules.settings(task.config, 50))
        same = [
            list(one.tokens) == [token for token in row if token not in (1, 2)]
            for one, row in zip((one for line in found for one in line), theirs, strict=True)
        ]
        assert sum(same) >= 0.99 * len(same)  # two of nearly the same score may change places

    assert 400 in rows


def test_a_cpu_has_none() -> None:
    assert layout.split_for(torch.device("cpu"), torch.float32) is None
