"""An attentive GRU over a whole sequence, with its gradient written out.

Teacher forcing knows every input beforehand, so all that does not depend on the previous state is computed
for all steps at once, before the loop and after it: the products with embeddings, and in the gradient every
weight's, which autograd would accumulate step by step. What remains in the loop is the recurrence itself.
Both decoders run through the same loop, stacked along the first axis.

Axes: D decoders, T steps, B batch, K beams, S source positions, H decoder, A attention, M memory.
Reference: Bahdanau et al. (2015), appendix A.1.2.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

CPU_CHUNK = 1 << 18
"""Hidden units of attention computed at once on a CPU: one megabyte. Measured; larger leaves the cache."""


def widen(tensor: Tensor) -> Tensor:
    """Half precision as float32, for what must not lose digits; other types as they are."""
    return tensor.float() if tensor.dtype in {torch.bfloat16, torch.float16} else tensor


def attend(query: Tensor, keys: Tensor, v: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Additive attention weights, (D, B, K, S), and the hidden layer under them, (D, B, K, S, A).

    Compared are query (D, B, K, A) and keys (D, B, S, A) by v (D, A, 1); the mask is (B, 1, S), 0 at real
    positions and -inf at padding.
    """
    hidden = (keys.unsqueeze(2) + query.unsqueeze(3)).tanh_()  # (D, B, K, S, A)
    energies = torch.bmm(hidden.flatten(1, 3), v).view(hidden.shape[:-1])  # (D, B, K, S)
    return torch.softmax(widen(energies) + mask, dim=-1).to(keys.dtype), hidden


def attention_weights(query: Tensor, keys: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """The same weights without a gradient; on a CPU a few sources at a time, so that all stays in cache."""
    if query.device.type != "cpu":
        return attend(query, keys, v, mask)[0]
    decoders, count, beams, size = query.shape
    positions = keys.shape[2]
    chunk = max(1, CPU_CHUNK // max(1, decoders * beams * positions * size))
    scratch = query.new_empty(decoders, min(chunk, count), beams, positions, size)
    energies = query.new_empty(decoders, count, beams, positions)
    for first in range(0, count, chunk):
        here = slice(first, min(first + chunk, count))
        hidden = scratch[:, : here.stop - first]  # (D, chunk, K, S, A)
        torch.add(keys[:, here].unsqueeze(2), query[:, here].unsqueeze(3), out=hidden).tanh_()
        energies[:, here] = torch.matmul(hidden.flatten(1, 3), v).view_as(energies[:, here])
    return torch.softmax(energies.add_(mask), dim=-1)


def mix(weights: Tensor, memory: Tensor) -> Tensor:
    """Weighted sums of encoder states, (D, B, K, M); `memory` is (D, B, S, M), or (1, ...) shared."""
    if memory.shape[0] == weights.shape[0]:
        return torch.matmul(weights, memory)
    by_source = weights.transpose(0, 1).flatten(1, 2)  # (B, D*K, S)
    mixed = torch.bmm(by_source, memory[0])  # (B, D*K, M)
    return mixed.view(mixed.shape[0], weights.shape[0], -1, mixed.shape[-1]).transpose(0, 1)


def gru_gates(input_gates: Tensor, hidden_gates: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """PyTorch's GRU equations up to the update: reset, update, candidate, and the candidate's hidden part."""
    size = input_gates.shape[-1] // 3
    reset_update = torch.sigmoid(input_gates[..., : 2 * size] + hidden_gates[..., : 2 * size])
    reset, update = reset_update.chunk(2, dim=-1)
    hidden_candidate = hidden_gates[..., 2 * size :]
    candidate = torch.tanh(input_gates[..., 2 * size :] + reset * hidden_candidate)
    return reset, update, candidate, hidden_candidate


class AttentiveGRU(torch.autograd.Function):
    """All steps of teacher forcing.

    Inputs: initial (D, B, H); input_gates (D, T, B, 3H), the embeddings' share with its bias; keys
    (D, B, S, A); memory (D or 1, B, S, M); mask (B, 1, S); w_state (D, H, A + 3H), attention query and
    hidden gates side by side; b_state (D, 1, A + 3H); w_context (D, M, 3H); v (D, A, 1).
    Outputs: states (D, T, B, H) and contexts (D, T, B, M).
    """

    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Run the recurrence, keeping what the gradient needs."""
        initial, input_gates, keys, memory, mask, w_state, b_state, w_context, v = inputs
        attention_size = keys.shape[-1]
        steps = input_gates.shape[1]
        dtype = keys.dtype
        state = widen(initial)  # (D, B, H)
        states, contexts, saved = [], [], []
        for t in range(steps):
            from_state = torch.baddbmm(b_state, state.to(dtype), w_state)  # (D, B, A + 3H)
            query = from_state[..., :attention_size].unsqueeze(2)  # (D, B, 1, A)
            weights, hidden = attend(query, keys, v, mask)  # (D, B, 1, S), (D, B, 1, S, A)
            context = mix(weights, memory).squeeze(2)  # (D, B, M)
            gates = input_gates[:, t] + torch.bmm(context, w_context)  # (D, B, 3H)
            reset, update, candidate, hidden_candidate = gru_gates(gates, from_state[..., attention_size:])
            if any(ctx.needs_input_grad):
                saved.append((state, reset, update, candidate, hidden_candidate, weights, hidden))
            state = candidate + update * (state - candidate)
            states.append(state.to(dtype))
            contexts.append(context)
        stacked = torch.stack(states, 1), torch.stack(contexts, 1)
        ctx.saved_steps = saved
        ctx.save_for_backward(*inputs, *stacked)
        return stacked

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor, grad_contexts: Tensor) -> tuple[Tensor | None, ...]:
        """The recurrence's gradient step by step, then every weight's in one product."""
        initial, input_gates, keys, memory, _, w_state, b_state, w_context, v, states, contexts = (
            ctx.saved_tensors
        )
        dtype, shared = keys.dtype, memory.shape[0] != keys.shape[0]
        grad_input = torch.empty_like(input_gates)  # (D, T, B, 3H)
        grad_from_state = input_gates.new_empty(*input_gates.shape[:3], w_state.shape[-1])
        grad_context = torch.empty_like(contexts)  # (D, T, B, M)
        grad_keys, grad_v = torch.zeros_like(keys), torch.zeros_like(widen(v))
        carried = torch.zeros_like(ctx.saved_steps[-1][0])  # (D, B, H)
        w_state_t, w_context_t, v_row = w_state.mT, w_context.mT, v.mT.unsqueeze(2)
        all_weights = []
        for t in reversed(range(input_gates.shape[1])):
            state, reset, update, candidate, hidden_candidate, weights, hidden = ctx.saved_steps[t]
            ctx.saved_steps[t] = None
            hidden = hidden.squeeze(2)  # (D, B, S, A)
            carried = carried + grad_states[:, t]
            d_candidate = (carried * (1 - update)) * (1 - candidate * candidate)
            d_update = carried * (state - candidate) * (update * (1 - update))
            d_reset = d_candidate * hidden_candidate * (reset * (1 - reset))
            grad_input[:, t] = torch.cat((d_reset, d_update, d_candidate), -1)
            d_context = grad_contexts[:, t] + torch.bmm(grad_input[:, t], w_context_t)  # (D, B, M)
            grad_context[:, t] = d_context
            d_weights = mix(d_context.unsqueeze(2), memory.mT).squeeze(2)  # (D, B, S)
            weights = weights.squeeze(2)
            all_weights.append(weights)
            d_energies = weights * (d_weights - (weights * d_weights).sum(-1, keepdim=True))
            grad_v += torch.bmm(hidden.flatten(1, 2).mT, d_energies.flatten(1, 2).unsqueeze(2))
            d_hidden = torch.ops.aten.tanh_backward(d_energies.unsqueeze(3) * v_row, hidden)  # (D, B, S, A)
            grad_keys += d_hidden
            grad_from_state[:, t] = torch.cat(
                (d_hidden.sum(2), d_reset.to(dtype), d_update.to(dtype), (d_candidate * reset).to(dtype)), -1
            )
            carried = carried * update + torch.bmm(grad_from_state[:, t], w_state_t)
        previous = torch.cat((initial.to(dtype).unsqueeze(1), states[:, :-1]), 1).flatten(1, 2)
        grad_flat = grad_from_state.flatten(1, 2)  # (D, T * B, A + 3H)
        grad_w_state = torch.bmm(previous.mT, grad_flat)
        grad_w_context = torch.bmm(contexts.flatten(1, 2).mT, grad_input.flatten(1, 2))
        weights = torch.stack(all_weights[::-1], 2)  # (D, B, T, S)
        grad_memory = _memory_gradient(weights, grad_context.transpose(1, 2), shared=shared)
        grad_b_state = grad_flat.sum(1, keepdim=True).to(b_state.dtype)
        return (
            carried.to(initial.dtype),
            grad_input,
            grad_keys,
            grad_memory,
            None,
            grad_w_state,
            grad_b_state,
            grad_w_context,
            grad_v.to(v.dtype),
        )


def _memory_gradient(weights: Tensor, grad_context: Tensor, *, shared: bool) -> Tensor:
    """(D, B, T, S) and (D, B, T, M) to (D, B, S, M), or summed over decoders to (1, B, S, M)."""
    if not shared:
        return torch.matmul(weights.mT, grad_context)
    flat_weights = weights.transpose(0, 1).flatten(1, 2)  # (B, D*T, S)
    flat_gradient = grad_context.transpose(0, 1).flatten(1, 2)  # (B, D*T, M)
    return torch.bmm(flat_weights.mT, flat_gradient).unsqueeze(0)


def attentive_gru(*inputs: Tensor) -> tuple[Tensor, Tensor]:
    """States and contexts of every step; see `AttentiveGRU` for the arguments."""
    if not torch.is_grad_enabled():  # which a function of autograd's cannot see from inside
        inputs = tuple(tensor.detach() for tensor in inputs)
    states, contexts = AttentiveGRU.apply(*inputs)  # type: ignore[no-untyped-call]
    return states, contexts
