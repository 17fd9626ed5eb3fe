"""The paper's network: an encoder, and a decoder for each direction."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from bidibeam.data.tokenization import PAD_ID
from bidibeam.errors import InputError
from bidibeam.hypotheses import Direction
from bidibeam.models import checkpoint
from bidibeam.models.base import Losses
from bidibeam.models.gru.projection import projected_cross_entropy
from bidibeam.models.gru.recurrence import attention_weights, attentive_gru, gru_gates, mix
from bidibeam.models.gru.scorer import GRUScorer, attention_mask
from bidibeam.models.gru.settings import ModelSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bidibeam.data.vectors import Vectors


def reversal(lengths: Tensor, width: int) -> Tensor:
    """Indices, (batch, width), that turn the real tokens of rows around and leave padding in place."""
    positions = torch.arange(width, device=lengths.device).unsqueeze(0)  # (1, width)
    mirrored = lengths.unsqueeze(1) - 1 - positions  # (batch, width)
    return torch.where(mirrored >= 0, mirrored, positions)


class Encoder(nn.Module):
    """Source embeddings to encoder states, both reading directions side by side.

    The right-to-left GRU of a layer reads each row reversed within its own length, so that padding
    follows the tokens in both directions and no state of a real position has seen it. Packed sequences would
    do the same, but need the lengths on the host, which a captured graph cannot give.
    """

    def __init__(self, settings: ModelSettings) -> None:
        super().__init__()
        widths = [settings.embedding_size] + [settings.memory_size] * (settings.encoder_layers - 1)
        self.rightward = nn.ModuleList(
            nn.GRU(width, settings.encoder_size, batch_first=True) for width in widths
        )
        self.leftward = nn.ModuleList(
            nn.GRU(width, settings.encoder_size, batch_first=True) for width in widths
        )
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, embedded: Tensor, lengths: Tensor) -> Tensor:
        """(batch, length, embedding) to (batch, length, memory)."""
        order = reversal(lengths, embedded.shape[1]).unsqueeze(2)  # (batch, length, 1)
        states = embedded
        for layer, (rightward, leftward) in enumerate(zip(self.rightward, self.leftward, strict=True)):
            states = self.dropout(states) if layer else states
            right, _ = rightward(states)  # (batch, length, encoder)
            left, _ = leftward(states.gather(1, order.expand_as(states)))
            states = torch.cat((right, left.gather(1, order.expand_as(left))), dim=-1)
        return states


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
        """Teacher forcing: the readout of each step, (D, T, B, R).

        Read are embedded tokens, (D, T, B, E), and encoder states, (D or 1, B, S, M), with a mask, (B, 1, S).
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

    def only(self, settings: ModelSettings, index: int) -> Decoders:
        """One direction's decoder by itself, in evaluation mode; its weights are these, not copies."""
        with torch.device("meta"):
            alone = Decoders(replace(settings, directions=(settings.directions[index],)))
        weights = {name: tensor[index : index + 1] for name, tensor in self.state_dict().items()}
        alone.load_state_dict(weights, assign=True)
        return alone.eval()

    def step(
        self, words: Tensor, state: Tensor, keys: Tensor, memory: Tensor, mask: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One step of K hypotheses per source: the readout, (D, B * K, R), and the new state.

        Read are words (D, B, K, E), state (D, B, K, H), keys (D, B, S, A), memory (D or 1, B, S, M) and mask
        (B, 1, S).
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


class BidirectionalModel(nn.Module):
    """Reads a source once and writes the reply in one or both directions.

    With a shared encoder, embeddings and encoder serve every decoder; otherwise each direction is a network
    of its own. Decoders never share weights, except that a tied output projection is the embeddings. Outputs
    cover the first `output_size` tokens, by default all.
    """

    Settings: ClassVar[type] = ModelSettings

    def __init__(self, settings: ModelSettings, vocabulary_size: int, output_size: int | None = None) -> None:
        super().__init__()
        self.settings = settings
        self.vocabulary_size = vocabulary_size
        self.output_size = output_size or vocabulary_size
        self.directions = [Direction(name) for name in settings.directions]
        count = len(self.directions)
        networks = 1 if settings.shared_encoder else count
        self.embeddings = nn.ModuleList(
            nn.Embedding(vocabulary_size, settings.embedding_size, padding_idx=PAD_ID)
            for _ in range(networks)
        )
        self.encoders = nn.ModuleList(Encoder(settings) for _ in range(networks))
        self.decoders = Decoders(settings)
        self.b_output = nn.Parameter(torch.zeros(count, self.output_size))
        if not settings.tied_output:
            self.w_output = nn.Parameter(torch.empty(count, self.output_size, settings.output_width))
            nn.init.uniform_(self.w_output, -(settings.output_width**-0.5), settings.output_width**-0.5)
        self.dropout = nn.Dropout(settings.dropout)
        with torch.no_grad():
            for index in range(networks):
                nn.init.normal_(self.embedding(index).weight, std=settings.embedding_scale)
                self.embedding(index).weight[PAD_ID] = 0

    def embedding(self, index: int) -> nn.Embedding:
        """The embeddings that a direction, by its index, reads with."""
        embedding = self.embeddings[index if len(self.embeddings) > 1 else 0]
        assert isinstance(embedding, nn.Embedding)
        return embedding

    def output_weight(self, index: int) -> Tensor:
        """A direction's output projection, (output, width)."""
        if self.settings.tied_output:
            return self.embedding(index).weight[: self.output_size]
        return self.w_output[index]

    def encode(self, sources: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Encoder states, (networks, batch, source, memory), and the attention mask, (batch, 1, source)."""
        memory = torch.stack(
            [
                encoder(self.dropout(embedding(sources)), lengths)
                for embedding, encoder in zip(self.embeddings, self.encoders, strict=True)
            ]
        )
        return memory, attention_mask(lengths, sources.shape[1])

    def forward(
        self,
        sources: Tensor,
        lengths: Tensor,
        inputs: Tensor,
        targets: Tensor,
        shares: Sequence[float] | None = None,
        label_smoothing: float = 0.0,
    ) -> Losses:
        """Teacher forcing in every direction, in one pass over the encoder; see `Network` and `Batch`."""
        memory, mask = self.encode(sources, lengths)
        if len(self.embeddings) == 1:
            words = self.embedding(0)(inputs)  # (D, T, B, E)
        else:
            words = torch.stack([self.embedding(index)(line) for index, line in enumerate(inputs)])
        readout = self.decoders(self.dropout(words), memory, mask)  # (D, T, B, R)
        is_real = targets != PAD_ID  # (D, T, B)
        tokens = is_real[0].sum()
        total = torch.zeros((), device=sources.device)
        sums = []
        for index, share in enumerate(shares or [1 / len(targets)] * len(targets)):
            hidden, target, real = (
                readout[index].flatten(0, 1),
                targets[index].flatten(),
                is_real[index].flatten(),
            )
            row_weights = real.float() * (share / tokens)  # (T * B,)
            if hidden.device.type == "cpu":  # elsewhere shapes stay fixed, so that the step can be captured
                rows = real.nonzero().squeeze(1)
                hidden, target, row_weights, real = hidden[rows], target[rows], row_weights[rows], real[rows]
            loss, rows_losses = projected_cross_entropy(
                hidden,
                self.output_weight(index).to(hidden.dtype),
                self.b_output[index].to(hidden.dtype),
                target,
                row_weights,
                label_smoothing,
            )
            total = total + loss
            sums.append((rows_losses * real).sum())
        return Losses(total, torch.stack(sums), tokens)

    def scorer(self, direction: Direction) -> GRUScorer:
        """One direction, for the search and for teacher forcing."""
        return GRUScorer(self, direction)

    def input_embeddings(self) -> Tensor:
        """The embeddings of its tokens, (vocabulary, size); the first network's where there are two."""
        return self.embedding(0).weight.detach()

    def use_vectors(self, vectors: Vectors) -> None:
        """Start the embeddings from pretrained vectors.

        All vectors are scaled by one number, so that their components are as large as those of the words that
        have none; the geometry stays, and the other weights need not adapt to the file's units.
        """
        size = self.settings.embedding_size
        if not len(vectors.ids):
            raise InputError(
                "The vector file holds none of the vocabulary's words. Is it for another language?"
            )
        if vectors.values.shape[1] != size:
            raise InputError(
                f"The vectors have {vectors.values.shape[1]} dimensions, but model.embedding_size is {size}. "
                f"Set model.embedding_size={vectors.values.shape[1]}."
            )
        spread = float(np.sqrt(np.mean(np.square(vectors.values, dtype=np.float64)))) or 1.0
        values: Tensor = torch.from_numpy(vectors.values * np.float32(self.settings.embedding_scale / spread))
        with torch.no_grad():
            for index in range(len(self.embeddings)):
                weight = self.embedding(index).weight
                weight[torch.from_numpy(vectors.ids).to(weight.device)] = values.to(weight.device)

    def save_pretrained(self, directory: Path | str, **metadata: Any) -> None:
        """Write config.json and model.safetensors; `metadata` are kept in the configuration."""
        folder = Path(directory)
        output_size = self.output_size if self.output_size < self.vocabulary_size else None
        shape = "gru", self.settings, self.vocabulary_size
        checkpoint.write_config(folder, *shape, metadata, output_size)
        checkpoint.write_weights(folder / checkpoint.WEIGHTS_FILE, self.state_dict())

    @staticmethod
    def from_pretrained(directory: Path | str, *, device: torch.device | str = "cpu") -> BidirectionalModel:
        """Load what `save_pretrained` or training wrote, ready to decode with."""
        _, model = checkpoint.load_network(Path(directory))
        loaded: BidirectionalModel = model.to(device).eval()
        return loaded
