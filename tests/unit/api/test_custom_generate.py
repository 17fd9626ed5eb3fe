"""`BidiGenerate`: both directions behind transformers' own `generate`, and in a folder of their own."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    GenerationConfig,
    MaxLengthCriteria,
    StoppingCriteria,
    TextIteratorStreamer,
)
from transformers.modeling_outputs import BaseModelOutput

from bidibeam.api.huggingface import tokenizer_beside
from bidibeam.errors import BidibeamError, SettingsError
from bidibeam.hf import BidiGenerate, BidirectionalSeq2Seq, HFScorer, mark, reverse_labels
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.bases import wrap_tokenizer
from tests.unit.models.huggingface.folders import tokenizer_of, write_model
from tests.unit.models.huggingface.tiny import model_of

STRATEGIES = (
    "vbs",
    "bidis",
    "bidia",
    "bidia bleu_t either",
    "bidia bleu_t expected",
    "longest",
    "reverse-vbs",
)
HOW: dict[str, Any] = {"num_beams": 4, "max_new_tokens": 4}


def pair(kind: str, seed: int = 7) -> tuple[Any, Any]:
    """A regular model, and a reverse one of that seed."""
    reverse = model_of(kind, seed)
    mark(reverse, Direction.REVERSE)
    return model_of(kind, seed=3), reverse


def inputs(model: Any) -> dict[str, torch.Tensor]:
    right, left = ([5, 6, 1, 1], [11, 12, 13, 1]), ([1, 1, 5, 6], [1, 11, 12, 13])
    first, last = right if model.config.is_encoder_decoder else left
    ids = torch.tensor([first, [7, 8, 9, 10], last])
    return {"input_ids": ids, "attention_mask": (ids != 1).long()}


def prompt_length(model: Any) -> int:
    return 1 if model.config.is_encoder_decoder else 4


def answer(model: Any, reverse: Any, strategy: str = "bidia", **options: Any) -> Any:
    """What `generate` returns for the inputs."""
    how = {**HOW, **inputs(model), "custom_generate": BidiGenerate(reverse, strategy)}
    return model.generate(**{**how, **options})


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
@pytest.mark.parametrize("strategy", [*STRATEGIES, "reverse-vbs"])
def test_every_strategy_answers_through_generate(kind: str, strategy: str) -> None:
    model, reverse = pair(kind)

    found = answer(model, reverse, strategy, num_beams=6, max_new_tokens=8)

    prompt = prompt_length(model)
    assert len(found) == 3
    assert prompt < found.shape[1] <= prompt + 8
    assert prompt == 1 or torch.equal(found[:, :4], inputs(model)["input_ids"])


@pytest.mark.parametrize("kind", ["t5", "llama"])
def test_a_batch_is_answered_as_its_members_one_by_one(kind: str) -> None:
    model, reverse = pair(kind)
    given = inputs(model)
    options = {"custom_generate": BidiGenerate(reverse), "num_beams": 6, "max_new_tokens": 8}

    together = model.generate(**given, **options)

    for row, ids, mask in zip(together, given["input_ids"], given["attention_mask"], strict=True):
        own = ids[mask.bool()][None]
        alone = model.generate(input_ids=own, attention_mask=torch.ones_like(own), **options)
        written = alone[0, 1 if model.config.is_encoder_decoder else own.shape[1] :].tolist()
        assert row[prompt_length(model) :][: len(written)].tolist() == written


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_bidis_ranks_by_both_models_opinions(kind: str) -> None:
    model, reverse = pair(kind)
    given = {name: tensor[1:2] for name, tensor in inputs(model).items()}
    options: dict[str, Any] = {"num_beams": 5, "max_new_tokens": 6, "num_return_sequences": 5}
    options |= {"return_dict_in_generate": True, "early_stopping": True}

    plain = model.generate(**given, **options, custom_generate=BidiGenerate(strategy="vbs"))
    both = model.generate(**given, **options, custom_generate=BidiGenerate(reverse, "bidis", lambda_=0.7))

    expected = []
    for row, score in zip(plain.sequences, plain.sequences_scores.tolist(), strict=True):
        ids = row[prompt_length(model) :].tolist()
        is_finished = 2 in ids
        ids = ids[: ids.index(2) + 1] if is_finished else ids
        whole = ids if is_finished else [*ids, 2]
        (other,) = HFScorer(reverse).log_probs(given["input_ids"], [[reverse_labels(whole, {0, 1, 2})]])[0]
        expected.append((not is_finished, -(score + 0.7 * other / len(ids)), ids))
    ranked = zip(sorted(expected), both.sequences, both.sequences_scores.tolist(), strict=True)
    for (_, cost, ids), row, score in ranked:
        assert row[prompt_length(model) :][: len(ids)].tolist() == ids
        assert score == pytest.approx(-cost, abs=1e-4)


def test_a_shared_encoder_reads_the_sources_once() -> None:
    joint = BidirectionalSeq2Seq.from_encoder_decoder(model_of("bart", seed=3), special_ids=[0, 1, 2]).eval()
    calls = []
    joint.regular.get_encoder().register_forward_hook(lambda *_: calls.append(1))

    assert len(answer(joint.regular, joint)) == 3
    assert calls == [1]


def test_encoder_outputs_are_given_back_as_they_came() -> None:
    model, ids = model_of("bart", seed=0), torch.tensor([[5, 6, 7], [8, 9, 10]])
    with torch.no_grad():
        hidden = model.get_encoder()(ids).last_hidden_state
    mine = BaseModelOutput(last_hidden_state=hidden.clone(), hidden_states=(hidden,))

    how: dict[str, Any] = {**HOW, "custom_generate": BidiGenerate(None, "vbs")}
    model.generate(encoder_outputs=mine, attention_mask=torch.ones_like(ids), **how)

    assert mine.last_hidden_state is not None
    assert torch.equal(mine.last_hidden_state, hidden)
    assert mine.hidden_states == (hidden,)


def test_a_config_that_asks_for_tuples_is_no_hindrance() -> None:
    model = model_of("t5", 1)
    expected = answer(model, None, "vbs")

    model.config.return_dict = False

    assert torch.equal(answer(model, None, "vbs"), expected)


def test_models_that_do_not_serve_are_refused() -> None:
    model, reverse = pair("bart")
    name: Any = "bart-reverse"

    with pytest.raises(BidibeamError, match="direction"):
        answer(model, model_of("bart", seed=1))
    with pytest.raises(BidibeamError, match="is an encoder-decoder and the gpt2 model a decoder alone"):
        answer(model, pair("gpt2")[1])
    with pytest.raises(BidibeamError, match="give vectors= and tokenizer="):
        model.generate(**inputs(model), **HOW, custom_generate=BidiGenerate(reverse, similarity="wmd_t"))
    with pytest.raises(BidibeamError, match="Did you mean 'bleu_t'"):
        BidiGenerate(reverse, similarity="blue_t")
    reverse.train()
    with pytest.raises(BidibeamError, match="training mode"):
        answer(model, reverse)
    for given, message in {
        (None, "bidia"): "needs a reverse model",
        (None, "oracle"): "asks for the reference",
        (name,): r"takes a model, not 'bart-reverse': load it first, as by Auto",
    }.items():
        with pytest.raises(BidibeamError, match=message):
            BidiGenerate(*given)


ENDS = [2, 9, 12, 30]
ENDING: dict[str, Any] = {
    "max_new_tokens": 9,
    "early_stopping": True,
    "eos_token_id": ENDS,
    "forced_eos_token_id": 2,
    "length_penalty": -2.0,
}
"""Replies end in different ways, and all of them do: those cut off rank last with vbs alone."""


def ended(row: list[int], pad: int = 1) -> list[int]:
    """A row without the padding behind it."""
    return row[: max(place for place, token in enumerate(row, start=1) if token != pad)]


@pytest.mark.parametrize("kind", ["bart", "marian", "gpt2"])
def test_vbs_returns_all_that_generate_returns_ends_and_padding_included(kind: str) -> None:
    options = {**ENDING, "num_beams": 6, "num_return_sequences": 6, "pad_token_id": 20}
    options["return_dict_in_generate"] = True
    last, columns = set[int](), set[int]()

    for seed in range(6):
        model = model_of(kind, seed)
        expected = model.generate(**inputs(model), **options, output_scores=True)
        found = model.generate(**inputs(model), **options, custom_generate=BidiGenerate(strategy="vbs"))

        rows = found.sequences.tolist()
        assert rows == expected.sequences.tolist()
        assert found.sequences_scores.tolist() == pytest.approx(expected.sequences_scores.tolist(), rel=1e-5)
        last.update(ended(row, pad=20)[-1] for row in rows)
        columns.update(row[-1] for row in rows)

    assert 20 in columns
    assert last <= set(ENDS)
    assert last - {2}


def test_an_end_stays_the_end_where_the_other_model_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, ...]] = []
    own = HFScorer.log_probs

    def log_probs(self: HFScorer, given: Any, sequences: Any) -> list[list[float]]:
        asked.extend(tuple(sequence) for line in sequences for sequence in line)
        return own(self, given, sequences)

    monkeypatch.setattr(HFScorer, "log_probs", log_probs)
    last = set()
    for seed in range(6):
        found = answer(model_of("bart", seed), pair("bart")[1], "bidis", **ENDING, num_beams=6)
        for row in found[:, 1:].tolist():
            reply = ended(row)
            assert tuple(reverse_labels(reply, {0, 1, *ENDS})) in asked
            last.add(reply[-1])
    assert last - {2}


@pytest.mark.parametrize("kind", ["bart", "gpt2"])
def test_an_end_stays_the_end_of_what_the_reverse_model_writes(kind: str) -> None:
    last = set()
    for seed in range(6):
        model, reverse = pair(kind, seed=seed)
        found = answer(model, reverse, "reverse-vbs", **ENDING)
        for row in found[:, prompt_length(model) :].tolist():
            *words, end = ended(row)
            assert not set(words) & set(ENDS)
            last.add(end)
    assert last <= set(ENDS)
    assert last - {2}


@pytest.mark.parametrize("strategy", ["bidis", "bidia bleu_t either"])
def test_as_many_sequences_come_back_as_were_found(strategy: str) -> None:
    is_repeated = False
    how = {"num_beams": 6, "num_return_sequences": 6, "max_new_tokens": 9, "eos_token_id": ENDS}
    for seed in range(8):
        found = answer(model_of("bart", seed), pair("bart", seed + 20)[1], strategy, **how)

        for line in found.view(3, 6, -1).tolist():
            words = [tuple(token for token in row if token not in (0, 1, *ENDS)) for row in line]
            is_repeated |= len(set(words)) < len(words)
            if "bidia" not in strategy:  # both directions may write the same ids
                assert len(set(map(tuple, line))) == len(line)
    assert is_repeated


class Never(StoppingCriteria):  # type: ignore[misc]
    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:  # noqa: ARG002
        return torch.zeros(len(input_ids), dtype=torch.bool)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("bart", {"do_sample": True}, "searched, not sampled"),
        ("bart", {"num_beams": 1}, "num_beams must be at least 2 for bidia"),
        ("bart", {"num_return_sequences": 4}, "num_return_sequences is 4, but bidia ranks only 2"),
        ("bart", {"stopping_criteria": [Never()]}, "stopping_criteria= with Never, but here a reply ends"),
        ("bart", {"stopping_criteria": [MaxLengthCriteria(3)]}, "stopping_criteria= with MaxLengthCriteria"),
        ("bart", {"max_time": 9.0}, "max_time is 9.0, which this beam search does not do: leave it out"),
        ("bart", {"decoder_attention_mask": torch.tensor([[0]] * 3)}, "decoder_attention_mask, which a sear"),
        ("gpt2", {"position_ids": torch.arange(3, 7).expand(3, -1)}, "position_ids, which a search does"),
        ("gpt2", {"token_type_ids": torch.zeros(3, 4).long()}, "token_type_ids, which a search does"),
        (
            "bart",
            {"decoder_input_ids": torch.tensor([[2, 7]] * 3)},
            "^decoder_input_ids begin the reply, and",
        ),
        ("bart", {"output_router_logits": True}, "output_router_logits, which a search does not read"),
        ("gpt2", {"mm_encoder_outputs": {"image": [1]}}, "mm_encoder_outputs, which a search does not read"),
        ("bart", {"output_scores": True, "return_dict_in_generate": True}, "output_scores=True, but a s"),
        ("bart", {"max_new_tokens": 2.5}, "^max_new_tokens must be a whole number, not 2.5"),
        ("bart", {"num_beams": 0}, "^num_beams must be at least 1, not 0"),
        ("bart", {"length_penalty": 40.0}, "^length_penalty must lie between -10 and 10, not 40"),
        ("bart", {"max_new_tokens": 65}, "has 64 positions, too few for 1 tokens and a reply of 65: lower"),
        ("gpt2", {"max_new_tokens": 62}, "has 64 positions, too few for 4 tokens and a reply of 62: lower"),
    ],
)
def test_what_generate_asks_for_and_a_search_does_not_heed_is_refused(
    kind: str, options: dict[str, Any], message: str
) -> None:
    model, reverse = pair(kind)

    with pytest.raises(BidibeamError, match=message) as caught:
        answer(model, reverse, **options)
    assert not re.search(r"--|beam_size|stopping rule", str(caught.value))  # which generate does not know


@pytest.mark.parametrize("name", ["streamer", "assistant_model", "synced_gpus"])
def test_arguments_that_generate_keeps_to_itself_are_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, streamer = model_of("gpt2", 3), TextIteratorStreamer(None, timeout=60)
    monkeypatch.setattr(streamer, "put", lambda _: None)  # it would ask a tokenizer
    given = {"streamer": streamer, "assistant_model": model, "synced_gpus": True}

    with pytest.raises(SettingsError, match=f"^generate was given {name}, which it does not hand on"):
        answer(model, None, "vbs", num_beams=1, **{name: given[name]})
    assert name != "streamer" or "".join(streamer) == ""  # nobody waits for more


@pytest.mark.parametrize("name", ["penalty_alpha", "dola_layers", "prompt_lookup_num_tokens", "novelty"])
@pytest.mark.parametrize("beams", [1, 4])
def test_what_a_generation_config_asks_for_and_nobody_knows_is_refused(
    name: str, beams: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = GenerationConfig.__init__

    def init(self: Any, novelty: Any = None, **options: Any) -> None:
        own(self, **options)
        self.novelty = novelty  # a field that a later transformers may have

    monkeypatch.setattr(GenerationConfig, "__init__", init)
    with pytest.raises(SettingsError, match=f"^{name} is 2, which this beam search does not do: leave"):
        answer(model_of("gpt2", 3), None, "vbs", num_beams=beams, **{name: 2})


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("bart", {"stopping_criteria": [MaxLengthCriteria(5)]}),
        ("bart", {"decoder_attention_mask": torch.ones(3, 1).long()}),
        ("gpt2", {"position_ids": torch.tensor([[9, 9, 0, 1], [0, 1, 2, 3], [9, 0, 1, 2]])}),
        ("bart", {"output_scores": True}),
        ("bart", {"max_new_tokens": 64}),
        ("gpt2", {"max_new_tokens": 61}),
        ("llama", {"max_new_tokens": 70}),
    ],
)
def test_what_changes_nothing_is_not_refused(kind: str, options: dict[str, Any]) -> None:
    model, reverse = pair(kind)

    found = answer(model, reverse, min_new_tokens=options.get("max_new_tokens", 2) - 1, **options)

    if "max_new_tokens" not in options:
        assert torch.equal(found, answer(model, reverse, min_new_tokens=1))


def test_a_judge_reads_one_token_more_of_what_was_cut_off() -> None:
    model, reverse = pair("bart")

    with pytest.raises(BidibeamError, match="64 positions, too few for 1 tokens and a reply of 64: lower"):
        answer(model, reverse, "bidis", max_new_tokens=64)
    assert len(answer(model, reverse, "bidis", num_beams=2, max_new_tokens=63, min_new_tokens=62)) == 3


def embedded(model: Any) -> dict[str, Any]:
    return {"input_ids": None, "inputs_embeds": model.get_input_embeddings()(inputs(model)["input_ids"])}


def encoded(model: Any) -> dict[str, Any]:
    return {"input_ids": None, "encoder_outputs": model.get_encoder()(**inputs(model))}


@pytest.mark.parametrize("make", [embedded, encoded])
def test_only_a_reverse_encoder_of_its_own_needs_ids(make: Any) -> None:
    model, reverse = pair("bart")
    with pytest.raises(BidibeamError, match=r"without input_ids, which the reverse model reads with an enc"):
        answer(model, reverse, **make(model))

    joint = BidirectionalSeq2Seq.from_encoder_decoder(model, special_ids=[0, 1, 2]).eval()
    for given in ((joint,), (None, "vbs")):
        found = answer(joint.regular, *given, **make(joint.regular))
        assert torch.equal(found, answer(joint.regular, *given))


def test_a_prompt_of_embeddings_or_read_before_is_refused() -> None:
    model, ids = model_of("gpt2", seed=3), torch.tensor([[5, 6, 7, 8]])
    read = model(input_ids=ids[:, :3], use_cache=True).past_key_values

    with pytest.raises(BidibeamError, match="given inputs_embeds, which a search does not read: give input_"):
        answer(model, None, "vbs", **embedded(model))
    given = {"input_ids": ids, "past_key_values": read, "attention_mask": None, "num_beams": 1}
    with pytest.raises(BidibeamError, match="given past_key_values, which a search does not read"):
        answer(model, None, "vbs", **given)


def test_a_folder_alone_makes_a_model_answer_from_both_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    (model, reverse), folder = pair("bart"), tmp_path / "regular"
    for one, where in ((model, folder), (reverse, tmp_path / "reverse")):
        one.save_pretrained(where)
        wrap_tokenizer(tokenizer_of(), is_encoder_decoder=True).save_pretrained(where)
    shutil.copytree(Path(__file__).parents[3] / "custom_generate", folder / "custom_generate")
    how: dict[str, Any] = {"num_beams": 6, "max_new_tokens": 6, **inputs(model)}
    ours: dict[str, Any] = {"custom_generate": str(folder), "trust_remote_code": True}
    chosen = {"strategy": "bidis", "strategy_options": {"lambda_": 0.5}}

    found = model.generate(**how, **ours, **chosen, reverse_model=str(tmp_path / "reverse"))

    expected = model.generate(**how, custom_generate=BidiGenerate(reverse, "bidis", lambda_=0.5))
    assert torch.equal(found, expected)
    model.config.bidibeam_reverse = str(tmp_path / "reverse")  # the config may name it as well
    assert torch.equal(model.generate(**how, **ours, **chosen), expected)
    with pytest.raises(BidibeamError, match="given as the reverse model, but it is a regular model"):
        model.generate(**how, **ours, reverse_model=str(folder))


WORDS, OTHERS = ["red", "blue", "cat", "dog"], ["red", "green", "cat", "dog"]
LOADERS: dict[str, Any] = {"bart": AutoModelForSeq2SeqLM, "gpt2": AutoModelForCausalLM}


@pytest.mark.parametrize("kind", LOADERS)
def test_models_beside_which_other_tokenizers_lie_share_no_ids(tmp_path: Path, kind: str) -> None:
    def answer(words: list[str], strategy: str, *, is_told: bool = False) -> Any:
        reverse = write_model(tmp_path / "reverse", kind, Direction.REVERSE, tokenizer=tokenizer_of(words))
        other = LOADERS[kind].from_pretrained(reverse)
        both = BidiGenerate(other, strategy, tokenizer=tokenizer if is_told else None)
        return model.generate(**given, custom_generate=both, num_beams=4, max_new_tokens=3)

    regular = write_model(tmp_path / "regular", kind, tokenizer=tokenizer_of(WORDS))
    model, tokenizer = LOADERS[kind].from_pretrained(regular), AutoTokenizer.from_pretrained(regular)
    given = tokenizer(["red cat"], return_tensors="pt", return_token_type_ids=False)

    for strategy in ("bidia", "bidis"):
        with pytest.raises(SettingsError, match=r"cannot share the ids .* is '\w+' in .* and '\w+'"):
            answer(OTHERS, strategy)
    assert len(answer(WORDS, "bidia")) == 1
    assert len(answer(OTHERS, "bidia", is_told=True)) == 1  # whoever names the tokenizer knows it


def test_where_nothing_lies_beside_a_model_nothing_is_known(tmp_path: Path) -> None:
    assert tokenizer_beside("") is None
    assert tokenizer_beside(str(tmp_path)) is None
    (tmp_path / "tokenizer.json").write_text("{")
    assert tokenizer_beside(str(tmp_path / ".")) is None
