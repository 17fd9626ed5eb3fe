"""The options that name a model, and the model that they name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.options import device_option, together

if TYPE_CHECKING:
    from pathlib import Path

    from bidibeam.models.base import Model
    from bidibeam.search.settings import SearchSettings

model_argument = click.argument("model", required=False)
model_options = together(
    [
        click.option(
            "--regular",
            metavar="MODEL",
            help="The model that writes from left to right, where MODEL is not given.",
        ),
        click.option(
            "--reverse", metavar="MODEL", help="The model that writes from the end, where it is another one."
        ),
        click.option(
            "--dtype",
            type=click.Choice(["float32", "bfloat16", "float16"]),
            help="Hugging Face models: the precision to compute in.  [default: float32; on a GPU as stored]",
        ),
        click.option(
            "--trust-remote-code",
            is_flag=True,
            help="Let code run that a Hugging Face model's folder or repository brings along.",
        ),
        device_option,
    ]
)
ANY_LENGTH = 1 << 30
"""So many steps that no least number of tokens is more."""


@dataclass(frozen=True)
class ModelChoice:
    """The model that a command line names.

    Attributes:
        name: The model, or the regular one of a pair; None for the one that comes with the package, unless
            there is a reverse one.
        reverse: The reverse model, where it is one of its own.
        device: Where to compute.
        dtype: In which precision.
        trust_remote_code: Whether a model's own code may run.
    """

    name: str | None
    reverse: str | None
    device: str | None
    dtype: str | None
    trust_remote_code: bool

    @classmethod
    def take(cls, model: str | None, options: dict[str, Any]) -> ModelChoice:
        """Take the options of `model_options` out of a command's parameters.

        Raises:
            UsageError: If the regular model is named twice.
        """
        regular, reverse = options.pop("regular"), options.pop("reverse")
        if model is not None and regular is not None:
            raise click.UsageError(f"--regular {regular} stands instead of MODEL, not beside {model}.")
        return cls(
            model or regular,
            reverse,
            options.pop("device"),
            options.pop("dtype"),
            options.pop("trust_remote_code"),
        )

    @property
    def is_bundled(self) -> bool:
        """Whether no model is named."""
        return self.name is None and self.reverse is None

    @property
    def flags(self) -> str:
        """How a command line names it."""
        parts = [self.name] if self.name is not None else []
        return " ".join([*parts, *(["--reverse", self.reverse] if self.reverse is not None else [])])

    def load(self) -> Model:
        """Load it; say so if that takes long, and which model it is if none was named.

        Raises:
            BidibeamError: If it cannot be used.
        """
        from bidibeam.cli.console import console, notice_if_slow
        from bidibeam.models.loading import load

        if self.is_bundled:
            console.print("No model was named: this is the small one that comes with bidibeam.", style="dim")
        with notice_if_slow("Loading the model ..."):
            return load(
                self.name,
                self.reverse,
                device=self.device,
                dtype=self.dtype,
                trust_remote_code=self.trust_remote_code,
            )


def check_search(flags: dict[str, Any]) -> None:
    """Refuse a search before a model is loaded for it.

    Raises:
        SettingsError: If a value is out of range.
    """
    from bidibeam.search.settings import SearchSettings

    given = {name: value for name, value in flags.items() if value is not None}
    SearchSettings(**{"max_length": ANY_LENGTH, **given})


def search_settings(model: Model, flags: dict[str, Any]) -> SearchSettings:
    """The search that flags ask for, with the model's own defaults.

    Raises:
        SettingsError: If a value is out of range.
    """
    from bidibeam.api.decoders import default_search

    return default_search(model, **flags)


def note_tuning(folder: Path | None, signature: Any, settings: SearchSettings) -> None:
    """Say so if what is used was tuned for another search."""
    from bidibeam.api.tuned import TUNED_FILE, TunedSettings
    from bidibeam.cli.console import note

    if folder is None or "tuned" not in dict(signature.facts):
        return
    search = TunedSettings(folder / TUNED_FILE).content.get("search", {})
    then = {name: search[name] for name in ("beam_size", "max_length") if name in search}
    if any(value != getattr(settings, name) for name, value in then.items()):
        told = " and ".join(f"--{name.replace('_', '-')} {value}" for name, value in then.items())
        note(f"the strategy's settings were tuned with {told}.")
