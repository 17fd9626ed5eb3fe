"""When a search is over. A new rule is a file here and a line in `STOPPING`."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING

from bidibeam.errors import SettingsError
from bidibeam.registry import Registry

if TYPE_CHECKING:
    from bidibeam.protocols import StoppingRule

STOPPING: Registry[StoppingRule] = Registry(
    "stopping rule",
    group="bidibeam.stopping",
    locations={
        "shrinking": "bidibeam.search.stopping.shrinking:Shrinking",
        "constant": "bidibeam.search.stopping.constant:Constant",
        "patience": "bidibeam.search.stopping.patience:Patience",
        "heuristic": "bidibeam.search.stopping.heuristic:Heuristic",
        "optimal": "bidibeam.search.stopping.optimal:Optimal",
        "exhaust": "bidibeam.search.stopping.exhaust:Exhaust",
    },
)


def stopping_rule(spec: str) -> StoppingRule:
    """The rule that `spec` names: "shrinking", or with the rule's argument, "patience=1.5".

    Raises:
        UnknownNameError: If no rule has that name.
        SettingsError: If the argument is not a number the rule accepts, or the rule takes none.
    """
    if not isinstance(spec, str):
        raise SettingsError(f"--stopping must be a name, not {spec!r}.")
    name, equals, argument = spec.partition("=")
    factory = STOPPING.get(name)
    if not equals:
        return factory()
    if not signature(factory).parameters:
        raise SettingsError(f"--stopping {spec}: the rule {name!r} takes no argument; write {name!r}.")
    try:
        number = float(argument)
    except ValueError:
        raise SettingsError(f"--stopping {spec}: {argument!r} is not a number.") from None
    return factory(number)
