"""Several choices for one prompt, `n` of the OpenAI API and of servers that speak like it, in JSON lines.

A line is what the server answered, a chat completion or a completion, alone or as the Batch API wraps it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import itemgetter
from typing import IO, TYPE_CHECKING, ClassVar

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction, Hypothesis
from bidibeam.interchange.formats import OneDirection, check_source, make_hypothesis
from bidibeam.interchange.on_disk import IdsOnDisk
from bidibeam.interchange.text_lines import JsonObject, LineSource, guess_object, open_lines, to_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MODEL = "bidibeam"


@dataclass(frozen=True)
class OpenAI(OneDirection):
    """Responses of the OpenAI API, one a line; each choice is a hypothesis."""

    endings: ClassVar[tuple[str, ...]] = (".jsonl",)
    has_tokens: ClassVar[bool | None] = False
    carries: ClassVar[tuple[str, ...]] = ("id", "finished")

    @staticmethod
    def looks_like(lines: Sequence[str]) -> bool:
        """Whether the first line is an object with choices, or a request of a batch."""
        value = guess_object(lines)
        is_ours = any(direction in value for direction in Direction)
        return not is_ours and ("choices" in value or "custom_id" in value)

    def read(self, source: LineSource, *, allow_empty: bool = False) -> Iterator[Beams]:
        """Read a file one source at a time, choices by their index; the id is that of the request."""
        ids = IdsOnDisk()
        for entry in open_lines(source).objects():
            indexed: list[tuple[int, Hypothesis]] = []
            choices: list[object] = _unwrap(entry).require("choices", list)
            for at, item in enumerate(choices):
                choice = JsonObject.of(item, f"{entry.place}, choices[{at}]")
                index = choice.get("index", int)
                indexed.append((at if index is None else index, _read_choice(choice)))
            indexed.sort(key=itemgetter(0))
            id_ = entry.get_id("id" if entry.fields.get("custom_id") is None else "custom_id")
            beams = self.make_beams(id_, (each for _, each in indexed), line=entry.number)
            check_source(beams, entry.place, ids=ids, allow_empty=allow_empty)
            yield beams

    def write(self, beams: Iterable[Beams], stream: IO[str]) -> None:
        """Write a chat completion for each source; log-probabilities are those of tokens there, so none."""
        for each in beams:
            choices = [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": hypothesis.text, "refusal": None},
                    "logprobs": None,
                    "finish_reason": "stop" if hypothesis.finished else "length",
                }
                for index, hypothesis in enumerate(self.list_to_write(each))
            ]
            head = {"id": each.id, "object": "chat.completion", "created": 0, "model": MODEL}
            stream.write(f"{to_line({**head, 'choices': choices})}\n")


def _unwrap(entry: JsonObject) -> JsonObject:
    """The response itself, out of what the Batch API wraps it in."""
    value, response = entry.fields, entry.fields.get("response")
    if "choices" in value or not ("response" in value or "error" in value):
        body: object = value
    else:
        body = response.get("body") if isinstance(response, dict) else None
    error = value.get("error") or (body.get("error") if isinstance(body, dict) else None)
    if error is not None or body is None:
        said = error.get("message") if isinstance(error, dict) else None
        raise InputError(
            f"{entry.place}: this request failed{f' ({said})' if said else ''}, so it has no choices. Leave "
            "the line out, or ask again."
        )
    return JsonObject(JsonObject({"body": body}, entry.place).require("body", dict), entry.place)


def _read_choice(choice: JsonObject) -> Hypothesis:
    message = choice.fields.get("message")
    text = JsonObject(message, choice.place).get("content", str) if isinstance(message, dict) else None
    if text is None:
        text = choice.get("text", str)
    if text is None:
        raise InputError(f'{choice.place}: there is no text, neither in "message", "content" nor in "text".')
    log_probs = _read_log_probs(choice.fields.get("logprobs"), f"{choice.place}, logprobs")
    return make_hypothesis(
        text,
        log_prob=math.fsum(log_probs) if log_probs else None,
        length=len(log_probs) or None,
        finished=choice.get("finish_reason", str) != "length",
    )


def _read_log_probs(value: object, place: str) -> list[float]:
    """The log-probabilities of a choice's tokens; none where one is not known, as with an echoed prompt."""
    if not isinstance(value, dict):
        return []
    entry = JsonObject(value, place)
    items = entry.get("content", list) or entry.get("token_logprobs", list)
    numbers = [item.get("logprob") if isinstance(item, dict) else item for item in items or ()]
    if None in numbers:
        return []
    return [JsonObject({"logprob": number}, place).require("logprob", float) for number in numbers]
