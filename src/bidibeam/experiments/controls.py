"""The control of a seed: the same stages with a second regular network in the reverse one's place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from bidibeam.api.scoring import ListScorer
from bidibeam.experiments.plan import TEST, read_beams
from bidibeam.experiments.seeds import Seed
from bidibeam.hypotheses import Beams, Direction, NBest
from bidibeam.interchange import nbest
from bidibeam.models.base import Model
from bidibeam.models.control import ControlModel
from bidibeam.search.length import LENGTH_PENALTIES


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

    def search(self, split: str, size: int) -> None:
        """Writes the n-best lists of a split; what the two seeds have found is only scored anew."""
        if self.other is None:
            super().search(split, size)
            return
        plan, model = self.plan, self.load_model()
        if split == TEST:
            plan.log_opening(f"search {self.label}, {size} hypotheses")
        search = plan.settings.search_with(size)
        penalty = LENGTH_PENALTIES.create(search.length_formula, search.length_penalty)
        scorer = ListScorer(model, tuple(Direction), penalty)
        examples = list(self._join_lists(split, size))
        scored = scorer.score(examples, model.batch_size)
        lists = plan.progress.track(scored, len(examples), f"{size} hypotheses, {split}")
        nbest.write(lists, self.beams_file(split, size))

    def _join_lists(self, split: str, size: int) -> Iterator[Beams]:
        """Yields the regular hypotheses of the seed and of the other, scored by nobody but their own."""
        assert self.other is not None
        directions, _ = self.plan.beams[split][size]
        files = (Seed(self.number, self.plan).beams_file(split, size), self.other.beams_file(split, size))
        for pair in zip(*map(read_beams, files), strict=True):
            beams = Beams(pair[0].id, pair[0].source, pair[0].references)
            for direction, line in zip(Direction, pair, strict=True):
                if direction in directions:
                    found = NBest(tuple(each._replace(other_log_prob=None) for each in line.regular))
                    beams = beams.with_hypotheses(direction, found)
            yield beams
