"""The control of a seed: the same stages with a second regular network in the reverse one's place."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from bidibeam.experiments.seeds import Seed
from bidibeam.models.base import Model
from bidibeam.models.control import ControlModel


@dataclass(frozen=True)
class ControlSeed(Seed):
    """A seed's model with a second regular network, the next seed's or one given, in place of the reverse."""

    other: Seed | None = None

    @property
    def label(self) -> str:
        """What its stages are called by."""
        return f"seed {self.number} control"

    @property
    def search_stamp(self) -> dict[str, Any]:
        """The weights of a second network that was given."""
        return {} if self.plan.control is None else {"control": self.plan.control.weights}

    @property
    def folder(self) -> Path:
        """The folder of its files."""
        return self.plan.folder / f"seed-{self.number}" / "control"

    @property
    def run(self) -> Path:
        """The trained model of the seed."""
        return self.folder.parent / "run"

    def tuned_files(self, size: int) -> list[Path]:
        """Returns the file that gets the settings tuned for an N_B; the run is left alone."""
        return [self.file(f"tuned/{size}")]

    def load_model(self, device: str | None = None) -> Model:
        """Loads both networks as one model."""
        given = self.plan.control
        if given is not None:
            second = given.load(device or self.plan.device)
        else:
            assert self.other is not None
            second = self.other.load_model(device)
        return cast("Model", ControlModel(super().load_model(device), second))

    @cached_property
    def weights(self) -> str:
        """The fingerprints of both."""
        return self.load_model(device="cpu").fingerprint
