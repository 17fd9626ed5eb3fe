"""One encoder, two decoders: the paper's shared encoder for Hugging Face models.

model = BidirectionalSeq2Seq.from_encoder_decoder(AutoConfig.from_pretrained("facebook/bart-base"))
model(input_ids=..., attention_mask=..., labels=...).loss.backward()
model.regular.generate(...); model.reverse.generate(...)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import transformers
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForSeq2SeqLM,
    GenerationConfig,
    PretrainedConfig,
    PreTrainedModel,
)
from transformers.utils import ModelOutput

from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.configs import JOINT, mark, remove_code, special_token_ids
from bidibeam.models.huggingface.labels import reverse_labels

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

LOSSES = ("mean", "sum")


class BidirectionalSeq2SeqConfig(PretrainedConfig):  # type: ignore[misc]
    """The config of a joint model: that of the model it is made of, and how both directions are trained.

    Args:
        base: The encoder-decoder's own config, as a mapping with its `model_type`.
        special_ids: Ids that stay in place when labels are reversed.
        reduction: "mean" or "sum" of the two directions' losses.
        generation: Both directions' generation config, where it is not what `base` implies.
        **options: What every config takes.
    """

    model_type = JOINT

    def __init__(
        self,
        base: dict[str, Any] | None = None,
        special_ids: Iterable[int] = (),
        reduction: str = "mean",
        generation: dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.base = base or {}
        self.special_ids = sorted(map(int, special_ids))
        if reduction not in LOSSES:
            raise SettingsError(f"reduction is {reduction!r}; choose one of: {', '.join(LOSSES)}.")
        self.reduction = reduction
        self.generation = generation
        options = {**options, "is_encoder_decoder": True, "tie_word_embeddings": True}
        for name in ("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id", "vocab_size"):
            options.setdefault(name, self.base.get(name))
        super().__init__(**options)

    @property
    def base_config(self) -> Any:
        """The config of one direction's model."""
        options = {name: value for name, value in self.base.items() if name != "model_type"}
        config = AutoConfig.for_model(self.base["model_type"], **options)
        remove_code(config)
        return config


@dataclass
class BidirectionalOutput(ModelOutput):  # type: ignore[misc]
    """What both decoders say.

    Attributes:
        loss: The mean, or the sum, of the two losses, where there were labels.
        logits: (batch, length, vocab), the regular decoder's.
        reverse_logits: (batch, length, vocab), the reverse decoder's, in the order it writes.
        regular_loss: The regular decoder's loss, by label.
        reverse_loss: The reverse decoder's loss, by label.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    reverse_logits: Tensor | None = None
    regular_loss: Tensor | None = None
    reverse_loss: Tensor | None = None


class BidirectionalSeq2Seq(PreTrainedModel):  # type: ignore[misc]
    """A regular and a reverse encoder-decoder model that share one encoder, trained together.

    `regular` and `reverse` are ordinary models of the base's class, so `generate` and everything else works
    on each. Their encoder is one module, and so are the embeddings that it is tied to; decoders are their
    own. Saved, what they share is stored once. Build one by `from_encoder_decoder` or `from_pretrained`.
    """

    config_class = BidirectionalSeq2SeqConfig
    base_model_prefix = "regular"
    main_input_name = "input_ids"
    supports_gradient_checkpointing = True
    _supports_sdpa = True

    def __init__(self, config: BidirectionalSeq2SeqConfig) -> None:
        version = transformers.__version__
        if int(version.partition(".")[0]) < 5:  # which would load fresh weights for shared ones, unsaid
            raise SettingsError(
                f"Models with a shared encoder need transformers 5 or later, and {version} is installed: "
                "pip install -U transformers"
            )
        super().__init__(config)
        for name in ("regular", "reverse"):
            made = AutoModelForSeq2SeqLM.from_config(config.base_config, trust_remote_code=False)
            setattr(self, name, made)
        for direction in Direction:
            mark(self.of(direction), direction)
            if config.generation:
                self.of(direction).generation_config = GenerationConfig.from_dict(config.generation)
        ties = _share_encoder(self.regular, self.reverse)
        self._tied_weights_keys = ties
        self.post_init()
        self.all_tied_weights_keys = dict(ties)  # without those of the halves, which would make chains
        self._keys_to_ignore_on_save = set(ties)

    @classmethod
    def from_encoder_decoder(
        cls, base: Any, *, special_ids: Iterable[int] | None = None, reduction: str = "mean"
    ) -> BidirectionalSeq2Seq:
        """A joint model of two like `base`.

        Args:
            base: A config, for fresh weights; or a model, whose weights both directions start from.
            special_ids: Ids that stay in place when labels are reversed, best
                `bidibeam.hf.special_ids(tokenizer)`; those that the config names where it is None.
            reduction: "mean" or "sum" of the two directions' losses.

        Raises:
            InputError: If `base` is not an encoder-decoder.
        """
        base_config = getattr(base, "config", base)
        if not getattr(base_config, "is_encoder_decoder", False):
            raise InputError(
                f"A {base_config.model_type} model has no encoder to share: both directions need an "
                "encoder-decoder such as BART, T5 or Marian. Train regular and reverse one by one."
            )
        config = BidirectionalSeq2SeqConfig(
            {**base_config.to_dict(), "model_type": base_config.model_type},
            special_ids=special_token_ids(base_config) if special_ids is None else special_ids,
            reduction=reduction,
            generation=base.generation_config.to_dict() if base is not base_config else None,
        )
        model = cls(config)
        if base is not base_config:
            for direction in Direction:
                model.of(direction).load_state_dict(base.state_dict())
        return model

    def of(self, direction: Direction) -> Any:
        """The model of one direction; its `save_pretrained` writes it alone, encoder included."""
        return self.regular if Direction(direction) is Direction.REGULAR else self.reverse

    def get_encoder(self) -> Any:
        """The one encoder."""
        return self.regular.get_encoder()

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        encoder_outputs: Any = None,
    ) -> BidirectionalOutput:
        """Both directions' losses and logits, the encoder run once.

        Args:
            input_ids: (batch, source length).
            attention_mask: (batch, source length).
            labels: (batch, length), in reading order; they are reversed for the reverse decoder here.
            inputs_embeds: (batch, source length, units), in place of `input_ids`.
            encoder_outputs: What the encoder said, where it is known already.
        """
        if labels is None:
            raise InputError(
                "A joint model needs labels; to write replies, generate with model.regular or model.reverse."
            )
        if encoder_outputs is None:
            encoder_outputs = self.get_encoder()(
                input_ids=input_ids,
                attention_mask=attention_mask,
                inputs_embeds=inputs_embeds,
                return_dict=True,
            )
        given = {"encoder_outputs": encoder_outputs, "attention_mask": attention_mask, "return_dict": True}
        regular = self.regular(labels=labels, use_cache=False, **given)
        reversed_labels = reverse_labels(labels, self.config.special_ids)
        reverse = self.reverse(labels=reversed_labels, use_cache=False, **given)
        loss = regular.loss + reverse.loss
        return BidirectionalOutput(
            loss=loss / 2 if self.config.reduction == "mean" else loss,
            logits=regular.logits,
            reverse_logits=reverse.logits,
            regular_loss=regular.loss,
            reverse_loss=reverse.loss,
        )

    def get_expanded_tied_weights_keys(self, all_submodels: bool = False) -> dict[str, str]:  # noqa: ARG002
        """Every name of a shared weight but the first, and the first."""
        return dict(self._tied_weights_keys)

    def _init_weights(self, module: Any) -> None:
        """Fresh weights as the base's class makes them."""
        self.regular._init_weights(module)


def _share_encoder(regular: Any, reverse: Any) -> dict[str, str]:
    """Give both models one encoder, and the embeddings that it is tied to.

    Returns:
        In a model that holds both, every further name of a shared weight, and the first.
    """
    encoder = regular.get_encoder()
    owners = (name for name, module in regular.named_modules() if getattr(module, "encoder", None) is encoder)
    owner = next(owners, None)
    if owner is None:
        raise InputError(
            f"The encoder of a {regular.config.model_type} model was not found, so it cannot be shared: "
            "train regular and reverse one by one."
        )
    # By what the model declares, since while weights are being loaded nothing is tied yet.
    names = [name for name, _ in regular.named_parameters(remove_duplicate=False)]
    first = {name: regular.all_tied_weights_keys.get(name, name) for name in names}  # where each is stored
    inside = f"{owner}.encoder." if owner else "encoder."
    of_encoder = {kept for name, kept in first.items() if name.startswith(inside)}
    reverse.get_submodule(owner).encoder = encoder
    ties = {f"regular.{name}": f"regular.{kept}" for name, kept in first.items() if name != kept}
    for name, kept in first.items():
        if kept in of_encoder:
            ties[f"reverse.{name}"] = f"regular.{kept}"
            place, _, weight = name.rpartition(".")
            setattr(reverse.get_submodule(place), weight, regular.get_parameter(kept))
        elif name != kept:
            ties[f"reverse.{name}"] = f"reverse.{kept}"
    return ties


AutoConfig.register(JOINT, BidirectionalSeq2SeqConfig, exist_ok=True)
AutoModel.register(BidirectionalSeq2SeqConfig, BidirectionalSeq2Seq, exist_ok=True)
