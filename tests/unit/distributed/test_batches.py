"""The callable classes for `map_batches`, called as Ray calls them: on columns of NumPy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bidibeam
from bidibeam.api import load_decoder
from bidibeam.distributed import BatchDecoder, BatchRanker
from bidibeam.distributed import __all__ as public
from bidibeam.errors import BidibeamError, InputError
from bidibeam.hypotheses import Beams
from bidibeam.search.settings import SearchSettings
from tests.unit.cli.calls import called, write_lines

SOURCES = ["red cat", "green dog bird", "black"]
LISTS = [
    {"id": 3, "regular": [{"text": "a"}, {"text": "b c"}], "reverse": [{"text": "b d"}]},
    {"regular": [{"text": "e"}], "reverse": [{"text": "f"}]},
]


def column(*values: object) -> Any:
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def test_sources_get_the_replies_and_lists_of_a_decoder(unsure_run: Path) -> None:
    expected = load_decoder(bidibeam.load(unsure_run), "bidis", settings=SearchSettings(beam_size=4))
    batch = {"source": column(*SOURCES), "id": np.array([7, 8, 9]), "kept": np.arange(3)}

    found = BatchDecoder(str(unsure_run), "bidis", search={"beam_size": 4}, lists=True)(batch)

    lists = expected.decode(SOURCES)
    assert found["reply"] == [each[0].text for each in lists]
    answers = expected.answers([Beams(str(place), source) for place, source in enumerate(SOURCES)])
    assert found["score"] == [answer.ranking.entries[0].score for answer in answers]
    assert [json.loads(line)["id"] for line in found["n_best"]] == ["7", "8", "9"]
    assert [len(json.loads(line)["ranking"]["replies"]) for line in found["n_best"]] == [*map(len, lists)]
    assert found["kept"] is batch["kept"]


def test_another_column_may_hold_the_sources_and_nothing_else_is_needed(unsure_run: Path) -> None:
    decoder = BatchDecoder(str(unsure_run), "vbs", search={"beam_size": 2}, column="text")

    found = decoder({"text": column(*SOURCES)})

    assert len(found["reply"]) == len(SOURCES)
    assert found.keys() == {"text", "reply", "score"}
    assert decoder({"text": column()}) == {"text": pytest.approx([]), "reply": [], "score": []}


def test_references_are_read_where_the_strategy_chooses_by_them(unsure_run: Path) -> None:
    decoder = BatchDecoder(str(unsure_run), "oracle", search={"beam_size": 4})
    one = decoder({"source": column("red"), "reference": column("red !")})
    several = decoder(
        {"source": column("red"), "references": column(np.array(["red !", "blue"], dtype=object))}
    )

    assert one["reply"] == several["reply"]
    with pytest.raises(InputError, match="row 1: there is no reference, and the strategy chooses by it"):
        decoder({"source": column("red")})


def test_lines_of_n_best_files_are_ranked_as_rerank_does(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "lists.jsonl", *LISTS)
    assert called("rerank", lines, "--strategy", "bidia", "--n-best", tmp_path / "out").status == 0
    expected = (tmp_path / "out").read_text().splitlines()

    found = BatchRanker("bidia", lists=True)({"text": column(*lines.read_text().splitlines())})

    assert found["n_best"] == expected
    assert found["reply"] == ["b c", "e"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: BatchRanker()({"text": column("{")}), "a list: this is not JSON"),
        (lambda: BatchRanker("bidis")({"text": column(json.dumps(LISTS[0]))}), "row 1: source '3', regular"),
        (lambda: BatchRanker("bidia tuned"), "tuned"),
        (lambda: BatchRanker("nobody"), "nobody"),
        (lambda: BatchDecoder(strategy="nobody"), "nobody"),
        (lambda: BatchDecoder("/nowhere"), "/nowhere"),
    ],
)
def test_what_cannot_be_answered_is_told(call: Any, told: str) -> None:
    with pytest.raises(BidibeamError) as raised:
        call()
    assert told in str(raised.value)


def test_the_classes_are_the_public_names() -> None:
    from bidibeam import distributed

    assert [getattr(distributed, name) for name in public] == [BatchDecoder, BatchRanker]
    with pytest.raises(AttributeError, match="has no attribute 'Decoder'"):
        distributed.Decoder  # noqa: B018
