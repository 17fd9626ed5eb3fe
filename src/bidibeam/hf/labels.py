"""Labels for a model that writes in reverse: ids turned around, special tokens where they were."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor

from bidibeam.errors import SettingsError
from bidibeam.hf.rows import Rows, TokenPairs
from bidibeam.hypotheses import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

IGNORED = -100
"""The label that no loss counts, in transformers as in PyTorch."""

Labels = TypeVar("Labels", Tensor, list[int], list[list[int]])


def special_ids(tokenizer: Any) -> frozenset[int]:
    """The ids that stay in place: a tokenizer's special tokens, but not one that only says "unknown".

    An unknown word is a word: it moves with its neighbours.
    """
    ids = {int(index) for index in tokenizer.all_special_ids}
    others = {getattr(tokenizer, f"{name}_token_id", None) for name in ("pad", "bos", "eos", "sep", "cls")}
    return frozenset(ids - ({getattr(tokenizer, "unk_token_id", None)} - others))


def reverse_labels(labels: Labels, special_ids: Iterable[int], ignore_index: int = IGNORED) -> Labels:
    """Turn the tokens of every row around among their own places.

    Special tokens and ignored places stay where they are, so the end stays the end and a masked prompt a
    prompt. Doing it twice gives back what there was.

    Args:
        labels: (batch, length) or (length,), or lists of ids; rows of lists may differ in length.
        special_ids: Ids that stay in place, such as `bidibeam.hf.special_ids(tokenizer)`.
        ignore_index: The label that stands for no token.

    Returns:
        The same kind of thing as `labels`, which stay as they are.
    """
    kept = frozenset(special_ids) | {ignore_index}
    if isinstance(labels, Tensor):
        return _reverse_tensor(labels, kept)
    if labels and isinstance(labels[0], list):
        return [_reverse_row(row, kept) for row in labels]
    return _reverse_row(labels, kept)  # type: ignore[arg-type, return-value]


def _reverse_row(row: list[int], kept: frozenset[int]) -> list[int]:
    moving = (token for token in reversed(row) if token not in kept)
    return [token if token in kept else next(moving) for token in row]


def _reverse_tensor(labels: Tensor, kept: frozenset[int]) -> Tensor:
    if labels.dim() == 1:
        return _reverse_tensor(labels.unsqueeze(0), kept).squeeze(0)
    ids = torch.tensor(sorted(kept), device=labels.device, dtype=labels.dtype)
    moves = ~torch.isin(labels, ids)  # (batch, length)
    places = torch.argsort(~moves, dim=1, stable=True)  # (batch, length), those that move first, in order
    rank = moves.cumsum(dim=1) - 1  # (batch, length), the number of a place among those that move
    mirrored = (moves.sum(dim=1, keepdim=True) - 1 - rank).clamp(min=0)  # (batch, length)
    own = torch.arange(labels.shape[1], device=labels.device).expand_as(labels)  # (batch, length)
    origin = torch.where(moves, places.gather(1, mirrored), own)  # (batch, length)
    return labels.gather(1, origin)


class PairCollator:
    """Makes batches of pairs for either kind of model and either direction.

    A pair is {"input_ids": the source, "labels": the response}, lists of ids that end as the model expects
    (`bidibeam.hf.pairs.encode_pairs` makes them), in reading order. Padding is on the right.

    An encoder-decoder model gets the source as input and the response as labels; a decoder-only model gets
    both in one row, the source masked in the labels. Either way only the response is turned around.

    Args:
        tokenizer: Tells the padding id and the special ids.
        model: The model to train; its config tells its kind.
        direction: The direction to learn.
    """

    def __init__(self, tokenizer: Any, model: Any, *, direction: Direction = Direction.REGULAR) -> None:
        pad = tokenizer.pad_token_id
        if pad is None:  # masked wherever it stands, so any id will do
            pad = tokenizer.eos_token_id
        if pad is None:
            raise SettingsError(
                "The tokenizer has neither a padding nor an end token, so pairs cannot be batched: set its "
                "pad_token."
            )
        self.pad_id: int = pad
        self.special_ids = special_ids(tokenizer)
        self.model = model
        self.direction = Direction(direction)

    def __call__(self, pairs: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """A batch of tensors, as the model's forward takes them."""
        arrays = TokenPairs.of(pairs)
        if self.model.config.is_encoder_decoder:
            labels = self._arranged(arrays.responses.padded(IGNORED))
            return _with_decoder_inputs(self._batch(arrays.sources, labels), self.model)
        rows = arrays.sources.followed_by(arrays.responses)
        inputs, places = rows.padded(IGNORED), torch.arange(int(rows.lengths.max(initial=0)))
        is_prompt = places < torch.from_numpy(arrays.sources.lengths)[:, None]  # (batch, length)
        labels = self._arranged(inputs.masked_fill(is_prompt, IGNORED))
        batch = self._batch(rows, labels)
        batch["input_ids"] = torch.where(labels == IGNORED, batch["input_ids"], labels)
        return batch

    def _arranged(self, labels: Tensor) -> Tensor:
        if self.direction is Direction.REGULAR:
            return labels
        return reverse_labels(labels, self.special_ids)

    def _batch(self, inputs: Rows, labels: Tensor) -> dict[str, Tensor]:
        return {"input_ids": inputs.padded(self.pad_id), "attention_mask": inputs.mask(), "labels": labels}


class ReverseCollator:
    """Wraps any data collator: the same batches, with labels for a model that writes in reverse.

    For a decoder-only model, whose labels are also a part of its input, that part is turned around with them.
    For an encoder-decoder model `decoder_input_ids` are made again from the labels, where the collator made
    them.

    Args:
        inner: The collator.
        tokenizer: Tells which ids are special; or the ids themselves.
        model: The model to train.
    """

    def __init__(self, inner: Callable[[Any], Any], tokenizer: Any | Iterable[int], model: Any) -> None:
        self.inner = inner
        is_tokenizer = hasattr(tokenizer, "all_special_ids")
        self.special_ids = special_ids(tokenizer) if is_tokenizer else frozenset(map(int, tokenizer))
        self.model = model

    def __call__(self, features: Any) -> Any:
        """What the inner collator makes, turned around."""
        batch = self.inner(features)
        if "labels" not in batch:
            raise SettingsError(
                f"The collator {type(self.inner).__name__} makes batches without labels, so there is nothing "
                "to turn around: give one that makes them."
            )
        before = torch.as_tensor(batch["labels"])
        batch["labels"] = reverse_labels(before, self.special_ids)
        if not self.model.config.is_encoder_decoder:
            self._turn_inputs(batch, before)
        elif "decoder_input_ids" in batch:
            _with_decoder_inputs(batch, self.model)
        return batch

    def _turn_inputs(self, batch: Any, before: Tensor) -> None:
        inputs, is_masked = torch.as_tensor(batch["input_ids"]), before == IGNORED
        if inputs.shape != before.shape or not bool((is_masked | (before == inputs)).all()):
            raise SettingsError(
                "The labels of a decoder-only model must be its input_ids, some of them masked with -100; "
                f"those of the collator {type(self.inner).__name__} are not, so they cannot be turned around."
            )
        batch["input_ids"] = torch.where(is_masked, inputs, batch["labels"])


def _with_decoder_inputs(batch: dict[str, Tensor], model: Any) -> dict[str, Tensor]:
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels=batch["labels"])
    return batch
