"""A Hugging Face model as a search sees it: its own forward over a plain cache, step by step or at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput

from bidibeam import work
from bidibeam.errors import ScorerError
from bidibeam.models.huggingface.attention import can_share, find_configs, share_attention
from bidibeam.models.huggingface.caches import StaticHFState, static_key
from bidibeam.models.huggingface.configs import find_rope_types, token_ids
from bidibeam.models.huggingface.labels import pad_rows
from bidibeam.search.graphs import GraphCache

MODEL_TYPES = (
    *("bart", "blenderbot", "blenderbot-small", "m2m_100", "marian", "mbart", "mt5", "pegasus", "plbart"),
    *("t5", "umt5", "biogpt", "gemma", "gpt2", "gpt_neox", "granite", "llama", "mistral", "mixtral", "olmo"),
    *("opt", "phi", "phi3", "qwen2", "qwen3", "stablelm", "starcoder2", "xglm"),
)
"""Model types that our own search runs; tests compare each with `generate`."""
ROPE_TYPES = ("default", "linear", "llama3", "yarn")
"""Rotary embeddings that it runs."""
DYNAMIC = "torch.ao.nn.quantized.dynamic"
"""Where torch has the layers of `quantize_dynamic`."""
SCORED_LOGITS = 1 << 26
"""Logits of one teacher-forced pass: a bound on the memory needed."""
_GRAPHS: WeakKeyDictionary[PreTrainedModel, GraphCache] = WeakKeyDictionary()
"""Captured searches, by model."""
POSITIONS = ("embed_positions", "wpe", "positions_embed")
"""What encoders and decoders call a table of positions."""


def find_obstacle(model: PreTrainedModel) -> str | None:
    """Why our own search does not run a model; None if it does."""
    if model.config.model_type not in MODEL_TYPES:
        return "its model type is not among those that our own search was tested with"
    if not type(model).__module__.startswith("transformers."):
        return "its class is not transformers' own"
    if kinds := find_rope_types(model.config) - {*ROPE_TYPES}:
        return f"its rotary embeddings are of the type {kinds.pop()}"
    if has_virtual_tokens(model):
        return "an adapter puts virtual tokens before what it reads"
    if depends_on_batch(model):
        return "its layers are quantised as they go, by all that is in a batch"
    if is_spread(model):
        return "its weights are spread over several devices"
    return None


def is_spread(model: PreTrainedModel) -> bool:
    """Whether weights lie on several devices, or some are fetched from memory or disk as it computes."""
    devices = {weight.device for weight in model.parameters()}
    return len(devices) > 1 or torch.device("meta") in devices


def find_device_of(model: PreTrainedModel) -> torch.device:
    """Where a model reads ids; from the CPU those of a model whose first weights are fetched are moved."""
    device: torch.device = model.device
    return torch.device("cpu") if device.type == "meta" else device


def depends_on_batch(model: PreTrainedModel) -> bool:
    """Whether the logits of a row depend on the other rows of its batch, so that each is read alone."""
    is_cpu = model.device.type == "cpu"  # elsewhere torch has no such layers
    return is_cpu and any(type(part).__module__.startswith(DYNAMIC) for part in model.modules())


def refusal(model: PreTrainedModel, reason: str) -> ScorerError:
    """What is said of a model that cannot be searched, or scored."""
    said = " ".join(reason.split())[:200]
    name = Path(model.name_or_path or "").name or type(model).__name__
    return ScorerError(
        f"{name} is a {model.config.model_type} model, "
        f"which cannot be searched here ({said}); write n-best lists with its generate, and rerank them."
    )


def has_virtual_tokens(model: PreTrainedModel) -> bool:
    """Whether peft applies an adapter of prompts, which only its own `generate` and forward put in front.

    peft hands `generate` the plain model, whose inputs it prepares by a method of its own.
    """
    prepare = getattr(model, "prepare_inputs_for_generation", None)
    for owner in (model, getattr(prepare, "__self__", None)):
        if getattr(getattr(owner, "active_peft_config", None), "is_prompt_learning", False):
            return True
    return False


@dataclass(frozen=True)
class Inputs:
    """What a model reads before it writes, a row per source; prompts are padded on the left."""

    ids: Tensor  # (sources, length)
    mask: Tensor  # (sources, length), 1 where there is a token
    begin: Tensor | None = None  # (sources, length), what an encoder-decoder's decoder reads first
    encoded: Tensor | None = None  # (sources, length, size), the encoder's hidden states, once they are known


@dataclass
class HFState:
    """The rows of a search, as many for every source; good until the next step: its cache grows in place."""

    cache: Any
    mask: Tensor  # (sources, length)
    sources: int
    logits: Tensor | None  # (sources, vocabulary), those of the first token, until the first step
    written: int = 0  # tokens that the rows have read since the prompt
    begun: int = 1  # tokens of the longest prompt, or of what the decoder read first
    encoded: Tensor | None = None  # (sources at first, length, size)
    positions: Tensor | None = None  # (sources,), of a decoder-only model's first token
    is_shared: bool = False  # whether cross-attention keys are there once per source


class HFScorer:
    """A Hugging Face model as a step scorer, and as a scorer of sequences in the order it writes them.

    Logits come from the model's own forward. Keys and values are in a plain cache, reordered as hypotheses
    are; where attention goes by `sdpa`, those of cross-attention are held once per source.

    Args:
        model: An encoder-decoder model, or a decoder-only one, in evaluation mode.
        pad: The id of padding in sources; by default the model's.
        begin: The ids that an encoder-decoder's decoder reads first; by default its start token.
        prepared: What is read in place of the sources that `start` is given, as `generate` has prepared it.
        forced: Tokens that are certain, by the number of the step that writes them, counted from 1.

    Raises:
        ScorerError: If the model is in training mode, or our own search does not run it.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        pad: int | None = None,
        begin: Sequence[int] = (),
        prepared: Inputs | None = None,
        forced: Mapping[int, int] | None = None,
    ) -> None:
        check_eval_mode(model)
        if obstacle := find_obstacle(model):
            raise refusal(model, obstacle)
        self.model = model
        self.pad = pad if pad is not None else next(iter(token_ids(model, "pad_token_id")), None)
        self._prepared, self._forced = prepared, forced or {}
        self._begin = tuple(begin) or token_ids(model, "decoder_start_token_id")[:1]
        self._is_encoder_decoder: bool = model.config.is_encoder_decoder
        self._keeps_last = "logits_to_keep" in signature(model.forward).parameters
        self._configs = find_configs(model)

    def inputs(self, sources: Tensor | Inputs) -> Inputs:
        """Padded ids with their mask, and what a decoder reads first."""
        if isinstance(sources, Inputs):
            return sources
        sources = sources.to(self.model.device)
        is_token = sources != (-1 if self.pad is None else self.pad)  # (sources, length)
        if not self._is_encoder_decoder:  # padding comes first; later the same id may be the end
            return Inputs(sources, is_token.long().cummax(1).values)
        if not self._begin:
            raise ScorerError(
                f"{type(self.model).__name__} has no decoder_start_token_id; name what it reads first."
            )
        begin = torch.tensor(self._begin, device=sources.device).expand(len(sources), -1)
        return Inputs(sources, is_token.long(), begin)

    @torch.inference_mode()
    def start(self, sources: Tensor | Inputs) -> HFState:
        """Read ids, (sources, length), padded on the right for an encoder, on the left for a lone decoder."""
        inputs = self._prepared or self.inputs(sources)
        if self._is_encoder_decoder:
            return self._start_encoded(inputs)
        positions = (inputs.mask.cumsum(1) - 1).clamp(min=0)  # (sources, length)
        longest = int(positions.max()) + 1
        check_max_positions(self.model, longest)
        cache, last = DynamicCache(), {"logits_to_keep": 1} if self._keeps_last else {}
        read = self.model(
            input_ids=inputs.ids,
            attention_mask=inputs.mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
            **last,
        )
        return HFState(
            cache,
            inputs.mask,
            len(inputs.ids),
            read.logits[:, -1].float(),
            positions=positions[:, -1] + 1,
            begun=longest,
        )

    def _start_encoded(self, inputs: Inputs) -> HFState:
        encoded, begin = inputs.encoded, inputs.begin
        assert begin is not None
        if encoded is None:
            encoder = self.model.get_encoder()
            check_max_positions(self.model, inputs.ids.shape[1], encoder)
            encoded = encoder(input_ids=inputs.ids, attention_mask=inputs.mask)[0]
        check_max_positions(self.model, begin.shape[1])
        state = HFState(
            EncoderDecoderCache(DynamicCache(), DynamicCache()),
            inputs.mask,
            len(encoded),
            None,
            begun=begin.shape[1],
            encoded=encoded,
            is_shared=can_share(self.model),
        )
        state.logits = self._forward(begin, state)[:, -1].float()
        return state

    @torch.inference_mode()
    def step(self, last_tokens: Tensor, state: HFState) -> tuple[Tensor, HFState]:
        """Read one token a row, (rows,); return next-token logits, (rows, vocabulary), float32.

        The first step reads nothing: the first token follows what the decoder has begun with.
        """
        work.count(projected_rows=len(last_tokens))
        if state.logits is not None:
            return force_token(state.logits, self._forced.get(1)), replace(state, logits=None)
        check_max_positions(self.model, state.begun + state.written + 1)
        logits = self._forward(last_tokens[:, None], state)[:, -1].float()  # (rows, vocabulary)
        state = replace(state, written=state.written + 1)
        return force_token(logits, self._forced.get(state.written + 1)), state

    @torch.inference_mode()
    def select(self, state: HFState, rows: Tensor, sources: Tensor | None = None) -> HFState:
        """Repeat, reorder and drop rows: (sources, beams)."""
        flat, cache = rows.flatten(), state.cache
        left = None if sources is None else torch.as_tensor(sources, device=rows.device)
        if self._is_encoder_decoder:
            cache, cross = cache.self_attention_cache, cache.cross_attention_cache
            if not state.is_shared:  # a source's rows are alike, so they need no reordering
                if left is not None or len(flat) != len(cross.layers[0].keys):
                    cross.reorder_cache(flat)
            elif left is not None:
                cross.reorder_cache(left)
        cache.reorder_cache(flat)
        if left is None:
            return state
        positions = None if state.positions is None else state.positions[left]
        return replace(state, mask=state.mask[left], sources=len(left), positions=positions)

    @torch.inference_mode()
    def log_probs(
        self, sources: Tensor | Inputs, sequences: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[float]]:
        """Log-probabilities of each source's sequences, ids in writing order with the end token if any.

        Each source is read once. Sequences of similar length are scored together, by teacher forcing.
        """
        return score_in_passes(self.model, sequences, partial(self._force, self.start(sources)))

    @property
    def graphs(self) -> GraphCache:
        """The searches that a GPU replays, of all scorers of the model."""
        return _GRAPHS.setdefault(self.model, GraphCache())

    def static_key(self, state: HFState) -> Hashable | None:
        """What a graph depends on: where weights are, and the room for sources; None for an eager search."""
        key = static_key(self.model, state)
        return key if key is None else (key, *self._forced.items())

    def static_state(self, state: HFState, steps: int) -> StaticHFState:
        """Memory for states of as many sources and rows."""
        return StaticForcedState(self.model, state, steps, self._forced)

    def _force(self, state: HFState, asked: Sequence[tuple[int, Sequence[int]]]) -> list[float]:
        """Log-probabilities of sequences, each with the number of its source."""
        device = state.mask.device
        targets = pad_rows([sequence for _, sequence in asked], -1).to(device)  # (rows, tokens)
        is_token, longest = targets >= 0, targets.shape[1]  # (rows, tokens)
        check_max_positions(self.model, state.begun + longest - 1)
        work.count(projected_rows=int(is_token.sum()))
        owners = torch.tensor([source for source, _ in asked], device=device)  # (rows,)
        assert state.logits is not None
        logits = state.logits[owners][:, None]  # (rows, 1, vocabulary)
        if longest > 1:
            rows = replace(
                state,
                cache=_copy_rows(state.cache, owners),
                mask=state.mask[owners],
                sources=len(owners),
                positions=None if state.positions is None else state.positions[owners],
                is_shared=False,
            )
            logits = torch.cat((logits, self._forward(targets[:, :-1].clamp(min=0), rows).float()), dim=1)
        return sum_log_probs(logits, targets.clamp(min=0), is_token)

    def _forward(self, ids: Tensor, state: HFState) -> Tensor:
        """The model's logits after (rows, length) ids: (rows, length, vocabulary)."""
        each = len(ids) // state.sources
        mask = state.mask if each == 1 else state.mask.repeat_interleave(each, 0)  # (rows, source length)
        how = {"past_key_values": state.cache, "use_cache": True, "return_dict": True}
        if state.encoded is not None:
            is_read = state.cache.get_seq_length() > 0  # then only the shape of hidden states matters
            encoded = state.encoded[:1].expand(len(ids), -1, -1) if is_read else state.encoded
            with share_attention(self.model, self._configs) if state.is_shared else nullcontext():
                read = self.model(
                    encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
                    attention_mask=mask,
                    decoder_input_ids=ids,
                    **how,
                )
            logits: Tensor = read.logits
            return logits
        assert state.positions is not None
        new = mask.new_ones(len(ids), state.written + ids.shape[1])
        steps = torch.arange(state.written, new.shape[1], device=ids.device)  # (length,)
        positions = state.positions.repeat_interleave(each)[:, None] + steps  # (rows, length)
        read = self.model(
            input_ids=ids, attention_mask=torch.cat((mask, new), dim=1), position_ids=positions, **how
        )
        return read.logits  # type: ignore[no-any-return]


class StaticForcedState(StaticHFState):
    """Static memory in which the position tells, in a replay too, when a token is certain."""

    def __init__(self, model: PreTrainedModel, state: HFState, steps: int, forced: Mapping[int, int]) -> None:
        super().__init__(model, state, steps)
        self._forced = forced

    def step(self, tokens: Tensor) -> Tensor:
        """Read one more token per row, (rows,); return next-token logits, (rows, vocabulary)."""
        logits = super().step(tokens)
        for step, token in self._forced.items():
            is_now = self._position == self._begun + step - 1
            logits = torch.where(is_now, force_token(logits, token), logits)
        return logits


def force_token(logits: Tensor, token: int | None) -> Tensor:
    """The logits, (rows, vocabulary), or those that are certain of a token."""
    if token is None:
        return logits
    forced = torch.full_like(logits, -torch.inf)
    forced[:, token] = 0.0
    return forced


def _copy_rows(cache: Any, rows: Tensor) -> Any:
    """Some rows of a cache, (rows,), in memory of their own."""
    if isinstance(cache, EncoderDecoderCache):
        return EncoderDecoderCache(
            _copy_rows(cache.self_attention_cache, rows), _copy_rows(cache.cross_attention_cache, rows)
        )
    copied = DynamicCache()
    for number, layer in enumerate(cache.layers):
        copied.update(layer.keys.index_select(0, rows), layer.values.index_select(0, rows), number)
    return copied


def score_in_passes(
    model: PreTrainedModel,
    sequences: Sequence[Sequence[Sequence[int]]],
    score: Callable[[list[tuple[int, Sequence[int]]]], Sequence[float]],
    shapes: Sequence[tuple[int, ...]] = (),
    most_rows: int | None = None,
) -> list[list[float]]:
    """The scores of each source's sequences, 0 for empty ones; those of similar length are scored together.

    Where there are `shapes`, by source, so are only those of the same shape and length. The last number of a
    shape is the length of what is read before a sequence. A pass has at most `SCORED_LOGITS` logits, padding
    included, and of at most so many rows; `score` is given its sequences, each with the number of its source.
    """
    most_tokens = SCORED_LOGITS // model.config.get_text_config(decoder=True).vocab_size
    numbered = sorted(
        (shapes[source] if shapes else (0,), len(ids), source, place)
        for source, line in enumerate(sequences)
        for place, ids in enumerate(line)
        if len(ids)
    )
    passes: list[list[tuple[int, int]]] = []
    last: Any = None
    for shape, length, source, place in numbered:
        rows = len(passes[-1]) if passes else 0
        is_alike = not shapes or (shape, length) == last
        if not rows or not is_alike or rows == most_rows or (rows + 1) * (shape[-1] + length) > most_tokens:
            passes.append([])
        passes[-1].append((source, place))
        last = shape, length
    totals = [[0.0] * len(line) for line in sequences]
    for part in map(sorted, passes):
        values = score([(source, sequences[source][place]) for source, place in part])
        for (source, place), value in zip(part, values, strict=True):
            totals[source][place] = value
    return totals


def sum_log_probs(logits: Tensor, targets: Tensor, is_token: Tensor) -> list[float]:
    """Log-probabilities of rows: logits (rows, tokens, vocabulary), targets and is_token (rows, tokens)."""
    log_probs = logits.gather(2, targets[..., None]).squeeze(2) - logits.logsumexp(2)  # (rows, tokens)
    values: list[float] = log_probs.double().masked_fill(~is_token, 0.0).sum(1).tolist()
    return values


def check_eval_mode(model: PreTrainedModel) -> None:
    """See that a model does the same each time."""
    if model.training:
        raise ScorerError(
            f"{type(model).__name__} is in training mode, in which dropout makes scores random; call "
            "model.eval()."
        )


def check_max_positions(model: PreTrainedModel, tokens: int, encoder: nn.Module | None = None) -> None:
    """See that the decoder, or the encoder, has positions for so many tokens; one without a table has."""
    part = model.get_decoder() if encoder is None else encoder
    tables = [getattr(part, name, None) for name in POSITIONS]
    table = next((one for one in tables if isinstance(one, nn.Embedding)), None)
    most = tokens if table is None else len(table.weight) - int(getattr(table, "offset", 0))
    if tokens <= most:
        return
    name = type(model).__name__
    if encoder is not None:
        raise ScorerError(f"{name} has {most:,} positions, too few for a source of {tokens:,} tokens.")
    what = "what it writes" if model.config.is_encoder_decoder else "a prompt and what follows"
    raise ScorerError(
        f"{name} has {most:,} positions, too few for {what}, {tokens:,} tokens: ask for shorter replies."
    )
