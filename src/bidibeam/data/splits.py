"""The splits of a corpus, official or by hash; held-out items with all their references; and leaks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from bidibeam.data.conversations import SPLITS, assign_splits
from bidibeam.data.words import well_formed
from bidibeam.errors import CorpusError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from bidibeam.data.conversations import Pair

NAMES = {
    **dict.fromkeys(("train", "training"), "train"),
    **dict.fromkeys(("validation", "valid", "val", "dev"), "validation"),
    "test": "test",
}
"""How people call splits."""
SPLIT_NAME = re.compile(rf"(test|(?:{'|'.join(NAMES)})(?![^\W\d_]))")


def find_split(name: str) -> str:
    """Returns the split that a name begins with: "train", "validation", or the whole name of a test set.

    What begins otherwise names none: "".

    >>> [find_split(name) for name in ("train-00001", "dev", "test_2016_flickr", "devtest", "devices")]
    ['train', 'validation', 'test_2016_flickr', 'devtest', '']
    """
    name = well_formed(name.strip().lower())
    if name.startswith("devtest"):  # as FLORES calls it
        return name
    match = SPLIT_NAME.match(name)
    found = NAMES[match[1]] if match else ""
    return name if found == "test" else found


def split_of(name: str) -> str:
    """Returns the split of a set: "test" for every test set."""
    return name if name in ("", *SPLITS) else "test"


@dataclass(frozen=True, slots=True)
class SplitPairs:
    """A pair for every reference, the set that it is in and the item that it belongs to."""

    pairs: list[Pair]
    sets: list[str]  # "train", "validation" or the name of a test set
    items: list[int]  # an item's pairs follow each other; in training each pair is an item
    official: frozenset[str]  # the splits that the corpus came with; the others are by hash
    way: str  # what is split by hash: "conversations", "sources" or "pairs"
    given: Mapping[str, int]  # by held-out split, how many pairs there were before any were gathered
    repeats: Mapping[str, int]  # by held-out split, references that repeat another and are there once

    @property
    def splits(self) -> list[str]:
        """The split of each pair."""
        return [split_of(name) for name in self.sets]

    def count_items(self, is_kept: Sequence[bool]) -> dict[str, int]:
        """Counts the items of each set of which a pair is kept, the sets in their order."""
        kept: dict[str, set[int]] = {name: set() for name in ("train", "validation", *self.sets)}
        for name, item, is_in in zip(self.sets, self.items, is_kept, strict=True):
            if is_in:
                kept[name].add(item)
        return {name: len(items) for name, items in kept.items()}


def split_pairs(
    pairs: Sequence[Pair], *, split_by: str, seed: int, validation_share: float, test_share: float
) -> SplitPairs:
    """Assigns pairs to sets: official ones where there are some, and otherwise by hash.

    A split that official ones lack is carved out of training; what has no official split where others have
    one is for training.
    """
    official = frozenset(split_of(pair.split) for pair in pairs) - {""}
    lacking = [name for name in SPLITS[1:] if name not in official]
    if split_by == "pair":
        keys = [f"{pair.conversation_id}\0{pair.source}\0{pair.response}" for pair in pairs]
    else:
        keys = [pair.conversation_id for pair in pairs]
    free = [key for key, pair in zip(keys, pairs, strict=True) if pair.split in ("", "train")]
    if not free:
        raise CorpusError("The train split is empty: every pair is in one of the others.")
    is_lone = split_by == "conversation" and all(pair.is_lone for pair in pairs)
    way = "sources" if is_lone else f"{split_by}s"
    by_hash = dict.fromkeys(free, "train")
    if lacking:
        shares = {"validation_share": validation_share, "test_share": test_share}
        by_hash = assign_splits(free, seed, **shares, splits=("train", *lacking), what=way)
    sets = [
        by_hash[key] if pair.split in ("", "train") else pair.split
        for key, pair in zip(keys, pairs, strict=True)
    ]
    if len({name for name in sets if split_of(name) == "test"}) == 1:
        sets = [split_of(name) for name in sets]
    gathered, names, items = _gather_references(pairs, sets)
    repeats = Counter(
        split_of(name)
        for pair, name in zip(pairs, sets, strict=True)
        for text in pair.responses
        if pair.source and text
    )
    repeats.subtract(
        split_of(name) for pair, name in zip(gathered, names, strict=True) if pair.source and pair.response
    )
    given = Counter(map(split_of, sets))
    counts = ({name: counted[name] for name in SPLITS[1:]} for counted in (given, repeats))
    return SplitPairs(gathered, names, items, official, way, *counts)


def _gather_references(pairs: Sequence[Pair], sets: Sequence[str]) -> tuple[list[Pair], list[str], list[int]]:
    """Returns a pair for every reference, its set and its item.

    The references of a held-out item differ, and lone pairs of one source in one set are one item.
    """
    items: dict[Any, tuple[str, Pair, list[str]]] = {}
    for number, (pair, name) in enumerate(zip(pairs, sets, strict=True)):
        if name == "train":
            items |= {(number, place): (name, pair, [text]) for place, text in enumerate(pair.responses)}
        else:
            key = (name, pair.source) if pair.is_lone else number
            items.setdefault(key, (name, pair, []))[2].extend(pair.responses)
    gathered = [
        (pair if text == pair.response else replace(pair, response=text), name, item)
        for item, (name, pair, references) in enumerate(items.values())
        for text in dict.fromkeys(references)
    ]
    kept, names, numbers = zip(*gathered, strict=True)
    return list(kept), list(names), list(numbers)


KEYS: dict[str, Callable[[Pair], object]] = {
    "sources": lambda pair: pair.source.casefold(),
    "pairs": lambda pair: (pair.source.casefold(), pair.response.casefold()),
}
"""How pairs are compared with training."""


def count_leaks(split: SplitPairs, is_kept: Sequence[bool]) -> dict[str, dict[str, Any]]:
    """Counts by held-out set the items that training has too, letters compared without their case.

    Of test sets those that validation has are counted likewise, as "in_validation". Lone pairs are compared
    by their sources. In conversations the same is often said before different replies, so there source and
    reply must be alike. A test set that came with the corpus is refused if all of it also occurs in training.
    """
    rows = [
        row
        for row, kept in zip(zip(split.pairs, split.sets, split.items, strict=True), is_kept, strict=True)
        if kept
    ]
    known: dict[tuple[str, str], set[object]] = {
        (each, compared): {
            key(pair) for pair, name in zip(split.pairs, split.sets, strict=True) if name == each
        }
        for each in SPLITS[:2]
        for compared, key in KEYS.items()
    }
    leaks: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(["validation", *(name for _, name, _ in rows if name != "train")]):
        members = [(pair, item) for pair, each, item in rows if each == name]
        compared = "sources" if all(pair.is_lone for pair, _ in members) else "pairs"
        items = {item for _, item in members}
        in_training, in_validation = (
            {item for pair, item in members if KEYS[compared](pair) in known[other, compared]}
            for other in SPLITS[:2]
        )
        is_official_test = "test" in split.official and split_of(name) == "test"
        if is_official_test and in_training == items:
            raise CorpusError(
                f"Every {compared[:-1]} of the test set {name!r} ({len(items):,}) also occurs in training, "
                "so it measures nothing new: take them out of training, or give another test set."
            )
        leaks[name] = {"shared": len(in_training), "items": len(items), "compared": compared}
        if split_of(name) == "test":
            leaks[name]["in_validation"] = len(in_validation)
    return leaks


def check_files(files: Mapping[str, Sequence[str]], pairs: Sequence[Pair]) -> None:
    """Refuses a corpus that has files for a split, but no pair in them."""
    found = {pair.split for pair in pairs if pair.source or pair.response}
    for name, paths in files.items():
        if name not in found:
            raise CorpusError(
                f"The {split_of(name)} split is empty: {' and '.join(paths)} holds no pair. Take it away, or "
                "put pairs into it."
            )
