"""A second regular network in the reverse one's place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bidibeam import FunctionModel, SearchSettings, VocabularyRoles, load_decoder
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models.control import ControlModel

VOCABULARY = ["<start>", "<end>", "a", "b", "c"]
SETTINGS = SearchSettings(beam_size=6, max_length=4, length_penalty=0.0)


def function_of(seed: int) -> Any:
    def next_logits(source: list[int], prefixes: list[list[int]]) -> Any:
        return 2.0 * np.array(
            [np.random.default_rng([seed, *source, *each]).normal(size=5) for each in prefixes]
        )

    return next_logits


def model_of(seed: int, **given: Any) -> FunctionModel:
    options: dict[str, Any] = {
        "encode": lambda text: [VOCABULARY.index(word) for word in text.split() if word in VOCABULARY],
        "decode": lambda ids: " ".join(VOCABULARY[each] for each in ids),
        "roles": VocabularyRoles(start=0, end=1, forbidden=frozenset({0})),
        "vocabulary_size": 5,
        **given,
    }
    return FunctionModel(function_of(seed), function_of(seed + 10), **options)


def test_both_of_its_directions_write_from_left_to_right() -> None:
    first, second = model_of(1), model_of(2)
    control = ControlModel(first, second)

    for direction, model in zip(Direction, (first, second), strict=True):
        assert control.n_best(direction, ["a b"], SETTINGS) == model.n_best(
            Direction.REGULAR, ["a b"], SETTINGS
        )
    assert control.batch_size == first.batch_size


def test_a_strategy_of_both_ends_adds_up_what_both_networks_say() -> None:
    first, second = model_of(1), model_of(2)
    control: Any = ControlModel(first, second)

    (found,) = load_decoder(control, "bidis", settings=SETTINGS).decode(["a b"])

    beam = first.n_best(Direction.REGULAR, ["a b"], SETTINGS)[0]
    ended = [one for one in beam if one.finished]
    other = second.sequence_scorer(Direction.REGULAR).log_probs(["a b"], [[one.ids for one in ended]])[0]
    totals = [(one.log_prob or 0.0) + log_prob for one, log_prob in zip(ended, other, strict=True)]
    assert found[0].text == ended[int(np.argmax(totals))].text
    assert found[0].other_log_prob == pytest.approx(other[int(np.argmax(totals))], abs=1e-4)


def test_what_is_no_control_is_refused() -> None:
    message = r"^The control function has other tokens: 6 in place of 5. Train it on the same prepared data"
    with pytest.raises(SettingsError, match=message):
        ControlModel(model_of(1), model_of(2, vocabulary_size=6))

    class Known(FunctionModel):
        fingerprint = "abc"

    known = Known(
        **{
            name: getattr(model_of(1), name)
            for name in ("regular", "encode", "decode", "roles", "vocabulary_size")
        }
    )
    with pytest.raises(
        SettingsError, match=r"has the same weights as .*: give one that was trained with another"
    ):
        ControlModel(known, known)
