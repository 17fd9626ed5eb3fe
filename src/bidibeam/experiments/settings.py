"""The settings of an experiment, in layers like those of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bidibeam.config import DEFAULT_ARCHITECTURE, build_run, load_preset, load_yaml, merge, parse_override
from bidibeam.data.corpora import CORPORA, find_defaults
from bidibeam.data.prepare import PrepareSettings
from bidibeam.errors import SettingsError
from bidibeam.evaluation.systems import SYSTEMS
from bidibeam.fields import build
from bidibeam.metrics import DEFAULT_METRIC, DEFAULT_METRICS, build_metrics
from bidibeam.metrics.scoring import check_tunable, ignore_case
from bidibeam.models.gru.settings import ModelSettings
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.settings import DEFAULT_SYSTEM, check_systems
from bidibeam.training.settings import TrainingSettings

if TYPE_CHECKING:
    from bidibeam.data.prepared import PreparedData
    from bidibeam.protocols import Metric

READER = ("corpus", "source_lang", "target_lang")
"""The settings of `prepare` that choose the corpus and its reader."""
RUN = ("architecture", "model", "training")
"""The settings of a training run."""
ALWAYS: dict[type, set[str]] = {
    kind: set(names.split())
    for kind, names in {
        PrepareSettings: "corpus pairs split_by seed max_source_length max_response_length tokenizer "
        "vocabulary_size limit",
        ModelSettings: "embedding_size encoder_size encoder_layers decoder_size attention_size readout_size "
        "dropout shared_encoder tied_output directions",
        TrainingSettings: "seed epochs max_steps batch_size learning_rate weight_decay gradient_norm "
        "regular_weight plateau_factor plateau_patience early_stopping keep evaluate_every save_every "
        "log_every precision cuda_graphs tensorboard",
        SearchSettings: "beam_size max_length min_length length_penalty count_end stopping unfinished "
        "allow_unknown",
    }.items()
}
"""The settings that every stamp holds."""


@dataclass(frozen=True)
class ExperimentSettings:
    """What is prepared, trained, searched and measured."""

    prepare: PrepareSettings = field(default_factory=PrepareSettings)
    """How the corpus becomes pairs."""
    architecture: str = DEFAULT_ARCHITECTURE
    """The network that is trained; huggingface for a model of transformers."""
    model: ModelSettings = field(default_factory=ModelSettings)
    """The shape of the network; of a Hugging Face model the values of its config."""
    training: TrainingSettings = field(default_factory=TrainingSettings)
    """How it is trained; each seed of the experiment takes the place of its own."""
    search: SearchSettings = field(default_factory=SearchSettings)
    """How to search; each beam size of the experiment takes the place of its own."""
    penalty_length: int | None = None
    """T of bleu_t and wmd_t; when null, the median length of the responses that training saw."""
    beam_sizes: tuple[int, ...] = (1, 2, 5, 6, 10, 20, 30, 40, 50)
    """Values of N_B, the hypotheses that a system may choose from."""
    systems: tuple[str, ...] = (*SYSTEMS[:2], DEFAULT_SYSTEM, *SYSTEMS[2:])
    """Strategies, each with a similarity and other options where it takes some."""
    metric: str = DEFAULT_METRIC
    """What systems are judged by: a metric's name, or package.module:name."""
    tokenize: str | None = None
    """BLEU's tokens: 13a, intl, char, none, or words for bidibeam's own; sacreBLEU's default when null."""
    lowercase: bool = False
    """Whether case is ignored, by metrics that can."""
    control: bool = False
    """Whether strategies of both ends also run on two regular networks: this seed's and the next seed's."""
    sources: int | None = None
    """Test sources, spread evenly over the split; all when null."""
    validation_sources: int | None = None
    """Validation sources to tune on, spread evenly over the split; all when null."""
    examples: int = 20
    """Sources shown in the report, those on which the systems disagree most."""
    cost_sources: int = 512
    """Sources that every strategy's time is taken on; 0 leaves cost out."""
    cost_turns: int = 3
    """How often."""

    def __post_init__(self) -> None:
        if not self.beam_sizes or min(self.beam_sizes) < 1:
            raise SettingsError(f"beam_sizes is {list(self.beam_sizes)}; give numbers of at least 1.")
        if len(set(self.beam_sizes)) < len(self.beam_sizes):
            raise SettingsError(f"beam_sizes is {list(self.beam_sizes)}; give each number once.")
        if not self.systems:
            raise SettingsError("systems is empty; name at least one, such as vbs.")
        check_systems(self.systems)
        check_tunable(self.metrics[0])
        for name in ("sources", "validation_sources", "penalty_length"):
            value, null = getattr(self, name), "that of the data" if name == "penalty_length" else "all"
            if value is not None and value < 1:
                raise SettingsError(f"{name} is {value}; it must be at least 1, or null for {null}.")
        for name, least in (("examples", 0), ("cost_sources", 0), ("cost_turns", 1)):
            if getattr(self, name) < least:
                raise SettingsError(f"{name} is {getattr(self, name)}; it must be at least {least}.")

    def search_with(self, beam_size: int) -> SearchSettings:
        """Returns the search settings with a beam size."""
        return replace(self.search, beam_size=beam_size)

    @cached_property
    def metrics(self) -> list[Metric]:
        """What systems are scored by: first the metric that they are judged by, then the usual ones.

        Replies that are lower-cased are compared without regard to case.
        """
        metrics = build_metrics([self.metric, *DEFAULT_METRICS], self.tokenize, self.lowercase or None)
        is_lowered = not self.prepare.cased and self.prepare.kinds[1] != "bpe"
        return [*map(ignore_case, metrics)] if is_lowered else metrics

    def __getstate__(self) -> dict[str, Any]:
        """Leaves out the metrics, which another process builds itself: a user's may not be picklable."""
        return {name: value for name, value in vars(self).items() if name != "metrics"}

    @property
    def largest(self) -> int:
        """The largest N_B."""
        return max(self.beam_sizes)


def resolve_experiment(
    *,
    preset: str,
    corpus: str | None = None,
    data: PreparedData | None = None,
    config: Path | None = None,
    overrides: Sequence[str] = (),
    base: Mapping[str, Any] | None = None,
) -> ExperimentSettings:
    """Resolves an experiment's settings; each layer overrules the one before it.

    The layers are `base`, the presets of a training run and of the experiment, what suits the corpus, or how
    `data` were prepared, a YAML file with sections as the fields here have them, and overrides such as
    `training.epochs=3`. Where none of them says how long to search, there is room for the longest response
    that is kept, and its end. Raises BidibeamError if one is malformed, or a name or a setting is unknown or
    out of range.
    """
    experiment = load_preset(preset, folder="reproduce")  # first: it knows which presets there are
    layers: list[Mapping[str, Any]] = [base or {}, load_preset(preset), experiment]
    if data is not None:
        layers.append(_describe_data(data))
    elif corpus is not None:
        prepare = {"corpus": corpus, **find_defaults(corpus, "suits")}
        layers.append({"prepare": prepare, **find_defaults(corpus, "measure")})
    if config is not None:
        layers.append(load_yaml(config))
    layers.extend(parse_override(override) for override in overrides)
    merged = merge(*layers)
    if "max_length" not in (merged.get("search") or {}):
        longest = build(PrepareSettings, merged.get("prepare") or {}).max_response_length
        merged = merge({"search": {"max_length": longest + 1}}, merged)
    run = build_run({name: merged[name] for name in RUN if name in merged})
    settings = build(ExperimentSettings, {name: merged[name] for name in merged if name not in RUN})
    return replace(settings, **{name: getattr(run, name) for name in RUN})


def _describe_data(data: PreparedData) -> dict[str, Any]:
    """Returns how data were prepared, as far as it is recorded, and how their corpus is measured."""
    recorded, names = data.info.get("settings", {}), {each.name for each in fields(PrepareSettings)}
    known = {name: value for name, value in recorded.items() if name in names}
    if known.get("corpus") not in CORPORA.names():  # a reader that is not installed here
        known = {name: value for name, value in known.items() if name not in READER}
        return {"prepare": known}
    return {"prepare": known, **find_defaults(known["corpus"], "measure")}


def to_plain(settings: Any) -> dict[str, Any]:
    """Returns settings as plain values, as JSON reads them back."""
    values = settings if isinstance(settings, Mapping) else asdict(settings)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def stamp_settings(settings: Any) -> dict[str, Any]:
    """Returns the part of a settings dataclass that a stage's stamp holds, as plain values.

    Settings that are newer than the stamps count only where they differ from the default, so that a finished
    stage does not run again.
    """
    always = ALWAYS.get(type(settings))
    if always is None:
        return to_plain(settings)
    defaults = {each.name: each.default for each in fields(settings)}
    return {
        name: value
        for name, value in to_plain(settings).items()
        if name in always or getattr(settings, name) != defaults[name]
    }
