"""Which matrices are copied, how long copies are kept, and what products read where there is none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from bidibeam.models.huggingface.inplace import InPlace
from bidibeam.models.huggingface.scoring import HFScorer
from bidibeam.models.huggingface.steps import layout
from bidibeam.models.huggingface.steps.layout import Layout
from tests.unit.models.huggingface.tiny import tiny_model


@pytest.fixture
def model() -> Any:
    return tiny_model("bart", vocab_size=40, decoder_start_token_id=2)


@pytest.fixture(autouse=True)
def _one_fast_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(layout, "are_fast", lambda: True)  # what is said is the same on every processor
    monkeypatch.setattr(layout, "WAYS", layout.AVX512)


@pytest.fixture
def roomy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything may be copied, for any number of rows."""
    monkeypatch.setattr(layout, "LEAST_ROWS", 0)
    monkeypatch.setattr(layout, "COPIED_LOGITS", 99_999)


def stepped(model: Any) -> None:
    scorer = HFScorer(model)
    _, state = scorer.step(torch.tensor([2]), scorer.start(torch.tensor([[5, 6, 7]])))
    scorer.step(torch.tensor([7]), state)


def products(model: Any, rows: int) -> Iterator[tuple[Any, Any]]:
    """What a search with as many rows makes of products and the head, and what torch does."""
    made, torch_rows = Layout(model, rows), torch.randn(rows, 32, generator=torch.Generator().manual_seed(1))
    attention = model.model.decoder.layers[0].self_attn
    layers = (attention.q_proj, attention.k_proj, attention.v_proj)
    yield (
        made.product("0.attention", *layers)(torch_rows).clone(),
        torch.cat([layer(torch_rows) for layer in layers], dim=1),
    )
    more = torch.ones(rows, 64)
    yield (
        made.product("0.wide", *layers[:2])(torch_rows, more).clone(),
        torch.cat([layer(torch_rows) for layer in layers[:2]], dim=1) + 1,
    )
    head = model.lm_head.weight.detach()
    out = torch.empty(rows, 40)
    yield made.large("head", head, None)(torch_rows, out), torch_rows @ head.t()


@pytest.mark.parametrize(
    ("rows", "logits", "names"),
    [
        (15, 99, []),  # too few rows
        (16, 3, []),  # too little room: 7,680 bytes
        (16, 4, ["0.wide"]),  # that has 8,192, and the other 12,288
        (16, 7, ["0.attention"]),
        (16, 8, ["0.attention", "0.wide"]),
        (64, 99, ["0.attention", "0.wide"]),  # the head is read where it lies
        (65, 2, ["0.attention", "0.wide"]),  # 20,800; in tiles, the head has 8,192
        (65, 3, ["0.attention", "0.wide", "head"]),
        (257, 99, []),  # so many that a copy does not pay
    ],
)
def test_copies_are_as_large_as_the_logits_allow(
    model: Any, rows: int, logits: int, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "COPIED_LOGITS", logits)

    with torch.no_grad():
        for found, expected in products(model, rows):
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)

    assert sorted(layout._COPIES[model].by_name) == sorted(names)
    assert layout.kept_bytes(model) <= max(logits * rows * 40 * 4, 0)


@pytest.mark.parametrize("rows", [1, 16, 70, 1600, 4096, 4097])
def test_with_few_registers_nothing_is_copied(model: Any, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "WAYS", layout.AVX2)
    made = list[int]()

    class Counted(InPlace):
        def __init__(self, parts: Any) -> None:
            super().__init__(parts)
            made.append(len(parts))

    monkeypatch.setattr(layout, "InPlace", Counted)

    with torch.no_grad():
        for found, expected in products(model, rows):
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)

    assert layout.kept_bytes(model) == 0
    assert made == ([3, 2, 1] if rows <= 4096 else [])


def test_without_such_registers_copies_are_as_torch_reads_them(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layout, "are_fast", lambda: False)
    monkeypatch.setattr(layout, "COPIED_LOGITS", 99)
    for ways in (layout.AVX2, layout.AVX512):
        monkeypatch.setattr(layout, "WAYS", ways)
        with torch.no_grad():
            for found, expected in products(model, 20):
                torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)

        copies = layout._COPIES[model].by_name
        assert sorted(copies) == ["0.attention", "0.wide", "head"]
        assert not any(copy.is_tiled for copy in copies.values())


def test_what_does_not_lie_in_rows_is_left_to_torch(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    weight = model.lm_head.weight.detach().t().contiguous().t()
    asked = list[int]()
    monkeypatch.setattr(layout, "multiply", lambda rows, *_: asked.append(len(rows)))

    Layout(model, 3).large("head", weight, None)(torch.ones(3, 32), torch.empty(3, 40))

    assert asked == [3]


@pytest.mark.parametrize("rows", [3, 70])
def test_biases_may_lie_apart(model: Any, rows: int) -> None:
    made, numbers = Layout(model, rows), torch.randn(rows, 32, generator=torch.Generator().manual_seed(1))
    layer = model.model.decoder.layers[0].self_attn.q_proj
    with torch.no_grad():
        layer.bias = torch.nn.Parameter(torch.arange(64.0)[::2])
        torch.testing.assert_close(made.product("0.apart", layer)(numbers), layer(numbers))
        head, bias = model.lm_head.weight.detach(), torch.arange(80.0)[::2]
        found = made.large("head", head, bias)(numbers, torch.empty(rows, 40))
        torch.testing.assert_close(found, numbers @ head.t() + bias, atol=1e-4, rtol=1e-5)


@pytest.mark.usefixtures("roomy")
def test_copies_are_kept_for_the_next_search_and_bounded(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stepped(model)
    kept = {name: one.panels[0].data_ptr() for name, one in layout._COPIES[model].by_name.items()}
    stepped(model)
    assert {name: one.panels[0].data_ptr() for name, one in layout._COPIES[model].by_name.items()} == kept

    other = tiny_model("bart", vocab_size=40, decoder_start_token_id=2)
    monkeypatch.setattr(layout, "COPIED_BYTES", 20_000)
    stepped(other)

    assert 0 < layout.kept_bytes(other) <= 20_000 < layout.kept_bytes(model)


@pytest.mark.usefixtures("roomy")
def test_copies_for_another_number_of_threads_are_made_anew(
    model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for threads, is_tiled in ((1, True), (2, False), (1, True)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        stepped(model)
        copies = layout._COPIES[model].by_name
        assert {copy.is_tiled for name, copy in copies.items() if name != "head"} == {is_tiled}


@pytest.mark.usefixtures("roomy")
def test_copies_go_with_their_model() -> None:
    before = len(layout._COPIES)
    model = tiny_model("bart", vocab_size=40, decoder_start_token_id=2)
    stepped(model)
    assert len(layout._COPIES) == before + 1

    del model

    assert len(layout._COPIES) <= before
