"""What is imported is declared, and what is declared is imported."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def normal(name: str) -> str:
    """A distribution's name, as the package index compares names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]) for requirement in requirements}


def imported(text: str) -> set[str]:
    """The top-level packages that a module imports or looks up by name, wherever in it."""
    packages: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names=names):
                packages.update(alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                packages.add(module.partition(".")[0])
            case ast.Call(
                func=ast.Name(id=name) | ast.Attribute(attr=name), args=[ast.Constant(value=str(module))]
            ):
                if name in ("find_spec", "import_module"):
                    packages.add(module.partition(".")[0])
    return packages - set(sys.stdlib_module_names) - {"bidibeam"}


@pytest.fixture(scope="module")
def used() -> dict[str, set[str]]:
    """Imported package to the distributions that may provide it."""
    sources = (ROOT / "src" / "bidibeam").rglob("*.py")
    packages = set().union(*(imported(path.read_text(encoding="utf-8")) for path in sources))
    providers = packages_distributions()
    return {package: {normal(name) for name in providers.get(package, [])} for package in packages}


def test_every_package_imported_is_declared(used: dict[str, set[str]]) -> None:
    extras = [item for items in PROJECT["optional-dependencies"].values() for item in items]
    known = declared([*PROJECT["dependencies"], *extras])

    undeclared = sorted(package for package, providers in used.items() if not providers & known)

    assert undeclared == []


def test_every_package_declared_is_imported(used: dict[str, set[str]]) -> None:
    unused = declared(PROJECT["dependencies"]) - set().union(*used.values())

    assert sorted(unused) == []
