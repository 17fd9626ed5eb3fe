"""Labels for a model that writes in reverse: ids reversed, special tokens where they were."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from bidibeam.data.batching import IGNORED
from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Direction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from numpy.typing import NDArray

Labels = TypeVar("Labels", bound="Tensor | NDArray[Any] | Sequence[Any]")


def special_ids(tokenizer: Any) -> frozenset[int]:
    """The ids that stay in place: a tokenizer's special tokens, but not one that only says "unknown".

    An unknown word is a word: it moves with its neighbours.
    """
    ids = {int(index) for index in tokenizer.all_special_ids}
    roles = {getattr(tokenizer, f"{name}_token_id", None) for name in ("pad", "bos", "eos", "sep", "cls")}
    return frozenset(ids - ({getattr(tokenizer, "unk_token_id", None)} - roles))


def reverse_labels(labels: Labels, special_ids: Iterable[int], ignore_index: int = IGNORED) -> Labels:
    """Turn the tokens of every row around among their own places.

    Special tokens and ignored places stay where they are, so the end stays the end and a masked prompt a
    prompt. Doing it twice gives back what there was.

    Args:
        labels: (batch, length) or (length,), a tensor or an array; or ids in a list or a tuple, or rows of
            any of these, which may differ in length.
        special_ids: Ids that stay in place, such as `bidibeam.hf.special_ids(tokenizer)`.
        ignore_index: The label that stands for no token.

    Returns:
        The same kind of thing as `labels`, which stay as they are; a sequence of another kind becomes a list.

    Raises:
        InputError: If `labels` are no such thing.
    """
    if not _is_row(labels):
        raise _refusal(labels)
    return cast("Labels", _reverse(labels, frozenset(special_ids) | {ignore_index}))


def arrange_ids(ids: Sequence[int], direction: Direction, special: Iterable[int]) -> list[int]:
    """Reading order to a direction's writing order, or back; special tokens stay in place."""
    return [*ids] if direction is Direction.REGULAR else reverse_labels([*ids], special)


def _is_row(labels: Any) -> bool:
    """Whether these are several, ids or rows of them, and not one id."""
    if isinstance(labels, Tensor | np.ndarray):
        return labels.ndim > 0
    return isinstance(labels, Sequence) and not isinstance(labels, str | bytes)


def _reverse(labels: Any, kept: frozenset[int]) -> Any:
    if isinstance(labels, Tensor | np.ndarray):
        if not _has_ids(labels):
            raise _refusal(labels)
        if isinstance(labels, Tensor):
            return _reverse_tensor(labels, kept)
        return _reverse_tensor(torch.from_numpy(labels.astype(np.int64)), kept).numpy().astype(labels.dtype)
    rows = sum(map(_is_row, labels))
    if rows not in (0, len(labels)):
        raise _refusal(labels, "rows and ids side by side")
    rows_reversed = [_reverse(row, kept) for row in labels] if rows else _reverse_row(labels, kept)
    return tuple(rows_reversed) if isinstance(labels, tuple) else rows_reversed


def _reverse_row(row: Sequence[Any], kept: frozenset[int]) -> list[Any]:
    moves = []
    for token in row:
        try:
            moves.append(operator.index(token) not in kept)
        except TypeError:
            raise _refusal(token) from None
    moving = (token for token, is_moving in zip(reversed(row), reversed(moves), strict=True) if is_moving)
    return [next(moving) if is_moving else token for token, is_moving in zip(row, moves, strict=True)]


def _reverse_tensor(labels: Tensor, kept: frozenset[int]) -> Tensor:
    """Turn every row of (..., length) around."""
    ids = labels.long()  # (..., length)
    moves = ~torch.isin(ids, torch.tensor(sorted(kept), device=ids.device))  # (..., length)
    moving = torch.argsort(~moves, dim=-1, stable=True)  # (..., length), those that move first, in order
    rank = moves.cumsum(dim=-1) - 1  # (..., length), the number of a place among those that move
    mirrored = (moves.sum(dim=-1, keepdim=True) - 1 - rank).clamp(min=0)  # (..., length)
    own = torch.arange(ids.shape[-1], device=ids.device).expand_as(ids)  # (..., length)
    origin = torch.where(moves, moving.gather(-1, mirrored), own)  # (..., length)
    return ids.gather(-1, origin).to(labels.dtype)


def _has_ids(labels: Tensor | NDArray[Any]) -> bool:
    if isinstance(labels, Tensor):
        return not (labels.is_floating_point() or labels.is_complex() or labels.dtype is torch.bool)
    return labels.dtype.kind in "iu"


def _refusal(labels: Any, received: str = "") -> InputError:
    if isinstance(labels, Tensor | np.ndarray) and not _has_ids(labels):
        kind = "a tensor" if isinstance(labels, Tensor) else "an array"
        received = f"{kind} of {str(labels.dtype).removeprefix('torch.')}"
    elif not received:
        is_id = hasattr(labels, "__index__")
        received = "a single id" if is_id else f"a value of type {type(labels).__name__}"
    return InputError(
        "Labels must be ids, whole numbers, in a tensor, an array, a list or a tuple, or rows of such, but "
        f"there is {received}."
    )


def padding_id(tokenizer: Any) -> int:
    """The id that fills up inputs; it is masked wherever it stands, so that the end token will do too."""
    for index in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        if index is not None:
            return int(index)
    raise SettingsError(
        "The tokenizer has neither a padding nor an end token, so pairs cannot be batched: set its pad_token."
    )


class PairCollator:
    """Makes batches of pairs for either kind of model and either direction.

    A pair is {"input_ids": the source, "labels": the response}, lists of ids that end as the model expects
    (`source_ids` and `response_ids` of `bidibeam.models.huggingface.pairs` make them), in reading order.
    Padding is on the right.

    An encoder-decoder model gets the source as input and the response as labels; a decoder-only model gets
    both in one row, the source masked in the labels. Either way only the response is reversed.

    Args:
        tokenizer: Tells the padding id and the special ids.
        model: The model to train; its config tells its kind.
        direction: The direction to learn.
    """

    def __init__(self, tokenizer: Any, model: Any, *, direction: Direction = Direction.REGULAR) -> None:
        self.pad_id = padding_id(tokenizer)
        self.special_ids = special_ids(tokenizer)
        self.model = model
        self.direction = Direction(direction)

    def __call__(self, pairs: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        """A batch of tensors, as the model's forward takes them."""
        sources = [list(pair["input_ids"]) for pair in pairs]
        responses = [arrange_ids(pair["labels"], self.direction, self.special_ids) for pair in pairs]
        if self.model.config.is_encoder_decoder:
            labels = responses
        else:
            labels = [[IGNORED] * len(one) + two for one, two in zip(sources, responses, strict=True)]
            sources = [one + two for one, two in zip(sources, responses, strict=True)]
        batch = {
            "input_ids": pad_rows(sources, self.pad_id),
            "attention_mask": pad_rows([[1] * len(source) for source in sources], 0),
            "labels": pad_rows(labels, IGNORED),
        }
        if self.model.config.is_encoder_decoder:
            _add_decoder_inputs(batch, self.model)
        return batch


def pad_rows(rows: Sequence[Sequence[int]], value: int, side: str = "right") -> Tensor:
    """Rows of ids as a tensor, (rows, longest), filled up on one side."""
    longest = max(map(len, rows), default=0)
    fills = [[value] * (longest - len(row)) for row in rows]
    pairs = zip(rows, fills, strict=True) if side == "right" else zip(fills, rows, strict=True)
    return torch.tensor([[*first, *second] for first, second in pairs], dtype=torch.long)


class ReverseCollator:
    """Wraps any data collator: the same batches, with labels for a model that writes in reverse.

    For a decoder-only model, whose labels are also a part of its input, that part is reversed with them.
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
        """What the inner collator makes, reversed."""
        batch = self.inner(features)
        if "labels" not in batch:
            raise SettingsError(
                f"The collator {type(self.inner).__name__} makes batches without labels, so there is nothing "
                "to turn around: give one that makes them."
            )
        before = torch.as_tensor(batch["labels"])
        batch["labels"] = reverse_labels(before, self.special_ids)
        if self.model.config.is_encoder_decoder:
            if "decoder_input_ids" in batch:
                _add_decoder_inputs(batch, self.model)
            return batch
        inputs, is_masked = torch.as_tensor(batch["input_ids"]), before == IGNORED
        if inputs.shape != before.shape or not bool((is_masked | (before == inputs)).all()):
            raise SettingsError(
                "The labels of a decoder-only model must be its input_ids, some of them masked with -100; "
                f"those of the collator {type(self.inner).__name__} are not, so they cannot be reversed."
            )
        batch["input_ids"] = torch.where(is_masked, inputs, batch["labels"])
        return batch


def _add_decoder_inputs(batch: dict[str, Tensor], model: Any) -> None:
    if hasattr(model, "prepare_decoder_input_ids_from_labels"):
        batch["decoder_input_ids"] = model.prepare_decoder_input_ids_from_labels(labels=batch["labels"])
