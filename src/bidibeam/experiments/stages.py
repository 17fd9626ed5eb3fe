"""Stages: work with a name, that is done once and again only if what it depends on has changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bidibeam._version import __version__
from bidibeam.errors import RunError
from bidibeam.files import write_json

if sys.platform != "win32":
    import fcntl

STAMPS = "stages"
"""The folder of the stamps, one for each stage."""
LONGEST_CHANGE = 100
"""Characters of a change that are shown; of a longer one only what has changed."""
DIGITS = 16
SHOWN = 3


@dataclass(frozen=True)
class Stage:
    """One step of an experiment.

    Attributes:
        name: What people call it; also the name of its stamp.
        settings: All that its result depends on, besides the stages before it; plain values.
        outputs: What it makes, as paths; without all of them it is not done. If its settings change they are
            removed before it runs.
        work: Does it. Killed and called again with the same settings, it may go on from what is there.
        after: The stages whose results it uses.
        identity: Tells its result from any other, once it is there; by default its settings do. A stage that
            runs again and makes the same thing need not set off those after it.
    """

    name: str
    settings: Mapping[str, Any]
    outputs: Sequence[Path]
    work: Callable[[], None]
    after: Sequence[Stage] = ()
    identity: Callable[[], str] | None = None


class Watcher(Protocol):
    """Somebody who watches stages come and go."""

    def began(self, name: str, *, number: int, total: int, resumed: bool, why: str) -> None:
        """A stage begins, or goes on; `why` says what has changed since it was done, if it was."""
        ...

    def ended(self, name: str, *, number: int, total: int, took_s: float) -> None:
        """A stage is done, and took so long."""
        ...

    def skipped(self, name: str, *, number: int, total: int) -> None:
        """A stage was done already."""
        ...


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Have a folder for this process alone.

    Raises:
        RunError: If another has it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        if sys.platform != "win32":
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise RunError(
                    f"Another process is running the experiment in {path.parent.parent}. "
                    "Wait until it is done, or name another folder."
                ) from None
            except OSError:  # a file system without locks
                pass
        yield


@dataclass
class Stages:
    """Runs stages in a folder, and remembers there which are done.

    Attributes:
        folder: Where the stamps are.
        identities: Of the stages that are done, by name.
    """

    folder: Path
    identities: dict[str, str] = field(default_factory=dict)

    def run(self, stages: Iterable[Stage], watcher: Watcher) -> list[str]:
        """Run those that are not done, in order; the names of those that ran.

        Raises:
            RunError: If another process is at it, or a stage makes less than it should.
        """
        with locked(self.folder / STAMPS / "lock"):
            return self._run(list(stages), watcher)

    def _run(self, listed: Sequence[Stage], watcher: Watcher) -> list[str]:
        ran = []
        for number, stage in enumerate(listed, start=1):
            fingerprint = self._fingerprint(stage)
            stamp = self._stamp(stage)
            is_same = stamp.get("fingerprint") == fingerprint
            if is_same and stamp.get("is_done") and all(path.exists() for path in stage.outputs):
                self.identities[stage.name] = str(stamp["identity"])
                watcher.skipped(stage.name, number=number, total=len(listed))
                continue
            if not is_same:
                _remove(stage.outputs)
            why = "" if is_same else _difference(stamp.get("settings"), stage.settings)
            watcher.began(stage.name, number=number, total=len(listed), resumed=is_same, why=why)
            before_s = float(stamp.get("took_s", 0)) if is_same else 0.0
            took_s = self._do(stage, fingerprint, before_s=before_s)
            watcher.ended(stage.name, number=number, total=len(listed), took_s=took_s)
            ran.append(stage.name)
        return ran

    def _do(self, stage: Stage, fingerprint: str, *, before_s: float) -> float:
        path = self._path(stage)
        stamp = {
            "name": stage.name,
            "bidibeam": __version__,
            "fingerprint": fingerprint,
            "settings": stage.settings,
        }
        write_json(path, {**stamp, "is_done": False})
        began = time.perf_counter()
        stage.work()
        missing = [str(output) for output in stage.outputs if not output.exists()]
        if missing:
            raise RunError(f"The stage {stage.name!r} ended without making {', '.join(missing)}.")
        identity = stage.identity() if stage.identity is not None else fingerprint
        took_s = round(before_s + time.perf_counter() - began, 1)
        write_json(path, {**stamp, "is_done": True, "identity": identity, "took_s": took_s})
        self.identities[stage.name] = identity
        return took_s

    def _fingerprint(self, stage: Stage) -> str:
        before = {other.name: self.identities[other.name] for other in stage.after}
        content = json.dumps([stage.name, stage.settings, before], sort_keys=True, default=str)
        return hashlib.sha256(content.encode()).hexdigest()[:DIGITS]

    def _path(self, stage: Stage) -> Path:
        return self.folder / STAMPS / f"{stage.name.replace(' ', '-')}.json"

    def _stamp(self, stage: Stage) -> dict[str, Any]:
        """What is remembered of a stage; nothing if that is damaged: the stage is then done again."""
        try:
            stamp = json.loads(self._path(stage).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        is_whole = isinstance(stamp, dict) and {"fingerprint", "is_done"} <= stamp.keys()
        return stamp if is_whole and (not stamp["is_done"] or "identity" in stamp) else {}


def content_identity(*paths: Path) -> Callable[[], str]:
    """Tells the content of files from any other."""
    return lambda: " ".join(map(digest, paths))


def digest(path: Path) -> str:
    """A hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]


def _difference(before: Any, now: Mapping[str, Any]) -> str:
    """What has changed, in a few words; nothing if the stage was never done."""
    if not isinstance(before, dict):
        return ""
    old, new = _flat(before), _flat(json.loads(json.dumps(now, default=str)))
    changed = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    shown = [_told(key, old.get(key), new.get(key)) for key in changed[:SHOWN]]
    more = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
    return ", ".join(shown) + more if shown else "what it is made from has changed"


def _told(key: str, before: Any, now: Any) -> str:
    """One change; of what is long, only that it changed."""
    told = f"{key}: {before} -> {now}"
    return told if len(told) <= LONGEST_CHANGE else f"another {key}"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat.update(_flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return flat


def file_facts(path: Path | None) -> list[Any]:
    """What tells a file, or the files of a folder, from others at a glance: names, sizes, times of change."""
    if path is None or not path.exists():
        return [] if path is None else [path.name]
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    stats = [(file.name, file.stat()) for file in files if file.is_file()]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
