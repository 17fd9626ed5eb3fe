"""The control of `bidibeam evaluate`: lists with a second regular network in the reverse one's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from bidibeam.cli import inputs
from bidibeam.cli.console import note, track
from bidibeam.errors import SettingsError
from bidibeam.fields import show_value
from bidibeam.hypotheses import Direction

if TYPE_CHECKING:
    from bidibeam.interchange.reading import Replies
    from bidibeam.models.base import Model
    from bidibeam.search.settings import SearchSettings
    from bidibeam.strategies.settings import StrategySettings


def find_controlled(settings: Sequence[StrategySettings], writer: Model | None) -> list[StrategySettings]:
    """The strategies that a control can stand in for: of both ends.

    Scores of reverse hypotheses need the model that wrote the lists.
    """
    of_both = [each for each in settings if len(each.requirements.used) > 1]
    if not of_both:
        raise SettingsError(
            "--control is for strategies of both ends, such as bidis: none is named by --strategy."
        )
    for each in of_both:
        if Direction.REVERSE in each.requirements.scored and writer is None:
            raise SettingsError(
                f"{each.system} needs the first network's scores of what the control writes: name the model "
                "that wrote the lists by --model."
            )
    return of_both


def search_with_control(files: Sequence[Replies], name: str, writer: Model | None) -> list[Replies]:
    """The same files with what a control says in place of the reverse direction."""
    from bidibeam.api.scoring import find_foreign, use_control
    from bidibeam.models.control import check_control, check_regular, describe_other_data

    control = inputs.load_model(name)
    check_regular(control)
    for file in files:
        _check_lists(file, name, control, writer)
    if writer is None:
        note(
            f"whether {name} was trained on the same data, with the same tokens, is not known: --model, "
            "naming the model that wrote the lists, lets it be checked."
        )
    else:
        check_control(writer, control)
        ours, theirs = (each.data.get("fingerprint") for each in (control, writer))
        if told := describe_other_data(name, control=ours, model=theirs):
            note(told)
    completed = []
    for file in files:
        if (foreign := find_foreign(file.beams, control)) is not None:
            note(
                f"{name} does not know all words of {file.file}, such as those of {show_value(foreign)}: it "
                "was probably trained on other data, so the comparison is invalid."
            )
        search = _find_search(file, name)
        used = use_control(file.beams, control, control.batch_size, search=search, writer=writer)
        lists = track(used, len(file.beams), "scoring with the control")
        signature = file.signature.extended(control=control.fingerprint)
        completed.append(replace(file, beams=list(lists), signature=signature))
    return completed


def _check_lists(file: Replies, name: str, control: Model, writer: Model | None) -> None:
    """Refuse a control that wrote the lists itself, and a model that did not."""
    known = file.weights
    if known and known & {*control.fingerprint.split("+")}:
        raise SettingsError(
            f"{name} wrote the lists of {file.file}: a control must have been trained with another seed."
        )
    if known and writer is not None and not known & {*writer.fingerprint.split("+")}:
        raise SettingsError(
            f"--model {writer.name} did not write the lists of {file.file}: its weights are "
            f"{writer.fingerprint}, and theirs {'+'.join(sorted(known))}. Name the model that did."
        )


def _find_search(file: Replies, name: str) -> SearchSettings | None:
    """How the lists were searched, as far as they say; a note where they have reverse ones and do not."""
    from bidibeam.search.settings import SearchSettings

    found = SearchSettings.from_signature(file.written_by)
    if found is None and any(line.reverse for line in file.beams):
        note(f"{file.file} does not say how its lists were searched: {name} searches with its own defaults.")
    return found
