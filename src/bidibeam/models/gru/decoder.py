"""The decoders: one-layer GRUs with additive attention, one for each direction, stacked."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from bidibeam.models.gru.recurrence import attention_weights, attentive_gru, gru_gates, mix
from bidibeam.models.gru.settings import ModelSettings


class Decoders(nn.Module):
    """Every direction's decoder. Each parameter's first axis is the direction: one product serves all.

    s_t = GRU(s_{t-1}, [y_{t-1}; c_t]) where c_t attends from s_{t-1}; a tanh layer reads [s_t; c_t; y_{t-1}].
    The first state is a tanh layer of the encoder's leftmost right-to-left state, as in Bahdanau et al.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        count, hidden, attention = len(settings.directions), settings.decoder_size, settings.attention_size
        memory, embedding = settings.memory_size, settings.embedding_size
        self.attention_size = attention
        self.encoder_size = settings.encoder_size
        self.w_initial = nn.Parameter(torch.empty(count, settings.encoder_size, hidden))
        self.b_initial = nn.Parameter(torch.zeros(count, 1, hidden))
        self.w_key = nn.Parameter(torch.empty(count, memory, attention))
        self.v = nn.Parameter(torch.empty(count, attention, 1))
        self.w_state = nn.Parameter(torch.empty(count, hidden, attention + 3 * hidden))
        self.b_state = nn.Parameter(torch.zeros(count, 1, attention + 3 * hidden))
        self.w_context = nn.Parameter(torch.empty(count, memory, 3 * hidden))
        self.w_word = nn.Parameter(torch.empty(count, embedding, 3 * hidden))
        self.b_word = nn.Parameter(torch.zeros(count, 1, 3 * hidden))
        self.w_readout = nn.Parameter(torch.empty(count, hidden + memory + embedding, settings.output_width))
        self.b_readout = nn.Parameter(torch.zeros(count, 1, settings.output_width))
        self.dropout = nn.Dropout(settings.dropout)
        self.reset_parameters(hidden)

    def reset_parameters(self, hidden: int) -> None:
        """GRU weights as PyTorch's own GRU has them, the others by their fan-in."""
        for name, parameter in self.named_parameters():
            if name in {"w_context", "w_word", "b_word", "w_state", "b_state"}:
                bound = 1 / math.sqrt(hidden)
            else:
                bound = 1 / math.sqrt(parameter.shape[1]) if not name.startswith("b_") else 0.0
            nn.init.uniform_(parameter, -bound, bound)

    def initial(self, memory: Tensor) -> Tensor:
        """The first states, (D, B, H), from encoder states (D or 1, B, S, M)."""
        leftmost = memory[:, :, 0, self.encoder_size :]  # (D or 1, B, encoder)
        leftmost = leftmost.expand(self.w_initial.shape[0], -1, -1)
        return torch.tanh(torch.baddbmm(self.b_initial, leftmost, self.w_initial))

    def keys(self, memory: Tensor) -> Tensor:
        """What attention compares with, (D, B, S, A)."""
        flat = memory.flatten(1, 2).expand(self.w_key.shape[0], -1, -1)  # (D, B * S, M)
        return torch.bmm(flat, self.w_key).view(-1, *memory.shape[1:3], self.attention_size)

    def forward(self, words: Tensor, memory: Tensor, mask: Tensor) -> Tensor:
        """Teacher forcing.

        Args:
            words: (D, T, B, E), the embedded tokens that each step reads.
            memory: (D or 1, B, S, M)
            mask: (B, 1, S)

        Returns:
            The readout of each step, (D, T, B, R).
        """
        flat_words = words.flatten(1, 2)  # (D, T * B, E)
        gates = torch.baddbmm(self.b_word, flat_words, self.w_word).view(*words.shape[:3], -1)
        keys = self.keys(memory)
        weights = (self.w_state, self.b_state, self.w_context, self.v)
        inputs = (self.initial(memory), gates, keys, memory)
        states, contexts = attentive_gru(
            *(tensor.to(keys.dtype) for tensor in inputs),
            mask,
            *(weight.to(keys.dtype) for weight in weights),
        )
        readout = self.readout(states.flatten(1, 2), contexts.flatten(1, 2), flat_words)
        return readout.view(*words.shape[:3], -1)

    def step(
        self, words: Tensor, state: Tensor, keys: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One step of K hypotheses a source.

        Args:
            words: (D, B, K, E)
            state: (D, B, K, H)
            keys: (D, B, S, A)
            memory: (D or 1, B, S, M)
            mask: (B, 1, S)

        Returns:
            The readout, (D, B * K, R), and the new state.
        """
        flat_words = words.flatten(1, 2)  # (D, B * K, E)
        from_state = torch.baddbmm(self.b_state, state.flatten(1, 2), self.w_state)  # (D, B * K, A + 3H)
        query = from_state[..., : self.attention_size].view(*state.shape[:3], -1)  # (D, B, K, A)
        weights = attention_weights(query, keys, self.v, mask)  # (D, B, K, S)
        context = mix(weights, memory).flatten(1, 2)  # (D, B * K, M)
        gates = torch.baddbmm(self.b_word, flat_words, self.w_word)
        gates = torch.baddbmm(gates, context, self.w_context)  # (D, B * K, 3H)
        _, update, candidate, _ = gru_gates(gates, from_state[..., self.attention_size :])
        new = candidate + update * (state.flatten(1, 2) - candidate)  # (D, B * K, H)
        return self.readout(new, context, flat_words), new.view(state.shape)

    def readout(self, states: Tensor, contexts: Tensor, words: Tensor) -> Tensor:
        """The tanh layer under the output projection, (D, rows, R)."""
        read = torch.cat((states.to(contexts.dtype), contexts, words.to(contexts.dtype)), dim=-1)
        dropped: Tensor = self.dropout(torch.tanh(torch.baddbmm(self.b_readout, read, self.w_readout)))
        return dropped
