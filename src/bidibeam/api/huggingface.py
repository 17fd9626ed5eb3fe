"""`bidibeam.hf`'s own decoder, and both directions behind `model.generate`: transformers' extension point."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig, GenerationMixin, LogitsProcessorList, PreTrainedModel
from transformers.generation import GenerateBeamDecoderOnlyOutput, GenerateBeamEncoderDecoderOutput

from bidibeam.api.decoders import load_decoder
from bidibeam.decoding.decoder import Decoder, ModelGenerator, split_beam
from bidibeam.errors import InputError, ScorerError, SettingsError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.models.huggingface.adapter import HuggingFaceModel
from bidibeam.models.huggingface.by_generate import has_ids
from bidibeam.models.huggingface.configs import check_pair, check_same_ids
from bidibeam.models.huggingface.directional import DirectionalModel, Task, read_task
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq
from bidibeam.models.huggingface.labels import pad_rows
from bidibeam.models.huggingface.loading import check_given_as
from bidibeam.models.huggingface.opening import open_tokenizer
from bidibeam.models.huggingface.scorer import find_obstacle
from bidibeam.models.n_best import merge_texts
from bidibeam.search.settings import SearchSettings
from bidibeam.similarities.word_vectors import WordVectors
from bidibeam.strategies.settings import StrategySettings

RECORDS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
"""What `generate` may be asked to return besides, and a search does not keep."""
PARAMETERS = {"beam_size": "num_beams", "max_length": "max_new_tokens", "min_length": "min_new_tokens"}
"""What `generate` calls the settings of a search."""
GENERATE = inspect.unwrap(GenerationMixin.generate)
HANDED_ON = {
    *("self", "inputs", "generation_config", "logits_processor", "stopping_criteria", "kwargs"),
    *("prefix_allowed_tokens_fn", "negative_prompt_ids", "negative_prompt_attention_mask", "custom_generate"),
}
"""Arguments of `generate` of which a function that it calls is told in one way or another."""
Groups = list[list[list[Hypothesis]]]
"""By source, hypotheses in groups that read as the same text; the first of a group stands for all."""
Chosen = tuple[tuple[int, ...], float]
"""Ids that are returned, in reading order, and their score."""


@dataclass(frozen=True)
class HFGenerator:
    """Fills in hypotheses by searching Hugging Face models.

    Args:
        models: The models, by direction.
        sizes: How to search, by direction; one without is not searched.
        judged: Whether the other direction scores each hypothesis too (`other_log_prob`).
        max_source_length: As `HuggingFaceModel` has it.
    """

    models: Mapping[Direction, DirectionalModel]
    sizes: Mapping[Direction, SearchSettings]
    judged: bool = False
    max_source_length: int | None = None

    def __post_init__(self) -> None:
        model = HuggingFaceModel(self.models, max_source_length=self.max_source_length)
        for direction, settings in self.sizes.items():
            model.sequence_scorer(direction)
            model.check_settings(settings)
        if self.judged:
            model.check_shared_tokens()
        scored = tuple(self.sizes) if self.judged else ()
        object.__setattr__(self, "_generator", ModelGenerator(model, self.sizes, scored))

    def generate(self, beams: Sequence[Beams]) -> list[Beams]:
        """Search for every source in one batch, and keep their order."""
        generator: ModelGenerator = self._generator  # type: ignore[attr-defined]
        return generator.generate(beams)


def load_hf_decoder(
    regular: str | Path | None = None,
    reverse: str | Path | None = None,
    strategy: StrategySettings | str = "bidia",
    settings: SearchSettings | None = None,
    *,
    models: Mapping[Direction, DirectionalModel] | None = None,
    batch_size: int | None = None,
    workers: int = 1,
    replies_only: bool = False,
    score_other: bool = False,
    max_source_length: int | None = None,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    device_map: str | Mapping[str, Any] | None = None,
) -> Decoder:
    """A decoder for a pair of Hugging Face models, by the arguments of `bidibeam.load` and `load_decoder`.

    `models` are models that are loaded already, instead of `regular` and `reverse`. Sources longer than
    `max_source_length` keep their last tokens only.

    Raises:
        BidibeamError: If a model cannot be used or is missing, the two do not fit together, or a setting is
            unknown or out of range.
    """
    if models is None:
        models = HuggingFaceModel.load(
            regular,
            reverse,
            device=device,
            dtype=dtype,
            trust_remote_code=trust_remote_code,
            device_map=device_map,
        ).models
        if reverse is None and len(models) == 1:
            check_given_as(Direction.REGULAR, *models.values())
    model = HuggingFaceModel(models, dtype, max_source_length)
    return load_decoder(
        model,
        strategy,
        settings=settings,
        batch_size=batch_size,
        workers=workers,
        replies_only=replies_only,
        score_other=score_other,
    )


class BidiGenerate:
    """Decode from both ends: `model.generate(**inputs, custom_generate=BidiGenerate(reverse), num_beams=50)`.

    `generate` prepares inputs, lengths, forced and forbidden tokens as always; then the hypotheses of both
    models are searched for and one is chosen. `num_beams` is N_B: bidia shares it out among the directions.
    `num_return_sequences` are the first of the ranking, and after them other ids that read the same; with
    `return_dict_in_generate=True` their scores are the strategy's own.

    Args:
        reverse: The model that writes from the end, or a `BidirectionalSeq2Seq` whose reverse half does; None
            for a strategy that needs none.
        strategy: A strategy, or a system's name ("bidia wmd_t either").
        similarity: For bidia: a name, "package.module:name", or a callable; bleu_t by default.
        tokenizer: The models' tokenizer. With it replies are compared word by word; without it, id by id.
        vectors: Word vectors, for similarities that need some.
        options: The strategy's own settings: lambda_, answer, agreement.

    Raises:
        BidibeamError: If a name is unknown, an option out of range, or the reverse model missing.
    """

    def __init__(
        self,
        reverse: PreTrainedModel | None = None,
        strategy: str = "bidia",
        similarity: Any = None,
        *,
        tokenizer: Any = None,
        vectors: WordVectors | None = None,
        **options: Any,
    ) -> None:
        if isinstance(reverse, str | Path):
            raise SettingsError(
                f"BidiGenerate takes a model, not {reverse!r}: load it first, as by "
                "AutoModelForSeq2SeqLM.from_pretrained."
            )
        self._reverse = reverse.reverse if isinstance(reverse, BidirectionalSeq2Seq) else reverse
        self._tokenizer, self._vectors = tokenizer, vectors
        self._compared: set[tuple[str, str]] = set()
        self._strategy = StrategySettings.named(strategy).override(similarity=similarity, options=options)
        self._strategy.check_tuned()
        if self._strategy.compares:
            self._strategy.check_similarity()
        self._requirements = self._strategy.requirements
        if self._requirements.reference:
            raise SettingsError(
                f"The strategy {strategy} asks for the reference, which generate does not know."
            )
        if self._reverse is None and Direction.REVERSE in self._requirements.used:
            raise SettingsError(
                f"The strategy {strategy} needs a reverse model: BidiGenerate(reverse_model)."
            )

    def __call__(
        self,
        model: PreTrainedModel,
        input_ids: Tensor,
        logits_processor: LogitsProcessorList,
        generation_config: GenerationConfig,
        stopping_criteria: Any = None,
        inputs_tensor: Tensor | None = None,
        **model_kwargs: Any,
    ) -> Any:
        """What `generate` calls with all that it has prepared."""
        read = refuse_dropped_arguments()
        if find_obstacle(model) and {"input_ids", "encoder_outputs"} <= read.keys():
            raise SettingsError(
                "generate was given input_ids and encoder_outputs, and a model that is searched by its own "
                "generate reads one of the two: leave encoder_outputs out."
            )
        given = (input_ids, logits_processor, generation_config, stopping_criteria, inputs_tensor)
        task = read_task(model, *given, **model_kwargs)
        mask = task.inputs.mask.long()  # (sources, length)
        counts = mask.sum(1).tolist()
        if 0 in counts:
            raise InputError(
                f"Source {counts.index(0) + 1} of {len(counts)} has no tokens: its attention_mask is all 0."
            )
        task = task._replace(inputs=replace(task.inputs, mask=mask))
        asked = [name for name in RECORDS if getattr(generation_config, name, None)]
        if asked and generation_config.return_dict_in_generate:
            raise SettingsError(
                f"generate was given {asked[0]}=True, but a search of both directions keeps no such record: "
                "leave it out; sequences_scores come anyway."
            )
        with parameters_of_generate(task.processors):
            beams, groups = self._search(model, task)
        strategy = self._strategy.build(space=self._space)
        count = generation_config.num_return_sequences or 1
        chosen: list[list[Chosen]] = []
        for number, line in enumerate(beams):
            entries = strategy.rank(line).entries
            answers = [(entry.hypothesis.ids, entry.score) for entry in entries[:count]]
            # Then comes what reads the same, best reply first.
            for entry in entries if len(answers) < count else ():
                alike = groups[entry.direction][number][entry.place][1:]
                answers += [(one.ids, entry.score) for one in alike]
            chosen.append(answers[:count])
        fewest = min(map(len, chosen))
        if fewest < count:
            raise SettingsError(
                f"num_return_sequences is {count}, but {self._strategy.name} ranks only {fewest} hypotheses "
                "of a source; ask for fewer, or for more num_beams."
            )
        return _output(model, task, chosen)

    def _search(self, model: PreTrainedModel, task: Task) -> tuple[list[Beams], dict[Direction, Groups]]:
        """The hypotheses that the strategy needs."""
        settings = task.constraints.search_settings(task.config, task.config.num_beams)
        searches = split_beam(self._requirements, settings, self._strategy.name, parameter="num_beams")
        is_scored = bool(self._requirements.scored)
        models = {Direction.REGULAR: DirectionalModel(model, self._tokenizer, Direction.REGULAR)}
        tasks, reverse = {Direction.REGULAR: task}, self._reverse
        if reverse is not None and (is_scored or Direction.REVERSE in searches):
            self._check_reverse(model, reverse)
            models[Direction.REVERSE] = DirectionalModel(reverse, self._tokenizer, Direction.REVERSE)
            tasks[Direction.REVERSE] = _share_task(task, model, reverse)
            begun = task.prompt[:, 1:].flatten().tolist() if model.config.is_encoder_decoder else []
            if {*begun} - models[Direction.REVERSE].find_special(task):
                raise SettingsError(
                    "decoder_input_ids begin the reply, and the reverse model ends with what it begins with: "
                    "leave them out, or choose a strategy without the reverse model, such as vbs."
                )
        for direction, one in models.items():
            one.check_reply_length(tasks[direction], is_scored=is_scored)
        if Direction.REVERSE in searches:  # and is not asked only to score
            other = tasks[Direction.REVERSE]
            special = models[Direction.REVERSE].find_special(other)
            tasks[Direction.REVERSE] = other._replace(constraints=other.constraints.reverse(special))
        is_merged = len(searches) > 1 or is_scored
        beams = [Beams(str(number), "") for number in range(1, len(task.prompt) + 1)]
        groups: dict[Direction, Groups] = {}
        for direction, how in searches.items():
            lists = models[direction].search(tasks[direction], how)
            groups[direction] = [
                merge_texts(line) if is_merged else [[one] for one in line] for line in lists
            ]
            firsts = [[group[0] for group in line] for line in groups[direction]]
            if direction in self._requirements.scored:
                values = models[direction.other].score(tasks[direction.other], firsts)
                firsts = [
                    [one._replace(other_log_prob=value) for one, value in zip(line, scores, strict=True)]
                    for line, scores in zip(firsts, values, strict=True)
                ]
            beams = [
                line.with_hypotheses(direction, NBest(tuple(first)))
                for line, first in zip(beams, firsts, strict=True)
            ]
        return beams, groups

    def _check_reverse(self, model: PreTrainedModel, reverse: PreTrainedModel) -> None:
        """Refuse a reverse model that does not go with the model."""
        check_pair(model, reverse)
        check_same_ids(model, reverse)
        names = model.name_or_path, reverse.name_or_path
        if self._tokenizer is None and names[0] != names[1] and names not in self._compared:
            # Whoever names their tokenizer knows it.
            check_same_ids(model, reverse, (tokenizer_beside(names[0]), tokenizer_beside(names[1])))
            self._compared.add(names)

    def _space(self) -> WordVectors:
        if self._vectors is None or self._tokenizer is None:
            raise SettingsError(
                f"The similarity {self._strategy.similarity} compares words: give vectors= and tokenizer=."
            )
        return self._vectors


def refuse_dropped_arguments() -> dict[str, Any]:
    """Refuse arguments that `generate` takes and does not pass to `custom_generate`, such as streamer.

    Whoever reads the streamer is told that there is no more. Returns what the model itself was given.
    """
    # transformers drops them before it calls a custom_generate that is a function, so that only the frame of
    # `generate` still has them.
    frame = inspect.currentframe()
    while frame is not None and frame.f_code is not GENERATE.__code__:
        frame = frame.f_back
    given = {} if frame is None else frame.f_locals
    names = sorted(inspect.signature(GENERATE).parameters.keys() - HANDED_ON)
    asked = [name for name in names if given.get(name) is not None and given[name] is not False]
    if hasattr(given.get("streamer"), "end"):
        given["streamer"].end()
    if asked:
        raise SettingsError(
            f"generate was given {' and '.join(asked)}, which it does not hand on to custom_generate: leave "
            "it out."
        )
    named = {"input_ids": given["inputs"]} if given.get("inputs") is not None else {}
    return {**given.get("kwargs", {}), **named}


@contextmanager
def parameters_of_generate(processors: LogitsProcessorList) -> Iterator[None]:
    """Inside the block, messages about a search name the parameters and the processors of `generate`."""
    try:
        yield
    except SettingsError as error:
        names = rf"\b({'|'.join(PARAMETERS)})\b"
        raise SettingsError(re.sub(names, lambda found: PARAMETERS[found[0]], str(error))) from error
    except ScorerError as error:
        given = ", ".join(type(one).__name__ for one in processors)
        said = f"{error} Or options and logits_processor leave no token that may be written: {given}."
        raise ScorerError(said if given else str(error)) from error


def tokenizer_beside(name: str) -> Any:
    """The tokenizer that lies where a model was loaded from; None if there is none, or not on this disk."""
    if not name:
        return None
    try:
        return open_tokenizer(name, local_files_only=True)
    except Exception:  # whatever is wrong with it: the models are what counts
        return None


def _share_task(task: Task, model: PreTrainedModel, reverse: PreTrainedModel) -> Task:
    """The same task for the reverse model; an encoder that both share has read the sources already."""
    if not model.config.is_encoder_decoder or reverse.get_encoder() is model.get_encoder():
        return task
    if not has_ids(task.inputs):
        given = "inputs_embeds" if task.inputs.ids.is_floating_point() else "encoder_outputs"
        raise SettingsError(
            f"generate was given {given} without input_ids, which the reverse model reads with an encoder of "
            "its own: give input_ids."
        )
    return task._replace(inputs=replace(task.inputs, encoded=None))


def _output(model: PreTrainedModel, task: Task, chosen: Sequence[Sequence[Chosen]]) -> Any:
    """What `generate` returns: sequences with their prompt, padded; or with their scores."""
    pad = task.config.pad_token_id
    fill = task.constraints.roles.end if pad is None else int(pad)
    prompts, device = task.prompt.tolist(), task.prompt.device
    rows = [[*prompt, *ids] for prompt, line in zip(prompts, chosen, strict=True) for ids, _ in line]
    sequences = pad_rows(rows, fill).to(device)
    if not task.config.return_dict_in_generate:
        return sequences
    kind = (
        GenerateBeamEncoderDecoderOutput if model.config.is_encoder_decoder else GenerateBeamDecoderOnlyOutput
    )
    scores = torch.tensor([score for line in chosen for _, score in line], device=device)
    return kind(sequences=sequences, sequences_scores=scores)
