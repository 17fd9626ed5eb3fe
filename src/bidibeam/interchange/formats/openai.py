"""Several choices for one prompt, `n` of the OpenAI API and of servers that speak like it, in JSON lines.

A line is what the server answered, a chat completion or a completion, alone or as the Batch API wraps it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, ClassVar

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis, NBest
from bidibeam.interchange.formats import Format, check_found, list_to_write, make_hypothesis
from bidibeam.interchange.text_lines import (
    LineSource,
    describe,
    get_field,
    get_id,
    get_optional,
    guess_object,
    numbered_objects,
    to_line,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MODEL = "bidibeam"


@dataclass(frozen=True)
class OpenAI(Format):
    """Responses of the OpenAI API, one a line; each choice is a hypothesis.

    Args:
        direction: Whose hypotheses the file holds.
    """

    direction: Direction = Direction.REGULAR

    endings: ClassVar[tuple[str, ...]] = (".jsonl",)
    has_tokens: ClassVar[bool | None] = False
    carries: ClassVar[tuple[str, ...]] = ("id", "finished")

    @staticmethod
    def looks_like(lines: Sequence[str]) -> bool:
        """Whether the first line is an object with choices, or a request of a batch."""
        value = guess_object(lines)
        is_ours = any(direction in value for direction in Direction)
        return not is_ours and ("choices" in value or "custom_id" in value)

    def read_numbered(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[tuple[int, Beams]]:
        """Read a file one source at a time, choices by their index.

        Raises:
            InputError: With file and line, if a line is not such a response, a request failed, or two have
                the same id.
        """
        line_of_id: dict[str, int] = {}
        for number, place, value in numbered_objects(source):
            id_, found = _read_response(value, number, place)
            earlier = line_of_id.setdefault(id_, number)
            if earlier != number:
                raise InputError(
                    f"{place}: the id {id_!r} stands on line {earlier} already; every request needs its own."
                )
            check_found(allow_empty or found, id_, place)
            yield number, Beams(id_, "").with_hypotheses(self.direction, NBest(found))

    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write a chat completion for each source; log-probabilities are those of tokens there, so none."""
        for each in beams:
            value = {
                "id": each.id,
                "object": "chat.completion",
                "created": 0,
                "model": MODEL,
                "choices": [
                    {
                        "index": index,
                        "message": {"role": "assistant", "content": found.text, "refusal": None},
                        "logprobs": None,
                        "finish_reason": "stop" if found.finished else "length",
                    }
                    for index, found in enumerate(list_to_write(each, self.direction))
                ],
            }
            stream.write(f"{to_line(value)}\n")


def _read_response(value: Mapping[str, Any], number: int, place: str) -> tuple[str, tuple[Hypothesis, ...]]:
    """The id of a response, and its choices in order."""
    body = _body(value, place)
    named = value if value.get("custom_id") is None else {"id": value["custom_id"]}
    choices: list[object] = get_field(body, "choices", list, place)
    indexed = []
    for at, choice in enumerate(choices):
        where = f"{place}, choices[{at}]"
        if not isinstance(choice, dict):
            raise InputError(f"{where}: expected an object, received {describe(choice)}.")
        index = get_optional(choice, "index", int, where)
        indexed.append((at if index is None else index, at, _read_choice(choice, where)))
    return get_id(named, number, place), tuple(found for *_, found in sorted(indexed, key=lambda it: it[:2]))


def _body(value: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """The response itself, out of what the Batch API wraps it in."""
    response = value.get("response")
    if "choices" in value or not ("response" in value or "error" in value):
        body: object = value
    else:
        body = response.get("body") if isinstance(response, dict) else None
    error = value.get("error") or (body.get("error") if isinstance(body, dict) else None)
    if error is not None or body is None:
        said = error.get("message") if isinstance(error, dict) else None
        raise InputError(
            f"{place}: this request failed{f' ({said})' if said else ''}, so it has no choices. Leave the "
            "line out, or ask again."
        )
    if not isinstance(body, dict):
        raise InputError(f'{place}: "body" must be an object, received {describe(body)}.')
    return body


def _read_choice(choice: Mapping[str, Any], place: str) -> Hypothesis:
    message = choice.get("message")
    text = get_optional(message, "content", str, place) if isinstance(message, dict) else None
    if text is None:
        text = get_optional(choice, "text", str, place)
    if text is None:
        raise InputError(f'{place}: there is no text, neither in "message", "content" nor in "text".')
    log_probs = _log_probs(choice.get("logprobs"), place)
    return make_hypothesis(
        text,
        log_prob=math.fsum(log_probs) if log_probs else None,
        length=len(log_probs) or None,
        finished=get_optional(choice, "finish_reason", str, place) != "length",
    )


def _log_probs(value: object, place: str) -> list[float]:
    """The log-probabilities of a choice's tokens; none where one is not known, as with an echoed prompt."""
    if not isinstance(value, dict):
        return []
    where = f"{place}, logprobs"
    items = (
        get_optional(value, "content", list, where)
        or get_optional(value, "token_logprobs", list, where)
        or []
    )
    numbers = [item.get("logprob") if isinstance(item, dict) else item for item in items]
    if any(number is None for number in numbers):
        return []
    return [get_field({"logprob": number}, "logprob", float, where) for number in numbers]
