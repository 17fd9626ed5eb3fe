"""`bidibeam rerank`."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import click

from bidibeam._version import __version__
from bidibeam.cli import inputs, options
from bidibeam.cli.console import tell, track
from bidibeam.cli.on_ray import check_unused, find_default, locate_vectors, run_on_ray, take_executor
from bidibeam.cli.output import check_output, write_answers
from bidibeam.cli.sharing import take_places
from bidibeam.decoding.decoder import Ranker, RankerRecipe
from bidibeam.interchange.on_disk import OnDisk
from bidibeam.strategies import STRATEGIES
from bidibeam.strategies.ranking import BATCH_SIZE, is_parallel, warm_up

OF_LISTS = {
    "from_format": "--from",
    "reverse_file": "--reverse",
    "per_source": "--per-source",
    "log_prob": "--log-prob",
    "sources_file": "--sources",
    "references_file": "--references",
    "direction": "--direction",
    "words": "--words",
}
"""What is said of lists in files of other tools, which a job on Ray does not read."""


@click.command()
@click.argument("input_file", metavar="FILE")
@options.strategy_option(STRATEGIES.names(), "bidis where lists have both log-probabilities, else bidia")
@options.choice
@options.max_length
@options.tuned
@options.lists
@options.directions
@options.output
@options.processes
@options.executor
def rerank(
    input_file: str,
    max_length: int | None,
    tuned_file: Path | None,
    nbest_file: Path | None,
    resume: bool,
    **flags: Any,
) -> None:
    """Choose again among hypotheses from anywhere; no model needed.

    FILE holds a JSON object a line, each with the lists "regular" and "reverse" of one source's hypotheses;
    these have "text" or "tokens", and the scores that the strategy needs (docs/nbest.md). `bidibeam decode
    --n-best` writes such files; - is stdin. Moses n-best lists, fairseq's output, flat text and responses of
    the OpenAI API hold one list per source; --reverse adds the other. Replies go to stdout, one a line; the
    whole file is checked before the first is written.

    \b
    bidibeam rerank beams.jsonl > replies.txt
    bidibeam rerank left-to-right.nbest --reverse right-to-left.nbest
    bidibeam rerank beams.jsonl --similarity wmd_t --vectors wiki.vec --n-best ranked.jsonl > replies.txt
    bidibeam rerank beams.jsonl --strategy bidis --lambda 0.5
    bidibeam rerank beams.jsonl --strategy "bidia bleu_t tuned" --tuned runs/first
    """  # noqa: D301
    from bidibeam.strategies.settings import StrategySettings, default_for_lists  # brings NumPy

    if (wanted := take_executor(flags)) is not None:
        check_unused({"--n-best": nbest_file})
        _rerank_on_ray(input_file, wanted, flags, max_length, tuned_file)
        return
    places = take_places(flags)
    reader = inputs.take_lists(input_file, flags)
    settings, workers = inputs.take_strategy(flags, places.processes)
    check_output(nbest_file, reader.files, resume=resume)
    tuned, written_by = inputs.read_tuned(tuned_file), reader.written_by
    lists, told = None, ""
    if settings is None:
        recommended = None if tuned is None else tuned.recommended
        if recommended is None:
            lists = OnDisk(track(reader, None, "reading", lines=reader.first_file))
        name = recommended or default_for_lists(lists or ())
        why = "recommended by tuned.json" if recommended else "the default for such lists"
        told, settings = f"Strategy: {name} ({why})", StrategySettings.named(name)
    settings, used = (settings, None) if tuned is None else tuned.apply(settings)
    settings.check_tuned()
    checked = reader.check(settings.requirements, settings.name, lists)
    if lists is None:
        lists = OnDisk(track(checked, None, "reading", lines=reader.first_file))
    else:
        deque(checked, maxlen=0)
    if told:
        tell(told)
    if tuned is not None and (used is not None or told):
        inputs.note_other_model(tuned, input_file, written_by)
    origin = {} if used is None else {"tuned": used.name}
    length = max_length or (tuned.penalty_length if tuned is not None else None)
    space = inputs.word_vectors(settings.vectors, lists)
    strategy = settings.build(max_length=length, space=space)
    inputs.note_length([strategy], lists)
    inputs.note_other_length([strategy], input_file, written_by)
    warm_up(strategy)
    ranker = Ranker(strategy, workers, replies_only=nbest_file is None)
    batch_size = BATCH_SIZE if is_parallel(strategy) else 1  # alone, each is written as soon as it is there
    vectors = space() if space is not None and settings.uses_vectors else None
    recipe = RankerRecipe(settings, length, vectors, workers, replies_only=nbest_file is None)
    with places.share(lambda each: ranker.stream(each, batch_size), recipe, batch_size) as answers:
        write_answers(
            lists,
            answers,
            signature=strategy.signature.extended(**origin, bidibeam=__version__),
            nbest_file=nbest_file,
            resume=resume,
            total=len(lists),
            description="reranking",
        )


def _rerank_on_ray(
    source: str,
    wanted: dict[str, Any],
    flags: dict[str, Any],
    max_length: int | None,
    tuned_file: Path | None,
) -> None:
    """The same on shards, by many machines; who answers where nobody says is decided by the first lists."""
    from bidibeam.distributed.tasks import RankTask
    from bidibeam.strategies.settings import StrategySettings

    processes, workers = flags.pop("processes"), flags["workers"]
    settings, _ = inputs.take_strategy(flags)
    check_unused({OF_LISTS[name]: flags[name] for name in OF_LISTS})
    tuned = inputs.read_tuned(tuned_file)
    if settings is None:
        recommended = None if tuned is None else tuned.recommended
        name = recommended or find_default(source)
        settings = StrategySettings.named(name)
        why = "recommended by tuned.json" if recommended else "the default for such lists"
        tell(f"Strategy: {name} ({why})")
    settings, used = (settings, None) if tuned is None else tuned.apply(settings)
    settings.check_tuned()
    origin = {} if used is None else {"tuned": used.name}
    length = max_length or (tuned.penalty_length if tuned is not None else None)
    task = RankTask(locate_vectors(settings) or settings, length, origin, wanted["replies_only"], workers)
    run_on_ray("rerank", source, task, wanted, processes)
