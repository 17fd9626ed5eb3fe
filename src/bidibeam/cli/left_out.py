"""What an analysis had to do without, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence


def blamed(reason: str, systems: Sequence[str]) -> str:
    """Why something cannot be, put down to --systems where that is what leaves a system out."""
    needed = re.match(r"It needs the system '([^']+)'", reason)
    if not systems or needed is None or needed[1] in systems:
        return reason
    return f"{needed[0]}, and --systems leaves it out."


def say_what_is_missing(systems: Mapping[str, str], analyses: Mapping[str, str], *, is_tuned: bool) -> None:
    """One sentence for each reason."""
    from bidibeam.cli.console import console

    if not is_tuned:
        console.print(
            "Note: bidis has the lambda 1, which nobody tuned; --tuned has a better one.", style="dim"
        )
    untuned = systems.get("vbs-tuned")  # says the same of all that must be tuned, where nothing is
    lacking = {
        name: untuned if untuned and "must be tuned first" in reason else reason
        for name, reason in systems.items()
    }
    for kind, left_out in (("system", lacking), ("analysis", analyses)):
        for names, reason in _by_reason(left_out):
            kinds = kind if len(names) == 1 else {"system": "systems", "analysis": "analyses"}[kind]
            told = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
            reason = re.sub(r"^It needs\b", "They need", reason) if len(names) > 1 else reason
            console.print(f"Left out the {kinds} {told}: {reason}", style="dim", soft_wrap=True)


def _by_reason(left_out: Mapping[str, str]) -> Iterator[tuple[list[str], str]]:
    """Names that were left out for the same reason, whichever of them it mentions, and the reason."""
    groups: dict[str, list[str]] = {}
    for name, reason in left_out.items():
        shared = re.sub(rf"(?<![\w'-]){re.escape(name)}(?![\w'-])", "each of them", reason)
        groups.setdefault(shared, []).append(name)
    for shared, names in groups.items():
        yield names, shared if len(names) > 1 else left_out[names[0]]
