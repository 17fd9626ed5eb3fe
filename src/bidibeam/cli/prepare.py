"""`bidibeam prepare`: a corpus to prepared data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bidibeam.cli.console import format_count, note, show, show_preparation, tell
from bidibeam.cli.options import PATH, option
from bidibeam.fields import show_value

if TYPE_CHECKING:
    from bidibeam.data.prepared import PreparedData

FEW_ITEMS = 50
"""On fewer validation items, training stops and settings are tuned nearly at random."""
LOW_COVERAGE = 0.5
"""Of the running words of validation: with less, most of what is read is unknown."""
KINDS = ["char", "word", "bpe"]


@click.command()
@click.argument("corpus", default="chitchat")
@option("--source", "File, folder or archive to read the corpus from.", PATH)
@option("--out", "Directory to write.", PATH, required=True)
@option(
    "--pairs", "Pair turns (all a speaker says in a row) or utterances.", ["turns", "utterances"], "turns"
)
@option("--source-lang", "Of bitext, multi30k and inflection: the language of sources, as files end.")
@option("--target-lang", "Of bitext and multi30k: the language of responses.")
@option(
    "--split-by",
    "What no two splits share: conversations (sources, of pairs without one), or pairs.",
    ["conversation", "pair"],
    "conversation",
)
@option("--validation-share", "Of all conversations (or pairs), kept to choose settings on.", float, 0.01)
@option("--test-share", "Kept to measure on; all the rest is for training.", float, 0.02)
@option("--seed", "Another seed gives another split.", int, 0)
@option(
    "--max-source-length",
    "In tokens; longer are dropped, but not from official validation and test sets.",
    int,
    50,
)
@option("--max-response-length", "In tokens; longer are dropped likewise.", int, 20)
@option("--tokenizer", "Characters, words, or byte-level pieces.", KINDS, "word")
@option("--source-tokenizer", "Of sources, if it is another: each side then has its vocabulary.", KINDS)
@option("--target-tokenizer", "Of responses, likewise.", KINDS)
@option("--cased", "Keep the case of words and characters, as pieces always do.", bool)
@option("--vocabulary-size", "Of each vocabulary, four special tokens included.", int, 20_000)
@option("--limit", "Take only so many conversations, always the same.", int)
@option("--keep-text", "Write the text of training pairs too, which `train --base` needs.", bool)
@option("--overwrite", "Replace prepared data in --out, or write beside other files.", bool)
def prepare(corpus: str, source: Path | None, out: Path, *, overwrite: bool, **flags: Any) -> None:
    """Turn a corpus into pairs of token ids that training reads.

    CORPUS is chitchat (the default, installed with bidibeam), cornell, convokit, swda, dailydialog, cmudict,
    multi30k, inflection, e2e, jsonl, tsv or bitext; all but the first need --source. Your own dialogues are
    best written as JSON lines; pairs may also be tab-separated, or in aligned files:

    \b
      {"messages": [{"role": "ann", "content": "Tea?"}, {"role": "bob", "content": "Please."}]}
      {"source": "Tea?", "response": "Please."}
      {"source": "Tea?", "references": ["Please.", "Yes, please."], "split": "test"}

    Official splits are used where a folder or archive has some: files named train, validation (or valid, val,
    dev) and test, or else folders; several test files are several test sets, by their names. A "split" in
    JSON lines goes over the name. Official validation and test splits keep their order, and pairs that are
    too long. A split that is missing is taken out of training by hash: of conversations, or of sources where
    pairs belong to none.
    Held-out pairs of one source that belong to no conversation are one item with several references.

    \b
    Examples:
      bidibeam prepare chitchat --out data/chitchat
      bidibeam prepare cornell --source cornell_movie_dialogs_corpus.zip --out data/cornell
      bidibeam prepare jsonl --source dialogues.jsonl.gz --out data/mine --tokenizer bpe
      bidibeam prepare tsv --source lexicon.tsv --out data/g2p --source-tokenizer char --cased
      bidibeam prepare bitext --source FOLDER --source-lang de --target-lang en --out data/de-en

    Pairs that are empty or too long are dropped and counted. The directory then holds pairs.safetensors,
    tokenizer.json, data.json, stats.json, and the texts of held-out pairs, validation.jsonl and test.jsonl;
    with --keep-text also those of training pairs, train.jsonl; and source_tokenizer.json where sources have a
    tokenizer of their own.
    """  # noqa: D301 (click reads the backspace as "do not rewrap")
    from bidibeam.data.corpora import find_defaults
    from bidibeam.data.prepare import PrepareSettings
    from bidibeam.data.prepare import prepare as prepare_corpus

    is_given = click.get_current_context().get_parameter_source
    given = {name: flags[name] for name in flags if is_given(name) is not click.core.ParameterSource.DEFAULT}
    settings = PrepareSettings.for_corpus(corpus, **given)
    suits = find_defaults(corpus, "suits")
    if told := ", ".join(f"{name} {suits[name]}" for name in suits if name not in given):
        show(f"Settings that suit {corpus}: {told}.", style="dim")
    with show_preparation() as progress:
        data = prepare_corpus(settings, source, out, overwrite=overwrite, progress=progress)
    show_summary(data)
    if (count := data.info["items"]["validation"]) < FEW_ITEMS:
        is_official = "validation" in data.statistics["splits"]["official"]
        share = f"a larger --validation-share than {settings.validation_share:g} keeps more"
        more = "" if is_official else f"; {share}"
        note(f"validation has {format_count(count, 'item')}, which is too few to choose settings on{more}.")
    more = "--base MODEL --out FOLDER" if flags["keep_text"] else "--out RUN"
    tell(f"Wrote {out}. Next: bidibeam train {out} {more}", style=None)


def show_summary(data: PreparedData) -> None:
    """Print what became of a corpus: pairs, drops and coverage by split, then lengths and bad lines."""
    from rich.table import Table

    statistics = data.statistics
    splits, lines, sets = list(statistics["pairs"]), statistics["lines"], data.test_sets
    first_bad = f"; the first is {lines['first_bad']}" if lines.get("first_bad") else ""
    described = [
        f"{lines['total']:,} lines read, {lines['bad']:,} malformed{first_bad}.",
        _describe_splits(statistics),
    ]
    if len(sets) > 1:
        counts = (f"{name} {place.stop - place.start:,}" for name, place in sets.items())
        described.append(f"Test sets: {', '.join(counts)}.")
    known = (
        f"{leak['shared']:,} of {leak['items']:,} {leak['compared']} of {name}"
        for name, leak in statistics["leaks"].items()
    )
    described.append(f"Also in training: {', '.join(known)}.")
    for moment in ("before_limits", "after_limits"):
        for side in ("source", "response"):
            lengths = statistics["lengths"][moment][side]
            described.append(
                f"{side.capitalize()} length {moment.replace('_', ' ')}: mean {lengths['mean']}, "
                f"median {lengths['p50']}, 95 % {lengths['p95']}, longest {lengths['max']:,}."
            )
    table = Table(title="Prepared pairs", caption="\n".join(described), caption_justify="left")
    table.add_column("")
    for split in splits:
        table.add_column(split, justify="right")
    table.add_row("pairs kept", *(f"{statistics['pairs'][split]:,}" for split in splits))
    if data.info["items"] != statistics["pairs"]:
        counts = ("-" if split == "train" else f"{data.info['items'][split]:,}" for split in splits)
        table.add_row("sources, with all references", *counts)
    for reason in statistics["dropped"][splits[0]]:
        counts = (f"{statistics['dropped'][split][reason]:,}" for split in splits)
        table.add_row(f"dropped: {reason.replace('_', ' ')}", *counts)
    if any(statistics["repeats"].values()):
        counts = (f"{statistics['repeats'].get(split, 0):,}" for split in splits)
        table.add_row("repeated, kept once", *counts)
    for side in ("source", "response"):
        shares = (f"{100 * statistics['coverage'][split][side]:.2f} %" for split in splits)
        table.add_row(f"{side} words in vocabulary", *shares)
    show(table)
    note_oddities(data)


def note_oddities(data: PreparedData) -> None:
    """Say what may spoil a measure: unknown words, texts that cannot be written, or stand elsewhere too."""
    statistics = data.statistics
    for split, count in statistics["kept_though_too_long"].items():
        if count:
            note(f"The official {split} split keeps {format_count(count, 'pair')} longer than the limits.")
    for split, count in statistics["given"].items():
        kept = data.info["items"][split]
        if kept != count and split in statistics["splits"]["official"]:
            note(
                f"The official {split} split has {format_count(count, 'pair')} and "
                f"{format_count(kept, 'item')}: equal sources are one item, and blank ones are dropped. So "
                "replies lie beside the lines of the prepared file, and not of the original."
            )
    for split, found in statistics["rewritten"].items():
        if found["count"]:
            text, written = map(show_value, found["first"])
            note(
                f"no reply can equal {found['count']:,} of {format_count(found['references'], 'reference')} "
                f"of {split}, which the tokenizer writes otherwise, such as {text} as {written}. "
                "--target-tokenizer bpe writes all texts as they are."
            )
    for side, coverage in statistics["coverage"]["validation"].items():
        if coverage < LOW_COVERAGE:
            flag = {"source": "--source-tokenizer", "response": "--target-tokenizer"}[side]
            note(
                f"only {100 * coverage:.0f} % of the words in validation {side}s are in the vocabulary: "
                f"{flag} char or bpe reads words that training has not seen."
            )
    if not data.tokenizer.is_cased and statistics["splits"]["by_hash_of"] != "conversations":
        note("responses are lower-cased; --cased keeps capital letters, as do pieces (bpe).")
    for name, leak in statistics["leaks"].items():
        if leak["shared"]:
            share = 100 * leak["shared"] / leak["items"]
            tell(
                f"Warning: {leak['shared']:,} of {leak['items']:,} {leak['compared']} of {name} "
                f"({share:.{0 if share >= 1 else 2}f} %) also stand in training, case ignored: "
                "scores on them say little about new ones.",
                style="yellow",
            )
        if count := leak.get("in_validation"):
            tell(
                f"Warning: {count:,} of {leak['items']:,} {leak['compared']} of {name} also stand in "
                "validation: what is chosen there is chosen on them.",
                style="yellow",
            )


def _describe_splits(statistics: dict[str, Any]) -> str:
    """Returns the sentence that says where the splits come from."""
    official, way = statistics["splits"]["official"], statistics["splits"]["by_hash_of"]
    if not official:
        return f"Splits by hash of {way}."
    others = {"train": "all other pairs"}
    by_hash = f"taken out of training by hash of {way}"
    sources = (
        f"{split} {', '.join(official[split]) if split in official else others.get(split, by_hash)}"
        for split in statistics["pairs"]
    )
    unused = statistics["splits"]["unused"]
    rest = f" Not read, since their names begin with no split: {', '.join(unused)}." if unused else ""
    return f"Official splits: {'; '.join(sources)}.{rest}"
