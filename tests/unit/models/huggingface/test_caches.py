"""Replayed searches find what eager ones find, for every listed model type: CUDA graphs emulated on a CPU."""

from __future__ import annotations

import gc
from typing import Any
from weakref import ref

import pytest
import torch

from bidibeam.hf import HFScorer
from bidibeam.hypotheses import Direction
from bidibeam.models.huggingface.directional import DirectionalModel, read_task
from bidibeam.models.huggingface.scorer import MODEL_TYPES
from bidibeam.search.graphs import CudaCapture, GraphCache
from tests.unit.models.huggingface.tiny import VOCABULARY, model_of
from tests.unit.search.emulation import EmulatedCapture

BEAMS = 4
HAS_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
SHAPES = [(3, 5), (3, 5), (3, 9), (2, 5), (2, 7), (2, 12)]
"""Sources and their length, search after search; lengths up to 16 are one shape."""
UNCAPTURED = ("blenderbot", "xglm")
"""The one has logits processors, which look at every step; the other does not attend by the interface."""


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=HAS_GPU)])
def capture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> CudaCapture:
    """Captures of all scorers in a test."""
    found = EmulatedCapture() if request.param == "cpu" else CudaCapture()
    if request.param == "cpu":  # by which transformers knows that a GPU captures
        monkeypatch.setattr("transformers.utils.import_utils.is_cuda_stream_capturing", lambda: True)
    graphs = GraphCache(found)
    monkeypatch.setattr(HFScorer, "graphs", property(lambda _: graphs))
    return found


def make_inputs(model: Any, seed: int, count: int, length: int) -> dict[str, torch.Tensor]:
    """Ids with padding on one side, and their mask."""
    chance = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, VOCABULARY, (count, length), generator=chance)
    mask = torch.ones_like(ids)
    for row in range(1, count):
        is_right = model.config.is_encoder_decoder
        empty = slice(length - row, length) if is_right else slice(0, row)
        mask[row, empty], ids[row, empty] = 0, 1
    return {"input_ids": ids.to(model.device), "attention_mask": mask.to(model.device)}


def search(model: Any, inputs: dict[str, torch.Tensor], **options: Any) -> list[list[Any]]:
    """What our search finds: ids and scores, best first."""
    how = {"num_beams": BEAMS, "max_new_tokens": 6, "early_stopping": True, **options}
    task = model.generate(**inputs, custom_generate=read_task, **how)
    settings = task.constraints.search_settings(task.config, BEAMS)
    lists = DirectionalModel(model, None, Direction.REGULAR).search(task, settings)
    return [[(one.ids, pytest.approx(one.score, abs=1e-3)) for one in line] for line in lists]


def search_eagerly(model: Any, inputs: dict[str, torch.Tensor], **options: Any) -> list[list[Any]]:
    """The same without a graph, since somebody may look at every step."""
    hook = model.register_forward_hook(lambda *_: None)
    found = search(model, inputs, **options)
    hook.remove()
    return found


def check(capture: CudaCapture, model: Any, shapes: list[tuple[int, int]], **options: Any) -> None:
    """Searches find the same with a graph and without, each for other sources."""
    for seed, (count, length) in enumerate(shapes):
        inputs = make_inputs(model.to(capture.device_type), seed, count, length)
        assert search(model, inputs, **options) == search_eagerly(model, inputs, **options)


def has_recorded(capture: CudaCapture, graphs: int) -> bool:
    return not isinstance(capture, EmulatedCapture) or capture.recorded == graphs


@pytest.mark.parametrize("kind", MODEL_TYPES)
def test_what_is_replayed_is_what_an_eager_search_finds(kind: str, capture: CudaCapture) -> None:
    check(capture, model_of(kind, seed=0), SHAPES)

    is_captured = kind not in UNCAPTURED
    assert has_recorded(capture, 4 * is_captured)  # a step and the reading back, for 3 and for 2 sources
    if isinstance(capture, EmulatedCapture) and is_captured:
        assert capture.replayed > 8


@pytest.mark.parametrize("options", [{"forced_bos_token_id": 7}, {"forced_eos_token_id": 2}])
def test_forced_tokens_are_forced_in_a_replay(options: dict[str, Any], capture: CudaCapture) -> None:
    check(capture, model_of("bart", seed=0), [(3, 5)] * 4, **options)

    assert has_recorded(capture, 2)


def test_a_window_shorter_than_the_text_is_replayed(capture: CudaCapture) -> None:
    check(capture, model_of("mistral", seed=0, sliding_window=4), [(3, 9)] * 4)

    assert has_recorded(capture, 2)


def test_other_weights_in_the_same_memory_are_read_by_the_same_graph(capture: CudaCapture) -> None:
    model = model_of("bart", seed=0).to(capture.device_type)
    inputs = make_inputs(model, 0, 3, 5)
    before = [search(model, inputs) for _ in range(3)]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter * 0.7 + 0.1 * torch.randn_like(parameter))
        model.final_logits_bias[0, 9::3] += 2.0

    after = search(model, inputs)

    assert before[0] == before[1] == before[2] != after
    assert after == search_eagerly(model, inputs)
    assert has_recorded(capture, 2)


def test_other_memory_or_a_hook_ends_a_graph(capture: CudaCapture) -> None:
    model = model_of("bart", seed=0).to(capture.device_type)
    inputs = make_inputs(model, 0, 3, 5)
    for _ in range(3):
        search(model, inputs)

    layer = model.model.decoder.layers[0]
    layer.fc1.weight = torch.nn.Parameter(layer.fc1.weight.detach() * 1.5)
    for _ in range(3):
        assert search(model, inputs) == search_eagerly(model, inputs)
    hook = layer.fc2.register_forward_hook(lambda *given: given[2] * 0.5)
    changed = search(model, inputs)
    assert changed == search_eagerly(model, inputs)
    hook.remove()
    assert search(model, inputs) == search_eagerly(model, inputs) != changed


@pytest.mark.parametrize(
    ("kind", "owner", "name"),
    [
        ("granite", "config", "logits_scaling"),
        ("granite", "model.layers.0", "residual_multiplier"),
        ("t5", "config", "scale_decoder_outputs"),
        ("bart", "model.decoder.embed_tokens", "embed_scale"),
    ],
)
def test_a_scale_that_changes_ends_a_graph(kind: str, owner: str, name: str, capture: CudaCapture) -> None:
    model = model_of(kind, seed=0).to(capture.device_type)
    inputs = make_inputs(model, 0, 3, 5)
    before = [search(model, inputs) for _ in range(3)]
    part = model.config if owner == "config" else model.get_submodule(owner)
    value = getattr(part, name)

    setattr(part, name, not value if isinstance(value, bool) else 3.0 * value)

    for _ in range(3):
        assert search(model, inputs) == search_eagerly(model, inputs) != before[0]
    setattr(part, name, value)
    assert search(model, inputs) == before[0]


def test_a_search_that_may_run_out_of_positions_is_not_captured(capture: CudaCapture) -> None:
    lengths = (5, 5, 12, 12, 5)  # with 6 more they need 18 at most, but 16 and 6 more
    check(capture, model_of("gpt2", seed=0, n_positions=18), [(3, length) for length in lengths])

    assert has_recorded(capture, 0)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_only_attention_by_sdpa_is_captured(implementation: str, capture: CudaCapture) -> None:
    model = model_of("gpt2", seed=0)
    model.set_attn_implementation(implementation)

    check(capture, model, [(3, 5)] * 3)

    assert has_recorded(capture, 2 if implementation == "sdpa" else 0)
    assert model.config._attn_implementation == implementation


def test_graphs_go_with_their_model(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = EmulatedCapture()
    monkeypatch.setattr("transformers.utils.import_utils.is_cuda_stream_capturing", lambda: True)
    monkeypatch.setattr("bidibeam.models.huggingface.scorer.GraphCache", lambda: GraphCache(capture))
    model = model_of("bart", seed=0)
    for _ in range(3):  # each with a scorer of its own
        search(model, make_inputs(model, 0, 3, 5))
    assert capture.recorded == 2
    is_alive = ref(model)

    del model
    gc.collect()

    assert is_alive() is None
