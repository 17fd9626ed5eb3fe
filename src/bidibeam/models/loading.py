"""One loader for every kind of model. A new kind is a file or folder and a line in `MODELS`."""

from __future__ import annotations

import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.errors import RunError, TransformersMissingError
from bidibeam.models.checkpoint import hugging_face_config
from bidibeam.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bidibeam.models.base import Model

MODELS: Registry[Any] = Registry(
    "kind of model",
    group="bidibeam.models",
    locations={
        "ctranslate2": "bidibeam.models.ctranslate2.model:CTranslate2Model",
        "run": "bidibeam.models.run:RunModel",
        "huggingface": "bidibeam.models.huggingface.adapter:HuggingFaceModel",
    },
)
"""Each has `recognises(folder)`, `describe(folder)`, and `load` with the arguments of `load` below."""
TITLES = {"run": "run", "huggingface": "Hugging Face model", "ctranslate2": "CTranslate2 model"}
"""What messages call a kind; of another package's kind, its name."""
BUNDLED = "bundled"
HUB_NAME = re.compile(r"[\w.-]+(/[\w.-]+)?")


def load(
    name: str | Path | None = None,
    reverse: str | Path | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
) -> Model:
    """Load a model, whatever engine runs it.

    Args:
        name: A run that `bidibeam train` wrote, a Hugging Face model's folder or its name on the Hub, or a
            folder that `bidibeam export --to ctranslate2` wrote; None for the model that comes with the
            package. Of a pair it is the regular model; None with `reverse` loads the reverse model alone.
        reverse: The model that writes from the end, where it is one of its own.
        device: "cpu", "cuda", "cuda:1"; the first GPU, if there is one, by default.
        dtype: "float32", "bfloat16" or "float16", where the engine has a choice.
        trust_remote_code: Whether code that a model's folder brings may run.

    Raises:
        BidibeamError: If there is no such model, it is damaged, or the two do not fit together.
    """
    named = name if name is not None else reverse
    kind = "run" if named is None else find_kind(named)
    options: dict[str, Any] = {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
    loader = get_kind(kind)
    model: Model = loader.load(bundled_path() if named is None else name, reverse, **options)
    return model


def find_kind(name: str | Path) -> str:
    """The name in `MODELS` of what a folder holds; what is no folder may be on the Hugging Face Hub."""
    folder = Path(name)
    if not folder.is_dir():
        return "huggingface" if HUB_NAME.fullmatch(str(name)) else "run"  # which says that there is none
    for kind in MODELS.names():
        if kind != "huggingface" and get_kind(kind).recognises(folder):
            return kind
    return "run" if hugging_face_config(folder) is None else "huggingface"  # `run` says what is missing


def get_kind(kind: str) -> Any:
    """The class that loads a kind of model."""
    with require_transformers(f"A {TITLES.get(kind, kind)}"):
        return MODELS.get(kind)


@contextmanager
def require_transformers(what: str) -> Iterator[None]:
    """Run the block; where transformers is missing, say what needs it and how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name != "transformers":
            raise
        raise TransformersMissingError(
            f"{what} needs transformers, which is not installed: pip install 'bidibeam[hf]'"
        ) from error


def bundled_path() -> Path:
    """The folder of the model that comes with the package, which loads like any run."""
    folder = Path(__file__).parent.parent / BUNDLED
    if not folder.is_dir():
        raise RunError(
            f"This installation of bidibeam came without a model: there is no {folder}. Name a run, or "
            "install bidibeam again."
        )
    return folder
