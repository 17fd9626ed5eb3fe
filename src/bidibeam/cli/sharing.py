"""--processes and --devices: which processes share a command's work, and where each of them computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, cycle, islice
from typing import Any, TypeVar

from bidibeam.cli.inputs import count_cores
from bidibeam.decoding.decoder import split_batches
from bidibeam.errors import SettingsError
from bidibeam.processes import Recipe, sharing

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Devices:
    """Where processes compute, this one first; None leaves a device to the model."""

    devices: tuple[str | None, ...] = (None,)

    @property
    def processes(self) -> int:
        """How many there are."""
        return len(self.devices)

    @property
    def threads(self) -> int | None:
        """How many threads each computes with; None leaves them as they are."""
        return max(1, count_cores() // self.processes) if self.processes > 1 else None

    def use_threads(self) -> None:
        """Let this process compute with its share of the cores."""
        if self.threads is not None:
            import torch

            torch.set_num_threads(self.threads)

    @contextmanager
    def share(
        self,
        stream: Callable[[Iterable[Item]], Iterable[Result]],
        recipe: Recipe[Sequence[Item], list[Result]],
        batch_size: int,
    ) -> Iterator[Callable[[Iterable[Item]], Iterable[Result]]]:
        """Yield a function that gives what `stream` gives of items, with the work shared out in batches.

        The other processes make theirs of a batch by the recipe.
        """
        if self.processes == 1:
            yield stream
            return
        recipes = [recipe.on(device) for device in self.devices[1:]]
        with sharing(lambda batch: [*stream(batch)], recipes) as share:
            yield lambda items: chain.from_iterable(share(split_batches(items, batch_size)))


def take_places(flags: dict[str, Any]) -> Devices:
    """Take --processes and --devices out of a command's parameters; --device becomes the first of them."""
    processes, named = flags.pop("processes"), flags.pop("devices", None)
    if flags.get("device_map") is not None and (named is not None or (processes or 1) > 1):
        raise SettingsError("--device-map spreads one model out: leave out --processes and --devices.")
    if named is None:
        return Devices((flags.get("device"),) * (processes or 1))
    devices = [name.strip() for name in named.split(",")]
    if flags.get("device") is not None:
        raise SettingsError(f"--devices {named} says where to compute: leave out --device.")
    if not all(devices):
        raise SettingsError(f"--devices must be names with commas between them, not {named!r}.")
    if processes is not None and processes < len(devices):
        raise SettingsError(
            f"--processes {processes} would leave some of --devices {named} idle: name fewer, or give at "
            f"least {len(devices)} processes."
        )
    _check_devices(devices)
    flags["device"] = devices[0]
    return Devices(tuple(islice(cycle(devices), processes or len(devices))))


def _check_devices(devices: list[str]) -> None:
    """Refuse devices that are not there, without using GPUs that are."""
    import torch

    from bidibeam.models.checkpoint import find_device

    there = torch.cuda.device_count()
    for name in devices:
        kind, _, number = name.partition(":")
        if kind == "cuda" and number.isdecimal() and int(number) >= there:
            known = ", ".join(f"cuda:{index}" for index in range(there)) or "none"
            raise SettingsError(
                f"--devices asks for {name}, and the GPUs here are: {known}. Name those, or leave it out."
            )
        if kind != "cuda" or not there:
            find_device(name)
