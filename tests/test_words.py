"""The field's words: no module, class or function has a name of the private language that was given up."""

from __future__ import annotations

import ast
from pathlib import Path

import bidibeam

GIVEN_UP = """
found FoundSequence Columns sides Side parted taken Live Rules turning playing recording Tape branches
ancestors said heard opinions forced forcing judged others contenders places lines spelled having Needs
check_calm check_room Voices facts tally gathering watching plans points spaces closeness chance curves
choosing left_out tunable answering
"""
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def names_of(path: Path) -> list[tuple[int, str]]:
    """The name of a module, and of every class, function and method in it, with the line it stands on."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    inside = [(node.lineno, node.name) for node in ast.walk(tree) if isinstance(node, DEFINITIONS)]
    return [(1, path.parent.name if path.stem == "__init__" else path.stem), *inside]


def test_no_word_of_the_private_language_names_anything() -> None:
    root = Path(bidibeam.__file__).parent

    wrong = [
        f"{path.relative_to(root)}:{line}: {name}"
        for path in sorted(root.rglob("*.py"))
        for line, name in names_of(path)
        if name.lower().strip("_") in GIVEN_UP.lower().split() and name != "Lines"  # of a file
    ]

    assert not wrong, "\n".join(wrong)
