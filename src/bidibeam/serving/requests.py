"""What clients send and receive at `/api`: the types of JSON, and how they become the service's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema
from pydantic.config import JsonDict

from bidibeam.errors import InputError
from bidibeam.hypotheses import Beams, Direction
from bidibeam.interchange.nbest import parse_beams
from bidibeam.interchange.text_lines import JsonObject
from bidibeam.serving.errors import RequestError
from bidibeam.serving.service import Asked, Selection, freeze

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bidibeam.decoding.decoder import Answer
    from bidibeam.hypotheses import Hypothesis
    from bidibeam.serving.service import Service
    from bidibeam.serving.settings import RequestLimits

LARGEST_NUMBER = 1_000_000
LIMIT = "limit"
"""The key of a field's schema: which limits of the server hold for it."""
MOST_OPTIONS = 20
LONGEST_WORD = 100

Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^:\x00-\x1f]+$")]
"""A name; "package.module:name" would run code, and is refused."""
Number = Annotated[float, Field(allow_inf_nan=False, ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Whole = Annotated[int, Field(ge=0, le=LARGEST_NUMBER)]
Steps = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]


def check_option(value: Any) -> Any:
    """Returns the value of an option if it is a plain one; strategies and similarities check the rest."""
    if isinstance(value, str):
        is_plain = len(value) <= LONGEST_WORD and not any(letter == ":" or letter < " " for letter in value)
    else:
        is_plain = isinstance(value, bool | int | float) and abs(value) <= LARGEST_NUMBER
    if not is_plain:
        raise ValueError(
            f"true or false, a number up to {LARGEST_NUMBER:,}, or a word of up to {LONGEST_WORD} letters "
            "without a colon"
        )
    return value


Option = Annotated[
    Any,
    AfterValidator(check_option),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "boolean"},
                {"type": "number", "minimum": -LARGEST_NUMBER, "maximum": LARGEST_NUMBER},
                {"type": "string", "maxLength": 100, "pattern": r"^[^:\x00-\x1f]*$"},
            ]
        }
    ),
]
Options = Annotated[
    dict[Annotated[str, Field(pattern=r"^[a-z_]{1,40}$")], Option], Field(max_length=MOST_OPTIONS)
]
SOME_NUMBER = {"type": ["number", "null"]}
HYPOTHESES = {
    "type": ["array", "null"],
    "items": {
        "type": "object",
        "anyOf": [{"required": ["text"]}, {"required": ["tokens"]}],
        "properties": {
            "text": {"type": "string"},
            "tokens": {"type": "array", "items": {"type": "string"}},
            "log_prob": SOME_NUMBER,
            "other_log_prob": SOME_NUMBER,
            "score": SOME_NUMBER,
            "length": {"type": ["integer", "null"], "minimum": 0},
            "finished": {"type": ["boolean", "null"]},
        },
    },
}
NBestObject = Annotated[
    dict[str, Any],
    WithJsonSchema(
        {
            "type": "object",
            "anyOf": [{"required": ["regular"]}, {"required": ["reverse"]}],
            "properties": {
                "id": {"type": ["string", "integer", "null"]},
                "source": {"type": ["string", "null"]},
                "reference": {"type": ["string", "null"]},
                "regular": HYPOTHESES,
                "reverse": HYPOTHESES,
            },
        }
    ),
]
"""What `interchange.nbest` reads and checks, described."""
EXAMPLE = "i have an exam tomorrow."
EXAMPLE_LIST = {
    "regular": [{"text": "I don't know."}, {"text": "At work."}],
    "reverse": [{"text": "At work."}],
}
FORBIDDEN = ("space", "vectors", "metric", "similarity")
"""Options that are no plain values, or name code; a field of its own or the server decides them."""
ALIASES = {"lambda": "lambda_"}
SEARCH = (
    "beam_size",
    "max_length",
    "min_length",
    "length_penalty",
    "length_formula",
    "count_end",
    "stopping",
    "unfinished",
    "allow_unknown",
    "no_repeat_ngram_size",
    "repetition_penalty",
    "bad_words",
)


def limited(**by_type: str) -> JsonDict:
    """Returns what a field's schema says of limits: by JSON type, the name of a field of `RequestLimits`.

    `reference.describe_limits` puts the server's own numbers in their place.
    """
    return {LIMIT: {**by_type}}


class Strict(BaseModel):
    """A body whose fields are all known."""

    model_config = ConfigDict(extra="forbid")


class SelectionFields(BaseModel):
    """How a reply is chosen."""

    strategy: Name | None = Field(
        None, description="A system's name, such as vbs, bidis, 'bidia wmd_t either'.", examples=["bidia"]
    )
    similarity: Name | None = Field(None, description="How hypotheses are compared, such as bleu_t, edit.")
    similarity_options: Options = Field(
        {}, description="The similarity's settings: max_length, smoothing ..."
    )
    strategy_options: Options = Field(
        {}, description="The strategy's settings: lambda, answer, agreement ..."
    )

    def to_selection(self) -> Selection:
        """Returns the same as the service takes it."""
        own = {"similarity_options": self.similarity_options, "strategy_options": self.strategy_options}
        for field, options in own.items():
            if odd := next((name for name in options if name in FORBIDDEN), None):
                raise RequestError(f"The option {odd!r} is not taken here: leave it out.", field)
        plain = {ALIASES.get(name, name): value for name, value in self.strategy_options.items()}
        return Selection(self.strategy, self.similarity, freeze(self.similarity_options), freeze(plain))


class SearchFields(SelectionFields):
    """How a source is searched, and its reply chosen."""

    model: str | None = Field(None, max_length=200, description="A name of /v1/models; by default the first.")
    beam_size: Whole | None = Field(
        None,
        description="B, hypotheses kept; the default is as tuned, or 10.",
        json_schema_extra=limited(integer="beam_size"),
    )
    max_length: Whole | None = Field(
        None,
        description="T, the most steps, the end token counted.",
        json_schema_extra=limited(integer="reply_tokens"),
    )
    min_length: Whole | None = Field(None, description="Tokens before the reply may end.")
    length_penalty: Number | None = Field(None, description="Exponent a of the length formula.")
    length_formula: Name | None = Field(None, description="What scores are divided by: gnmt, power.")
    count_end: bool | None = Field(None, description="Whether |Y| counts the end token.")
    stopping: Name | None = Field(
        None, description="When a search is over: shrinking, constant, patience=2 ..."
    )
    unfinished: Literal["keep", "rank", "drop"] | None = Field(
        None, description="Replies cut off at T: kept behind all others, ranked by score, or dropped."
    )
    allow_unknown: bool | None = Field(None, description="Whether the unknown token may be written.")
    no_repeat_ngram_size: Whole | None = Field(
        None, description="No n-gram of so many tokens twice; 0 allows it."
    )
    repetition_penalty: Number | None = Field(None, description="More than 1 avoids repetition.")
    bad_words: list[Annotated[str, Field(min_length=1, max_length=100)]] | None = Field(
        None, max_length=100, description="Words that no reply may contain."
    )

    def to_asked(self, service: Service, limits: RequestLimits, *, replies_only: bool = True) -> Asked:
        """Returns the same as the service takes it, within the limits."""
        check_limit("beam_size", self.beam_size or 0, limits.beam_size)
        check_limit("max_length", self.max_length or 0, limits.reply_tokens)
        values = {name: value for name in SEARCH if (value := getattr(self, name)) is not None}
        return Asked(service.find_model(self.model), self.to_selection(), freeze(values), replies_only)


class DecodeRequest(SearchFields, Strict):
    """Sources to answer."""

    source: str | None = Field(
        None,
        min_length=1,
        description="One source.",
        examples=[EXAMPLE],
        json_schema_extra=limited(string="source_characters"),
    )
    sources: list[str] | None = Field(
        None, min_length=1, description="Or many.", json_schema_extra=limited(array="sources")
    )
    n_best: Whole = Field(0, description="How many hypotheses of each source to return, ranked; 0 for none.")
    scores: bool = Field(False, description="Whether hypotheses come with all their numbers.")

    def read_sources(self, limits: RequestLimits) -> list[str]:
        """Returns the sources, within the limits."""
        if (self.source is None) == (self.sources is None):
            raise RequestError(
                "Give source, a string, or sources, a list of strings, and not both.", "source"
            )
        sources = [self.source] if self.source is not None else self.sources or []
        check_sources(sources, limits, "source" if self.sources is None else "sources")
        return sources


class ExplainRequest(SearchFields, Strict):
    """A source to explain, or an n-best list."""

    source: str | None = Field(
        None,
        min_length=1,
        description="A source.",
        examples=[EXAMPLE],
        json_schema_extra=limited(string="source_characters"),
    )
    list: NBestObject | None = Field(None, description="Or an n-best object, as docs/nbest.md has it.")


class RankRequest(SelectionFields, Strict):
    """N-best lists to rank."""

    lists: list[NBestObject] = Field(
        min_length=1,
        description="One object a source, as docs/nbest.md has it.",
        examples=[[EXAMPLE_LIST]],
        json_schema_extra=limited(array="sources"),
    )
    n_best: Whole = Field(0, description="How many hypotheses of each list to return; 0 for the reply alone.")


class RankedHypothesis(BaseModel):
    """A hypothesis, and what the strategy ranked it by."""

    text: str
    score: float
    direction: Direction
    place: int = Field(description="Its place in its beam, counted from 0.")
    partner: int | None = Field(
        None, description="The place, in the other beam, of what it agrees with most."
    )
    log_prob: float | None = None
    other_log_prob: float | None = None
    search_score: float | None = None
    length: int | None = None
    finished: bool | None = None


class ReplyResponse(BaseModel):
    """A source's reply, and its hypotheses where they were asked for."""

    id: str | None = None
    text: str
    hypotheses: list[RankedHypothesis] | None = None


class RepliesResponse(BaseModel):
    """Replies in the order of the sources, and how they came about."""

    model: str | None = None
    strategy: str
    signature: str
    replies: list[ReplyResponse]


def check_limit(field: str, value: int, most: int, *, called: str = "") -> None:
    """Refuses a number of a field that is larger than the server's limit."""
    if value > most:
        told = f"{called or field} must be at most {most:,} on this server, not {value:,}."
        raise RequestError(told, field)


def check_sources(
    sources: Sequence[str], limits: RequestLimits, field: str = "source", *, called: str = "source"
) -> None:
    """Refuses too many sources of a field, an empty one, or one that is too long."""
    if len(sources) > limits.sources:
        raise RequestError(
            f"A request may have {limits.sources:,} sources on this server, not {len(sources):,}: send the "
            "others in another one.",
            field,
        )
    for number, source in enumerate(sources, start=1):
        of = f" {number}" if len(sources) > 1 else ""
        if not source.strip():
            raise RequestError(f"The {called}{of} is empty.", field)
        if any("\ud800" <= letter <= "\udfff" for letter in source):
            raise RequestError(f"The {called}{of} holds half a surrogate pair, which no text may.", field)
        if len(source) > limits.source_characters:
            raise RequestError(
                f"The {called}{of} has {len(source):,} characters; {limits.source_characters:,} are the most "
                "on this server.",
                field,
            )


def read_lists(values: Sequence[dict[str, Any]], limits: RequestLimits, field: str = "lists") -> list[Beams]:
    """Returns n-best lists, each checked as a line of a file is, and within the limits."""
    if len(values) > limits.sources:
        raise RequestError(
            f"A request may have {limits.sources:,} lists on this server, not {len(values):,}.", field
        )
    found = []
    for number, value in enumerate(values):
        place = f"{field}[{number}]" if field == "lists" else field
        try:
            beams = parse_beams(JsonObject.of(value, place, number=number + 1))
        except InputError as error:
            raise RequestError(str(error), field) from error
        for direction in Direction:
            called = f"{place}: the number of {direction.value} hypotheses"
            check_limit(field, len(beams.of(direction)), limits.hypotheses, called=called)
        hypotheses = (*beams.regular, *beams.reverse)
        longest = max((max(len(each.text), len(each.tokens)) for each in hypotheses), default=0)
        called = f"{place}: the length of a hypothesis"
        check_limit(field, longest, limits.hypothesis_characters, called=called)
        found.append(beams)
    return found


def write_replies(
    answers: Sequence[Answer],
    facts: Mapping[str, str],
    *,
    n_best: int,
    scores: bool = False,
    with_ids: bool = False,
) -> dict[str, Any]:
    """Returns `RepliesResponse` as JSON has them: as many hypotheses of each as were asked for."""
    replies = [
        {
            **({"id": answer.beams.id} if with_ids else {}),
            "text": answer.text,
            **({"hypotheses": _write_entries(answer, n_best, scores=scores)} if n_best else {}),
        }
        for answer in answers
    ]
    return {**facts, "replies": replies}


def _write_entries(answer: Answer, n_best: int, *, scores: bool) -> list[dict[str, Any]]:
    return [
        {
            "text": entry.hypothesis.text,
            "score": entry.score,
            "direction": entry.direction.value,
            "place": entry.place,
            **({} if entry.partner is None else {"partner": entry.partner}),
            **(_write_numbers(entry.hypothesis) if scores else {}),
        }
        for entry in answer.ranking.entries[:n_best]
    ]


def _write_numbers(hypothesis: Hypothesis) -> dict[str, Any]:
    numbers = {
        "log_prob": hypothesis.log_prob,
        "other_log_prob": hypothesis.other_log_prob,
        "search_score": hypothesis.score,
        "length": hypothesis.length,
        "finished": hypothesis.finished,
    }
    return {name: value for name, value in numbers.items() if value is not None}
