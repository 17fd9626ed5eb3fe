"""What commands are given: the model that a command line names, n-best lists, word vectors."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.console import format_count, note, notice_if_slow, show, tell
from bidibeam.cli.streams import withhold_stdin
from bidibeam.errors import SettingsError
from bidibeam.fields import show_value
from bidibeam.hypotheses import Direction
from bidibeam.interchange.lists import ListReader
from bidibeam.interchange.reading import read_weights
from bidibeam.scores import Signature

if TYPE_CHECKING:
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.data.prepared import PreparedData
    from bidibeam.hypotheses import Beams
    from bidibeam.models.base import Model
    from bidibeam.protocols import Metric, Strategy
    from bidibeam.search.settings import SearchSettings
    from bidibeam.similarities.word_vectors import WordVectors
    from bidibeam.strategies.settings import StrategySettings

BUNDLED_NOTE = "No model was named: this is the small one that comes with bidibeam."
LENGTH_SOURCES = 200
"""On the first so many sources it is seen what T decides."""
MANY_STEPS = 1 << 30
"""So many steps that no least number of tokens is more."""
STRATEGY_FLAGS = ("lambda_", "answer", "agreement", "length_exponent", "word_reward", "seed")
"""What a strategy's own settings are called in a command's parameters."""
FORMAT_SETTINGS = ("direction", "per_source", "log_prob", "ranked")
SUBWORD_MARKS = ("\u0120", "\u2581", "##")
"""How byte-level BPE, SentencePiece and WordPiece mark where words begin, or go on."""
UNENDED_MARK = "@@"
"""How subword-nmt, and so fairseq, marks a piece that does not end its word."""


def take_model(model: str | None, flags: dict[str, Any]) -> dict[str, Any]:
    """Take what names a model out of a command's parameters: the arguments of `load_model`."""
    regular = flags.pop("regular")
    if model is not None and regular is not None:
        raise click.UsageError(f"--regular {regular} stands instead of MODEL, not beside {model}.")
    options = ("reverse", "device", "dtype", "trust_remote_code", "device_map")
    return {"name": model or regular, **{name: flags.pop(name) for name in options if name in flags}}


def load_model(name: str | None, reverse: str | None = None, **options: Any) -> Model:
    """Load a model; say so if that takes long, and which model it is if none was named."""
    from torch.backends import cudnn

    from bidibeam.models.loading import load

    cudnn.allow_tf32 = False  # by which cuDNN would round a GRU's states so far that the batch shows
    if name is None and reverse is None:
        show(BUNDLED_NOTE, style="dim")
    with notice_if_slow("Loading the model ..."), withhold_stdin():
        return load(name, reverse, **options)


def load_for_search(
    model: dict[str, Any], flags: dict[str, Any]
) -> tuple[Model, SearchSettings, TunedSettings | None]:
    """Load the model and settle how it searches; values that are out of range are refused before.

    What flags do not say of the beam, the length, and repeated and forbidden words is as it was when the
    model was tuned, and what was tuned for it comes along.
    """
    from bidibeam.api.decoders import default_search
    from bidibeam.api.tuned import TunedSettings

    given = take_search(flags)
    loaded = load_model(**model)
    tuned = TunedSettings.known_for(loaded)
    return loaded, default_search(loaded, tuned, **given), tuned


def take_search(flags: Mapping[str, Any]) -> dict[str, Any]:
    """What flags say of the search, which is all that is left of them; values out of range are refused."""
    from bidibeam.search.settings import SearchSettings

    given = {name: value for name, value in flags.items() if value not in (None, ())}
    SearchSettings(**{"max_length": MANY_STEPS, **given})
    return given


def take_strategy(flags: dict[str, Any], processes: int = 1) -> tuple[StrategySettings | None, int]:
    """Take a strategy's flags out of a command's parameters: its settings, and how many threads it may use.

    Several processes share the cores out.

    Flags go over the words of the name; where they contradict one, a note says so. Without a name, flags say
    whose they are; without any, there are no settings.
    """
    from bidibeam.strategies.settings import StrategySettings, imply_strategy

    workers = flags.pop("workers") or max(1, count_cores() // processes)
    names = ("similarity", "similarity_options", "vectors", "strategy_options", *STRATEGY_FLAGS)
    named = [flag for flag in names if flags[flag] not in (None, ())]
    name = flags.pop("strategy")
    name = imply_strategy(named) if name is None else name
    if name is None:
        for flag in names:
            del flags[flag]
        return None, workers
    similarity, options, vectors = (
        flags.pop(each) for each in ("similarity", "similarity_options", "vectors")
    )
    given = {flag: value for flag in STRATEGY_FLAGS if (value := flags.pop(flag)) is not None}
    strategy = StrategySettings.named(name).override(
        options={**_parse_pairs("--strategy-option", flags.pop("strategy_options")), **given},
        similarity=similarity,
        similarity_options=_parse_pairs("--similarity-option", options),
        vectors=vectors,
    )
    compared = {"--similarity": similarity, "--similarity-option": options, "--vectors": vectors}
    strategy.check_compares(flag for flag, value in compared.items() if value)
    if strategy.compares:
        allow_local(strategy.similarity)
        strategy.check_similarity()
    if words := [word for word in name.split()[1:] if word not in strategy.system.split()]:
        note(f"flags go over {' and '.join(map(repr, words))} of --strategy.")
    return strategy, workers


def allow_local(*names: str | None) -> None:
    """Let package.module:name, if one of the names is of that kind, be found where the command was called."""
    if any(name is not None and ":" in name for name in names):
        import_from_here()


def import_from_here() -> None:
    """Let modules be found where `python -m` would look, and a script of ours would not."""
    if sys.path[:1] != [here := str(Path.cwd())]:
        sys.path.insert(0, here)


def build_metrics(names: Sequence[str], tokenize: str | None, lowercase: bool) -> list[Metric]:
    """The metrics that flags name; one of package.module:name may lie where the command was called."""
    from bidibeam import metrics

    allow_local(*names)
    return metrics.build_metrics(names, tokenize, lowercase or None)


def find_metric(
    data: PreparedData | None,
    name: str | None,
    tokenize: str | None = None,
    lowercase: bool = False,
    *,
    tuned: TunedSettings | None = None,
    is_cased: bool = True,
) -> Metric:
    """The metric that flags name, or else what was tuned by before, or that of the corpus; at last BLEU.

    Where it was told to ignore case before, it does again, unless replies are not cased anyway.
    """
    from bidibeam.data.corpora import find_defaults
    from bidibeam.metrics import DEFAULT_METRIC, METRICS

    own = {} if name or data is None else find_defaults(data.info["corpus"], "measure")
    before = Signature.parse(tuned.content["metric"] if tuned is not None and name is None else "")
    if (known := before.get("metric")) in METRICS.names():
        tokens = "words" if before.get("words") else before.get("tok")
        own = {"metric": known, "tokenize": tokens if known == "bleu" else None}
        lowercase = lowercase or (is_cased and before.get("case") == "lc")
    (metric,) = build_metrics(
        [name or own.get("metric", DEFAULT_METRIC)], tokenize or own.get("tokenize"), lowercase
    )
    return metric


def count_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _parse_pairs(flag: str, given: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE, the values as YAML."""
    from bidibeam.config import parse_yaml

    options: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise SettingsError(f"{flag} must be NAME=VALUE, not {item!r}.")
        read = parse_yaml(value, f"The value of {flag} {name}")
        options[name.strip()] = tuple(read) if isinstance(read, list) else read
    return options


def take_lists(input_file: str, flags: dict[str, Any], **options: Any) -> ListReader:
    """Take what is said about lists out of a command's parameters: their reader."""
    settings = {key: value for key in FORMAT_SETTINGS if (value := flags.pop(key, None))}
    if "direction" in settings:
        settings["direction"] = Direction(settings["direction"])
    names = ("from_format", "reverse_file", "sources_file", "references_file", "words")
    given = {name: flags.pop(name, None) for name in names}
    return ListReader(input_file, **given, settings=settings, **options)


def word_vectors(path: Path | None, lists: Iterable[Beams]) -> Callable[[], WordVectors] | None:
    """Reads the vectors of the words that lists hold, once they are asked for."""
    if path is None:
        return None

    @cache
    def read() -> WordVectors:
        from bidibeam.similarities.word_vectors import WordVectors

        hypotheses = (one for beams in lists for one in (*beams.regular, *beams.reverse))
        words = {token for one in hypotheses for token in one.tokens}
        for word in sorted(words):
            if word.startswith(SUBWORD_MARKS) or (word.endswith(UNENDED_MARK) and word != UNENDED_MARK):
                raise SettingsError(
                    f"The lists hold subwords, such as {word!r}, and --vectors are vectors of words. Leave "
                    '"tokens" out of the file, so that texts are split into words, or use another similarity.'
                )
        with notice_if_slow(f"Reading {path} ..."):
            vectors = WordVectors.from_file(path, wanted=words)
        tell(f"{len(vectors.words):,} of {len(words):,} words have a vector.")
        return vectors

    return read


def note_length(
    strategies: Iterable[Strategy], lists: Iterable[Beams], *, flag: str = "--max-length"
) -> None:
    """Say whose T decides more than agreement does: for whom most replies would be others without it.

    The command sets T by `flag`.
    """
    from bidibeam.decoding.explaining import system_of
    from bidibeam.strategies.ranking import choose

    some, told = list(islice(lists, LENGTH_SOURCES)), []
    for strategy in strategies:
        compared: Any = strategy
        similarity: Any = getattr(compared, "similarity", None)
        if (plain := getattr(similarity, "without_length", None)) is None:
            continue
        without = replace(compared, similarity=plain)
        count = sum(choose(strategy, each).text != choose(without, each).text for each in some)
        if 2 * count > len(some):
            told.append(f"{count:,} by {system_of(strategy)} (T {similarity.max_length or 'median'})")
    if told:
        note(
            f"of {format_count(len(some), 'reply', 'replies')}, {', '.join(told)} would be others without T: "
            f"length decides more than agreement. Try another T by {flag}, or a similarity without T: bleu, "
            "wmd, token_f1, edit."
        )


def read_tuned(path: Path | None) -> TunedSettings | None:
    """What a tuned.json says, or that of a run; None if none is named."""
    if path is None:
        return None
    from bidibeam.api.tuned import TunedSettings  # brings PyTorch, which takes seconds to load

    return TunedSettings.at(path)


def note_other_model(tuned: TunedSettings, file: str, written_by: Signature) -> None:
    """Say so if lists were written by others than the networks that settings were tuned for.

    Neither need be known.
    """
    weights, writers = tuned.content.get("weights"), sorted(read_weights(written_by))
    if writers and weights is not None and not tuned.has_weights(wrote := "+".join(writers)):
        note(
            f"{tuned.path} was tuned for another model ({weights}) than the one that wrote {file} ({wrote})."
        )


def note_other_length(strategies: Iterable[Strategy], file: str, written_by: Signature) -> None:
    """Say so if strategies take T from the lists, which were ranked with one of their model."""
    length = written_by.get("T")
    lacks = any(each.signature.get("T") == "median" for each in strategies)
    if lacks and length is not None and length.isdecimal():
        note(
            f"{file} was ranked with T {length}, and here T is the median of what a hypothesis is compared "
            f"with: --max-length {length} gives the same."
        )


def note_unknown(texts: Mapping[str, str], what: str, count: int | None = None) -> None:
    """Say that texts, by their places, hold nothing that a model knows; `what` they are called together.

    The first is enough, where it is given how many there are.
    """
    if texts:
        place, text = next(iter(texts.items()))
        told = f"{place} has no token that the model knows"
        count = len(texts) if count is None else count
        if count > 1:
            told = f"{count:,} {what} have no token that the model knows, the first of them {place}"
        note(f"{told}: {show_value(text)}.")


def note_case(replies: Iterable[str], references: Iterable[str], metrics: Iterable[Metric]) -> None:
    """Say if no reply has a capital letter, references have, and a metric minds."""
    from bidibeam.metrics.scoring import minds_case

    minding = [each.name for each in metrics if minds_case(each)]
    if minding and any(map(_has_capital, references)) and not any(map(_has_capital, replies)):
        told = "no reply has a capital letter, and references have"
        note(f"{told}: --lowercase lets {' and '.join(minding)} ignore case.")


def _has_capital(text: str) -> bool:
    return text.lower() != text
