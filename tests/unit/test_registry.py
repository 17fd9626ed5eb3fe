"""Registries: names to factories, ours and other packages'."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from bidibeam import registry as module
from bidibeam.errors import UnknownNameError
from bidibeam.registry import Registry


@pytest.fixture
def shelves() -> Registry[object]:
    locations = {"text": "builtins:str", "path": "pathlib:Path", "broken": "no_such_module:x"}
    return Registry("shelf", group="bidibeam.shelves", locations=locations)


def test_names_keep_the_order_of_the_list(shelves: Registry[object]) -> None:
    assert shelves.names() == ["text", "path", "broken"]


def test_a_name_gives_its_factory_and_creates(shelves: Registry[object]) -> None:
    assert shelves.get("path") is Path
    assert shelves.create("path", "a", "b") == Path("a/b")
    assert shelves.create("text", b"x", encoding="ascii") == "x"


def test_a_factory_is_imported_only_when_asked_for(shelves: Registry[object]) -> None:
    shelves.names()

    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        shelves.get("broken")


def test_an_unknown_name_is_answered_with_the_nearest_and_the_list(shelves: Registry[object]) -> None:
    with pytest.raises(UnknownNameError) as caught:
        shelves.get("txet")

    assert (
        str(caught.value) == "Unknown shelf 'txet'. Did you mean 'text'? Choose one of: text, path, broken."
    )


def test_case_makes_no_difference_to_what_is_nearest(shelves: Registry[object]) -> None:
    with pytest.raises(UnknownNameError, match=r"^Unknown shelf 'PATH'\. Did you mean 'path'\?"):
        shelves.get("PATH")


def test_a_name_near_to_none_is_answered_with_the_list_alone(shelves: Registry[object]) -> None:
    with pytest.raises(
        UnknownNameError, match=r"^Unknown shelf 'zzz'\. Choose one of: text, path, broken\.$"
    ):
        shelves.get("zzz")


def test_other_packages_add_names_but_never_take_ours(
    shelves: Registry[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [
        EntryPoint("theirs", "builtins:int", "bidibeam.shelves"),
        EntryPoint("text", "builtins:bytes", "bidibeam.shelves"),
    ]
    asked: list[str] = []

    def entry_points(*, group: str) -> list[EntryPoint]:
        asked.append(group)
        return points

    monkeypatch.setattr(module, "entry_points", entry_points)

    assert shelves.names() == ["text", "path", "broken", "theirs"]
    assert shelves.create("theirs", "3") == 3
    assert shelves.get("text") is str
    assert set(asked) == {"bidibeam.shelves"}
