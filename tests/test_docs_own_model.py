"""docs/your-own-model.md: its Python runs, one block after the other, and does what the page says."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bidibeam import Direction, SearchSettings, load_decoder
from bidibeam.strategies import STRATEGIES

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "your-own-model.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the page's Python defines."""
    names: dict[str, Any] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("page"))
        for number, code in enumerate(BLOCKS, start=1):
            exec(compile(code, f"docs/your-own-model.md, block {number}", "exec"), names)
        names["files"] = [path.name for path in Path.cwd().iterdir()]
    return names


def test_the_model_takes_thirty_lines_and_the_plot_is_written(names: dict[str, Any]) -> None:
    lines = [line for line in BLOCKS[0].splitlines() if line.strip()]

    assert len(lines) <= 30
    assert names["files"] == ["beams.svg"]
    assert names["explanation"].reply == names["decoder"].decode(["do you love pizza"])[0].best.text


@pytest.mark.parametrize("direction", Direction)
def test_the_pages_model_finds_what_an_enumeration_finds(names: dict[str, Any], direction: Direction) -> None:
    model, source = names["model"], "you pizza"
    ids, count = model.encode(source), len(names["VOCABULARY"])
    function = model.regular if direction is Direction.REGULAR else model.reverse
    settings = SearchSettings(beam_size=3000, max_length=4, stopping="optimal")

    (nbest,) = model.n_best(direction, [source], settings)

    table = np.array([function(ids, [[0, previous]])[0] for previous in range(count)])
    table -= np.logaddexp.reduce(table, axis=1, keepdims=True)
    every = {}
    for length in (1, 2, 3):
        for written in itertools.product(range(2, count), repeat=length):
            steps = zip((0, *written), (*written, 1), strict=True)
            every[direction.arrange(written)] = sum(table[step] for step in steps)
    found = {one.ids[:-1]: one.log_prob for one in nbest if one.finished}
    assert len(found) == 7 + 49 + 343
    assert found == pytest.approx(every, abs=1e-4)


@pytest.mark.parametrize(
    "strategy", [name for name in STRATEGIES.names() if name not in ("oracle", "vbs-tuned")]
)
def test_every_strategy_answers_by_the_pages_model(names: dict[str, Any], strategy: str) -> None:
    assert load_decoder(names["model"], strategy).decode(["do you love pizza"])[0].best.text
