"""Stages: named work that runs once, and again only if what it depends on has changed."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bidibeam._version import __version__
from bidibeam.data.prepare import Progress
from bidibeam.data.prepared import PreparedData
from bidibeam.errors import RunError
from bidibeam.fields import flatten
from bidibeam.files import lock, read_json_or_empty, write_json
from bidibeam.training.logs import TrainingObserver

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

    Without all of its outputs it is not done; if its settings change they are removed before it runs. Killed
    and called again with the same settings, `work` may resume from what is there. A stage that runs again
    with the same identity does not repeat those after it.
    """

    name: str
    settings: Mapping[str, Any]  # plain values that its result depends on, besides the stages before it
    outputs: Sequence[Path]
    work: Callable[[], None]
    after: Sequence[Stage] = ()  # the stages whose results it uses
    identity: Callable[[], str] | None = None  # identifies its result; by default its settings do


class ExperimentObserver:
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

    def show_preparation(self) -> AbstractContextManager[Progress]:
        """Returns what preparation reports to."""
        return nullcontext(lambda _stage, _done, _total: None)

    def show_data(self, data: PreparedData) -> None:
        """The data are prepared."""

    def show_training(self) -> AbstractContextManager[TrainingObserver]:
        """Returns what training reports to."""
        return nullcontext(TrainingObserver())

    def note(self, sentence: str) -> None:
        """Something worth knowing happened."""


def run_stages(folder: Path, stages: Sequence[Stage], progress: ExperimentObserver) -> list[str]:
    """Runs the stages of a folder that are not done, in order, and stamps them; returns their names.

    Raises RunError if another process runs them, or a stage lacks an output.
    """
    ran: list[str] = []
    identities: dict[str, str] = {}
    (folder / STAMPS).mkdir(parents=True, exist_ok=True)
    with (folder / STAMPS / "lock").open("a") as file:
        if not lock(file):
            raise RunError(
                f"Another process is running the experiment in {folder}. "
                "Wait until it is done, or name another folder."
            )
        for number, stage in enumerate(stages, start=1):
            before = {other.name: identities[other.name] for other in stage.after}
            content = json.dumps([stage.name, stage.settings, before], sort_keys=True, default=str)
            fingerprint = hashlib.sha256(content.encode()).hexdigest()[:DIGITS]
            path = folder / STAMPS / f"{stage.name.replace(' ', '-')}.json"
            stamp, count = _read_stamp(path), {"number": number, "total": len(stages)}
            is_same = stamp.get("fingerprint") == fingerprint
            if is_same and stamp.get("is_done") and all(output.exists() for output in stage.outputs):
                identities[stage.name] = str(stamp["identity"])
                progress.skip(stage.name, **count)
                continue
            for output in () if is_same else stage.outputs:
                shutil.rmtree(output) if output.is_dir() else output.unlink(missing_ok=True)
            why = "" if is_same else _describe_changes(stamp.get("settings"), stage.settings)
            progress.begin(stage.name, **count, resumed=is_same, why=why)
            before_s = float(stamp.get("took_s", 0)) if is_same else 0.0
            stamp = _run_stage(stage, path, fingerprint, before_s=before_s)
            identities[stage.name] = stamp["identity"]
            progress.end(stage.name, **count, took_s=stamp["took_s"])
            ran.append(stage.name)
    return ran


def _read_stamp(path: Path) -> dict[str, Any]:
    """Reads the stamp of a stage; empty if it is damaged, so that the stage runs again."""
    stamp = read_json_or_empty(path)
    is_whole = {"fingerprint", "is_done"} <= stamp.keys()
    return stamp if is_whole and (not stamp["is_done"] or "identity" in stamp) else {}


def _run_stage(stage: Stage, path: Path, fingerprint: str, *, before_s: float) -> dict[str, Any]:
    """Does the work of a stage between its two stamps; returns the second."""
    stamp = {
        "name": stage.name,
        "settings": stage.settings,
        "bidibeam": __version__,
        "fingerprint": fingerprint,
        "is_done": False,
    }
    write_json(path, stamp)
    began = time.perf_counter()
    stage.work()
    missing = [str(output) for output in stage.outputs if not output.exists()]
    if missing:
        raise RunError(f"The stage {stage.name!r} ended without making {', '.join(missing)}.")
    identity = stage.identity() if stage.identity is not None else fingerprint
    took_s = round(before_s + time.perf_counter() - began, 1)
    stamp |= {"is_done": True, "identity": identity, "took_s": took_s}
    write_json(path, stamp)
    return stamp


def json_stage(
    name: str,
    settings: Mapping[str, Any],
    path: Path,
    compute: Callable[[], Any],
    *,
    after: Sequence[Stage] = (),
    by_content: bool = False,
) -> Stage:
    """Makes a stage that writes what it computes as JSON; if `by_content`, that alone identifies it."""

    def work() -> None:
        write_json(path, compute())

    identity = identify_content(path) if by_content else None
    return Stage(name, settings, (path,), work, after=after, identity=identity)


def identify_content(*paths: Path) -> Callable[[], str]:
    """Makes an identity of the content of files."""
    return lambda: " ".join(map(hash_content, paths))


def hash_content(path: Path) -> str:
    """Returns the first digits of the SHA-256 of what a file holds, by which a stage knows it."""
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
    old, new = flatten(before), flatten(json.loads(json.dumps(now, default=str)))
    changed = {
        key: f"{key}: {old.get(key)} -> {new.get(key)}"
        for key in {**old, **new}
        if old.get(key) != new.get(key)
    }
    shown = [text if len(text) <= MAX_CHANGE else f"another {key}" for key, text in changed.items()]
    more = f" and {len(changed) - MAX_CHANGES} more" if len(changed) > MAX_CHANGES else ""
    return ", ".join(shown[:MAX_CHANGES]) + more if shown else "what it is made from has changed"
