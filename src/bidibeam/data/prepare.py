"""Prepares a corpus: reads, pairs, splits, tokenises, filters, counts and writes it."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

import numpy as np
from safetensors.numpy import save

from bidibeam._version import __version__
from bidibeam.data.conversations import (
    PAIRINGS,
    SPLITS,
    TEST_SHARE,
    VALIDATION_SHARE,
    Pair,
    order_conversations,
)
from bidibeam.data.corpora import CORPORA, find_defaults
from bidibeam.data.encoding import REASONS, EncodedPairs, count_rewritten, describe_pairs, encode_pairs
from bidibeam.data.prepared import (
    COLUMNS,
    FILES,
    FORMAT_VERSION,
    HELD_OUT,
    INFO,
    OPTIONAL,
    PAIRS,
    SOURCE_TOKENIZER,
    STATISTICS,
    TEXTS,
    TOKENIZER,
    TRAINING_TEXT,
    PreparedData,
)
from bidibeam.data.splits import SplitPairs, check_files, count_leaks, split_of, split_pairs
from bidibeam.data.tokenization import KINDS, Kind, Tokenizer, check_vocabulary
from bidibeam.errors import CorpusError, SettingsError, check_choice, check_setting
from bidibeam.files import alone_in, folder_beside, read_json, replacing, resolve, write_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from bidibeam.data.corpora.files import CorpusReader
    from bidibeam.data.prepared import Array

T = TypeVar("T")
SPLIT_KEYS = ("conversation", "pair")
REPORT_EVERY = 1000


@dataclass(frozen=True)
class PrepareSettings:
    """How a corpus becomes pairs of token ids; everything but where it lies and where the result goes.

    `PrepareSettings.for_corpus` has what suits a corpus where nothing else is given, as the command has.
    """

    corpus: str = "chitchat"
    """The reader: a name in the registry of corpora."""
    pairs: str = "turns"
    """What a pair is made of: "turns" (all that a speaker says in a row) or "utterances"."""
    split_by: str = "conversation"
    """What goes to one split as a whole: a "conversation" (all pairs of a source, where they belong to none),
    or only a "pair"."""
    validation_share: float = VALIDATION_SHARE
    """The share of conversations, or of pairs, that is kept for validation."""
    test_share: float = TEST_SHARE
    """The share that is kept for testing; all the rest is for training. Official splits need no shares."""
    seed: int = 0
    """Chooses another split of the same corpus, and other conversations when there is a limit."""
    max_source_length: int = 50
    """The longest source kept, in tokens; official validation and test splits are kept whole."""
    max_response_length: int = 20
    """The longest response kept, in tokens, the end token not counted; likewise."""
    tokenizer: str = "word"
    """What a token is: a "char", a "word" (the commonest are known), or a byte-level piece ("bpe")."""
    source_tokenizer: str | None = None
    """What a token of a source is, if it is not what `tokenizer` says."""
    target_tokenizer: str | None = None
    """What a token of a response is. If sources have others, each side has a vocabulary of its own."""
    cased: bool = False
    """Whether words and characters keep their case; pieces always do."""
    vocabulary_size: int = 20_000
    """The most tokens a vocabulary has, the four special ones counted."""
    limit: int | None = None
    """Prepare only so many conversations, chosen by hash; of official splits the training alone is cut."""
    keep_text: bool = False
    """Write the text of training pairs too: models with a tokenizer of their own learn from it."""
    source_lang: str | None = None
    """The language of sources, where files are named after one: the corpora bitext, multi30k, inflection."""
    target_lang: str | None = None
    """The language of responses: bitext, multi30k."""

    @classmethod
    def for_corpus(cls, corpus: str, **given: Any) -> Self:
        """Returns the settings that suit a corpus, and over them those that are given."""
        return cls(corpus, **{**find_defaults(corpus, "suits"), **given})

    def __post_init__(self) -> None:
        self.create_reader()
        check_choice("pairs", self.pairs, PAIRINGS)
        check_choice("split_by", self.split_by, SPLIT_KEYS)
        for name, least in (("max_source_length", 1), ("max_response_length", 1), ("limit", 3), ("seed", 0)):
            number = getattr(self, name)
            check_setting(number is None or number >= least, name, number, f"at least {least}")
        for name in ("validation_share", "test_share"):
            share = getattr(self, name)
            check_setting(0 < share < 1, name, share, "above 0 and below 1")
        if self.validation_share + self.test_share >= 1:
            raise SettingsError(
                f"validation_share {self.validation_share:g} and test_share {self.test_share:g} leave "
                "nothing to train on; together they must be below 1."
            )
        check_choice("tokenizer", self.tokenizer, KINDS)
        for name, kind in zip(("source_tokenizer", "target_tokenizer"), self.kinds, strict=True):
            check_vocabulary(kind, self.vocabulary_size, name=name if getattr(self, name) else "tokenizer")

    @property
    def kinds(self) -> tuple[Kind, Kind]:
        """The kinds of tokenizer of sources and of responses."""
        source, target = self.source_tokenizer or self.tokenizer, self.target_tokenizer or self.tokenizer
        return cast("Kind", source), cast("Kind", target)

    def create_reader(self) -> CorpusReader:
        """Returns a reader of the corpus, in the languages given."""
        languages = {"source_lang": self.source_lang, "target_lang": self.target_lang}
        known = getattr(CORPORA.get(self.corpus), "languages", ())
        for name, language in languages.items():
            if language is not None and name not in known:
                raise SettingsError(
                    f"The corpus {self.corpus!r} takes no {name}, but was given {language!r}."
                )
        return CORPORA.create(self.corpus, **{name: languages[name] for name in known})


Progress = Callable[[str, int, int | None], None]
"""Is called with a stage, how far it has come and its total, None while that is not known."""


def prepare(
    settings: PrepareSettings,
    source: Path | None,
    out: Path,
    *,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> PreparedData:
    """Writes a corpus to a directory as prepared data, and opens it.

    The result depends on the conversations and the settings, not on the order of the corpus; but official
    validation and test splits keep theirs, and so do several references. A directory that holds something is
    refused unless `overwrite`; files that are not of prepared data are never touched. `source` is None for a
    corpus that has a place of its own.
    """
    _check_out(out, overwrite=overwrite)
    report = progress or (lambda *_: None)
    reader = settings.create_reader()
    split = split_pairs(
        _read_pairs(reader, settings, source, report),
        split_by=settings.split_by,
        seed=settings.seed,
        validation_share=settings.validation_share,
        test_share=settings.test_share,
    )
    pairs = split.pairs
    training = [pair for pair, name in zip(pairs, split.sets, strict=True) if name == "train"]
    report("learning the vocabulary", 0, None)
    tokenizer, source_tokenizer = _train_tokenizers(training, settings, report)
    encoded = encode_pairs(
        pairs,
        split.splits,
        tokenizer,
        source_tokenizer,
        max_source_length=settings.max_source_length,
        max_response_length=settings.max_response_length,
        progress=lambda done, total: report("encoding", done, total),
    )
    encoded, long = _keep_official(encoded, split.official)
    _check_references(split, encoded)
    report("writing", 0, None)
    errors = reader.line_errors
    first_bad = {"first_bad": errors.first} if errors.bad else {}
    statistics = {
        "lines": {"total": errors.total, "bad": errors.bad, **first_bad},
        **_describe_splits(split, encoded, reader),
        "kept_though_too_long": long,
        "rewritten": count_rewritten(pairs, split.splits, encoded, tokenizer),
        **describe_pairs(encoded, tokenizer),
    }
    with alone_in(out, "preparing data in"), _make_directory(out) as folder:
        _check_out(out, overwrite=overwrite)  # another process may have been faster
        _write_data(folder, settings, (tokenizer, source_tokenizer), encoded, statistics)
        _write_texts(folder, split, encoded, TEXTS if settings.keep_text else HELD_OUT)
    report("writing", 1, 1)
    return PreparedData.open(out)


def _read_pairs(
    reader: CorpusReader, settings: PrepareSettings, source: Path | None, report: Progress
) -> list[Pair]:
    """Reads pairs in an order that does not depend on the corpus', but for official held-out splits."""
    conversations = list(_report_items("reading", reader.read(source), report))
    sets = {each.split: None for each in conversations if each.split not in ("", "train")}
    ordered = order_conversations(
        (each for each in conversations if each.split not in sets), settings.seed, settings.limit
    )
    ordered += [each for name in sets for each in conversations if each.split == name]
    pairs = [pair for conversation in ordered for pair in PAIRINGS[settings.pairs](conversation)]
    if not pairs:
        raise CorpusError(
            f"The corpus {settings.corpus!r} gave no pairs: no conversation has two {settings.pairs}. "
            "Is this the right source?"
        )
    check_files(reader.splits, pairs)
    return pairs


def _keep_official(encoded: EncodedPairs, official: Collection[str]) -> tuple[EncodedPairs, dict[str, int]]:
    """Keeps pairs of official validation and test splits that are too long, and counts them."""
    long = [number for number, reason in enumerate(REASONS, start=1) if reason.endswith("too_long")]
    splits = [SPLITS.index(name) for name in official if name != "train"]
    is_spared = np.isin(encoded.reasons, long) & np.isin(encoded.splits, splits)
    counts = {name: int(np.sum(is_spared & encoded.is_in(name))) for name in SPLITS[1:]}
    return replace(encoded, reasons=np.where(is_spared, 0, encoded.reasons).astype(np.int8)), counts


def _check_references(split: SplitPairs, encoded: EncodedPairs) -> None:
    """Refuses official held-out items of which no reference is left."""
    is_empty = encoded.reasons == 1 + REASONS.index("empty_response")
    answered = {
        item for item, reason in zip(split.items, encoded.reasons.tolist(), strict=True) if not reason
    }
    for pair, name, item, lacks in zip(split.pairs, split.sets, split.items, is_empty, strict=True):
        is_held_out = split_of(name) != "train" and split_of(name) in split.official
        if lacks and pair.is_lone and is_held_out and item not in answered:
            raise CorpusError(
                f"The source {pair.source!r} of the official {name} split has no reference: add it, or take "
                "the source out."
            )


def _describe_splits(split: SplitPairs, encoded: EncodedPairs, reader: CorpusReader) -> dict[str, Any]:
    """Returns what `stats.json` says about items, splits and leaks; a set without pairs is refused."""
    is_kept = (encoded.reasons == 0).tolist()
    items = split.count_items(is_kept)
    for name, count in items.items():
        if not count:
            counts = encoded.count_drops(split_of(name))
            drops = ", ".join(f"{reason} {count:,}" for reason, count in counts.items() if count)
            raise CorpusError(
                f"No pair is left in the {name} split (dropped: {drops or 'none'}): raise the length limits, "
                "take more conversations, or split by pair."
            )
    files: dict[str, list[str]] = {name: [] for name in SPLITS if name in split.official}
    for name, paths in reader.splits.items():
        files[split_of(name)] += [path for path in paths if path not in files[split_of(name)]]
    return {
        "items": items,
        "splits": {"official": files, "by_hash_of": split.way, "unused": reader.unused},
        "given": dict(split.given),
        "repeats": dict(split.repeats),
        "leaks": count_leaks(split, is_kept),
    }


def _train_tokenizers(
    training: Sequence[Pair], settings: PrepareSettings, report: Progress
) -> tuple[Tokenizer, Tokenizer]:
    """Returns the tokenizer of responses and that of sources: one and the same if they are of one kind."""

    def train(texts: Iterable[str], kind: Kind, targets: Tokenizer | None = None) -> Tokenizer:
        return Tokenizer.train(
            _report_items("learning the vocabulary", texts, report),
            kind=kind,
            vocabulary_size=settings.vocabulary_size,
            cased=settings.cased,
            targets=targets,
        )

    source_kind, target_kind = settings.kinds
    if source_kind == target_kind:
        both = train(_iterate_texts(training), target_kind)
        return both, both
    targets = train((pair.response for pair in training), target_kind)
    return targets, train((pair.source for pair in training), source_kind, targets)


def _iterate_texts(pairs: Iterable[Pair]) -> Iterator[str]:
    """Yields the texts of pairs, a turn that is both a response and the next source only once."""
    previous: tuple[str, int] | None = None
    for pair in pairs:
        if previous != (pair.conversation_id, pair.index - 1):
            yield pair.source
        yield pair.response
        previous = pair.conversation_id, pair.index


def _write_data(
    folder: Path,
    settings: PrepareSettings,
    tokenizers: tuple[Tokenizer, Tokenizer],
    encoded: EncodedPairs,
    statistics: dict[str, Any],
) -> None:
    tokenizer, source_tokenizer = tokenizers
    is_different = source_tokenizer is not tokenizer
    arrays = _make_arrays(encoded, source_tokenizer.vocabulary_size)
    fingerprint = hashlib.blake2b(tokenizer.to_json().encode(), digest_size=16)
    if is_different:
        fingerprint.update(source_tokenizer.to_json().encode())
        source_tokenizer.save(folder / SOURCE_TOKENIZER)
    for name in sorted(arrays):
        fingerprint.update(name.encode() + arrays[name].tobytes())
    with replacing(folder / PAIRS) as partial:
        partial.write_bytes(save(arrays))
    tokenizer.save(folder / TOKENIZER)
    write_json(folder / STATISTICS, statistics)
    sets = dict(statistics["items"])
    items = {name: sets.pop(name) for name in SPLITS[:2]}
    items["test"] = sum(sets.values())
    info = {
        "format_version": FORMAT_VERSION,
        "bidibeam_version": __version__,
        "corpus": settings.corpus,
        "settings": asdict(settings),
        "fingerprint": fingerprint.hexdigest(),
        "vocabulary_size": source_tokenizer.vocabulary_size,
        "pairs": statistics["pairs"],
        "items": items,
        "test_sets": sets,
        "tokens": len(arrays["tokens"]),
        "training_text": TRAINING_TEXT if settings.keep_text else None,
        "source_tokenizer": SOURCE_TOKENIZER if is_different else None,
    }
    write_json(folder / INFO, info)


def _make_arrays(encoded: EncodedPairs, vocabulary_size: int) -> dict[str, Array]:
    """Returns the pairs kept, and only the texts they need."""
    kept = encoded.reasons == 0
    needed = np.zeros(len(encoded.lengths), bool)
    needed[encoded.sources[kept]] = needed[encoded.responses[kept]] = True
    lengths = np.where(needed, encoded.lengths, 0)
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    dtype = np.uint16 if vocabulary_size <= 2**16 else np.int32
    arrays: dict[str, Array] = {"tokens": encoded.tokens[np.repeat(needed, encoded.lengths)].astype(dtype)}
    for name in SPLITS:
        chosen = kept & encoded.is_in(name)
        sources, responses = encoded.sources[chosen], encoded.responses[chosen]
        columns = (starts[sources], lengths[sources], starts[responses], lengths[responses])
        for column, values in zip(COLUMNS, columns, strict=True):
            arrays[f"{name}.{column}"] = values.astype(np.int64)
    return arrays


def _write_texts(folder: Path, split: SplitPairs, encoded: EncodedPairs, names: Mapping[str, str]) -> None:
    """Writes the items of which a pair is kept, with the references kept, a file per split."""
    seen: Counter[str] = Counter()
    rows = zip(split.items, split.sets, split.pairs, encoded.reasons.tolist(), strict=True)
    with ExitStack() as stack:
        files = {
            name: stack.enter_context((folder / file).open("w", encoding="utf-8"))
            for name, file in names.items()
        }
        for (_, name), members in groupby(rows, key=itemgetter(0, 1)):
            pairs = [(pair, reason) for *_, pair, reason in members]
            first = pairs[0][0]
            references = [pair.response for pair, reason in pairs if reason == 0]
            identifier = f"{first.conversation_id}:{seen[first.conversation_id]}"
            seen[first.conversation_id] += len(pairs)
            if references and split_of(name) in files:
                several = {"references": references} if len(references) > 1 else {"reference": references[0]}
                example = {"id": identifier, "source": first.source, **several}
                files[split_of(name)].write(json.dumps(example, ensure_ascii=False) + "\n")


def _check_out(out: Path, *, overwrite: bool) -> None:
    """Refuses a directory that holds something, unless it may be overwritten."""
    if out.exists() and not out.is_dir():
        raise SettingsError(f"{out} is a file; name a directory for the prepared data.")
    for name in (*OPTIONAL.values(), *FILES):
        if (out / name).is_dir():
            raise SettingsError(
                f"{out / name} is a directory, where a file has to be; name another directory."
            )
    if not out.is_dir() or overwrite:
        return
    if (out / INFO).is_file():
        raise SettingsError(
            f"{out} holds prepared data already; name another directory, or pass `overwrite`."
        )
    ours = {*FILES, *OPTIONAL.values()} if (out / PAIRS).is_file() else set(FILES)
    if not {path.name for path in out.iterdir()} <= ours:
        raise SettingsError(f"{out} holds other things; name an empty or new directory, or pass `overwrite`.")


@contextmanager
def _make_directory(out: Path) -> Iterator[Path]:
    """Makes a folder that becomes `out` when the block succeeds; until then `out` stays as it is."""
    out = resolve(out)
    with folder_beside(out) as partial:
        yield partial
        if not any(out.iterdir()):
            partial.replace(out)
            return
        if (out / INFO).is_file():  # until the last file is replaced, `out` is no prepared data
            with suppress(ValueError):  # what is damaged lists nothing; another train.jsonl stays
                info = read_json(out / INFO)
                for key, name in OPTIONAL.items():
                    if info.get(key):
                        (out / name).unlink(missing_ok=True)
            (out / INFO).unlink()
        for name in (*OPTIONAL.values(), *FILES):
            if (partial / name).exists():
                (partial / name).replace(out / name)


def _report_items(stage: str, items: Iterable[T], report: Progress) -> Iterator[T]:
    done = 0
    for done, item in enumerate(items, start=1):
        yield item
        if done % REPORT_EVERY == 0:
            report(stage, done, None)
    report(stage, done, done)
