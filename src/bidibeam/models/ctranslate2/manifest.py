"""The manifest of a folder that was exported for CTranslate2."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bidibeam._version import __version__
from bidibeam.errors import RunError, SettingsError, check_choice
from bidibeam.fields import build, build_known
from bidibeam.files import read_json, reading, write_json
from bidibeam.hypotheses import Direction
from bidibeam.models.checkpoint import KnownData

MANIFEST = "bidibeam_ctranslate2.json"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """What the manifest of an exported folder says.

    Attributes:
        directions: The directions there are; each has a folder of its name.
        exported_from: The signature of the model it was made of.
        positions: How many positions the model has; None for any number.
        min_length: How many tokens must come before the end, by the generation config.
        first: The token that every reply begins with, as a generation config forces it; None for none.
        last: The token that ends every reply that reaches T; None for none.
        forbidden: Tokens that are never written.
        data: What training knew of its data.
    """

    directions: tuple[str, ...]
    quantization: str
    model_type: str
    vocabulary_size: int
    exported_from: dict[str, str]
    max_source_length: int | None
    max_length: int | None
    positions: int | None
    min_length: int
    first: int | None
    last: int | None
    forbidden: tuple[int, ...]
    data: dict[str, Any]

    def __post_init__(self) -> None:
        for name in self.directions:
            check_choice("directions", name, list(Direction))
        ids = [*self.forbidden, *(token for token in (self.first, self.last) if token is not None)]
        limits = (self.vocabulary_size, self.max_source_length, self.max_length, self.positions)
        sizes = [self.min_length + 1, *(limit for limit in limits if limit is not None)]
        if any(not 1 <= number < 2**31 for number in sizes):  # as CTranslate2 has them
            raise SettingsError(f"The lengths and sizes {sizes} are not all above 0 and below {2**31:,}.")
        if any(not 0 <= token < self.vocabulary_size for token in ids):
            raise SettingsError(f"The tokens {ids} are not all in the vocabulary of {self.vocabulary_size}.")
        if not self.directions:
            raise SettingsError("The directions are not described.")
        build_known(KnownData, self.data, section="data.")

    def write(self, folder: Path) -> None:
        """Write it into a folder, in one step."""
        versions = {"format_version": FORMAT_VERSION, "bidibeam_version": __version__}
        write_json(folder / MANIFEST, {**versions, **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """Read a folder's."""
        path = folder / MANIFEST
        with reading(path, "Make the folder again, by `bidibeam export MODEL --to ctranslate2`."):
            content = read_json(path)
            version = content.pop("format_version")
            content.pop("bidibeam_version")
            if version == FORMAT_VERSION:
                return build(cls, content)
        raise RunError(
            f"{path} has format version {version!r}; bidibeam {__version__} reads {FORMAT_VERSION}: make the "
            "folder again, by `bidibeam export MODEL --to ctranslate2`."
        )
