"""Damage to folders: runs, prepared data, corpora, tokenizers, vectors and models of Hugging Face."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from tests.soak.cases import Case
from tests.soak.mutations import damage_file

if TYPE_CHECKING:
    import random
    from pathlib import Path


def make_case(chooser: random.Random, bases: Path, folder: Path) -> Case:
    """A call on a damaged folder; what it reads is copied from `bases` (see `bases.COMMANDS`)."""
    shutil.copytree(bases / "run", folder / "run")
    (folder / "sources.txt").write_bytes((bases / "sources.txt").read_bytes())
    path = chooser.choice(sorted(each for each in (folder / "run").rglob("*") if each.is_file()))
    how = damage_file(path, chooser)
    return Case(f"{path.relative_to(folder)} {how}", ["decode", "run", "sources.txt"], str(folder))
