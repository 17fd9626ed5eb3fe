"""The experiment: prepare, train, search, tune, evaluate, report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from bidibeam.data.prepare import prepare
from bidibeam.data.prepared import FILES, HELD_OUT, INFO, PreparedData
from bidibeam.errors import SettingsError
from bidibeam.evaluation.analyses.corpus import constant_of, positions_of
from bidibeam.experiments.gathering import report_stage, results_of
from bidibeam.experiments.layout import Layout
from bidibeam.experiments.plan import Plan, read_json
from bidibeam.experiments.seeds import Seed
from bidibeam.experiments.settings import ExperimentSettings, facts_of
from bidibeam.experiments.stages import STAMPS, Stage, Stages, content_identity, file_facts
from bidibeam.experiments.watching import Audience, Nobody
from bidibeam.files import write_json


@dataclass(frozen=True)
class Experiment:
    """A corpus, settings and seeds, in a folder.

    Args:
        folder: Where everything goes.
        settings: What to do.
        preset: The name of what the settings began as, for the record.
        seeds: One training run each.
        source: Where the corpus lies, if it has no place of its own.
        data: Prepared data to use as they are, instead of preparing.
        vectors: Word vectors: embeddings start from them, and WMD is computed among them.
        device: Where to compute; the first GPU, if there is one, by default.
        workers: Processes and threads for scoring.
        command: What a person typed to get this, for the record.
        audience: Told what happens.
    """

    folder: Path
    settings: ExperimentSettings
    preset: str
    seeds: Sequence[int] = (0,)
    source: Path | None = None
    data: Path | None = None
    vectors: Path | None = None
    device: str | None = None
    workers: int = 1
    command: str = ""
    audience: Audience = field(default_factory=Nobody)

    def run(self) -> list[str]:
        """Do all that is not done; the names of the stages that ran.

        Raises:
            SettingsError: If the folder holds an experiment on another corpus.
        """
        self._check_folder()
        self._check_corpus()
        return Stages(self.folder).run(self.stages(), self.audience)

    def stages(self) -> list[Stage]:
        """Every stage, in order."""
        prepared = self._prepare()
        about_corpus = [self._positions(prepared), self._constant(prepared)]
        seeds = [Seed(seed, self.plan, self._is_timed(seed)).stages(prepared) for seed in self.seeds]
        ends = [stages[-1] for stages in seeds]
        return [
            prepared,
            *about_corpus,
            *(stage for stages in seeds for stage in stages),
            report_stage(self.plan, self.seeds, self._about, [*ends, *about_corpus]),
        ]

    def results(self) -> dict[str, Any]:
        """All that was found, as results.json has it."""
        return results_of(self.plan, self.seeds, self._about)

    @property
    def layout(self) -> Layout:
        """Where things are."""
        return Layout(self.folder, self.data or self.folder / "data")

    @cached_property
    def plan(self) -> Plan:
        """What the stages know of it."""
        return Plan(self.layout, self.settings, self.vectors, self.device, self.workers, self.audience)

    @property
    def _about(self) -> dict[str, str]:
        return {"preset": self.preset, "command": self.command}

    def _is_timed(self, seed: int) -> bool:
        """One seed's time is enough, and it is told as a ratio to that of VBS."""
        return seed == self.seeds[0] and self.settings.cost_sources > 0 and "vbs" in self.settings.systems

    def _check_folder(self) -> None:
        """Refuse to write among files that are no experiment's."""
        if self.folder.is_dir() and any(self.folder.iterdir()) and not (self.folder / STAMPS).is_dir():
            raise SettingsError(
                f"{self.folder} holds files, but no experiment, and they might be replaced. Name another "
                "folder, or an empty one."
            )

    def _check_corpus(self) -> None:
        """Refuse to replace what was trained on another corpus."""
        before = self.folder / "data" / INFO
        if self.data is not None or not before.is_file():
            return
        corpus = read_json(before).get("corpus")
        if corpus != self.settings.prepare.corpus:
            raise SettingsError(
                f"{self.folder} holds an experiment on {corpus}, which one on {self.settings.prepare.corpus} "
                "would replace. Name another folder, or remove it."
            )

    def _prepare(self) -> Stage:
        layout, settings = self.layout, self.settings

        def work() -> None:
            with self.audience.preparing() as progress:
                data = prepare(settings.prepare, self.source, layout.data, overwrite=True, progress=progress)
            self.audience.prepared(data)

        identity = content_identity(*(layout.data / name for name in (INFO, *HELD_OUT.values())))
        if self.data is not None:
            PreparedData.open(layout.data)
            return Stage("prepare", {"given": identity()}, (), lambda: None, identity=identity)
        facts = {"prepare": facts_of(settings.prepare), "source": file_facts(self.source)}
        outputs = [layout.data / name for name in FILES]
        return Stage("prepare", facts, outputs, work, identity=identity)

    def _positions(self, prepared: Stage) -> Stage:
        path = self.layout.positions

        def work() -> None:
            write_json(path, positions_of(PreparedData.open(self.layout.data), track=self.audience.track))

        return Stage("positions", {}, (path,), work, after=(prepared,), identity=content_identity(path))

    def _constant(self, prepared: Stage) -> Stage:
        """One reply to all sources, on as many of them as the systems answer."""
        path = self.layout.constant
        facts = {name: getattr(self.settings, name) for name in ("validation_sources", "sources")}

        def work() -> None:
            data = PreparedData.open(self.layout.data)
            write_json(path, constant_of(data, **facts, track=self.audience.track))

        return Stage("constant", facts, (path,), work, after=(prepared,), identity=content_identity(path))
