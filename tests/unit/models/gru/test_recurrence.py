"""The hand-written gradient against autograd, and the recurrence against PyTorch's own GRU cell."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from bidibeam.models.gru.recurrence import attend, attentive_gru, gru_gates, mix


def example(*, shared: bool, decoders: int = 2, dtype: torch.dtype = torch.float64) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    steps, batch, source, hidden, attention, memory = 4, 3, 5, 6, 7, 8

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    mask = torch.zeros(batch, 1, source, dtype=dtype)
    mask[0, 0, 3:] = -torch.inf
    return [
        normal(decoders, batch, hidden).tanh(),
        normal(decoders, steps, batch, 3 * hidden),
        normal(decoders, batch, source, attention),
        normal(1 if shared else decoders, batch, source, memory),
        mask,
        normal(decoders, hidden, attention + 3 * hidden),
        normal(decoders, 1, attention + 3 * hidden),
        normal(decoders, memory, 3 * hidden),
        normal(decoders, attention, 1),
    ]


def step_by_step(*inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The same recurrence, one obvious line after the other, left to autograd."""
    state, input_gates, keys, memory, mask, w_state, b_state, w_context, v = inputs
    attention = keys.shape[-1]
    memory = memory.expand(keys.shape[0], -1, -1, -1)
    states, contexts = [], []
    for t in range(input_gates.shape[1]):
        from_state = state @ w_state + b_state
        query, hidden_gates = from_state[..., :attention], from_state[..., attention:]
        energies = (torch.tanh(keys + query[:, :, None]) * v.mT[:, None]).sum(-1) + mask.squeeze(1)
        context = (energies.softmax(-1).unsqueeze(-1) * memory).sum(2)
        i_r, i_z, i_n = (input_gates[:, t] + context @ w_context).chunk(3, -1)
        h_r, h_z, h_n = hidden_gates.chunk(3, -1)
        reset, update = (i_r + h_r).sigmoid(), (i_z + h_z).sigmoid()
        candidate = (i_n + reset * h_n).tanh()
        state = (1 - update) * candidate + update * state
        states.append(state)
        contexts.append(context)
    return torch.stack(states, 1), torch.stack(contexts, 1)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("decoders", [1, 2])
def test_states_contexts_and_every_gradient_equal_autograds(shared: bool, decoders: int) -> None:
    inputs = example(shared=shared, decoders=decoders)
    slow_inputs = [tensor.clone().requires_grad_(index != 4) for index, tensor in enumerate(inputs)]
    fast_inputs = [tensor.clone().requires_grad_(index != 4) for index, tensor in enumerate(inputs)]

    slow, fast = step_by_step(*slow_inputs), attentive_gru(*fast_inputs)

    for slow_output, fast_output in zip(slow, fast, strict=True):
        torch.testing.assert_close(fast_output, slow_output, rtol=1e-9, atol=1e-10)
    weights = [torch.randn_like(output) for output in slow]
    sum((output * weight).sum() for output, weight in zip(slow, weights, strict=True)).backward()  # type: ignore[union-attr]
    sum((output * weight).sum() for output, weight in zip(fast, weights, strict=True)).backward()  # type: ignore[union-attr]
    for index, (slow_input, fast_input) in enumerate(zip(slow_inputs, fast_inputs, strict=True)):
        if index != 4:
            assert slow_input.grad is not None
            torch.testing.assert_close(fast_input.grad, slow_input.grad, rtol=1e-8, atol=1e-9)


def test_the_gates_are_those_of_pytorchs_gru_cell() -> None:
    cell = torch.nn.GRUCell(5, 6)
    inputs, state = torch.randn(4, 5), torch.randn(4, 6)
    input_gates = inputs @ cell.weight_ih.mT + cell.bias_ih
    hidden_gates = state @ cell.weight_hh.mT + cell.bias_hh

    _, update, candidate, _ = gru_gates(input_gates, hidden_gates)

    torch.testing.assert_close(candidate + update * (state - candidate), cell(inputs, state))


def test_attention_never_looks_at_padding() -> None:
    query, keys = torch.randn(2, 3, 4, 7), torch.randn(2, 3, 5, 7)
    mask = torch.zeros(3, 1, 5)
    mask[1, 0, 2:] = -torch.inf

    weights, _ = attend(query, keys, torch.randn(2, 7, 1), mask)

    assert weights[:, 1, :, 2:].eq(0).all()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 4))


def test_a_shared_memory_mixes_as_if_it_were_copied_for_each_decoder() -> None:
    weights, memory = torch.rand(2, 3, 4, 5), torch.randn(1, 3, 5, 8)

    torch.testing.assert_close(mix(weights, memory), mix(weights, memory.expand(2, -1, -1, -1).contiguous()))
