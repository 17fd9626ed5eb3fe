"""One loader for every kind of model. A new kind is a file or folder and a line in `MODELS`."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.errors import RunError, SettingsError, TransformersMissingError
from bidibeam.models.base import first_process
from bidibeam.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bidibeam.models.base import LoadOptions, Model

MODELS: Registry[Any] = Registry(
    "kind of model",
    group="bidibeam.models",
    locations={
        "ctranslate2": "bidibeam.models.ctranslate2.model:CTranslate2Model",
        "run": "bidibeam.models.run:RunModel",
        "huggingface": "bidibeam.models.huggingface.configs:HuggingFaceFolder",
    },
)
"""Each has `recognises(path)`, `describe(folder)`, `load` with the arguments of that below, and a `title`.

One that `spreads` is given `device_map`, too.
"""
BUNDLED = "bundled"


def load(
    name: str | Path | None = None,
    reverse: str | Path | None = None,
    *,
    device: str | None = None,
    dtype: str | None = None,
    trust_remote_code: bool = False,
    device_map: str | Mapping[str, Any] | None = None,
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
        device_map: In place of a device, how to spread a Hugging Face model that does not fit on one: "auto",
            "balanced", "balanced_low_0", "sequential", or a device by module, as transformers takes them.

    Raises:
        BidibeamError: If there is no such model, it is damaged, or the two do not fit together.
    """
    first_process()
    if name is None and reverse is None:
        name = bundled_path()
    kind = find_kind(name if name is not None else reverse or "")
    loader: Any = MODELS.get(kind)
    options: LoadOptions = {"device": device, "dtype": dtype, "trust_remote_code": trust_remote_code}
    if device_map is not None:
        if not getattr(loader, "spreads", False):
            raise SettingsError(
                f"{name or reverse} is a {find_title(kind)}, which computes on one device: leave out "
                "`device_map`, and name a `device`."
            )
        options["device_map"] = device_map
    with require_transformers(f"A {find_title(kind)}"):
        model: Model = loader.load(name, reverse, **options)
    return model


def find_kind(name: str | Path) -> str:
    """The name in `MODELS` of what a folder holds, or of what may be on the Hugging Face Hub."""
    for kind in MODELS.names():
        if MODELS.get(kind).recognises(Path(name)):  # type: ignore[attr-defined]
            return kind
    return "run"  # which says what is missing


def find_title(kind: str) -> str:
    """What messages call a kind of model; of another package's kind it may be its name."""
    return str(getattr(MODELS.get(kind), "title", kind))


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
