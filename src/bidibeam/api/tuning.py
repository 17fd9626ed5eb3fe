"""Tuning a model's strategies on the validation pairs of its data, and finding out which serves it best."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from bidibeam.api.decoders import check_serves
from bidibeam.api.tuned import SPLIT, TUNED_FILE, Conditions, merge_with_earlier, write_tuned
from bidibeam.data.prepared import PreparedData
from bidibeam.decoding.decoder import ModelGenerator, split_beam
from bidibeam.errors import InputError, SettingsError
from bidibeam.evaluation.systems import BASE
from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange.reading import read_weights
from bidibeam.metrics.scoring import check_tunable, ignore_case, sign_references
from bidibeam.models.base import usual_length, writes_capitals
from bidibeam.search.settings import SearchSettings
from bidibeam.strategies.ranking import check_requirements
from bidibeam.strategies.settings import DEFAULT_SYSTEM, TUNED_VBS, StrategySettings, requirements_of
from bidibeam.strategies.tuning import Tuner, TuningResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence, Set

    from bidibeam.models.base import Model
    from bidibeam.protocols import Metric, Requirements
    from bidibeam.scores import Signature
    from bidibeam.similarities.word_vectors import WordVectors

WITHOUT_VECTORS = ("bleu_t", "bleu", "token_f1", "edit")
"""Similarities that need no word vectors."""
INDIFFERENT = ("random", "longest")
"""Strategies excluded from recommendation."""
QUICK_SIMILARITIES = ("bleu_t", "edit")
QUICK_SOURCES = 500
VECTOR_SYSTEMS = (
    "bidia wmd_t",
    "bidia wmd",
    "bidia embedding_cosine",
    "bidia embedding_cosine expected",
    "bidia wmd_t tuned",
)


Track = Callable[[Iterable[Any], int, str], Iterable[Any]]


def track_nothing(items: Iterable[Any], _total: int, _what: str) -> Iterable[Any]:
    """Show no progress."""
    return items


class Tuning(NamedTuple):
    """What a call found out, and what tuned.json has from it."""

    found: TuningResult
    whole: TuningResult  # that together with what tuned.json had for other systems
    lost: str  # which entries are gone, since they were tuned for something else; empty if none is


@dataclass(frozen=True)
class TuningPlan:
    """Which systems are compared, and which were left out for want of what."""

    systems: tuple[str, ...]
    left_out: Mapping[str, str] = field(default_factory=dict)  # by name what it would need, in a sentence

    @classmethod
    def parse(cls, names: Iterable[str]) -> TuningPlan:
        """Read the names of systems to tune and compare; one excluded from recommendation is refused."""
        systems = []
        for name in names:
            settings = StrategySettings.named(name)
            if not can_recommend(name):
                raise SettingsError(
                    f"{settings.name} is there to compare with, and excluded from recommendation: leave it "
                    "out. `bidibeam evaluate` measures it."
                )
            if ":" in name:
                settings.build()  # a similarity that cannot be found is refused before anything is searched
            if settings.has_penalty and not settings.is_tunable:
                settings = replace(settings, wants_tuned=True)
            systems.append(settings.system)
        return cls(tuple(dict.fromkeys(systems)))

    @classmethod
    def all_of(
        cls, model: Model, settings: SearchSettings, vectors: Path | None = None, *, quick: bool = False
    ) -> TuningPlan:
        """All that the model has directions and vectors for, and the search hypotheses."""
        names = list_systems(quick=quick)
        needs = {name: requirements_of(name) for name in names}
        if len(model.directions) < 2:
            (only,) = model.directions
            others = [name for name in names if needs[name].used != (only,)]
            return cls.without(
                names, dict.fromkeys(others, f"It needs the {only.other.value} direction too.")
            )
        if settings.beam_size < 2:
            shared = [name for name in names if len(needs[name].directions) > 1]
            return cls.without(names, dict.fromkeys(shared, "It needs `beam_size` of 2 or more."))
        if vectors is not None or has_word_vectors(model):
            return cls(tuple(names))
        with_vectors = [name for name in names if uses_vectors(name)]
        return cls.without(names, dict.fromkeys(with_vectors, "It needs word vectors, as `vectors`."))

    @classmethod
    def of_lists(
        cls, lists: Sequence[Beams], *, has_vectors: bool = False, quick: bool = False
    ) -> TuningPlan:
        """All that finds what it needs in lists from elsewhere."""
        names = list_systems(quick=quick)
        if not has_vectors:
            names = [name for name in names if not uses_vectors(name)]
        missing = {name: lack for name in names if (lack := find_lack(lists, name))}
        by_posterior = [name for name in names if name.startswith("mbr")]
        if all(name in missing for name in by_posterior):  # without probabilities all count alike
            similarities = [name.removeprefix("mbr ") for name in by_posterior]
            alike = [f"{strategy} {name} mean" for strategy in ("mbr", "bidia") for name in similarities]
            names += [name for name in alike if not find_lack(lists, name)]
        if len(missing) == len(names):
            raise InputError(f"There is nothing to tune: {missing[BASE]}")
        return cls.without(names, missing)

    @classmethod
    def without(cls, names: Sequence[str], left_out: Mapping[str, str]) -> TuningPlan:
        """These systems but for those that are left out, by name with the reason."""
        return cls(tuple(name for name in names if name not in left_out), left_out)

    def make_generators(
        self, model: Model, settings: SearchSettings
    ) -> dict[tuple[Direction, ...], ModelGenerator]:
        """By directions, what searches for the hypotheses that systems choose from.

        A model that cannot, or lacks a direction, is refused.
        """
        model.check_settings(settings)
        systems: dict[tuple[Direction, ...], dict[str, Requirements]] = {}
        for name in self.systems:
            needed = requirements_of(name)
            check_serves(model, needed, name)
            systems.setdefault(needed.directions, {})[name] = needed
        generators = {}
        for directions, found in systems.items():
            name, needed = next(iter(found.items()))
            scored = [each for each in directions if any(each in other.scored for other in found.values())]
            generators[directions] = ModelGenerator(model, split_beam(needed, settings, name), scored)
        return generators

    def check_vectors(self, vectors: Path | None) -> None:
        """Refuse vectors that nothing uses."""
        if vectors is not None and not any(map(uses_vectors, self.systems)):
            raise SettingsError("Nothing that is tuned uses word vectors: leave `vectors` out.")


def can_recommend(name: str) -> bool:
    """Whether a system could serve anybody: it knows no references, and minds what hypotheses say."""
    return StrategySettings.named(name).name not in INDIFFERENT and not requirements_of(name).reference


def find_lack(lists: Iterable[Beams], system: str) -> str:
    """What lists lack that a system needs, in a sentence; empty if they have all."""
    needed = requirements_of(system)
    try:
        for beams in lists:
            check_requirements(beams, needed, system)
    except InputError as error:
        return str(error)
    return ""


def list_systems(*, quick: bool) -> list[str]:
    """Every system that may be compared."""
    similarities = QUICK_SIMILARITIES if quick else WITHOUT_VECTORS
    systems = [BASE, TUNED_VBS, *(f"mbr {name}" for name in similarities)]
    systems += [DEFAULT_SYSTEM, "bidis", "reverse-vbs"]
    systems += [f"bidia {name}{how}" for how in ("", " expected") for name in similarities]
    systems += ["bidia bleu_t tuned"]
    systems += [] if quick else ["bidia bleu_t expected tuned", *VECTOR_SYSTEMS]
    systems += ["loglinear", "loglinear both"]
    kinds = ("",) if quick else ("", " closest")
    return systems + [f"loglinear {name} both{how}" for how in kinds for name in similarities]


def has_word_vectors(model: Model) -> bool:
    """Whether a model's own embeddings are vectors of words."""
    try:
        model.word_vectors()
    except SettingsError:
        return False
    return True


def open_tuning_data(model: Model, data: Path | None = None) -> PreparedData:
    """The prepared data that a model was trained on: those at `data`, or where they were at training.

    Raises:
        SettingsError: If that is not known, or they are others, or the model has no folder for what is found.
    """
    if model.path is None:
        raise SettingsError(
            f"tuned.json goes into the folder of the regular model, and {model.name} has none: save that "
            "model into a folder first, with save_pretrained."
        )
    known = model.data
    path = data or (Path(known["path"]) if "path" in known else None)
    if path is None:
        raise SettingsError(
            f"{model.path} does not say where its data are: give `data`, the folder of the prepared data."
        )
    if data is None and not path.is_dir():
        raise SettingsError(
            f"The data of {model.path} are not at {path} any more: give `data`, the folder where they are."
        )
    prepared = PreparedData.open(path)
    trained_on = known.get("fingerprint")
    if trained_on is not None and prepared.fingerprint != trained_on:
        raise SettingsError(
            f"{path} holds other data than {model.path} was trained on (fingerprint {prepared.fingerprint}, "
            f"not {trained_on}): give those as `data`."
        )
    return prepared


def suit_case(metric: Metric, model: Model) -> Metric:
    """Returns the metric, without regard to case if the model writes no capitals."""
    return metric if writes_capitals(model) else ignore_case(metric)


def tune_model(
    model: Model,
    data: PreparedData,
    settings: SearchSettings,
    plan: TuningPlan,
    metric: Metric,
    *,
    vectors: Path | None = None,
    sources: int | None = None,
    batch_size: int | None = None,
    workers: int = 1,
    track: Track = track_nothing,
) -> Tuning:
    """Tune and compare systems on the validation split, and write tuned.json beside the model.

    Args:
        model: The model.
        data: The data it was trained on.
        settings: How to search; systems that need both directions share its beam out.
        plan: The systems.
        metric: What they are tuned and compared by.
        vectors: Word vectors for similarities that need some; the model's own by default. What uses a file of
            vectors, or a similarity that is imported, is not recommended, since decoding would need it
            again.
        sources: How many validation sources to use, spread evenly over them; all by default.
        batch_size: Sources searched at once.
        workers: Threads that compare hypotheses.
        track: Shows progress: items, how many there will be, and what is being done.
    """
    assert model.path is not None
    check_tunable(metric)  # before anything is searched
    metric = suit_case(metric, model)
    examples = [
        Beams(example["id"], example["source"], tuple(example["references"]))
        for example in data.sample(SPLIT, sources)
    ]
    if not examples:
        raise InputError(f"{data.path} has no {SPLIT} pairs to tune on. Prepare more conversations.")
    lists = {}
    for directions, generator in plan.make_generators(model, settings).items():
        found = generator.stream(examples, batch_size)
        lists[directions] = list(track(found, len(examples), f"searching {' and '.join(directions)}"))
    space = partial(model.word_vectors, vectors)
    tuner = Tuner(metric, lists, settings, usual_length(model), space, workers)
    signature = sign_references(metric.signature, [each.references for each in examples])
    conditions = Conditions(signature, settings, model.fingerprint, tuner.max_length)
    needs_file = frozenset(name for name in plan.systems if vectors is not None and uses_vectors(name))
    return _tune(tuner, plan, conditions, model.path / TUNED_FILE, needs_file=needs_file, track=track)


def tune_lists(
    lists: Sequence[Beams],
    plan: TuningPlan,
    metric: Metric,
    path: Path,
    *,
    written_by: Signature,
    load_vectors: Callable[[], WordVectors] | None = None,
    workers: int = 1,
    track: Track = track_nothing,
) -> Tuning:
    """Tune and compare systems on lists from elsewhere, and write what was found to `path`.

    Args:
        lists: The hypotheses of held-out sources, with references.
        plan: The systems.
        metric: What they are tuned and compared by.
        path: The tuned.json that is written.
        written_by: How the lists came about, as far as they say.
        load_vectors: Gives word vectors.
        workers: Threads that compare hypotheses.
        track: Shows progress, as for `tune_model`.

    Raises:
        InputError: If a list lacks what a system needs, or has no reference.
    """
    check_tunable(metric)
    for name in plan.systems:
        for beams in lists:
            check_requirements(beams, requirements_of(name), name)
    search = SearchSettings.from_signature(written_by)
    by_directions = {requirements_of(name).directions: lists for name in plan.systems}
    lengths = [len(one.tokens) for beams in lists for way in Direction for one in beams.of(way)]
    usual = replace(search or SearchSettings(), max_length=max(2, round(median(lengths or [0]))))
    tuner = Tuner(metric, by_directions, usual, space=load_vectors, workers=workers)
    signature = sign_references(metric.signature, [each.references for each in lists])
    weights = "+".join(sorted(read_weights(written_by))) or None
    conditions = Conditions(signature, search, weights, lists=hash_lists(lists))
    needs_file = frozenset(filter(uses_vectors, plan.systems))
    return _tune(tuner, plan, conditions, path, needs_file=needs_file, track=track)


def uses_vectors(system: str) -> bool:
    """Whether a system compares by word vectors."""
    return StrategySettings.named(system).uses_vectors


def hash_lists(lists: Iterable[Beams]) -> str:
    """What tells lists from any others: sources, references, and hypotheses with their numbers."""
    digest = hashlib.blake2b(digest_size=8)
    for beams in lists:
        hypotheses = [
            (one.text, one.log_prob, one.other_log_prob, one.score, one.length)
            for direction in Direction
            for one in beams.of(direction)
        ]
        digest.update(json.dumps([beams.source, beams.references, hypotheses]).encode())
    return digest.hexdigest()


def _tune(
    tuner: Tuner,
    plan: TuningPlan,
    conditions: Conditions,
    path: Path,
    *,
    needs_file: Set[str],
    track: Track,
) -> Tuning:
    """Compares the systems of a plan, and writes what is found; no file or module is recommended."""
    found = tuner.compare(
        track(plan.systems, len(plan.systems), "comparing systems"),
        usable=lambda name: name not in needs_file and ":" not in name,
    )
    whole, lost = merge_with_earlier(path, found, conditions)
    write_tuned(path, whole, conditions)
    return Tuning(found, whole, lost)
