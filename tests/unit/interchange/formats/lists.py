"""Lists to write, and formats to read them with."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from bidibeam.data import words
from bidibeam.hypotheses import Beams, Hypothesis, NBest
from bidibeam.interchange.formats import Format

FILES = Path(__file__).parent / "files"
FOUND: dict[str, Any] = {
    "text": "hello there.",
    "tokens": ["hello", "there", "."],
    "log_prob": -2.5,
    "other_log_prob": -3.0,
    "length": 4,
    "score": -1.25,
    "finished": True,
}
LINE: dict[str, Any] = {"id": "7", "source": "hi", "reference": None, "regular": [FOUND], "reverse": []}

texts = st.text(st.characters(exclude_characters="\ufeff") | st.sampled_from(" |\n\r\t\u2028="), max_size=12)


def hypotheses_of(
    text: st.SearchStrategy[str], token: st.SearchStrategy[str], number: st.SearchStrategy[float], length: int
) -> st.SearchStrategy[Hypothesis]:
    """Hypotheses of such texts, tokens, numbers and up to that length."""
    return st.builds(
        Hypothesis,
        text=text,
        tokens=st.lists(token, max_size=4).map(tuple),
        log_prob=st.none() | number,
        length=st.integers(0, length),
        score=st.none() | number,
        finished=st.booleans(),
        other_log_prob=st.none() | number,
        multiplicity=st.just(1),
        ids=st.just(()),
    )


hypotheses = hypotheses_of(
    texts,
    st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=3),
    st.floats(-1e6, 1e6, allow_subnormal=False),
    50,
)


def beams_of(
    found: st.SearchStrategy[Hypothesis],
    *,
    min_size: int = 0,
    max_size: int = 3,
    text: st.SearchStrategy[str] = texts,
) -> st.SearchStrategy[list[Beams]]:
    """Sources with such hypotheses in both lists, and any ids, sources and references."""
    beam = st.lists(found, min_size=min_size, max_size=max_size).map(lambda items: NBest(tuple(items)))
    references = st.lists(text, max_size=3).map(tuple)
    source = st.builds(Beams, text, text, references, regular=beam, reverse=beam)
    return st.lists(source, max_size=3, unique_by=lambda beams: beams.id)


def line(text: str) -> str:
    """A text as formats of lines hold it."""
    return " ".join(words.well_formed(text).splitlines())


def stream_of(content: str, name: str = "in") -> io.StringIO:
    """A file of that content, as messages name it."""
    stream = io.StringIO(content, newline="\n")
    stream.name = name
    return stream


def written(format_: Format, beams: Iterable[Beams]) -> str:
    """What a format makes of lists."""
    stream = io.StringIO(newline="\n")
    format_.write(beams, stream)
    return stream.getvalue()


def read(format_: Format, content: str, *, allow_empty: bool = False) -> list[Beams]:
    """What a format reads out of text."""
    return list(format_.read(stream_of(content), allow_empty=allow_empty))


def said(text: str, score: float | None = None) -> Hypothesis:
    """A hypothesis of which little is known."""
    tokens = tuple(text.lower().split())
    return Hypothesis(text, tokens, None, len(tokens) + 1, score)


def listed(id_: str, *found: Hypothesis | str) -> Beams:
    """A source with regular hypotheses."""
    return Beams(id_, "", regular=NBest(tuple(said(one) if isinstance(one, str) else one for one in found)))


def ranked_line(*replies: Any, **fields: Any) -> str:
    """Our own lists of a source with such replies, and other fields."""
    lists = {
        "id": "x",
        "source": "who?",
        "regular": [{"text": "a", "log_prob": -1, "score": -0.5}, {"text": "b"}],
        "reverse": [{"text": "c", "log_prob": -2, "other_log_prob": -3}],
    }
    return json.dumps({**lists, "ranking": {"signature": "s", "replies": list(replies)}, **fields})


def reply(direction: str, place: int, score: float = 0.25) -> dict[str, Any]:
    """One of a ranking's replies."""
    return {"text": "?", "score": score, "direction": direction, "place": place, "partner": None}
