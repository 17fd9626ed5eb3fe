"""Corpora and settings of which no data can be made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepare import prepare
from bidibeam.errors import CorpusError, SettingsError, UnknownNameError
from tests.unit.data.made_corpora import corpus, settings


def test_a_corpus_without_pairs_or_with_too_few(tmp_path: Path) -> None:
    (tmp_path / "c.jsonl").write_text('{"messages": [{"role": "a", "content": "alone"}]}')
    with pytest.raises(
        CorpusError, match=r"^The corpus 'jsonl' gave no pairs: no conversation has two turns\. Is"
    ):
        prepare(settings(), tmp_path / "c.jsonl", tmp_path / "out")

    source = corpus(tmp_path / "c.jsonl", count=2)
    with pytest.raises(CorpusError, match=r"^2 conversations cannot be split into"):
        prepare(settings(), source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_split_that_loses_every_pair_is_an_error(tmp_path: Path) -> None:
    source = corpus(tmp_path / "c.jsonl", count=0, extra=[["a b c", f"no way{i}"] for i in range(3)])

    with pytest.raises(
        CorpusError, match=r"^No pair is left in the train split \(dropped: source_too_long 1\): raise"
    ):
        prepare(settings(max_source_length=2), source, tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pairs": "words"}, r"^pairs is 'words'; choose one of: turns, utterances\.$"),
        ({"split_by": "line"}, r"^split_by is 'line'; choose one of: conversation, pair\.$"),
        ({"max_source_length": 0}, r"^max_source_length is 0; it must be at least 1\.$"),
        ({"max_response_length": -1}, r"^max_response_length is -1; it must be at least 1\.$"),
        ({"limit": 2}, r"^limit is 2; it must be at least 3\.$"),
        ({"seed": -1}, r"^seed is -1; it must be at least 0\.$"),
        ({"tokenizer": "char"}, r"^tokenizer is 'char'; choose one of: word, bpe\.$"),
        ({"validation_share": 0.0}, r"^validation_share is 0; it must be above 0 and below 1\.$"),
        ({"test_share": 1.5}, r"^test_share is 1\.5; it must be above 0 and below 1\.$"),
        ({"test_share": float("nan")}, r"^test_share is nan; it must be above 0 and below 1\.$"),
        (
            {"validation_share": 0.5, "test_share": 0.5},
            r"^validation_share 0\.5 and test_share 0\.5 leave nothing to train on; together they must",
        ),
        ({"vocabulary_size": 3}, r"^vocabulary_size is 3; the tokenizer 'word' needs at least 5\.$"),
    ],
)
def test_settings_out_of_range(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        settings(**changes)


def test_an_unknown_corpus_is_named() -> None:
    with pytest.raises(UnknownNameError, match=r"^Unknown corpus 'cornel'\. Did you mean 'cornell'\?"):
        settings(corpus="cornel")
