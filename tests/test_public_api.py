"""The public names are a promise: adding one is a decision, and removing one breaks somebody."""

from __future__ import annotations

import pytest

import bidibeam

PUBLIC = (
    "Beams BidibeamError BidirectionalModel Decoder Direction Explanation FunctionModel Hypothesis Model "
    "NBest Ranking SearchSettings StepScorer StrategySettings Tokenizer VocabularyRoles __version__ "
    "beam_search load load_decoder load_run per_pair scorer_from_function"
)


def test_the_public_names_are_these_and_all_of_them_import() -> None:
    assert bidibeam.__all__ == dir(bidibeam) == PUBLIC.split()
    for name in PUBLIC.split():
        assert getattr(bidibeam, name) is not None


def test_another_name_is_refused_as_python_does() -> None:
    with pytest.raises(AttributeError, match="module 'bidibeam' has no attribute 'beamsearch'"):
        _ = bidibeam.beamsearch
