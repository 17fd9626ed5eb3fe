"""The experiment: prepare, train, search, tune, evaluate, report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bidibeam._version import __version__
from bidibeam.api.decoders import check_directions
from bidibeam.config import DEFAULT_ARCHITECTURE
from bidibeam.data.prepare import prepare
from bidibeam.data.prepared import FILES, HELD_OUT, INFO, PreparedData
from bidibeam.errors import BidibeamError, SettingsError
from bidibeam.evaluation.corpus import analyse_constant, analyse_positions
from bidibeam.experiments.layout import TEST, read_json
from bidibeam.experiments.plan import GivenModel, Plan
from bidibeam.experiments.seeds import Seed
from bidibeam.experiments.settings import resolve, stamp_settings, to_plain
from bidibeam.experiments.stages import STAMPS, Stage, Stages, describe_files, identify_content
from bidibeam.files import write_json
from bidibeam.models.base import Model
from bidibeam.reporting.report import FIGURES, REPORT_FILES, write_report
from bidibeam.reporting.results import RESULTS_FILE
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies.naming import SystemName, requirements_of, strategy_named

RESULTS_VERSION = 1
COUNTS = ("sources", "validation_sources", "examples", "cost_sources", "cost_turns")


@dataclass(frozen=True)
class Experiment(Plan):
    """A corpus, settings and seeds, in a folder."""

    preset: str
    """The name of the preset, for the record."""
    seeds: Sequence[int] = (0,)
    """One training run each."""
    source: Path | None = None
    """Where the corpus is, if it has no place of its own."""
    command: str = ""
    """The command line, for the record."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """By name, systems that the given model cannot serve, and why."""

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
            return cls(folder, resolve(preset=preset, **layers), preset=preset, **options)
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
        return cls(folder, settings, preset=preset, given=given, left_out=left_out, **options)

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
        has_cost = self.settings.cost_sources > 0 and "vbs" in self.settings.systems
        seeds = [  # the first seed's times are enough, as ratios to VBS
            Seed(seed, self, is_timed=has_cost and seed == self.seeds[0]).stages(prepared)
            for seed in self.seeds
        ]
        report = self._report([*(stages[-1] for stages in seeds), *of_corpus])
        return [prepared, *of_corpus, *(stage for stages in seeds for stage in stages), report]

    def results(self) -> dict[str, Any]:
        """Returns the content of results.json."""
        layout, settings = self.layout, self.settings
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
                "vectors": None if self.vectors is None else self.vectors.name,
                **model,
                **{name: getattr(settings, name) for name in COUNTS},
            },
            "sources": len(self.read_examples(TEST, settings.sources)),
            **({"left_out": {"systems": dict(self.left_out)}} if self.left_out else {}),
            "positions": read_json(layout.positions),
            "constant": read_json(layout.constant),
            "seeds": [read_json(layout.seed(seed).results) for seed in self.seeds],
        }

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
            data = PreparedData.open(self.layout.data)
            write_json(path, analyse_positions(data, track=self.progress.track))

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
            write_report({RESULTS_FILE: results}, folder)

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
            similarity = SIMILARITIES.get(strategy.similarity) if strategy.compares else None
            if "space" in getattr(similarity, "__dataclass_fields__", ()):
                model.word_vectors(vectors)
        except BidibeamError as error:
            reasons[name] = str(error)
    return reasons
