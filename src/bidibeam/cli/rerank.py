"""`bidibeam rerank`."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.lists import Lists, Reading, lists_options, note_other_model
from bidibeam.cli.options import (
    check_output,
    max_length_option,
    output_options,
    strategy_options,
    strategy_settings,
    tuned_option,
)

if TYPE_CHECKING:
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.protocols import Strategy
    from bidibeam.similarities.word_vectors import WordVectors
    from bidibeam.strategies.settings import StrategySettings

SUBWORD_MARKS = ("\u0120", "\u2581", "##")
"""How byte-level BPE, SentencePiece and WordPiece mark where words begin, or go on."""
UNENDED_MARK = "@@"
"""How subword-nmt, and so fairseq, marks a piece that does not end its word."""
BATCH_SIZE = 256
"""Sources ranked at once, shared out among the workers."""


@click.command()
@click.argument("input_file", metavar="FILE")
@strategy_options
@max_length_option
@tuned_option
@lists_options
@output_options
def rerank(
    input_file: str,
    max_length: int,
    tuned_file: Path | None,
    nbest_file: Path | None,
    resume: bool,
    **flags: Any,
) -> None:
    """Choose again among hypotheses from anywhere; no model needed.

    FILE holds a JSON object a line, each with the lists "regular" and "reverse" of one source's hypotheses;
    these have "text" or "tokens", and the scores that the strategy needs (docs/nbest.md). `bidibeam decode
    --n-best` writes such files; - is stdin. Moses n-best lists, fairseq's output, flat text and responses of
    the OpenAI API hold one list a source; --reverse adds the other. Replies go to stdout, one a line; the
    whole file is checked before the first is written.

    \b
    bidibeam rerank beams.jsonl > replies.txt
    bidibeam rerank left-to-right.nbest --reverse right-to-left.nbest
    bidibeam rerank beams.jsonl --similarity wmd_t --vectors wiki.vec --n-best ranked.jsonl > replies.txt
    bidibeam rerank beams.jsonl --strategy bidis --lambda 0.5
    bidibeam rerank beams.jsonl --strategy "bidia bleu_t tuned" --tuned runs/first
    """  # noqa: D301
    from bidibeam._version import __version__
    from bidibeam.cli.answering import warm_up, write_answers
    from bidibeam.decoding.decoder import Ranker
    from bidibeam.strategies.ranking import is_parallel

    reading = Reading.taken(input_file, flags)
    strategy, workers = strategy_settings(flags)
    for name in reading.files:
        check_output(nbest_file, name, resume=resume)
    strategy, tuned = _tuned(strategy, tuned_file)
    facts = {} if tuned is None else {"tuned": tuned.name}
    strategy.check_tuned()
    lists = Lists(reading)
    lists.check(strategy.requirements, strategy.name)
    if tuned is not None:
        note_other_model(tuned, input_file, lists.model)
    selection = strategy.build(max_length=max_length, space=word_space(strategy.vectors, lists.words))
    note_length(selection, lists.longest)
    warm_up(selection)
    ranker = Ranker(selection, workers, replies_only=nbest_file is None)
    batch_size = BATCH_SIZE if is_parallel(selection) else 1  # alone, each is written as soon as it is there
    write_answers(
        lists.read(),
        lambda stream: ranker.stream(stream, batch_size),
        signature=selection.signature.extended(**facts, bidibeam=__version__),
        nbest_file=nbest_file,
        resume=resume,
        total=lists.count,
        description="reranking",
    )


def _tuned(
    strategy: StrategySettings, tuned_file: Path | None
) -> tuple[StrategySettings, TunedSettings | None]:
    """The strategy with what was tuned for it, and where that comes from if it is of any use."""
    if tuned_file is None:
        return strategy, None
    from bidibeam.api.tuned import TunedSettings  # brings PyTorch, which takes seconds to load

    tuned = TunedSettings.at(tuned_file)
    with_tuned = strategy.with_tuned(tuned.options)
    return with_tuned, tuned if with_tuned != strategy else None


def note_length(selection: Strategy, longest: int) -> None:
    """Say so if T is far from what the lists hold: length then counts for more than agreement."""
    from bidibeam.cli.console import console

    limit = getattr(getattr(selection, "similarity", None), "max_length", 0)
    if limit >= 2 * longest:
        console.print(
            f"Note: T is {limit}, but the longest hypothesis has {longest} tokens, so length weighs heavily. "
            "If the search's maximum was lower, say --max-length; or use a similarity without T: bleu, wmd.",
            style="dim",
        )


def _is_piece(token: str) -> bool:
    """Whether a token can only be part of a word."""
    return token.startswith(SUBWORD_MARKS) or (token.endswith(UNENDED_MARK) and token != UNENDED_MARK)


def word_space(path: Path | None, words: Collection[str]) -> Callable[[], WordVectors] | None:
    """Reads the vectors of the words that lists hold, when they are asked for."""
    if path is None:
        return None

    def read() -> WordVectors:
        from bidibeam.cli.answering import saying_if_slow
        from bidibeam.cli.console import console
        from bidibeam.errors import SettingsError
        from bidibeam.similarities.word_vectors import WordVectors

        piece = next((word for word in sorted(words) if _is_piece(word)), None)
        if piece is not None:
            raise SettingsError(
                f"The lists hold subwords, such as {piece!r}, and --vectors are vectors of words. Leave "
                '"tokens" out of the file, so that texts are split into words, or use another similarity.'
            )
        with saying_if_slow(f"Reading {path} ..."):
            space = WordVectors.from_file(path, wanted=words)
        console.print(f"{len(space.words):,} of {len(words):,} words have a vector.", style="dim")
        return space

    return read
