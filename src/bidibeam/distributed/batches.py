"""Callable classes for `Dataset.map_batches` of Ray Data, where a job is one step of a pipeline of your own.

from ray.data import ActorPoolStrategy, read_parquet

from bidibeam.distributed import BatchDecoder

answered = read_parquet("sources").map_batches(
    BatchDecoder,
    fn_constructor_kwargs={"model": "run", "strategy": "bidia", "search": {"beam_size": 50}},
    batch_size=64,
    compute=ActorPoolStrategy(size=2),
    num_gpus=1,
)
answered.write_parquet("answers")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bidibeam.api.recipes import DecoderRecipe, ModelRecipe
from bidibeam.distributed.tasks import DecodeTask, RankTask
from bidibeam.interchange.nbest import to_json
from bidibeam.interchange.text_lines import JsonObject
from bidibeam.strategies.settings import DEFAULT_SIMILARITY, StrategySettings

if TYPE_CHECKING:
    from bidibeam.decoding.decoder import Answer
    from bidibeam.distributed.shards import Answerer

Batch = dict[str, Any]
"""Columns by name, as Ray gives and takes them."""


class BatchDecoder:
    """Answers a column of sources: a batch gets the columns "reply" and "score".

    Args:
        model: As `bidibeam.load` takes it.
        strategy: A system's name, as `bidibeam.load_decoder` takes it.
        reverse: The model that writes from the end, where it is one of its own.
        search: Fields of `SearchSettings`, such as beam_size.
        load: Further arguments of `bidibeam.load`, such as device.
        column: The column of sources; "reference" or "references" is read where a strategy needs it.
        lists: Whether the column "n_best" is added, each a line of an n-best file.
    """

    def __init__(
        self,
        model: str | None = None,
        strategy: StrategySettings | str | None = None,
        *,
        reverse: str | None = None,
        search: Mapping[str, Any] | None = None,
        load: Mapping[str, Any] | None = None,
        column: str = "source",
        lists: bool = False,
    ) -> None:
        options = {"replies_only": not lists, "score_other": lists}
        recipe = DecoderRecipe(ModelRecipe(model, reverse, load or {}), strategy, search or {}, options)
        self._answerer, self._column, self._lists = DecodeTask(recipe).build(), column, lists

    def __call__(self, batch: Batch) -> Batch:
        """The batch with its answers."""
        known = [name for name in ("id", "reference", "references") if name in batch]
        rows = [
            {"source": source, **{name: _plain(batch[name][place]) for name in known}}
            for place, source in enumerate(map(_plain, batch[self._column]))
        ]
        return _with_answers(batch, rows, self._answerer, lists=self._lists)


class BatchRanker:
    """Chooses among the lists in a column of lines of n-best files, as `ray.data.read_text` gives them.

    Args:
        strategy: A system's name, such as "bidia bleu_t", or its settings.
        max_length: T of similarities; by default the median of what a hypothesis is compared with.
        column: The column of lines.
        lists: Whether the column "n_best" is added, each a line of an n-best file with the new ranking.
    """

    def __init__(
        self,
        strategy: StrategySettings | str = f"bidia {DEFAULT_SIMILARITY}",
        *,
        max_length: int | None = None,
        column: str = "text",
        lists: bool = False,
    ) -> None:
        settings = StrategySettings.named(strategy) if isinstance(strategy, str) else strategy
        settings.check_tuned()
        self._answerer = RankTask(settings, max_length, replies_only=not lists).build()
        self._column, self._lists = column, lists

    def __call__(self, batch: Batch) -> Batch:
        """The batch with its answers."""
        rows = [JsonObject.parse(str(line), "a list", 0).fields for line in batch[self._column]]
        return _with_answers(batch, rows, self._answerer, lists=self._lists)


def _plain(value: Any) -> Any:
    """A value of a column without NumPy's type."""
    return value.tolist() if hasattr(value, "tolist") else value


def _with_answers(
    batch: Batch, rows: Sequence[Mapping[str, Any]], answerer: Answerer, *, lists: bool
) -> Batch:
    parse: Callable[[JsonObject], Any] = answerer.begin_shard()
    sources = [parse(JsonObject(row, f"row {number}", number)) for number, row in enumerate(rows, start=1)]
    answers: list[Answer] = [*answerer.answers(sources)]
    first = [answer.ranking.entries[0].score if len(answer.ranking) else None for answer in answers]
    added: Batch = {"reply": [answer.text for answer in answers], "score": first}
    if lists:
        how: Any = {"signature": answerer.signature, "batch_size": answerer.batch_size}
        added["n_best"] = [to_json(answer.beams, answer.ranking, **how) for answer in answers]
    return {**batch, **added}
