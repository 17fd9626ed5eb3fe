"""Stages: named work that runs once, and again only if what it depends on has changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from bidibeam._version import __version__
from bidibeam.data.prepare import Progress as PrepareProgress
from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError
from bidibeam.files import write_json
from bidibeam.training.logs import Silence, TrainingObserver

if sys.platform != "win32":
    import fcntl

T = TypeVar("T")
STAMPS = "stages"
"""The folder of the stamps, one per stage."""
MAX_CHANGE = 100
"""Characters of a change that is shown in full."""
MAX_CHANGES = 3
DIGITS = 16


@dataclass(frozen=True)
class Stage:
    """One step of an experiment.

    Attributes:
        name: Its name, and that of its stamp.
        settings: Plain values that its result depends on, besides the stages before it.
        outputs: The paths that it writes; without all of them it is not done. If its settings change they are
            removed before it runs.
        work: Does it. Killed and called again with the same settings, it may resume from what is there.
        after: The stages whose results it uses.
        identity: Identifies its result; by default its settings do. A stage that runs again with the same
            result does not repeat those after it.
    """

    name: str
    settings: Mapping[str, Any]
    outputs: Sequence[Path]
    work: Callable[[], None]
    after: Sequence[Stage] = ()
    identity: Callable[[], str] | None = None


class Progress:
    """Told how far an experiment is; this one shows nothing, a subclass shows what it overrides."""

    def begin(self, name: str, *, number: int, total: int, resumed: bool, why: str) -> None:
        """A stage begins or resumes; `why` says what has changed since it was done, if it was."""

    def end(self, name: str, *, number: int, total: int, took_s: float) -> None:
        """A stage is done."""

    def skip(self, name: str, *, number: int, total: int) -> None:
        """A stage was done already."""

    def track(self, items: Iterable[T], total: int | None, what: str) -> Iterator[T]:  # noqa: ARG002
        """Returns the same items, counted as they go by."""
        return iter(items)

    def show_preparation(self) -> AbstractContextManager[PrepareProgress]:
        """Returns what preparation reports to."""
        return nullcontext(lambda _stage, _done, _total: None)

    def show_data(self, data: PreparedData) -> None:
        """The data are prepared."""

    def show_training(self) -> AbstractContextManager[TrainingObserver]:
        """Returns what training reports to."""
        return nullcontext(Silence())

    def note(self, sentence: str) -> None:
        """Something worth knowing happened."""


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Locks a file for this process alone; raises RunError if another process has it."""
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
    """Runs stages in a folder, and keeps a stamp and the identity of each that is done."""

    folder: Path
    identities: dict[str, str] = field(default_factory=dict)

    def run(self, stages: Iterable[Stage], progress: Progress) -> list[str]:
        """Runs the stages that are not done, in order; returns their names.

        Raises:
            RunError: If another process runs them, or a stage lacks an output.
        """
        ran, listed = [], list(stages)
        with lock(self.folder / STAMPS / "lock"):
            for number, stage in enumerate(listed, start=1):
                fingerprint, stamp = self._fingerprint(stage), self._read_stamp(stage)
                count: dict[str, int] = {"number": number, "total": len(listed)}
                is_same = stamp.get("fingerprint") == fingerprint
                if is_same and stamp.get("is_done") and all(path.exists() for path in stage.outputs):
                    self.identities[stage.name] = str(stamp["identity"])
                    progress.skip(stage.name, **count)
                    continue
                for path in () if is_same else stage.outputs:
                    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                why = "" if is_same else _describe_changes(stamp.get("settings"), stage.settings)
                progress.begin(stage.name, **count, resumed=is_same, why=why)
                before_s = float(stamp.get("took_s", 0)) if is_same else 0.0
                took_s = self._run_stage(stage, fingerprint, before_s=before_s)
                progress.end(stage.name, **count, took_s=took_s)
                ran.append(stage.name)
        return ran

    def _run_stage(self, stage: Stage, fingerprint: str, *, before_s: float) -> float:
        path = self._path(stage)
        facts = {"name": stage.name, "settings": stage.settings}
        stamp = {**facts, "bidibeam": __version__, "fingerprint": fingerprint}
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

    def _read_stamp(self, stage: Stage) -> dict[str, Any]:
        """Reads the stamp of a stage; empty if it is damaged, so that the stage runs again."""
        try:
            stamp = json.loads(self._path(stage).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        is_whole = isinstance(stamp, dict) and {"fingerprint", "is_done"} <= stamp.keys()
        return stamp if is_whole and (not stamp["is_done"] or "identity" in stamp) else {}


def identify_content(*paths: Path) -> Callable[[], str]:
    """Makes an identity of the content of files."""
    return lambda: " ".join(map(hash_file, paths))


def hash_file(path: Path) -> str:
    """Returns a hash of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]


def describe_files(path: Path | None) -> list[Any]:
    """Lists names, sizes and times of change of a file, or of the files of a folder."""
    if path is None or not path.exists():
        return [] if path is None else [path.name]
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    stats = [(file.name, file.stat()) for file in files if file.is_file()]
    return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats]


def _describe_changes(before: Any, now: Mapping[str, Any]) -> str:
    """Says what has changed; empty if the stage was never done."""
    if not isinstance(before, dict):
        return ""
    old, new = _flatten(before), _flatten(json.loads(json.dumps(now, default=str)))
    changed = {
        key: f"{key}: {old.get(key)} -> {new.get(key)}"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    }
    shown = [text if len(text) <= MAX_CHANGE else f"another {key}" for key, text in changed.items()]
    more = f" and {len(changed) - MAX_CHANGES} more" if len(changed) > MAX_CHANGES else ""
    return ", ".join(shown[:MAX_CHANGES]) + more if shown else "what it is made from has changed"


def _flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        flat |= _flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
