"""docs/settings.md: every setting there is, with its default. `scripts/settings_page` writes it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from bidibeam.data.prepare import PrepareSettings
from bidibeam.experiments.settings import ExperimentSettings
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.search.settings import SearchSettings
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES
from bidibeam.training.settings import FineTuneSettings, TrainingSettings

PAGE = (Path(__file__).parents[3] / "docs" / "settings.md").read_text(encoding="utf-8")
SECTIONS: dict[str, Any] = {
    "prepare": PrepareSettings,
    "model": ModelSettings,
    "training": TrainingSettings,
    "search": SearchSettings,
}


def rows(section: str) -> dict[tuple[str, ...], list[str]]:
    """The cells of a section's table, by the names in front."""
    (text,) = (part for part in PAGE.split("\n## ")[1:] if part.startswith(f"{section}\n"))
    cells = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    names = 2 if section in ("strategies", "similarities") else 1
    return {tuple(name.strip("`") for name in row[:names]): row[names:] for row in cells}


def shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(shown, value))}]"
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))


@pytest.mark.parametrize("section", SECTIONS)
def test_every_setting_of_a_section_is_there_with_its_default(section: str) -> None:
    expected = {
        (f"{section}.{each.name}",): f"`{shown(each.default)}`"
        for each in dataclasses.fields(SECTIONS[section])
    }

    assert {name: default for name, (default, _) in rows(section).items()} == expected


def test_the_settings_of_fine_tuning_are_there_as_they_are_set() -> None:
    found = rows("fine-tuning")

    assert list(found) == [(each.name,) for each in dataclasses.fields(FineTuneSettings)]
    assert found["max_source_length",][0] == "`256`"
    assert found["separator",][0] == r'`"\n"`'  # YAML's, and one line of the table


def test_the_experiments_own_settings_are_there() -> None:
    own = [each for each in dataclasses.fields(ExperimentSettings) if each.name not in SECTIONS]

    assert list(rows("experiment")) == [(each.name,) for each in own]
    assert "bidia bleu_t tuned" in rows("experiment")["systems",][0]


@pytest.mark.parametrize(
    ("section", "registry"), [("strategies", STRATEGIES), ("similarities", SIMILARITIES)]
)
def test_all_that_can_be_said_of_a_choice_is_there(section: str, registry: Any) -> None:
    expected = [
        (name, "--" + each.name.rstrip("_").replace("_", "-") if section == "strategies" else each.name)
        for name in registry.names()
        for each in dataclasses.fields(registry.get(name))
        if each.name not in ("similarity", "space")
    ]

    assert list(rows(section)) == expected


def test_every_setting_has_a_meaning() -> None:
    for section in (*SECTIONS, "fine-tuning", "experiment", "strategies", "similarities"):
        for name, (*_, meaning) in rows(section).items():
            assert meaning.endswith("."), name
            assert not meaning.startswith("As in"), name
