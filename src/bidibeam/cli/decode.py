"""`bidibeam decode`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli import options
from bidibeam.cli.console import note, tell
from bidibeam.cli.inputs import (
    LENGTH_SOURCES,
    load_for_search,
    note_length,
    note_unknown,
    take_model,
    take_search,
    take_strategy,
)
from bidibeam.cli.on_ray import check_unused, locate_model, locate_vectors, run_on_ray, take_executor
from bidibeam.cli.output import check_output, write_answers
from bidibeam.cli.sharing import take_places
from bidibeam.decoding.decoder import Answer
from bidibeam.errors import InputError, SettingsError
from bidibeam.hypotheses import Beams
from bidibeam.interchange.reading import read_sources, with_distinct_ids
from bidibeam.interchange.text_lines import Lines, open_lines
from bidibeam.strategies.ranking import warm_up

if TYPE_CHECKING:
    from bidibeam.api.tuned import TunedSettings
    from bidibeam.models.base import Model
    from bidibeam.protocols import Strategy
    from bidibeam.search.settings import SearchSettings

ENOUGH = 10
"""Replies of which it is worth saying what T decides."""


@click.command()
@options.model_argument
@click.argument("input_file", metavar="[INPUT]", required=False)
@options.model
@options.strategy
@options.search
@options.output
@options.batch_size
@options.processes
@options.devices
@options.executor
@options.option("--line-buffered", "Answer each line before the next one is read.", bool)
def decode(
    model: str | None,
    input_file: str | None,
    nbest_file: Path | None,
    resume: bool,
    batch_size: int | None,
    line_buffered: bool,
    **flags: Any,
) -> None:
    """Answer one source per line; write one reply per line.

    MODEL is a run of `bidibeam train`, a Hugging Face model's folder or name, or a CTranslate2 folder; left
    out, it is the small model that comes with bidibeam. The reverse model of a pair is named by --reverse.
    INPUT is a text file, a .tsv file of sources and references, or JSON lines (.jsonl) with "source" and,
    where there are any, "id" and "reference"; left out or -, it is stdin. Sources longer than any that
    training saw keep only their last tokens.

    \b
    echo "how are you?" | bidibeam decode
    bidibeam decode sources.txt > replies.txt
    bidibeam decode runs/first data/test.jsonl --beam-size 50 --n-best beams.jsonl > replies.txt
    bidibeam decode runs/first data/test.jsonl --strategy bidis --lambda 0.5
    bidibeam decode runs/first data/test.jsonl --strategy "bidia wmd_t either" --vectors wiki.vec
    bidibeam decode bart --reverse bart-reverse data/test.jsonl --beam-size 50
    """  # noqa: D301
    from bidibeam.api import load_decoder
    from bidibeam.api.recipes import DecoderRecipe, ModelRecipe

    if (wanted := take_executor(flags)) is not None:
        left_out = {"--n-best": nbest_file, "--line-buffered": line_buffered, "--device": flags["device"]}
        check_unused({**left_out, "--devices": flags.pop("devices")})
        _decode_on_ray(model, input_file, wanted, flags, batch_size)
        return
    places = take_places(flags)
    if line_buffered and places.processes > 1:
        raise SettingsError("--line-buffered answers each line before the next: leave out --processes.")
    strategy, workers = take_strategy(flags, places.processes)
    model, input_file = _split_arguments(model, input_file, is_named=flags["regular"] is not None)
    named = take_model(model, flags)
    check_output(nbest_file, [input_file], resume=resume)
    lines = _open(input_file)
    places.use_threads()
    loaded, settings, tuned = load_for_search(named, flags)
    is_kept = nbest_file is not None
    chosen: Any = {
        "batch_size": batch_size,
        "workers": workers,
        "replies_only": not is_kept,
        "score_other": is_kept,
    }
    decoder = load_decoder(loaded, strategy, settings=settings, tuned=tuned, **chosen)
    name, reverse = named.pop("name"), named.pop("reverse")
    recipe = DecoderRecipe(ModelRecipe(name, reverse, named, places.threads), strategy, flags, chosen)
    if strategy is None:
        tell(f"Strategy: {decoder.system} ({decoder.reason})")
    if line_buffered:
        decoder = replace(decoder, batch_size=1, prefetch=False)
    facts = dict(decoder.signature.facts)
    if tuned is not None and "tuned" in facts:
        _note_tuning(tuned, settings, facts)
    warm_up(decoder.ranker.strategy)
    sources, summary = read_sources(lines, skip_blank=not line_buffered), _Summary(loaded)
    with places.share(decoder.answers, recipe, decoder.batch_size) as answers:
        write_answers(
            with_distinct_ids(sources) if nbest_file is not None else sources,
            lambda each: summary.collect(answers(each)),
            signature=decoder.signature,
            nbest_file=nbest_file,
            resume=resume,
            batch_size=decoder.batch_size,
            lines=lines,
        )
    used = decoder.ranker.strategy
    summary.tell(used, settings)
    if nbest_file is not None and len(loaded.directions) > len(used.requirements.directions):
        note(f"{nbest_file} has one beam alone, as the strategy needs it: --strategy bidia writes both.")


def _decode_on_ray(
    model: str | None,
    input_file: str | None,
    wanted: dict[str, Any],
    flags: dict[str, Any],
    batch_size: int | None,
) -> None:
    """The same on shards, by many machines; a name that stands alone is the input's."""
    from bidibeam.api.recipes import DecoderRecipe, ModelRecipe
    from bidibeam.distributed.tasks import DecodeTask

    processes, workers = flags.pop("processes"), flags["workers"]
    strategy, _ = take_strategy(flags)
    model, source = (None, model) if input_file is None else (model, input_file)
    if input_file is None and source is not None and (Path(source) / "config.json").is_file():
        raise InputError(f"{source} is a model: name the shards, too.")
    named = take_model(model, flags)
    name, reverse = (locate_model(named.pop(each)) for each in ("name", "reverse"))
    chosen: Any = {"batch_size": batch_size, "workers": workers, "replies_only": wanted["replies_only"]}
    chosen["score_other"] = not wanted["replies_only"]
    loading = ModelRecipe(name, reverse, named)
    recipe = DecoderRecipe(loading, locate_vectors(strategy), take_search(flags), chosen)
    run_on_ray("decode", source, DecodeTask(recipe), wanted, processes)


@dataclass
class _Summary:
    """What is worth a note at the end: unknown sources, hypotheses cut off, and the first beams."""

    model: Model
    unknown: dict[str, str] = field(default_factory=dict)  # the first
    unknown_count: int = 0
    is_finished: Counter[bool] = field(default_factory=Counter)
    first: list[Beams] = field(default_factory=list)

    def collect(self, answers: Iterable[Answer]) -> Iterator[Answer]:
        """Passes answers on, and keeps count of them."""
        for each in answers:
            if self.model.find_unknown([each.beams.source])[0]:
                self.unknown = self.unknown or {f"source {each.beams.id}": each.beams.source}
                self.unknown_count += 1
            self.is_finished.update(one.finished for one in (*each.beams.regular, *each.beams.reverse))
            if len(self.first) < LENGTH_SOURCES:
                self.first.append(each.beams)
            yield each

    def tell(self, strategy: Strategy, settings: SearchSettings) -> None:
        """Prints the notes."""
        note_unknown(self.unknown, "sources", self.unknown_count)
        if len(self.first) >= ENOUGH:
            note_length([strategy], self.first, flag="--similarity-option max_length=N")
        if cut_off := self.is_finished[False]:
            total, limit = self.is_finished.total(), settings.max_length
            note(f"{cut_off:,} of {total:,} hypotheses were cut off at --max-length {limit}.")


def _split_arguments(model: str | None, input_file: str | None, *, is_named: bool) -> tuple[str | None, str]:
    """The model, if one was named, and the input: a name that stands alone is a model if it is a folder.

    Where the model is named by --regular (`is_named`), only the input may stand alone.
    """
    if is_named:
        if input_file is not None or Path(model or "-").is_dir():
            raise click.UsageError(f"--regular stands instead of MODEL, not beside {model}.")
        return None, model or "-"
    if model is None or input_file is not None or Path(model).is_dir():
        return model, input_file or "-"
    if model == "-" or Path(model).exists():  # a pipe will do
        return None, model
    raise InputError(
        f"{model} is neither the folder of a model (a run, a Hugging Face model, a CTranslate2 folder) nor a "
        "file of sources: there is nothing by that name. To name a model of the Hugging Face Hub, name the "
        "input too: - for stdin."
    )


def _open(input_file: str) -> Lines:
    """The lines of the file, if it can be read, or of stdin; a person at a keyboard is told so."""
    if input_file == "-" and sys.stdin.isatty():
        click.echo("Reading sources from the keyboard, one a line; Ctrl-D ends.", err=True)
    lines = open_lines(input_file)
    click.get_current_context().call_on_close(lines.close)
    if lines.size is not None or not (input_file == "-" or Path(input_file).exists()):
        lines.peek()  # so that what cannot be read is refused before a model is loaded
    return lines


def _note_tuning(tuned: TunedSettings, settings: SearchSettings, facts: Mapping[str, str]) -> None:
    """Say so if what is used was tuned for another search, or is a lambda of 0, which makes bidis vbs."""
    if facts.get("lambda") == "0":
        note(
            "lambda 0 was tuned for bidis, so it answers as vbs does; above 0 the reverse score counts too: "
            "--strategy bidis --lambda 0.5."
        )
    search = tuned.content.get("search", {})
    then = {name: search[name] for name in ("beam_size", "max_length") if name in search}
    if any(value != getattr(settings, name) for name, value in then.items()):
        told = " and ".join(f"--{name.replace('_', '-')} {value}" for name, value in then.items())
        note(f"the strategy's settings were tuned with {told}.")
