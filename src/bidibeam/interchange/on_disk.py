"""Ids, lists and whatever there is of many sources in temporary files: memory does not grow with them.

SQLite holds them: up to two megabytes in memory, and what is more in a file that nobody else can see and
that goes with the process. `TMPDIR` names its folder, or else it lies in /var/tmp.
"""

from __future__ import annotations

import errno
import pickle
import sqlite3
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

Item = TypeVar("Item")


class IdsOnDisk:
    """The ids that a file has had so far, each with its line."""

    def __init__(self) -> None:
        self._database = _create(self, "CREATE TABLE ids (id BLOB PRIMARY KEY, line INTEGER) WITHOUT ROWID")

    def find_earlier(self, id_: str, line: int) -> int | None:
        """The earlier line that has an id; if none has, it is now that of this line."""
        key = id_.encode("utf-8", "surrogatepass")
        if _execute(self._database, "INSERT OR IGNORE INTO ids VALUES (?, ?)", (key, line)).rowcount:
            return None
        ((earlier,),) = _execute(self._database, "SELECT line FROM ids WHERE id = ?", (key,))
        return int(earlier)


class OnDisk(Sequence[Item]):
    """Items to be gone through as often as needed, each time with one of them in memory."""

    def __init__(self, items: Iterable[Item] = ()) -> None:
        self._database = _create(self, "CREATE TABLE items (place INTEGER PRIMARY KEY, pickled BLOB)")
        self._count = 0
        for item in items:
            self.add(item)

    def add(self, item: Item, place: int | None = None) -> None:
        """Keep an item behind the others, or all of them sorted by places of their own, to be iterated."""
        pickled = pickle.dumps(item, pickle.HIGHEST_PROTOCOL)
        _execute(self._database, "INSERT INTO items VALUES (?, ?)", (place, pickled))
        self._count += 1

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        rows = _execute(self._database, "SELECT pickled FROM items ORDER BY place")
        return (pickle.loads(pickled) for (pickled,) in rows)

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        places = range(len(self))[place]
        if isinstance(places, range):
            return [self[each] for each in places]
        ((pickled,),) = _execute(self._database, "SELECT pickled FROM items WHERE place = ?", (places + 1,))
        item: Item = pickle.loads(pickled)
        return item


def _create(owner: object, table: str) -> sqlite3.Connection:
    """A database of one table, that goes with its owner."""
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)  # a batch may be read ahead
    weakref.finalize(owner, database.close)
    database.execute(table)
    database.execute("BEGIN")  # or each row would be a transaction of its own
    return database


def _execute(database: sqlite3.Connection, statement: str, values: tuple[Any, ...] = ()) -> sqlite3.Cursor:
    try:
        return database.execute(statement, values)
    except sqlite3.OperationalError as error:
        raise OSError(
            errno.ENOSPC,
            f"A temporary file could not be written ({error}): let TMPDIR name a folder with more room",
        ) from error
