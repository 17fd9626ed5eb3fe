"""What `evaluate` and `analyse` print: scores, tests and analyses as small tables, and notes on them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bidibeam.cli.console import FEW_SOURCES, format_count, note, show, tell
from bidibeam.reporting.tables import NumbersTable, samples_panel, values_table

if TYPE_CHECKING:
    from rich.console import RenderableType

WHY_TWO_ANSWERS = (
    "low and high hold the difference on 95 % of bootstrap resamples; p is how often one as large comes of "
    "chance alone, if replies are resampled, or swapped at random. They answer different questions, so near "
    "0.05 they can disagree, also with whether low and high leave out 0: take such a difference as undecided."
)
"""What stands under the tests."""
SAMPLES = 3
"""Examples that are printed; the file has all."""
Content = Mapping[str, Any]


def print_evaluation(results: Content, baselines: Sequence[str]) -> None:
    """Tables of scores and tests, and what is to be noted about them."""
    systems: dict[str, Any] = results["systems"]
    scores = next(iter(systems.values()))["scores"]
    columns = {name: [key for key in score if key != "signature"] for name, score in scores.items()}
    groups = [
        [(name if key == "value" else key).replace("_", "\n").replace("-", "\n-") for key in keys]
        for name, keys in columns.items()
    ]
    rows = [
        (system, [f"{each['scores'][name][key]:.4g}" for name, keys in columns.items() for key in keys])
        for system, each in systems.items()
    ]
    show(NumbersTable(format_count(results["sources"], "source"), groups, rows, is_dense=True), crop=False)
    groups = [["difference", "low", "high"], ["p, paired\nbootstrap", "p, approximate\nrandomisation"]]
    for baseline in baselines:
        rows = [
            (
                test["system"],
                [f"{test[key]:.4g}" for key in ("difference", "low", "high")]
                + [f"{test[key]:.2g}" for key in ("paired_bootstrap", "approximate_randomisation")],
            )
            for test in results["tests"]
            if test["baseline"] == baseline
        ]
        if rows:
            show(NumbersTable(f"BLEU beside that of {baseline}", groups, rows, is_dense=True), crop=False)
    if results["tests"]:
        show(WHY_TWO_ANSWERS, style="dim")
    for sentence in _notes(results):
        note(sentence)


def _notes(results: Content) -> Iterator[str]:
    """What is to be noted about scores and tests."""
    sources, systems = results["sources"], results["systems"]
    if sources < FEW_SOURCES:
        yield f"{format_count(sources, 'source')}: scores and tests on so few say little."
    empty = results["empty_references"]
    if empty:
        fate = (
            "is empty; it counts as it is, and no reply has a word in common with it"
            if empty == 1
            else "are empty; they count as they are, and no reply has a word in common with them"
        )
        yield f"{empty:,} of {format_count(sources, 'reference')} {fate}."
    for name, each in systems.items():
        if each["empty"]:
            is_one = each["empty"] == 1
            fate = "is empty; it scores as it is" if is_one else "are empty; they score as they are"
            yield f"{each['empty']:,} of {format_count(sources, 'reply', 'replies')} of {name} {fate}."
    sizes: dict[str, int] = results["beam_sizes"]
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} {size}" for name, size in sizes.items())
        yield f"the systems did not choose among as many hypotheses (N_B): {told}."
    if len(systems) == 1:
        yield "there is one system and nothing to compare it with, so no test was made."
    elif not results["tests"]:
        yield "tests are made on BLEU, which was not asked for, so there is none; add --metric bleu."


def print_signatures(results: Content) -> None:
    """How every number was computed; what is the same for all systems is said once."""
    told = [(name, each["signature"]) for name, each in results["systems"].items()]
    for each in results["systems"].values():
        told += [(metric, score["signature"]) for metric, score in each["scores"].items()]
    told += [("tests", test["signature"]) for test in results["tests"]]
    for name, signature in dict.fromkeys(told):
        tell(f"{name}: {signature}", style=None)


def print_analyses(contents: Content) -> None:
    """A small table or two of each analysis, by its name; those of other packages go to the file alone."""
    for name, content in contents.items():
        for table in TABLES[name](content) if name in TABLES else ():
            show(table)


def _ranks(content: Content) -> Iterator[RenderableType]:
    def row(found: Content) -> list[float]:
        counts = found["counts"]
        shares = (100 * sum(counts[:first]) / sum(counts) for first in (1, 5))
        return [found["mean"], found["median"], *shares, found["tied"]]

    yield values_table(
        f"Ranks: places in the regular beam of {content['beam_size']}",
        ["mean", "median", "first, %", "first 5, %", "tied for it"],
        [(name, row(found)) for name, found in content["systems"].items()],
    )


def _headroom(content: Content) -> Iterator[RenderableType]:
    by_size = content["by_beam_size"]
    names = dict.fromkeys(name for shares in by_size.values() for name in shares)
    yield values_table(
        f"Headroom: of the way from {content['baseline']} to the oracle, by N_B",
        list(by_size),
        [(name, [shares.get(name) for shares in by_size.values()]) for name in names],
    )
    for size, intervals in list(content["intervals"].items())[-1:]:
        yield values_table(
            f"95 % intervals of it at N_B = {size}",
            ["low", "high"],
            [(name, interval or (None, None)) for name, interval in intervals.items()],
        )


def _diversity(content: Content) -> Iterator[RenderableType]:
    names = ("bleu", "length_ratio", "distinct-1", "distinct-2")
    systems = content["systems"]
    yield values_table(
        "Diversity: of replies, and dist-2 of as many words of each",
        ["N_B", "bleu", "length", "dist-1", "dist-2", "same words"],
        [
            (name, [found["beam_size"], *(found[each] for each in names), found["same_words"]["distinct-2"]])
            for name, found in systems.items()
        ],
    )
    matched = [(name, found["matched"]) for name, found in systems.items()]
    if any(found for _, found in matched):
        yield values_table(
            "Beside it, VBS with a word reward that makes it as long",
            ["bleu", "length", "dist-1", "dist-2", "reward"],
            _select(matched, *names, "word_reward"),
        )
        yield values_table(
            "BLEU beside that of this VBS",
            ["difference", "low", "high", "p, approximate\nrandomisation"],
            _select(matched, "difference", "low", "high", "approximate_randomisation"),
        )


def _sensitivity(content: Content) -> Iterator[RenderableType]:
    rows = [
        (
            f"{row['system']}, {row['option']} {row['value']}{' *' if row['is_default'] else ''}"
            if row["option"] != "baseline"
            else row["system"],
            row,
        )
        for row in content["rows"]
    ]
    title = f"Sensitivity at N_B = {content['beam_size']} (* is the default)"
    yield values_table(
        title, ["bleu", "length", "dist-2"], _select(rows, "bleu", "length_ratio", "distinct-2")
    )


def _examples(content: Content) -> Iterator[RenderableType]:
    if content["examples"]:
        yield samples_panel("Where the systems disagree most", content["examples"][:SAMPLES])


def _constant(content: Content) -> Iterator[RenderableType]:
    replies = [(each["reply"], each) for each in (content["chosen"], *content["runners_up"])]
    yield values_table(
        f"One reply to all {content['references']['sources']:,} test sources, best on validation first",
        ["validation", "bleu", "low", "high", "length", "exact"],
        _select(replies, "validation_bleu", "bleu", "low", "high", "length_ratio", "exact"),
    )


def _positions(content: Content) -> Iterator[RenderableType]:
    places = [
        (f"{place['position']} from the {side}", place)
        for side, places in content["from"].items()
        for place in places
    ]
    yield values_table(
        f"Words by position in {content['pairs']:,} replies",
        ["different", "bits", "above 1,000"],
        _select(places, "different", "entropy_bits", "above_1000"),
    )


def _select(found: Iterable[tuple[str, Content]], *keys: str) -> list[tuple[str, list[float]]]:
    """Rows of a table: of each entry its name, and what it has for the keys."""
    return [(name, [values[key] for key in keys]) for name, values in found]


TABLES: Mapping[str, Callable[[Content], Iterator[RenderableType]]] = {
    "ranks": _ranks,
    "headroom": _headroom,
    "diversity": _diversity,
    "sensitivity": _sensitivity,
    "examples": _examples,
    "constant": _constant,
    "positions": _positions,
}
"""What is made of an analysis, by its name."""
