"""Names to implementations. A new one is a file and a line; other packages add theirs by entry point."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from bidibeam.errors import UnknownNameError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from importlib.metadata import EntryPoint

T = TypeVar("T")
IMPORT_ADVICE = "Write package.module:name, and make sure that Python finds the module from here."


@cache
def _find_plugins(find: Callable[..., Iterable[EntryPoint]], group: str) -> Mapping[str, str]:
    """What other packages add to a group; what is installed is looked through once, as that takes long."""
    return {point.name: point.value for point in find(group=group)}


def suggest(name: str, known: Iterable[str]) -> str:
    """A question after the nearest of the known names, if one is near; the same letters are nearest."""
    names = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), names)
    close.sort(key=lambda each: sorted(each) != sorted(name.lower()))
    return f" Did you mean {names[close[0]]!r}?" if close else ""


def import_named(kind: str, location: str, advice: str = IMPORT_ADVICE) -> Any:
    """What stands at "package.module:name", where a user or another package has written it.

    Raises:
        UnknownNameError: If it cannot be imported; `kind` is what the message calls it, which ends in advice.
    """
    module, _, attribute = location.partition(":")
    try:
        value: Any = import_module(module)
        for part in attribute.split("."):
            value = getattr(value, part)
    except Exception as error:  # whatever an import may run into
        raise UnknownNameError(f"The {kind} {location!r} cannot be imported: {error}. {advice}") from error
    return value


class Registry(Generic[T]):
    """Factories by name, imported only when asked for.

    Args:
        kind: What the names stand for, as a message would say it ("stopping rule").
        group: Entry-point group through which other packages add names.
        locations: Name to "module:attribute".
    """

    def __init__(self, kind: str, *, group: str, locations: Mapping[str, str]) -> None:
        self.kind = kind
        self._group = group
        self._locations = dict(locations)

    def names(self) -> list[str]:
        """Every name, ours in the order listed, then those of other packages."""
        return [*self._locations, *sorted(set(self._plugins()) - set(self._locations))]

    def get(self, name: str) -> Callable[..., T]:
        """The factory behind a name.

        Raises:
            UnknownNameError: If nothing has that name; the message lists what does.
        """
        location = self._locations.get(name) or self._plugins().get(name)
        if location is None:
            names = self.names()
            hint, choices = suggest(name, names), ", ".join(names)
            raise UnknownNameError(f"Unknown {self.kind} {name!r}.{hint} Choose one of: {choices}.")
        if name in self._locations:
            module, _, attribute = location.partition(":")
            return cast("Callable[..., T]", getattr(import_module(module), attribute))
        advice = "An entry point of another package says so: mend or uninstall that package."
        return cast("Callable[..., T]", import_named(self.kind, location, advice))

    def create(self, name: str, *args: Any, **options: Any) -> T:
        """Build what a name stands for."""
        return self.get(name)(*args, **options)

    def _plugins(self) -> Mapping[str, str]:
        return _find_plugins(entry_points, self._group)
