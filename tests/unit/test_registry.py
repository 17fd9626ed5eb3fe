"""Registries: names to factories, ours and other packages'."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

from bidibeam import registry as module
from bidibeam.errors import UnknownNameError
from bidibeam.registry import Registry, import_named, suggest


@pytest.fixture
def shelves() -> Registry[object]:
    locations = {"text": "builtins:str", "path": "pathlib:Path", "broken": "no_such_module:x"}
    return Registry("shelf", group="bidibeam.shelves", locations=locations)


def test_a_name_gives_its_factory_which_is_imported_only_when_asked_for(shelves: Registry[object]) -> None:
    assert shelves.names() == ["text", "path", "broken"]
    assert shelves.get("path") is Path
    assert shelves.create("path", "a", "b") == Path("a/b")
    assert shelves.create("text", b"x", encoding="ascii") == "x"
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        shelves.get("broken")


@pytest.mark.parametrize(
    ("name", "hint"), [("txet", "Did you mean 'text'? "), ("PATH", "Did you mean 'path'? "), ("zzz", "")]
)
def test_an_unknown_name_is_answered_with_the_nearest_and_the_list(
    shelves: Registry[object], name: str, hint: str
) -> None:
    with pytest.raises(UnknownNameError) as caught:
        shelves.get(name)
    assert str(caught.value) == f"Unknown shelf {name!r}. {hint}Choose one of: text, path, broken."


def test_the_same_letters_are_nearer_than_others() -> None:
    assert (
        suggest("bidai", ["bidia", "bidis"])
        == suggest("BIDAI", ["bidis", "bidia"])
        == " Did you mean 'bidia'?"
    )
    assert suggest("bidio", ["vbs"]) == ""


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


def test_a_broken_entry_point_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("nothing", "bidibeam.registry:Nothing", "bidibeam.broken_shelves")
    monkeypatch.setattr(module, "entry_points", lambda group: [point])  # noqa: ARG005
    shelves = Registry[Any]("shelf", group="bidibeam.broken_shelves", locations={})

    with pytest.raises(UnknownNameError) as caught:
        shelves.get("nothing")

    assert str(caught.value) == (
        "The shelf 'bidibeam.registry:Nothing' cannot be imported: module 'bidibeam.registry' has no "
        "attribute 'Nothing'. An entry point of another package says so: mend or uninstall that package."
    )


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("no_such_module:x", "No module named 'no_such_module'"),
        ("bidibeam.similarities.bleu:Blue", "module 'bidibeam.similarities.bleu' has no attribute 'Blue'"),
        ("bidibeam.similarities.bleu:", "module 'bidibeam.similarities.bleu' has no attribute ''"),
        (":x", "Empty module name"),
        (".bleu:BleuT", "the 'package' argument is required to perform a relative import for '.bleu'"),
    ],
)
def test_a_python_name_that_leads_nowhere_is_one_sentence(location: str, reason: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        import_named("similarity", location)

    assert f"The similarity {location!r} cannot be imported: {reason}. Write package.module:name" in str(
        caught.value
    )
