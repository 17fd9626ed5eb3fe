"""Text to token ids and back, on Hugging Face `tokenizers`; saved as one `tokenizer.json`."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, get_args

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from bidibeam.data import words as wording
from bidibeam.errors import RunError, check_choice, check_setting
from bidibeam.files import parse_json, reading, write_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

Kind = Literal["char", "word", "bpe"]
KINDS: tuple[str, ...] = get_args(Kind)

PADDING, UNKNOWN, START, END = SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
PAD_ID, UNKNOWN_ID, START_ID, END_ID = range(len(SPECIAL_TOKENS))
BYTES = 256
WORD_START = "\u0120"
"""How byte-level subwords write the space before a word."""
PLACEHOLDER = "<target {}>"
"""What a source's own tokenizer calls an id of the targets' range; no text holds it as a token."""
LARGEST_VOCABULARY = 10_000_000
TOO_LONG = re.compile(r"\S{1001,}")
"""What is no word: learning from it would take time that grows with the square of its length."""
LONGEST_PIECE = 32  # in bytes; a subword longer than this is an accident of the corpus


class Tokenizer:
    """Turns text into ids of a fixed vocabulary, and tokens into text that reads naturally.

    `word` knows the commonest words, and `char` the commonest characters, spaces among them; any other is
    `<unk>`, and both lower-case unless they are cased. `bpe` builds words from byte-level pieces, keeps case
    and knows no unknown. Build one by `train` or `load`.

    Sources that are tokenised in another way than targets have a tokenizer of their own, whose ids begin
    behind those of the targets at `first_id`: one table of ids in two ranges, the special ones in common.

    The special tokens have ids but cannot be written: "</s>" in a text is punctuation and a letter.
    """

    def __init__(self, backend: tokenizers.Tokenizer, kind: Kind) -> None:
        self._backend = backend
        self.kind: Kind = kind
        normalizer = backend.normalizer
        self.is_cased: bool = normalizer is None or b"Lowercase" not in normalizer.__getstate__()
        self.pad_id, self.unknown_id, self.start_id, self.end_id = PAD_ID, UNKNOWN_ID, START_ID, END_ID
        self.vocabulary_size: int = backend.get_vocab_size()
        self.first_id = len(SPECIAL_TOKENS)
        while backend.id_to_token(self.first_id) == PLACEHOLDER.format(self.first_id):
            self.first_id += 1

    @classmethod
    def train(
        cls,
        texts: Iterable[str],
        *,
        kind: Kind,
        vocabulary_size: int,
        cased: bool = False,
        targets: Tokenizer | None = None,
    ) -> Tokenizer:
        """Chooses a vocabulary of at most `vocabulary_size` tokens, the four special ones included.

        Words and characters are chosen by frequency, and alphabetically where that is equal: the order of
        `texts` does not matter. Given the tokenizer of the `targets`, it is one for sources alone, with ids
        behind those of the targets, which count as tokens of it from then on.
        """
        check_vocabulary(kind, vocabulary_size)
        backend, known = _make_backend(kind, cased=cased), vocabulary_size - len(SPECIAL_TOKENS)
        trainer: trainers.Trainer
        if kind == "bpe":
            trainer = trainers.BpeTrainer(
                vocab_size=known,
                show_progress=False,
                special_tokens=[],
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                max_token_length=LONGEST_PIECE,
            )
        else:
            trainer = trainers.WordLevelTrainer(vocab_size=known, show_progress=False, special_tokens=[])
        learnable = (TOO_LONG.sub(" ", wording.well_formed(text)) for text in texts)
        backend.train_from_iterator(learnable, trainer)
        first = len(SPECIAL_TOKENS) if targets is None else targets.vocabulary_size
        before = [*SPECIAL_TOKENS, *map(PLACEHOLDER.format, range(len(SPECIAL_TOKENS), first))]
        vocabulary = {token: index for index, token in enumerate(before)}
        vocabulary |= {token: index + first for token, index in backend.get_vocab().items()}
        if kind != "bpe":
            backend.model = models.WordLevel(vocabulary, unk_token=UNKNOWN)
        else:
            merges = [tuple(merge) for merge in json.loads(backend.to_str())["model"]["merges"]]
            backend.model = models.BPE(vocabulary, merges)
        return cls(backend, kind)

    def encode(self, text: str) -> list[int]:
        """Returns the ids of a text, without start or end."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the ids of many texts, on all cores."""
        encodings = self._backend.encode_batch_fast(
            [wording.well_formed(text) for text in texts], add_special_tokens=False
        )
        return [encoding.ids for encoding in encodings]

    @property
    def own_ids(self) -> list[int]:
        """The ids that stand for its own tokens, special ones first."""
        return [*range(len(SPECIAL_TOKENS)), *range(self.first_id, self.vocabulary_size)]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Returns the tokens that ids stand for."""
        vocabulary = self._vocabulary
        try:
            return [vocabulary[index] for index in ids]
        except KeyError as error:
            raise IndexError(
                f"The id {error.args[0]} is outside the vocabulary of {self.vocabulary_size} tokens."
            ) from None

    def get_vocab(self) -> dict[str, int]:
        """Returns the id of every token, as the tokenizers of transformers do."""
        vocabulary: dict[str, int] = self._backend.get_vocab()
        return vocabulary

    @cached_property
    def _vocabulary(self) -> dict[int, str]:
        """Token by id: asking the backend for each costs ten times as much."""
        return {index: token for token, index in self.get_vocab().items()}

    def text(self, tokens: Sequence[str]) -> str:
        """Writes tokens as a person would.

        Characters are joined as they are. For the kind `word`, `words(text(tokens)) == tokens` holds for
        whatever `words` gives: where the natural spelling would read as other words, they are spaced apart.
        It cannot hold for `<unk>`, for runs of full stops (one ellipsis) and for runs of hyphens (a dash),
        none of which `words` gives.
        """
        if self.kind == "bpe":
            decoded: str = self._backend.decoder.decode(list(tokens))
            return " ".join(decoded.split())
        if self.kind == "char":
            return "".join(tokens)
        plain = wording.detokenize_plain(tokens)
        if plain is not None:
            return plain
        natural = wording.detokenize(tokens)
        return natural if self.words(natural) == list(tokens) else wording.space_apart(tokens)

    def words(self, text: str) -> list[str]:
        """Returns the words of any text, whether the vocabulary holds them or not.

        They are lower-cased, but for the kind `word` where it is cased.
        """
        return wording.split(text, lowercase=self.kind != "word" or not self.is_cased)

    def to_json(self) -> str:
        """Returns what `save` writes."""
        written: str = self._backend.to_str(pretty=True)
        return written

    def save(self, path: Path) -> None:
        """Writes the tokenizer to a file, in one step."""
        write_text(path, self.to_json())

    @classmethod
    def load(cls, path: Path) -> Tokenizer:
        """Reads a tokenizer that `save` wrote."""
        way_out = "Restore it from a copy, or make the directory again."
        if not path.exists():
            raise RunError(f"{path} is missing. {way_out}")
        with reading(path, way_out):
            written = path.read_text(encoding="utf-8")
            model = parse_json(written)["model"]["type"]
            backend = tokenizers.Tokenizer.from_str(written)
        kind = find_kind(backend)
        specials = tuple(backend.id_to_token(index) for index in range(len(SPECIAL_TOKENS)))
        if kind is None or specials != SPECIAL_TOKENS:
            raise RunError(
                f"{path} is not a tokenizer of bidibeam's: its model is {model} and its first tokens are "
                f"{specials}, where {SPECIAL_TOKENS} are expected."
            )
        return cls(backend, kind)


def _make_backend(kind: Kind, *, cased: bool) -> tokenizers.Tokenizer:
    """Returns a tokenizer that has learnt nothing yet."""
    if kind == "bpe":
        backend = tokenizers.Tokenizer(models.BPE())
        backend.normalizer = wording.make_plain_normalizer(lowercase=False)
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
        backend.decoder = decoders.ByteLevel()
        return backend
    backend = tokenizers.Tokenizer(models.WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN))
    if kind == "word":
        backend.normalizer = wording.make_normalizer(lowercase=not cased)
        backend.pre_tokenizer = wording.make_pre_tokenizer()
    else:
        backend.normalizer = wording.make_plain_normalizer(lowercase=not cased)
        backend.pre_tokenizer = wording.make_character_pre_tokenizer()
        backend.decoder = decoders.Fuse()
    return backend


def load_tokenizers(targets: Path, sources: Path) -> tuple[Tokenizer, Tokenizer]:
    """Reads the tokenizer of targets and that of sources, which must have one table of ids in two ranges."""
    target, source = Tokenizer.load(targets), Tokenizer.load(sources)
    if source.first_id != target.vocabulary_size:
        raise RunError(
            f"{sources} has ids for sources from {source.first_id} on, and {targets} has "
            f"{target.vocabulary_size} tokens. They do not belong together: restore both from one copy."
        )
    return target, source


def find_kind(backend: tokenizers.Tokenizer) -> Kind | None:
    """Returns what kind a tokenizer is, if it is of a model that ours are of."""
    model = type(backend.model).__name__
    if model == "WordLevel":
        is_char = _is_same(backend.pre_tokenizer, wording.make_character_pre_tokenizer())
        return "char" if is_char else "word"
    return "bpe" if model == "BPE" else None


def find_splitter(backend: tokenizers.Tokenizer | None) -> Callable[[str], list[str]]:
    """Returns what cuts a text into tokens to compare it by: characters, or words, lower-cased as a rule.

    Words keep their case where the tokenizer is one of ours that does.
    """
    if backend is None:
        return wording.split
    if find_kind(backend) == "char":
        return list
    is_words = _is_same(backend.pre_tokenizer, wording.make_pre_tokenizer())
    is_cased = _is_same(backend.normalizer, wording.make_normalizer(lowercase=False))
    return partial(wording.split, lowercase=not (is_words and is_cased))


def _is_same(part: Any, other: Any) -> bool:
    """Whether two parts of tokenizers are written alike; one that is made in Python cannot be written."""
    with suppress(Exception):
        return part is not None and bool(part.__getstate__() == other.__getstate__())
    return False


def check_vocabulary(kind: str, vocabulary_size: int, *, name: str = "tokenizer") -> None:
    """Refuses a kind of tokenizer that does not exist, or a vocabulary that cannot hold one."""
    check_choice(name, kind, KINDS)
    least = len(SPECIAL_TOKENS) + (BYTES if kind == "bpe" else 1)
    rule = f"between {least}, for the tokenizer {kind!r}, and {LARGEST_VOCABULARY:,}"
    check_setting(least <= vocabulary_size <= LARGEST_VOCABULARY, "vocabulary_size", vocabulary_size, rule)
