"""OpenAI's shapes: chat and text completions of the same searches, so that its clients work unchanged.

A model here has no memory: the last message of the user is the source, and earlier messages are not read.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal
from uuid import uuid4

from pydantic import BaseModel, ConfigDict, Field

from bidibeam.hypotheses import Direction
from bidibeam.serving.batching import Task
from bidibeam.serving.errors import RequestError
from bidibeam.serving.requests import SearchFields, Steps, check_limit, check_sources, limited
from bidibeam.serving.service import freeze

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bidibeam.decoding.decoder import Answer
    from bidibeam.hypotheses import Ranked
    from bidibeam.models.base import Model
    from bidibeam.serving.service import Asked, Service
    from bidibeam.serving.settings import RequestLimits

MOST_ALTERNATIVES = 20
STARTED_S = int(time.time())


class StreamOptions(BaseModel):
    """What a stream ends with."""

    include_usage: bool | None = False


class CompletionFields(SearchFields):
    """What both kinds of completion have; other fields, sampling's among them, are not read."""

    model_config = ConfigDict(extra="ignore")

    model: str = Field(max_length=200, description="A name of /v1/models.")
    n: Annotated[int, Field(ge=1)] | None = Field(
        1,
        description="How many of the hypotheses to return, the reply first.",
        json_schema_extra=limited(integer="beam_size"),
    )
    max_tokens: Steps | None = Field(
        None,
        description="The most tokens of a reply, the end token counted.",
        json_schema_extra=limited(integer="reply_tokens"),
    )
    stream: bool | None = Field(False, description="Send server-sent events, each reply in one chunk.")
    stream_options: StreamOptions | None = None

    @property
    def count(self) -> int:
        """How many of the hypotheses are wanted."""
        return self.n or 1

    @property
    def steps(self) -> tuple[str, int | None]:
        """The field that says T, and T."""
        return "max_tokens", self.max_tokens

    @property
    def with_log_probs(self) -> bool:
        """Whether log-probabilities of tokens are wanted."""
        given = getattr(self, "logprobs", None)  # true or false of a chat, a number of texts, where 0 is one
        return given is not None and given is not False

    def to_asked(self, service: Service, limits: RequestLimits, *, replies_only: bool = True) -> Asked:
        """Returns how the sources are to be answered, within the limits."""
        name, steps = self.steps
        check_limit(name, steps or 0, limits.reply_tokens)
        check_limit("n", self.count, limits.beam_size)
        fields: dict[str, Any] = {} if steps is None else {"max_length": steps}
        if steps == 1 and self.min_length is None:  # the end alone
            fields["min_length"] = 0
        is_one = replies_only and self.count == 1 and not self.with_log_probs
        asked = SearchFields.to_asked(self, service, limits, replies_only=is_one)
        return replace(asked, search=freeze({**json.loads(asked.search), **fields}))


class Message(BaseModel):
    """A message of a conversation; of those that are not read, the content may be anything."""

    role: Literal["system", "developer", "user", "assistant", "tool", "function"]
    content: str | list[dict[str, Any]] | None = None

    def read_text(self) -> str:
        """Returns the content as one text."""
        parts = self.content or ""
        if isinstance(parts, str):
            return parts
        texts = [part.get("text") for part in parts if part.get("type") == "text"]
        if len(texts) < len(parts) or not all(isinstance(text, str) for text in texts):
            raise RequestError("The last message of the user may hold texts alone.", "messages")
        return "".join(map(str, texts))


class ChatRequest(CompletionFields):
    """A conversation, whose last message of the user is answered."""

    messages: list[Message] = Field(
        min_length=1,
        max_length=10_000,
        description="The last of the user's is the source; none before it is read.",
        examples=[[{"role": "user", "content": "i have an exam tomorrow."}]],
    )
    max_completion_tokens: Steps | None = Field(
        None, description="The same as max_tokens.", json_schema_extra=limited(integer="reply_tokens")
    )
    logprobs: bool | None = Field(None, description="Whether each token's log-probability comes along.")
    top_logprobs: int | None = Field(
        None, ge=0, le=MOST_ALTERNATIVES, description="No alternatives are given."
    )
    tools: list[Any] | None = Field(None, description="Refused, unless it is empty.")
    response_format: dict[str, Any] | None = Field(None, description="Refused, unless its type is text.")

    @property
    def steps(self) -> tuple[str, int | None]:
        """The field that says T, and T."""
        if self.max_completion_tokens is not None:
            return "max_completion_tokens", self.max_completion_tokens
        return super().steps

    def check_supported(self) -> None:
        """Refuses what a client would rely on in vain."""
        if self.tools:
            raise RequestError("A beam search calls no tools: leave tools out.", "tools")
        if self.response_format and self.response_format.get("type") != "text":
            raise RequestError(
                "Replies are texts as the model writes them: leave response_format out.", "response_format"
            )
        if self.top_logprobs and not self.logprobs:
            raise RequestError("top_logprobs needs logprobs to be true.", "top_logprobs")

    def read_sources(self, limits: RequestLimits) -> list[str]:
        """Returns the only source: what the user said last."""
        self.check_supported()
        said = [message for message in self.messages if message.role == "user"]
        if not said:
            raise RequestError(
                "messages has none of the user, and the last of those is the source.", "messages"
            )
        source = said[-1].read_text()
        check_sources([source], limits, "messages", called="last message of the user")
        return [source]


class CompletionRequest(CompletionFields):
    """Texts to answer."""

    prompt: str | list[str] = Field(
        description="The source, or several.",
        examples=["how are you?"],
        json_schema_extra=limited(string="source_characters", array="sources"),
    )
    logprobs: int | None = Field(
        None, ge=0, le=MOST_ALTERNATIVES, description="Any number: each token's log-probability comes along."
    )
    echo: bool | None = Field(None, description="Refused, unless it is false.")
    suffix: str | None = Field(None, description="Refused, unless it is empty.")

    def read_sources(self, limits: RequestLimits) -> list[str]:
        """Returns the sources."""
        if self.echo or self.suffix:
            name = "echo" if self.echo else "suffix"
            raise RequestError(f"A reply is what the model writes: leave {name} out.", name)
        sources = [self.prompt] if isinstance(self.prompt, str) else self.prompt
        if not sources:
            raise RequestError("prompt is an empty list: give a source at least.", "prompt")
        check_sources(sources, limits, "prompt", called="prompt")
        return sources


@dataclass(frozen=True)
class SourceChoices:
    """The choices of one source, best first, and how many tokens were read and written."""

    choices: list[dict[str, Any]]
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class CompletionJob:
    """How one request's sources become choices.

    Args:
        model: The model, which may score tokens too.
        answering: The work of answering sources.
        is_chat: Whether choices are messages, or texts.
        n: How many hypotheses of each source are choices.
        with_log_probs: Whether each choice has the log-probabilities of its tokens.
    """

    model: Model
    answering: Task
    is_chat: bool
    n: int
    with_log_probs: bool

    def task(self) -> Task:
        """Returns the task of answering sources: each becomes its `SourceChoices`."""
        key = (self.is_chat, self.n, self.with_log_probs, self.answering.key)

        def run(sources: Sequence[str]) -> list[SourceChoices]:
            return [*map(self._complete, self.answering.run(sources))]

        return Task("complete", key, run, self.answering.facts)

    def assemble(self, completed: Sequence[SourceChoices]) -> dict[str, Any]:
        """Returns the answer to the request; each source's choices stand behind those of the one before."""
        for each in completed:
            if len(each.choices) < self.n:
                raise RequestError(
                    f"n is {self.n}, and {len(each.choices)} hypotheses may answer: raise beam_size, or "
                    "lower n.",
                    "n",
                )
        every = [choice for each in completed for choice in each.choices]
        read, written = (
            sum(getattr(each, name) for each in completed) for name in ("prompt_tokens", "completion_tokens")
        )
        return {
            "id": f"{'chatcmpl' if self.is_chat else 'cmpl'}-{uuid4().hex}",
            "object": "chat.completion" if self.is_chat else "text_completion",
            "created": int(time.time()),
            "model": self.answering.facts["model"],
            "choices": [{"index": index, **choice} for index, choice in enumerate(every)],
            "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
            "system_fingerprint": self.answering.facts["signature"],
        }

    def read_replies(self, whole: dict[str, Any]) -> list[str]:
        """Returns the texts of an answer's choices."""
        choices = whole["choices"]
        return [choice["message"]["content"] if self.is_chat else choice["text"] for choice in choices]

    def _complete(self, answer: Answer) -> SourceChoices:
        entries, source = answer.ranking.entries[: self.n], answer.beams.source
        scorer = self.model.sequence_scorer(self.model.directions[0])
        (read,) = scorer.encode([source])  # in the tokens of replies, with an end
        written = sum(len(entry.hypothesis.ids) for entry in entries)
        return SourceChoices([self._write_choice(source, each) for each in entries], len(read) - 1, written)

    def _write_choice(self, source: str, entry: Ranked) -> dict[str, Any]:
        hypothesis = entry.hypothesis
        said = {"role": "assistant", "content": hypothesis.text, "refusal": None}
        return {
            **({"message": said} if self.is_chat else {"text": hypothesis.text}),
            "logprobs": self._write_log_probs(source, entry) if self.with_log_probs else None,
            "finish_reason": "stop" if hypothesis.finished else "length",
            "bidibeam": {
                "score": entry.score,
                "direction": entry.direction.value,
                "log_prob": hypothesis.log_prob,
                "other_log_prob": hypothesis.other_log_prob,
            },
        }

    def _write_log_probs(self, source: str, entry: Ranked) -> dict[str, Any]:
        """Returns the tokens with their log-probabilities; alternatives to each are not computed."""
        pieces = split_text(self.model, entry)
        values = token_log_probs(self.model, source, entry)[: len(pieces)]
        if self.is_chat:
            content = [
                {"token": piece, "logprob": value, "bytes": [*piece.encode()], "top_logprobs": []}
                for piece, value in zip(pieces, values, strict=True)
            ]
            return {"content": content, "refusal": None}
        offsets = [sum(map(len, pieces[:place])) for place in range(len(pieces))]
        top = [{piece: value} for piece, value in zip(pieces, values, strict=True)]
        return {"tokens": pieces, "token_logprobs": values, "top_logprobs": top, "text_offset": offsets}


def token_log_probs(model: Model, source: str, entry: Ranked) -> list[float]:
    """Returns the log-probability of each id of a hypothesis, under the direction that wrote it.

    In reading order; what a direction writes first depends on nothing else of the hypothesis.
    """
    ids, direction = entry.hypothesis.ids, entry.direction
    scorer = model.sequence_scorer(direction)
    end = (scorer.end_id,) if ids and ids[-1] == scorer.end_id else ()
    written = direction.arrange(ids[: len(ids) - len(end)])
    parts = [direction.arrange(written[:count]) for count in range(1, len(written) + 1)]
    (sums,) = scorer.log_probs([source], [[*parts, *([ids] if end else [])]])
    steps = [after - before for before, after in zip([0.0, *sums], sums, strict=False)]
    own, last = steps[: len(written)], steps[len(written) :]
    return [*(own if direction is Direction.REGULAR else own[::-1]), *last]


def split_text(model: Model, entry: Ranked) -> list[str]:
    """Returns the piece of a hypothesis' text that each of its ids adds; together they are the text."""
    hypothesis, tokenizer = entry.hypothesis, model.tokenizer
    end = model.sequence_scorer(entry.direction).end_id
    ids = [one for one in hypothesis.ids if one != end]
    pieces, reached = [], 0
    for count in range(1, len(ids) + 1):
        if hasattr(tokenizer, "decode"):
            begun = tokenizer.decode(ids[:count], skip_special_tokens=True)
        else:
            begun = tokenizer.text(tokenizer.tokens(ids[:count]))
        is_last = count == len(ids)  # which takes what is left
        until = len(hypothesis.text) if is_last else max(reached, _count_common(begun, hypothesis.text))
        pieces.append(hypothesis.text[reached:until])
        reached = until
    return pieces


def _count_common(one: str, other: str) -> int:
    """Returns how many first characters two texts have in common."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (ours, theirs) in pairs if ours != theirs), min(len(one), len(other)))


def stream_events(whole: dict[str, Any], *, with_usage: bool) -> Iterator[str]:
    """Yields an answer as server-sent events: each choice's role, its text in one chunk, its end."""
    is_chat = whole["object"] == "chat.completion"
    head = {key: whole[key] for key in ("id", "created", "model", "system_fingerprint")}
    head["object"] = "chat.completion.chunk" if is_chat else "text_completion"
    last = {"usage": None} if with_usage else {}

    def event(choices: list[dict[str, Any]], **more: Any) -> str:
        return f"data: {json.dumps({**head, 'choices': choices, **last, **more})}\n\n"

    for choice in whole["choices"]:
        rest = {"index": choice["index"], "logprobs": None, "finish_reason": None}
        if is_chat:
            yield event([{**rest, "delta": {"role": "assistant", "content": ""}}])
            said = {"delta": {"content": choice["message"]["content"]}}
            done: dict[str, Any] = {"delta": {}}
        else:
            said, done = {"text": choice["text"]}, {"text": ""}
        yield event([{**rest, **said, "logprobs": choice["logprobs"], "bidibeam": choice["bidibeam"]}])
        yield event([{**rest, **done, "finish_reason": choice["finish_reason"]}])
    if with_usage:
        yield event([], usage=whole["usage"])
    yield "data: [DONE]\n\n"


def describe_models(service: Service) -> dict[str, Any]:
    """Returns the list of models."""
    return {"object": "list", "data": [describe_model(name) for name in service.models]}


def describe_model(name: str) -> dict[str, Any]:
    """Returns what is said of one model."""
    return {"id": name, "object": "model", "created": STARTED_S, "owned_by": "bidibeam"}
