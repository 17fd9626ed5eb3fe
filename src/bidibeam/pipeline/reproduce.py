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
from bidibeam.evaluation.analyses.positions import positions
from bidibeam.files import write_json
from bidibeam.pipeline.gathering import report_stage, results_of
from bidibeam.pipeline.layout import Layout
from bidibeam.pipeline.plan import Plan, read_json
from bidibeam.pipeline.seeds import Seed
from bidibeam.pipeline.settings import ExperimentSettings, facts_of
from bidibeam.pipeline.stages import Stage, Stages, content_identity, file_facts
from bidibeam.pipeline.watching import Audience, Nobody


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
        self._check_corpus()
        return Stages(self.folder).run(self.stages(), self.audience)

    def stages(self) -> list[Stage]:
        """Every stage, in order."""
        prepared = self._prepare()
        placed = self._positions(prepared)
        seeds = [Seed(seed, self.plan, self._is_timed(seed)).stages(prepared) for seed in self.seeds]
        ends = [stages[-1] for stages in seeds]
        return [
            prepared,
            placed,
            *(stage for stages in seeds for stage in stages),
            report_stage(self.plan, self.seeds, self._about, [*ends, placed]),
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

    def _check_corpus(self) -> None:
        """Refuse to replace what was trained on another corpus."""
        before = self.folder / "data" / INFO
        if self.data is not None or not before.is_file():
            return
        corpus = read_json(before).get("corpus")
        if corpus != self.settings.prepare.corpus:
            raise SettingsError(
                f"{self.folder} holds an experiment on {corpus}, which one on {self.settings.prepare.corpus} "
                "would replace. Name another --out, or remove it."
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
            data = PreparedData.open(self.layout.data)
            pairs = data.split("train")
            columns = zip(pairs.response_start.tolist(), pairs.response_length.tolist(), strict=True)
            texts = (
                data.tokenizer.tokens(pairs.tokens[start : start + size].tolist()) for start, size in columns
            )
            write_json(path, positions(self.audience.track(texts, len(pairs), "counting words")))

        return Stage("positions", {}, (path,), work, after=(prepared,), identity=content_identity(path))
