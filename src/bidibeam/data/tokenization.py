"""Text to token ids and back, on Hugging Face `tokenizers`; saved as one `tokenizer.json`."""

from __future__ import annotations

import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Literal, get_args

import tokenizers
from tokenizers import decoders, models, pre_tokenizers, trainers

from bidibeam.data import words as wording
from bidibeam.errors import RunError, check_choice, check_setting
from bidibeam.files import parse_json, reading, write_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

Kind = Literal["word", "bpe"]
KINDS: tuple[str, ...] = get_args(Kind)

PADDING, UNKNOWN, START, END = SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
PAD_ID, UNKNOWN_ID, START_ID, END_ID = range(len(SPECIAL_TOKENS))
BYTES = 256
WORD_START = "\u0120"
"""How byte-level subwords write the space before a word."""
LARGEST_VOCABULARY = 10_000_000
TOO_LONG = re.compile(r"\S{1001,}")
"""What is no word: learning from it would take time that grows with the square of its length."""
LONGEST_PIECE = 32  # in bytes; a subword longer than this is an accident of the corpus


class Tokenizer:
    """Turns text into ids of a fixed vocabulary, and tokens into text that reads naturally.

    `word` knows the commonest words, lower-cased, and calls any other `<unk>`. `bpe` builds words from
    byte-level pieces, keeps case and knows no unknown. Build one by `train` or `load`.

    The special tokens have ids but cannot be written: "</s>" in a text is punctuation and a letter.
    """

    def __init__(self, backend: tokenizers.Tokenizer, kind: Kind) -> None:
        self._backend = backend
        self.kind: Kind = kind
        self.pad_id, self.unknown_id, self.start_id, self.end_id = PAD_ID, UNKNOWN_ID, START_ID, END_ID
        self.vocabulary_size: int = backend.get_vocab_size()

    @classmethod
    def train(cls, texts: Iterable[str], *, kind: Kind, vocabulary_size: int) -> Tokenizer:
        """Chooses a vocabulary of at most `vocabulary_size` tokens, the four special ones included.

        Words are chosen by frequency, and alphabetically where that is equal: the order of `texts` does not
        matter.
        """
        check_vocabulary(kind, vocabulary_size)
        known = vocabulary_size - len(SPECIAL_TOKENS)
        trainer: trainers.Trainer
        if kind == "word":
            backend = tokenizers.Tokenizer(models.WordLevel({UNKNOWN: 0}, unk_token=UNKNOWN))
            backend.pre_tokenizer = wording.make_pre_tokenizer()
            trainer = trainers.WordLevelTrainer(vocab_size=known, show_progress=False, special_tokens=[])
        else:
            backend = tokenizers.Tokenizer(models.BPE())
            backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
            backend.decoder = decoders.ByteLevel()
            trainer = trainers.BpeTrainer(
                vocab_size=known,
                show_progress=False,
                special_tokens=[],
                initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                max_token_length=LONGEST_PIECE,
            )
        backend.normalizer = wording.make_normalizer(lowercase=kind == "word")
        learnable = (TOO_LONG.sub(" ", wording.well_formed(text)) for text in texts)
        backend.train_from_iterator(learnable, trainer)
        vocabulary = {token: index for index, token in enumerate(SPECIAL_TOKENS)}
        vocabulary |= {token: index + len(SPECIAL_TOKENS) for token, index in backend.get_vocab().items()}
        if kind == "word":
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

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Returns the tokens that ids stand for."""
        vocabulary = self._vocabulary
        try:
            return [vocabulary[index] for index in ids]
        except KeyError as error:
            raise IndexError(
                f"The id {error.args[0]} is outside the vocabulary of {self.vocabulary_size} tokens."
            ) from None

    @cached_property
    def _vocabulary(self) -> dict[int, str]:
        """Token by id: asking the backend for each costs ten times as much."""
        return {index: token for token, index in self._backend.get_vocab().items()}

    def text(self, tokens: Sequence[str]) -> str:
        """Writes tokens as a person would.

        For the kind `word`, `words(text(tokens)) == tokens` holds for whatever `words` gives: where the
        natural spelling would read as other words, they are spaced apart. It cannot hold for `<unk>`, for
        runs of full stops (one ellipsis) and for runs of hyphens (a dash), none of which `words` gives.
        """
        if self.kind == "bpe":
            decoded: str = self._backend.decoder.decode(list(tokens))
            return " ".join(decoded.split())
        plain = wording.detokenize_plain(tokens)
        if plain is not None:
            return plain
        natural = wording.detokenize(tokens)
        return natural if self.words(natural) == list(tokens) else wording.space_apart(tokens)

    def words(self, text: str) -> list[str]:
        """Returns the words of any text, lower-cased, whether the vocabulary holds them or not."""
        return wording.split(text)

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
        kinds: dict[str, Kind] = {"WordLevel": "word", "BPE": "bpe"}
        specials = tuple(backend.id_to_token(index) for index in range(len(SPECIAL_TOKENS)))
        if model not in kinds or specials != SPECIAL_TOKENS:
            raise RunError(
                f"{path} is not a tokenizer of bidibeam's: its model is {model} and its first tokens are "
                f"{specials}, where {SPECIAL_TOKENS} are expected."
            )
        return cls(backend, kinds[model])


def check_vocabulary(kind: str, vocabulary_size: int) -> None:
    """Refuses a kind of tokenizer that does not exist, or a vocabulary that cannot hold one."""
    check_choice("tokenizer", kind, KINDS)
    least = len(SPECIAL_TOKENS) + (BYTES if kind == "bpe" else 1)
    rule = f"between {least}, for the tokenizer {kind!r}, and {LARGEST_VOCABULARY:,}"
    check_setting(least <= vocabulary_size <= LARGEST_VOCABULARY, "vocabulary_size", vocabulary_size, rule)
