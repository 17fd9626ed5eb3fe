"""The experiment: prepare, train, search, tune, evaluate, report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from bidibeam._version import __version__
from bidibeam.api.decoders import check_serves
from bidibeam.config import DEFAULT_ARCHITECTURE
from bidibeam.data.corpora import CORPORA
from bidibeam.data.prepare import prepare
from bidibeam.data.prepared import FILES, INFO, PreparedData
from bidibeam.errors import BidibeamError, SettingsError
from bidibeam.evaluation import RESULTS_VERSION
from bidibeam.evaluation.corpus import analyse_constant, analyse_positions
from bidibeam.evaluation.evaluate import describe_metrics
from bidibeam.experiments.controls import ControlSeed
from bidibeam.experiments.plan import GivenModel, Plan, read_stage_file
from bidibeam.experiments.seed_stages import model_stage, search_stages, seed_stages
from bidibeam.experiments.seeds import Seed
from bidibeam.experiments.settings import resolve_experiment, stamp_settings, to_plain
from bidibeam.experiments.stages import (
    STAMPS,
    Stage,
    describe_files,
    identify_content,
    json_stage,
    run_stages,
)
from bidibeam.files import write_json
from bidibeam.metrics import DEFAULT_METRIC
from bidibeam.metrics.scoring import minds_case
from bidibeam.models.base import Model, writes_capitals
from bidibeam.models.checkpoint import find_device
from bidibeam.models.control import check_control, check_control_tokens, describe_other_data
from bidibeam.reporting.report import FIGURES, REPORT_FILES, write_report
from bidibeam.reporting.results import RESULTS_FILE
from bidibeam.scores import recorded
from bidibeam.strategies.settings import StrategySettings, requirements_of

COUNTS = ("sources", "validation_sources", "examples", "cost_sources", "cost_turns")


@dataclass(frozen=True)
class Experiment(Plan):
    """A corpus, settings and seeds, in a folder."""

    preset: str  # its name, for the record
    seeds: Sequence[int] = (0,)  # one training run each
    source: Path | None = None  # where the corpus is, if its reader does not know
    command: str = ""  # the command line, for the record
    missing: Mapping[str, str] = field(default_factory=dict)  # systems that the given model cannot serve: why

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
        control: GivenModel | None = None,
        **options: Any,
    ) -> Experiment:
        """Resolves the settings of an experiment, and fits them to a model that is given, if any.

        Preset, corpus, config and overrides are as `resolve_experiment` takes them, options the other
        arguments of `Experiment`; data that are prepared already say what they are themselves. Raises
        BidibeamError if the model cannot be loaded or serves no system.
        """
        second = None if control is None else control.load("cpu")
        if control is not None and second is not None:
            control = control.identified_by(second)
        options["control"] = control
        layers: dict[str, Any] = {"corpus": corpus, "config": config, "overrides": overrides}
        if options.get("data") is not None:
            layers["data"] = PreparedData.open(options["data"])
        if model is None:
            return cls(folder, resolve_experiment(preset=preset, **layers), preset=preset, **options)
        loaded = model.load("cpu")
        search = {"stopping": loaded.default_stopping, "max_length": loaded.limits.max_length}
        known = {name: value for name, value in search.items() if value is not None}
        settings = resolve_experiment(preset=preset, base={"search": known}, **layers)
        missing = find_unserved(loaded, settings.systems, options.get("vectors"))
        systems = tuple(name for name in settings.systems if name not in missing)
        if not systems:
            raise SettingsError(f"{model.name} serves none of the systems: {' '.join(missing.values())}")
        given = model.identified_by(loaded)
        if second is not None:
            check_control(loaded, second)
        settings = replace(settings, systems=systems)
        if not writes_capitals(loaded) and any(map(minds_case, settings.metrics)):
            settings = replace(settings, lowercase=True)
        return cls(folder, settings, preset=preset, given=given, missing=missing, **options)

    def run(self) -> list[str]:
        """Runs every stage that is not done; returns their names.

        Raises SettingsError if the folder holds other files, or an experiment on another corpus.
        """
        find_device(self.device)  # which says at once if there is none
        for system in self.systems:  # likewise
            if system.compares:
                system.check_similarity()
        if self.folder.is_dir() and any(self.folder.iterdir()) and not (self.folder / STAMPS).is_dir():
            raise SettingsError(
                f"{self.folder} holds files, but no experiment, and they might be replaced. Name another "
                "folder, or an empty one."
            )
        before, corpus = self.folder / "data" / INFO, self.settings.prepare.corpus
        if (
            self.data is None
            and before.is_file()
            and (found := read_stage_file(before).get("corpus")) != corpus
        ):
            raise SettingsError(
                f"{self.folder} holds an experiment on {found}, which one on {corpus} would replace. Name "
                "another folder, or remove it."
            )
        if self.settings.control and self.control is None and (self.given or len(self.seeds) == 1):
            self.progress.note(
                "There is no second network to be the control: train two seeds, or name one by `control`."
            )
        if self.data is not None and self.settings.metric == DEFAULT_METRIC:
            corpus = PreparedData.open(self.data).info["corpus"]
            if corpus not in CORPORA.names():
                self.progress.note(
                    f"No reader of {corpus} is installed here, which could say how it is measured: systems "
                    f"are judged by {DEFAULT_METRIC}. Name another by `metric`."
                )
        self._check_control()
        return run_stages(self.folder, self.stages(), self.progress)

    def _check_control(self) -> None:
        """Refuses a control with other tokens than the data have, and notes one of other data."""
        data = self.data_folder / INFO
        if self.control is not None and self.given is None and data.is_file():
            check_control_tokens(PreparedData.open(self.data_folder).tokenizer, self.control.load("cpu"))
        if self.control_caveat:
            self.progress.note(self.control_caveat)

    @property
    def control_caveat(self) -> str:
        """Says so if the control was trained on other data than the model that it is compared with."""
        data, known = self.data_folder / INFO, None
        if self.given is not None:
            known = self.given.data
        elif data.is_file():
            known = read_stage_file(data).get("fingerprint")
        if self.control is None:
            return ""
        return describe_other_data(str(self.control.metadata["name"]), control=self.control.data, model=known)

    def stages(self) -> list[Stage]:
        """Returns every stage, in order."""
        prepared, track = self._prepare(), self.progress.track
        counts = {name: getattr(self.settings, name) for name in ("validation_sources", "sources")}

        def analyse(
            name: str,
            compute: Callable[..., Any],
            stamp: Mapping[str, Any],
            *,
            opens_test: bool = False,
            **values: Any,
        ) -> Stage:
            path = self.folder / f"{name}.json"

            def work() -> dict[str, Any]:
                if opens_test:
                    self.log_opening(f"the {name} reply")
                result: dict[str, Any] = compute(PreparedData.open(self.data_folder), **values, track=track)
                return result

            return json_stage(name, stamp, path, work, after=(prepared,), by_content=True)

        stamp = {**counts, **self.metric_identity}
        of_corpus = [
            analyse("positions", analyse_positions, {}),
            analyse(
                "constant",
                analyse_constant,
                stamp,
                opens_test=True,
                **counts,
                metric=self.settings.metrics[0],
            ),
        ]
        has_cost = self.settings.cost_sources > 0 and "vbs" in self.settings.systems
        models = {number: model_stage(Seed(number, self), prepared) for number in self.seeds}
        following = dict(zip(self.seeds, [*self.seeds[1:], self.seeds[0]], strict=True))
        seeds = {  # the first seed's times are enough, as ratios to VBS
            number: Seed(number, self, has_cost and not place, self._control(number, following[number]))
            for place, number in enumerate(self.seeds)
        }
        searches = {number: search_stages(seed, [models[number]]) for number, seed in seeds.items()}
        rest = [
            seed_stages(seed, models[number], searches[number], searches[following[number]])
            for number, seed in seeds.items()
        ]
        report = self._report([*(stages[-1] for stages in rest), *of_corpus])
        return [
            prepared,
            *of_corpus,
            *models.values(),
            *(each for stages in (*searches.values(), *rest) for each in stages),
            report,
        ]

    def _control(self, number: int, following: int) -> ControlSeed | None:
        """Returns the control of a seed; None if none is asked for, or there is no second network."""
        has_second = self.control is not None or (following != number and self.given is None)
        if not has_second or not (self.settings.control or self.control is not None):
            return None
        systems = tuple(name for name in self.settings.systems if len(requirements_of(name).used) > 1)
        if not systems:
            return None
        plan = replace(self, settings=replace(self.settings, systems=systems))
        other = Seed(following, self) if self.control is None else None
        return ControlSeed(number, plan, other=other)

    def results(self) -> dict[str, Any]:
        """Returns the content of results.json."""
        folder, settings = self.folder, self.settings
        data = PreparedData.open(self.data_folder)
        items = max(part.stop for part in data.test_sets.values())
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
            **describe_metrics(settings.metrics),
            "data": {name: value for name, value in data.info.items() if name != "path"},
            "settings": {
                "beam_sizes": list(settings.beam_sizes),
                "max_length": settings.search.max_length,
                "search": recorded(settings.search),
                "systems": list(settings.systems),
                **{name: getattr(settings, name) for name in ("metric", "tokenize", "lowercase")},
                "vectors": None if self.vectors is None else self.vectors.name,
                **model,
                **{name: getattr(settings, name) for name in COUNTS},
            },
            "sources": min(settings.sources or items, items),
            "test_openings": self.read_openings(),
            **({"left_out": {"systems": dict(self.missing)}} if self.missing else {}),
            **({"caveat": self.control_caveat} if self.control_caveat else {}),
            "positions": read_stage_file(folder / "positions.json"),
            "constant": read_stage_file(folder / "constant.json"),
            "seeds": [read_stage_file(Seed(seed, self).file("results")) for seed in self.seeds],
        }

    def _prepare(self) -> Stage:
        folder, settings = self.data_folder, self.settings.prepare

        def work() -> None:
            with self.progress.show_preparation() as progress:
                data = prepare(settings, self.source, folder, overwrite=True, progress=progress)
            self.progress.show_data(data)
            if self.given is None:  # else it was known before
                self._check_control()

        identity = identify_content(*self.data_files)
        if self.data is not None:
            PreparedData.open(folder)
            return Stage("prepare", {"given": identity()}, (), lambda: None, identity=identity)
        stamp = {"prepare": stamp_settings(settings), "source": describe_files(self.source)}
        outputs = [folder / name for name in FILES]
        return Stage("prepare", stamp, outputs, work, identity=identity)

    def _report(self, before: Sequence[Stage]) -> Stage:
        path = self.folder / RESULTS_FILE

        def work() -> None:
            results = self.results()
            write_json(path, results)
            write_report({RESULTS_FILE: results}, self.folder)

        stamp = {"preset": self.preset, "command": self.command, "version": __version__}
        outputs = [path, *(self.folder / name for name in (FIGURES, *REPORT_FILES))]
        return Stage("report", stamp, outputs, work, after=before)


def find_unserved(model: Model, systems: Sequence[str], vectors: Path | None) -> dict[str, str]:
    """Finds the systems that a model cannot serve: by name, the reason."""
    reasons: dict[str, str] = {}
    for name in systems:
        requirements = requirements_of(name)
        try:
            check_serves(model, requirements, name)
            if StrategySettings.named(name).uses_vectors:
                model.word_vectors(vectors)
        except BidibeamError as error:
            reasons[name] = str(error)
    return reasons
