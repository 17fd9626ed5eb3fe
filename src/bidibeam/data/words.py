"""Splits text into words, and writes words as text.

Words are lower-cased and split in the manner of the Penn Treebank: punctuation stands alone, contractions
come apart before their apostrophe (`do` `n't`, `it` `'s`), hyphenated words at the hyphen, so that
pretrained vectors know most of them. Scripts written without spaces are split by character.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from tokenizers import Regex, normalizers, pre_tokenizers

if TYPE_CHECKING:
    from collections.abc import Sequence

UNSPACED = (  # Thai, Lao, Myanmar, Khmer, Kana, Han
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u31f0-\u31ff"
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
)
LETTER = rf"[\p{{L}}\p{{M}}\p{{N}}_\u200c\u200d&&[^{UNSPACED}]]"
ENDS = rf"(?!{LETTER})"
CLITIC = rf"(?:s|m|d|ll|re|ve){ENDS}"

WORD = "|".join(
    [
        rf"n't{ENDS}",
        rf"'{CLITIC}",
        rf"'(?:em|cause|cuz|til|bout|tis|twas){ENDS}",
        rf"(?<!\S)[:;=]-?(?:[()]+|[dp]{ENDS})",  # :) ;-) =( :d
        r"\p{Nd}+(?:[.,:]\p{Nd}+)+",  # 10,000 3.50 7:30
        rf"(?:\p{{L}}\.){{2,}}(?:\p{{L}}{ENDS})?",  # u.s. a.m.
        rf"{LETTER}+?(?=n't{ENDS})",
        rf"(?<!'){LETTER}+in'{ENDS}",  # goin'
        rf"{LETTER}+(?:'(?!{CLITIC}){LETTER}+)*",  # o'clock ma'am
        rf"[{UNSPACED}]\p{{M}}*",
        r"\.{2,}",
        "-{2,}",
        r"\S\p{M}*",
    ]
)

INVISIBLE = "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]"
REPLACEMENTS = [
    ("[\u2018\u2019\u201a\u201b\u2032\u02bc\u00b4`]", "'"),
    ("''|[\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\u301d\u301e]", '"'),
    (r"[.\u2026](?:\s*[.\u2026])+|\u2026", "..."),
    ("[\u2010\u2011\u2212]", "-"),
    ("[-\u2013\u2014\u2015]{2,}|[\u2013\u2014\u2015]|(?<=\\s)-(?=\\s)", "--"),
]


@cache
def make_normalizer(*, lowercase: bool) -> normalizers.Normalizer:
    """Returns what unifies spellings that look alike: quotes, dashes, dots, composed letters, controls."""
    steps = [
        *([normalizers.Lowercase()] if lowercase else []),
        normalizers.Replace(Regex(INVISIBLE), ""),
        normalizers.Replace(Regex(r"\p{Cc}"), " "),
        normalizers.NFC(),
        *(normalizers.Replace(Regex(pattern), written) for pattern, written in REPLACEMENTS),
    ]
    return normalizers.Sequence(steps)


@cache
def make_pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    """Returns what cuts normalised text into words and drops the space between them."""
    return pre_tokenizers.Split(Regex(WORD), "removed", invert=True)


@cache
def make_plain_normalizer(*, lowercase: bool) -> normalizers.Normalizer:
    """Returns what composes letters and makes controls spaces, and leaves all else as it is written."""
    steps = [normalizers.Replace(Regex(r"\p{Cc}"), " "), normalizers.NFC()]
    return normalizers.Sequence([normalizers.Lowercase(), *steps] if lowercase else steps)


@cache
def make_character_pre_tokenizer() -> pre_tokenizers.PreTokenizer:
    """Returns what cuts normalised text into characters, spaces among them."""
    return pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")


def split(text: str, *, lowercase: bool = True) -> list[str]:
    """Returns the words of any text, lower-cased unless case is to be kept."""
    normal = make_normalizer(lowercase=lowercase).normalize_str(well_formed(text))
    return [word for word, _ in make_pre_tokenizer().pre_tokenize_str(normal)]


def well_formed(text: str) -> str:
    """Returns the text without lone surrogates, which are not text and which Rust refuses."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


CLOSING = (
    frozenset(".,!?;:%)]}…")
    | {"...", "n't", "'s", "'m", "'d", "'ll", "'re", "'ve"}
    | frozenset("\u3002\uff0c\u3001\uff01\uff1f\uff1a\uff1b\uff09\u300d\u300f\u3011")
)
OPENING = frozenset("([{$£€¥#¿¡\uff08\u300c\u300e\u3010")
TIGHT = frozenset("-/")
QUOTES = frozenset("\"'")
IS_UNSPACED = re.compile(f"[{UNSPACED}\u3000-\u303f\uff00-\uffef]")


CLITICS = "n't|'(?:s|m|d|ll|re|ve)"
PLAIN_WORD = rf"[A-Za-z]+(?: (?:{CLITICS}))?"
PLAIN = re.compile(rf"(?:{PLAIN_WORD}|--)(?: (?:{PLAIN_WORD}|--|[,!?]|(?:\.\.)?\.(?! \.)))*")
ATTACHED = re.compile(rf" (?=[.,!?]|(?:{CLITICS})(?:\s|$))")


def detokenize_plain(words: Sequence[str]) -> str | None:
    """Detokenizes plain words, the commonest contractions and marks; None if there is more.

    Such a text always splits into the same words again, which need not be tried then.
    """
    apart = " ".join(words)
    return ATTACHED.sub("", apart) if PLAIN.fullmatch(apart) else None


def detokenize(words: Sequence[str]) -> str:
    """Writes words as a person would: punctuation attached, quotes in pairs, contractions whole."""
    pieces: list[str] = []
    opened: set[str] = set()
    glue = True  # whether the next word follows without a space
    for index, word in enumerate(words):
        before, after = word in CLOSING or word in TIGHT, word in OPENING or word in TIGHT
        if word in QUOTES:
            before, after = _place_quote(words, index, opened)
        previous = words[index - 1] if index else ""
        unspaced = bool(IS_UNSPACED.match(word[:1]) and IS_UNSPACED.match(previous[-1:]))
        pieces.append(word if glue or before or unspaced else f" {word}")
        glue = after
    return "".join(pieces)


def space_apart(words: Sequence[str]) -> str:
    """Writes words with spaces between them; only a hyphen touches a neighbour, or it would be a dash."""
    pieces: list[str] = []
    for index, word in enumerate(words):
        previous = words[index - 1] if index else ""
        before_that = words[index - 2] if index > 1 else ""
        if word == "-":
            touches = not previous.startswith("-")
        else:  # a hyphen that could not touch what stands before it touches this
            touches = previous == "-" and before_that.startswith("-") and not word.startswith("-")
        pieces.append(word if touches or not index else f" {word}")
    return "".join(pieces)


def _place_quote(words: Sequence[str], index: int, opened: set[str]) -> tuple[bool, bool]:
    """Returns whether a quotation mark touches the word before it, and the one after."""
    mark = words[index]
    if mark in opened:
        opened.remove(mark)
        return True, False
    if mark in words[index + 1 :]:
        opened.add(mark)
        return False, True
    return index > 0, index == 0
