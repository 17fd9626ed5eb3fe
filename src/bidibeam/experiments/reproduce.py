"""The experiment: prepare, train, search, tune, evaluate, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from bidibeam._version import __version__
from bidibeam.api.decoders import check_directions
from bidibeam.config import DEFAULT_ARCHITECTURE
from bidibeam.data.prepare import prepare
from bidibeam.data.prepared import FILES, HELD_OUT, INFO, PreparedData
from bidibeam.errors import BidibeamError, SettingsError
from bidibeam.evaluation.corpus import analyse_constant, analyse_positions
from bidibeam.experiments.layout import TEST, Layout, read_json
from bidibeam.experiments.plan import GivenModel, Plan
from bidibeam.experiments.seeds import Seed
from bidibeam.experiments.settings import ExperimentSettings, resolve, stamp_settings, to_plain
from bidibeam.experiments.stages import STAMPS, Progress, Stage, Stages, describe_files, identify_content
from bidibeam.files import write_json
from bidibeam.models.base import Model
from bidibeam.reporting.report import FIGURES, REPORT_FILES, write_report
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies.naming import SystemName, requirements_of, strategy_named

RESULTS_VERSION = 1


@dataclass(frozen=True)
class Experiment:
    """A corpus, settings and seeds, in a folder.

    Args:
        folder: The folder of all files.
        settings: What to do.
        preset: The name of the preset, for the record.
        seeds: One training run each.
        source: Where the corpus is, if it has no place of its own.
        data: Prepared data to use as they are, instead of preparing.
        vectors: Word vectors: embeddings start from them, and WMD is computed among them.
        device: Where to compute; the first GPU, if there is one, by default.
        workers: Processes and threads for scoring.
        command: The command line, for the record.
        progress: Told what happens.
        given: A model to measure instead of training one.
        left_out: By name, systems that it cannot serve, and why.
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
    progress: Progress = field(default_factory=Progress)
    given: GivenModel | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def create(
        cls,
        folder: Path,
        preset: str,
        *,
        corpus: str | None = None,
        config: Path | None = None,
        overrides: Sequence[str] = (),
        model: GivenModel | None = None,
        **options: Any,
    ) -> Experiment:
        """Resolves the settings of an experiment, and fits them to a model that is given.

        Args:
            folder: The folder of all files.
            preset: As `resolve` takes it, like corpus, config and overrides.
            corpus: The reader of the corpus.
            config: A YAML file over the preset.
            overrides: Single settings over both.
            model: A model to measure instead of training one.
            **options: The other arguments of `Experiment`.

        Raises:
            BidibeamError: If a setting makes no sense, or the model cannot be loaded or serves no system.
        """
        layers: dict[str, Any] = {"corpus": corpus, "config": config, "overrides": overrides}
        if model is None:
            return cls(folder, resolve(preset=preset, **layers), preset, **options)
        loaded = model.load("cpu")
        search = {"stopping": loaded.default_stopping, "max_length": loaded.limits.max_length}
        known = {name: value for name, value in search.items() if value is not None}
        settings = resolve(preset=preset, base={"search": known}, **layers)
        left_out = find_unserved(loaded, settings.systems, options.get("vectors"))
        systems = tuple(name for name in settings.systems if name not in left_out)
        if not systems:
            raise SettingsError(f"{model.name} serves none of the systems: {' '.join(left_out.values())}")
        given = replace(model, weights=loaded.fingerprint)
        settings = replace(settings, systems=systems)
        return cls(folder, settings, preset, given=given, left_out=left_out, **options)

    def run(self) -> list[str]:
        """Runs every stage that is not done; returns their names.

        Raises:
            SettingsError: If the folder holds other files, or an experiment on another corpus.
        """
        if self.folder.is_dir() and any(self.folder.iterdir()) and not (self.folder / STAMPS).is_dir():
            raise SettingsError(
                f"{self.folder} holds files, but no experiment, and they might be replaced. Name another "
                "folder, or an empty one."
            )
        before, corpus = self.folder / "data" / INFO, self.settings.prepare.corpus
        if self.data is None and before.is_file() and (found := read_json(before).get("corpus")) != corpus:
            raise SettingsError(
                f"{self.folder} holds an experiment on {found}, which one on {corpus} would replace. Name "
                "another folder, or remove it."
            )
        return Stages(self.folder).run(self.stages(), self.progress)

    def stages(self) -> list[Stage]:
        """Returns every stage, in order."""
        prepared = self._prepare()
        of_corpus = [self._count_positions(prepared), self._score_constant(prepared)]
        seeds = [Seed(seed, self.plan, self._is_timed(seed)).stages(prepared) for seed in self.seeds]
        ends = [stages[-1] for stages in seeds]
        report = self._report([*ends, *of_corpus])
        return [prepared, *of_corpus, *(stage for stages in seeds for stage in stages), report]

    @property
    def layout(self) -> Layout:
        """Its files."""
        return Layout(self.folder, self.data or self.folder / "data")

    @cached_property
    def plan(self) -> Plan:
        """What the stages know of it."""
        options = (self.vectors, self.device, self.workers, self.progress, self.given)
        return Plan(self.layout, self.settings, *options)

    def results(self) -> dict[str, Any]:
        """Returns the content of results.json."""
        layout, settings, plan = self.layout, self.settings, self.plan
        data = PreparedData.open(layout.data)
        model: dict[str, Any] = {"model": to_plain(settings.model), "training": asdict(settings.training)}
        if settings.architecture != DEFAULT_ARCHITECTURE:
            model = {"architecture": settings.architecture, **model}
        if self.given is not None:
            model = {"model": self.given.metadata}
        return {
            "format_version": RESULTS_VERSION,
            "bidibeam": __version__,
            "corpus": data.info["corpus"],
            "preset": self.preset,
            "command": self.command,
            "data": {name: value for name, value in data.info.items() if name != "path"},
            "settings": {
                "beam_sizes": list(settings.beam_sizes),
                "max_length": settings.search.max_length,
                "search": asdict(settings.search),
                "systems": list(settings.systems),
                "vectors": plan.vectors.name if plan.vectors is not None else None,
                **model,
                "sources": settings.sources,
                "validation_sources": settings.validation_sources,
                "examples": settings.examples,
                "cost_sources": settings.cost_sources,
                "cost_turns": settings.cost_turns,
            },
            "sources": len(plan.read_examples(TEST, settings.sources)),
            **({"left_out": {"systems": dict(self.left_out)}} if self.left_out else {}),
            "positions": read_json(layout.positions),
            "constant": read_json(layout.constant),
            "seeds": [read_json(layout.seed(seed).results) for seed in self.seeds],
        }

    def _is_timed(self, seed: int) -> bool:
        """The first seed's times are enough, as ratios to VBS."""
        return seed == self.seeds[0] and self.settings.cost_sources > 0 and "vbs" in self.settings.systems

    def _prepare(self) -> Stage:
        layout, settings = self.layout, self.settings

        def work() -> None:
            with self.progress.show_preparation() as progress:
                data = prepare(settings.prepare, self.source, layout.data, overwrite=True, progress=progress)
            self.progress.show_data(data)

        identity = identify_content(*(layout.data / name for name in (INFO, *HELD_OUT.values())))
        if self.data is not None:
            PreparedData.open(layout.data)
            return Stage("prepare", {"given": identity()}, (), lambda: None, identity=identity)
        facts = {"prepare": stamp_settings(settings.prepare), "source": describe_files(self.source)}
        outputs = [layout.data / name for name in FILES]
        return Stage("prepare", facts, outputs, work, identity=identity)

    def _count_positions(self, prepared: Stage) -> Stage:
        path = self.layout.positions

        def work() -> None:
            write_json(
                path, analyse_positions(PreparedData.open(self.layout.data), track=self.progress.track)
            )

        return Stage("positions", {}, (path,), work, after=(prepared,), identity=identify_content(path))

    def _score_constant(self, prepared: Stage) -> Stage:
        """One reply to every source that the systems answer."""
        path = self.layout.constant
        facts = {name: getattr(self.settings, name) for name in ("validation_sources", "sources")}

        def work() -> None:
            data = PreparedData.open(self.layout.data)
            write_json(path, analyse_constant(data, **facts, track=self.progress.track))

        return Stage("constant", facts, (path,), work, after=(prepared,), identity=identify_content(path))

    def _report(self, before: Sequence[Stage]) -> Stage:
        folder = self.folder

        def work() -> None:
            results = self.results()
            write_json(self.layout.results, results)
            write_report(results, folder)

        facts = {"preset": self.preset, "command": self.command, "version": __version__}
        outputs = [self.layout.results, *(folder / name for name in (FIGURES, *REPORT_FILES))]
        return Stage("report", facts, outputs, work, after=before)


def find_unserved(model: Model, systems: Sequence[str], vectors: Path | None) -> dict[str, str]:
    """Finds the systems that a model cannot serve: by name, the reason."""
    reasons: dict[str, str] = {}
    for name in systems:
        requirements, strategy = requirements_of(name), strategy_named(SystemName.of(name).untuned)
        try:
            check_directions(model, requirements, name)
            if requirements.other_weight is not None:
                model.check_shared_tokens()
            if strategy.compares and "space" in _similarity_fields(strategy.similarity):
                model.word_vectors(vectors)
        except BidibeamError as error:
            reasons[name] = str(error)
    return reasons


def _similarity_fields(name: str) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(SIMILARITIES.get(name), "__dataclass_fields__", {})
    return fields
