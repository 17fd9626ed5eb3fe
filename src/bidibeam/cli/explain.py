"""`bidibeam explain`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from bidibeam.cli import inputs, options
from bidibeam.cli.console import format_count, note, tell
from bidibeam.cli.output import check_not_input
from bidibeam.errors import InputError
from bidibeam.files import write_json, write_text
from bidibeam.interchange.lists import ListReader

if TYPE_CHECKING:
    from bidibeam.decoding.explaining import Explanation

OF_LISTS = {
    *(
        "lists_file",
        "from_format",
        "first",
        "out_file",
        "max_length",
        "strategy",
        "similarity",
        "similarity_options",
    ),
    *("vectors", "strategy_options", "workers", *inputs.STRATEGY_FLAGS),
}
"""Parameters that go with --lists; all others are of a model and its search."""


@click.command()
@options.model_argument
@click.argument("source", required=False)
@options.option(
    "--lists lists_file",
    "Explain the n-best lists of a file instead (docs/nbest.md), of any format that its first lines tell; no "
    "model needed. --max-length is then T of bleu_t and wmd_t. `convert` joins regular and reverse lists.",
    "FILE",
)
@options.list_format
@options.option("--first", "Of --lists, explain so many sources.", options.COUNT, 50)
@options.option(
    "-o --out out_file",
    "The page to write; - is stdout, and a name in .json gets the page's data alone.",
    "FILE",
    "explanation.html",
)
@options.model
@options.strategy
@options.search
def explain(
    model: str | None,
    source: str | None,
    lists_file: str | None,
    from_format: str | None,
    first: int,
    out_file: str,
    **flags: Any,
) -> None:
    """Show both beams of a source and why a reply won, as a page.

    The page is one file that needs nothing else: the two beams, each strategy's choice and why, how alike
    all pairs are, and sliders that rank again. MODEL is a run of `bidibeam train`, a Hugging Face model's
    folder or name, or a CTranslate2 folder; one word alone is the SOURCE, and the model the small one that
    comes with bidibeam. A direction that the strategy does not search is searched for the page.

    \b
    bidibeam explain "i have an exam tomorrow."
    bidibeam explain runs/first "i have an exam tomorrow." --strategy "bidia wmd_t" --beam-size 20
    bidibeam explain runs/first "how are you?" --out how.html
    bidibeam explain --lists beams.jsonl --strategy "bidia bleu" --out beams.html
    bidibeam explain "how are you?" --out - > how.html
    """  # noqa: D301
    check_not_input(out_file, [lists_file])
    if lists_file is not None:
        _check_lists_alone([model, source])
        explanations = _explain_lists(ListReader(lists_file, from_format), first, flags)
    else:
        model, text = _split_words(model, source, is_named=flags["regular"] is not None)
        explanations = [_explain_source(model, text, flags)]
    documents: list[Any] = [each.to_dict() for each in explanations]
    _write(documents, out_file, is_list=lists_file is not None)
    if lists_file is None:
        (only,) = explanations
        tell(f"{only.source!r} is answered with {only.reply!r}.")
    if out_file != "-":
        tell(f"{out_file} explains {format_count(len(documents), 'reply', 'replies')}.")


def _split_words(model: str | None, source: str | None, *, is_named: bool) -> tuple[str | None, str]:
    """The model, if one is named, and the source: one word alone is the source."""
    if is_named and source is not None:
        raise click.UsageError(f"--regular stands instead of MODEL, not beside {model}.")
    if source is not None:
        return model, source
    if model is None:
        raise click.UsageError('There is no source to explain. Name one, in quotes: "how are you?"')
    if not model.strip():
        raise click.UsageError('The source is empty. Say something, in quotes: "how are you?"')
    if _is_folder(model):
        raise click.UsageError(f'{model} is a folder. Name the source behind it, in quotes: "how are you?"')
    return None, model


def _is_folder(name: str) -> bool:
    """Whether a word names a folder; a long source is too long for a name."""
    try:
        return Path(name).is_dir()
    except OSError:
        return False


def _check_lists_alone(words: Sequence[str | None]) -> None:
    """Refuse what belongs to a model and its search, which lists need neither of."""
    context = click.get_current_context()
    if any(word is not None for word in words):
        raise click.UsageError("--lists hold their sources: leave out MODEL and SOURCE.")
    for option in context.command.params:
        is_given = context.get_parameter_source(option.name or "") is ParameterSource.COMMANDLINE
        if is_given and option.name not in OF_LISTS:
            raise click.UsageError(f"{option.opts[-1]} is of a model and its search, which --lists are past.")


def _explain_source(model: str | None, source: str, flags: dict[str, Any]) -> Explanation:
    from bidibeam.api import load_decoder

    strategy, _ = inputs.take_strategy(flags)
    loaded, settings, tuned = inputs.load_for_search(inputs.take_model(model, flags), flags)
    decoder = load_decoder(loaded, strategy, settings=settings, tuned=tuned)
    if strategy is None:
        tell(f"Strategy: {decoder.system} ({decoder.reason})")
    explanation = decoder.explain(source)
    if loaded.find_unknown([source])[0]:
        inputs.note_unknown({"the source": source}, "sources")
    return explanation


def _explain_lists(reader: ListReader, first: int, flags: dict[str, Any]) -> list[Explanation]:
    from bidibeam.decoding.explaining import explain_beams
    from bidibeam.strategies.settings import FOR_ANY_LISTS, StrategySettings, default_for_lists

    settings, _ = inputs.take_strategy(flags)
    signature = str(reader.written_by)
    lists = [*islice(reader, first + 1)]
    if not lists:
        raise InputError(f"{reader.files[0]} holds no lists, so there is nothing to explain.")
    if len(lists) > first:
        note(f"the first {format_count(first, 'source is', 'sources are')} explained; --first takes more.")
    lists = lists[:first]
    if settings is None:
        settings = StrategySettings.named(default_for_lists(lists, FOR_ANY_LISTS))
        tell(f"Strategy: {settings.system} (the default for such lists)")
    settings.check_tuned()
    lists = [*reader.check(settings.requirements, settings.name, lists)]
    space = inputs.word_vectors(settings.vectors, lists)
    strategy = settings.build(max_length=flags["max_length"], space=space)
    return [
        explain_beams(each, strategy, max_length=flags["max_length"], signature=signature) for each in lists
    ]


def _write(documents: list[Any], out_file: str, *, is_list: bool) -> None:
    """Write the page, or the data of a file in .json, all or nothing."""
    path = Path(out_file)
    if path.suffix.lower() == ".json":
        write_json(path, documents if is_list else documents[0])
        return
    from bidibeam.reporting.page import render_page  # brings jinja2

    page = render_page(documents)
    if out_file == "-":
        click.echo(page, nl=False)
    else:
        write_text(path, page)
