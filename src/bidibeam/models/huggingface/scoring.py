"""Hugging Face models as a search sees them: step by step, or a whole sequence at once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import lru_cache
from weakref import WeakKeyDictionary

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache, PreTrainedModel

from bidibeam import work
from bidibeam.errors import ScorerError
from bidibeam.models.huggingface.attention import BranchReading, Pass, Shared, known_mask
from bidibeam.models.huggingface.branches import Branches
from bidibeam.models.huggingface.decoders import Decoder, prompt_length
from bidibeam.models.huggingface.forced import forced_log_probs
from bidibeam.models.huggingface.heads import Head
from bidibeam.models.huggingface.states import HFState, Inputs, Way
from bidibeam.models.huggingface.steps import lean_step
from bidibeam.models.huggingface.steps.layout import Layout
from bidibeam.models.huggingface.steps.now import Now
from bidibeam.models.huggingface.steps.plain import is_plain

LEAN_TOLERANCE, HALF_TOLERANCE = 1e-4, 0.05
"""How far a lean step may be from the model's own, relative to the largest number; in half precision too."""
LENGTHS = 16
"""Sources are read as long as a multiple of it, where searches of one shape are recorded."""
_IS_LEAN: WeakKeyDictionary[PreTrainedModel, bool] = WeakKeyDictionary()
"""Whether a model's lean step said what the model says, where it was asked."""


class HFScorer:
    """A Hugging Face model as a step scorer and as a sequence scorer.

    Encoder states and cross-attention keys, and a prompt's keys, are held once per source. Keys that
    hypotheses wrote are stored once, where they were written: to select hypotheses moves pointers only. So a
    state is good until the next step of its search.

    Args:
        model: An encoder-decoder model, or a decoder-only one, in evaluation mode.
        pad: The id of padding in sources; by default the model's.
        begin: The ids that an encoder-decoder's decoder reads first; by default its start token.

    Raises:
        ScorerError: If the model cannot be searched this way.
    """

    def __init__(self, model: PreTrainedModel, *, pad: int | None = None, begin: Sequence[int] = ()) -> None:
        check_calm(model)
        self.model = model
        self.pad = pad if pad is not None else special_id(model, "pad_token_id")
        start = special_id(model, "decoder_start_token_id")
        self._begin = tuple(begin) or (() if start is None else (start,))
        self._decoder = Decoder(model)
        self._head = Head(model)

    @property
    def vocabulary_size(self) -> int:
        """How many logits a row has."""
        return self._head.vocabulary_size

    @torch.inference_mode()
    def start(self, sources: Tensor) -> HFState:
        """Read ids, (sources, length), padded on the right for an encoder, on the left for a lone decoder."""
        return self.start_with(self.inputs(sources))

    def inputs(self, sources: Tensor) -> Inputs:
        """Padded ids with their mask, and what a decoder reads first."""
        sources = sources.to(self.model.device)
        is_there = sources != (-1 if self.pad is None else self.pad)  # (sources, length)
        if not self.model.config.is_encoder_decoder:  # padding comes first; later the same id may be the end
            return Inputs(sources, is_there.long().cummax(1).values)
        if not self._begin:
            raise ScorerError(
                f"{type(self.model).__name__} has no decoder_start_token_id; name what it reads first."
            )
        begin = torch.tensor(self._begin, device=sources.device).expand(len(sources), -1)
        return Inputs(sources, is_there.long(), begin)

    @torch.inference_mode()
    def start_with(self, inputs: Inputs, beams: int | None = None) -> HFState:
        """The same with inputs that are more than ids, and for so many hypotheses each, if that is known.

        Raises:
            ScorerError: If the model makes its logits in a way of its own, keeps no keys and values, or has
                too few positions.
        """
        self._head.renew()
        if not self.model.config.is_encoder_decoder:
            return self._start_prompted(inputs)
        assert inputs.begin is not None
        if beams is None or not _IS_LEAN.get(self.model) or inputs.begin.shape[1] > 1:
            return self._start_encoded(inputs)
        layout = Layout(self.model, beams * len(inputs.mask))
        decode = lean_step(self.model, layout)
        if decode is None:
            return self._start_encoded(inputs)
        return self._start_lean(inputs, Way(decode, self._head.by(layout)))

    @torch.inference_mode()
    def step(self, last_tokens: Tensor, state: HFState) -> tuple[Tensor, HFState]:
        """Read one token a row, (rows,); the logits, (rows, vocabulary), stand until the next step.

        The first step reads nothing: the first token follows what the decoder has begun with.

        Raises:
            ScorerError: If the model has too few positions, or attends in a way that is not supported.
        """
        rows = len(last_tokens)
        work.count(projected_rows=rows)
        if state.is_fresh:
            project = self._head.logits if state.way is None else state.way.project
            return project(state.last), replace(state, is_fresh=False)
        places = torch.cat((state.places, _lines(rows, last_tokens.device)), dim=1)  # (rows, steps)
        reading = BranchReading(state.branches, places, state.prompt)
        try:
            hidden, way = self._stepped(last_tokens, reading, state)
        except ScorerError as error:
            if state.is_recorded:  # a search may well end before
                raise RuntimeError(str(error)) from error
            raise
        return way.project(hidden), replace(state, places=places, way=way)

    def _stepped(self, tokens: Tensor, reading: BranchReading, state: HFState) -> tuple[Tensor, Way]:
        """What the decoder says of (rows,) tokens, (rows, size), and how it was asked."""
        needed = state.read + reading.places.shape[1]
        if state.room is not None and needed > state.room:
            self._decoder.check_room(needed)
        way = state.way
        if way is None:
            way = self._recorded_way(len(tokens)) if state.is_recorded else self._way(tokens, reading, state)
        if way.decode is not None:
            return way.decode(tokens, self._now(reading, state)), way
        return self._decoder.said(tokens[:, None], Pass(reading, state.cross), state)[:, -1], way

    @torch.inference_mode()
    def select(self, state: HFState, rows: Tensor, sources: Tensor | None = None) -> HFState:
        """Repeat, reorder and drop rows: (sources, beams). Nothing that was written is moved."""
        chosen = state if sources is None else state.of_sources(rows[:, 0] // state.beams)
        return replace(chosen, places=state.places[rows.flatten()])

    @torch.inference_mode()
    def log_probs(self, sources: Tensor, sequences: Sequence[Sequence[Sequence[int]]]) -> list[list[float]]:
        """Log-probabilities of each source's sequences, ids in writing order with the end token if any.

        Each source is read once. Sequences of similar length are scored together, in forced passes.
        """
        return self.log_probs_after(self.start(sources), sequences)

    @torch.inference_mode()
    def log_probs_after(
        self, state: HFState, sequences: Sequence[Sequence[Sequence[int]]]
    ) -> list[list[float]]:
        """The same for sources that were read already and have no hypotheses yet."""
        return forced_log_probs(self._decoder, self._head, state, sequences)

    @property
    def recorder(self) -> None:
        """None: steps are not recorded."""
        return None

    def kind(self, state: HFState) -> Hashable:
        """Where the parameters are, and the shapes of what is read."""
        places = tuple(one.data_ptr() for one in self._decoder.module.parameters())
        shapes = tuple((tuple(tensor.shape), tensor.dtype) for tensor in self.tensors(state))
        return places, self._head.kind, shapes, state.sources, is_plain(self._decoder.module)

    def tensors(self, state: HFState) -> list[Tensor]:
        """What the steps after the first read: pointers, and what was written and said before."""
        shared = [one for one in (state.cross, state.prompt) if one is not None]
        written = state.branches.tensors(state.places.shape[1], state.sources)
        found = [state.places, *written, *(tensor for one in shared for tensor in one.tensors())]
        return found if state.positions is None else [*found, state.positions]

    def cloned(self, state: HFState, steps: int) -> HFState:
        """The same state in memory of its own, for steps that are recorded.

        Raises:
            RuntimeError: If only the model's own modules know how to take a step.
        """
        if not _IS_LEAN.get(self.model) or not self._head.is_recordable:
            raise RuntimeError(f"{type(self.model).__name__} has no step that could be recorded")
        return replace(
            state,
            places=state.places.clone(),
            branches=state.branches.cloned(len(state.places), state.places.shape[1] + steps),
            cross=state.cross and state.cross.cloned(),
            prompt=state.prompt and state.prompt.cloned(),
            positions=None if state.positions is None else state.positions.clone(),
            read=prompt_length(state),  # those that are played may be as long
            way=None,
            is_recorded=True,
        )

    def _recorded_way(self, rows: int) -> Way:
        """How to take steps that are recorded: what is made of parameters is made anew in every play."""
        layout = Layout(self.model, rows, is_recorded=True)
        decode = lean_step(self.model, layout)
        if decode is None:
            raise RuntimeError(f"{type(self.model).__name__} has no step that could be recorded")
        return Way(decode, self._head.apart(layout))

    def _in_few_shapes(self, shared: Shared) -> Shared:
        """What rows share, padded where searches of the same shape are recorded."""
        return shared if self.recorder is None else shared.padded(LENGTHS)

    def _encoded(self, inputs: Inputs) -> Tensor:
        """What the encoder says: (sources, length, size)."""
        if inputs.encoded is not None:
            return inputs.encoded
        self._decoder.check_room(inputs.ids.shape[1], self.model.get_encoder())
        encoded: Tensor = self.model.get_encoder()(input_ids=inputs.ids, attention_mask=inputs.mask)[0]
        return encoded

    def _start_lean(self, inputs: Inputs, way: Way) -> HFState:
        """The same as `_start_encoded`, with one token to begin with."""
        assert inputs.begin is not None
        assert way.decode is not None
        encoded = self._encoded(inputs)
        cross = self._in_few_shapes(Shared(way.decode.memory(encoded), known_mask(inputs.mask)))
        places = torch.arange(len(encoded), device=encoded.device)[:, None]  # (sources, 1)
        branches = Branches()
        reading = BranchReading(branches, places, None)
        return HFState(
            branches=branches,
            places=places,
            sources=len(encoded),
            layers=len(cross.layers),
            last=way.decode(inputs.begin[:, 0], Now(reading, cross)).clone(),
            begin=inputs.begin,
            cross=cross,
            encoded=encoded,
            room=self._decoder.room,
            way=way,
        )

    def _start_encoded(self, inputs: Inputs) -> HFState:
        encoded, mask = self._encoded(inputs), inputs.mask
        assert inputs.begin is not None
        self._decoder.check_room(inputs.begin.shape[1])
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        read = self._decoder.module(
            input_ids=inputs.begin,
            encoder_hidden_states=encoded,
            encoder_attention_mask=mask,
            past_key_values=cache,
            use_cache=True,
        )
        branches, sources = Branches(), len(encoded)
        for number, layer in enumerate(cache.self_attention_cache.layers):
            branches.write(number, 0, layer.keys, layer.values)
        lines = torch.arange(sources, device=encoded.device)[:, None]  # (sources, 1)
        return HFState(
            branches=branches,
            places=lines.expand(-1, inputs.begin.shape[1]),
            sources=sources,
            layers=len(cache),
            last=read[0][:, -1],
            begin=inputs.begin,
            cross=self._in_few_shapes(Shared.of_cache(cache.cross_attention_cache, mask)),
            encoded=encoded,
            room=self._decoder.room,
        )

    def _start_prompted(self, inputs: Inputs) -> HFState:
        ids, mask = inputs.ids, inputs.mask
        positions = (mask.cumsum(1) - 1).clamp(min=0)  # (sources, length)
        if not self._decoder.takes_positions and not bool(mask.all()):
            raise ScorerError(
                f"{type(self.model).__name__} takes no position_ids, so prompts of different lengths cannot "
                "be read together; use a batch size of 1."
            )
        longest = int(positions.max()) + 1
        self._decoder.check_room(longest)
        more = {"position_ids": positions} if self._decoder.takes_positions else {}
        cache = DynamicCache()
        read = self._decoder.module(
            input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True, **more
        )
        if not len(cache) or any(getattr(layer, "keys", None) is None for layer in cache.layers):
            raise ScorerError(self._decoder.unsearchable("it keeps no keys and values in a cache"))
        return HFState(
            branches=Branches(),
            places=ids.new_empty(len(ids), 0),
            sources=len(ids),
            layers=len(cache),
            last=read[0][:, -1],
            prompt=self._in_few_shapes(Shared.of_cache(cache, mask)),
            positions=positions[:, -1] + 1,
            read=longest,
            room=self._decoder.room,
        )

    def _way(self, tokens: Tensor, reading: BranchReading, state: HFState) -> Way:
        """How to take the steps of a search whose first tokens, (rows,), these are."""
        layout = Layout(self.model, len(tokens))
        decode = None if _IS_LEAN.get(self.model) is False else lean_step(self.model, layout)
        if decode is not None and self.model not in _IS_LEAN:  # then the model is asked, once
            own = self._decoder.said(tokens[:, None], Pass(reading, state.cross), state)[:, -1]
            is_lean = _is_close(own, decode(tokens, self._now(reading, state)))
            if state.cross is not None and state.encoded is not None:
                memory = Shared(decode.memory(state.encoded), None)
                is_lean = is_lean and all(
                    _is_close(layer.keys, made.keys) and _is_close(layer.values, made.values)
                    for layer, made in zip(
                        state.cross.layers, self._in_few_shapes(memory).layers, strict=True
                    )
                )
            _IS_LEAN[self.model] = is_lean
        return Way(decode if _IS_LEAN.get(self.model) else None, self._head.by(layout))

    def _now(self, reading: BranchReading, state: HFState) -> Now:
        rows, steps = reading.places.shape
        reach = state.read + steps
        if state.positions is None:
            return Now(reading, state.cross, reach=reach)
        positions = state.positions.repeat_interleave(rows // state.sources) + (steps - 1)  # (rows,)
        return Now(reading, state.cross, positions, reach)


def _lines(rows: int, device: torch.device) -> Tensor:
    """The number of each row, (rows, 1); not to be changed."""
    return _known_lines(rows) if device.type == "cpu" else torch.arange(rows, device=device)[:, None]


@lru_cache(maxsize=4)
def _known_lines(rows: int) -> Tensor:
    """The same on a CPU, where to make it takes longer than to read it."""
    return torch.arange(rows, device="cpu")[:, None]


def _is_close(own: Tensor, lean: Tensor) -> bool:
    """Whether a lean step says what the model itself says."""
    tolerance = LEAN_TOLERANCE if own.dtype in (torch.float32, torch.float64) else HALF_TOLERANCE
    return bool((own - lean).abs().max() <= tolerance * own.abs().max())


def special_id(model: PreTrainedModel, name: str) -> int | None:
    """A token's id by its name, as the generation config has it, or else the config; of several the first."""
    for config in (getattr(model, "generation_config", None), model.config):
        found = getattr(config, name, None)
        if isinstance(found, list | tuple):
            found = found[0] if found else None
        if found is not None:
            return int(found)
    return None


def check_calm(model: PreTrainedModel) -> None:
    """See that a model does the same each time.

    Raises:
        ScorerError: If it is in training mode.
    """
    if model.training:
        raise ScorerError(
            f"{type(model).__name__} is in training mode, in which dropout makes scores random; call "
            "model.eval()."
        )
