"""What `evaluate` and `analyse` print: scores, tests and analyses as small tables, and notes on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bidibeam.reporting.tables import NumbersTable

FEW_SOURCES = 100
"""Below so many, scores and tests say little."""
WHY_TWO_ANSWERS = (
    "low and high hold the difference on 95 % of bootstrap resamples; p is how often one as large comes of "
    "chance alone, if replies are resampled, or swapped at random. They answer different questions, so near "
    "0.05 they can disagree, also with whether low and high leave out 0: take such a difference as undecided."
)
"""What stands under the tests."""
SAMPLES = 3
"""Examples that are printed; the file has all."""


def print_evaluation(results: Mapping[str, Any], baselines: Sequence[str]) -> None:
    """Tables of scores and tests, and what is to be noted about them."""
    from bidibeam.cli.console import console, counted, note
    from bidibeam.reporting.tables import NumbersTable

    systems: dict[str, Any] = results["systems"]
    sources = results["sources"]
    scores = next(iter(systems.values()))["scores"]
    columns = {name: [key for key in score if key != "signature"] for name, score in scores.items()}
    groups = [
        [(name if key == "value" else key).replace("_", "\n").replace("-", "\n-") for key in keys]
        for name, keys in columns.items()
    ]
    rows = [
        (
            system,
            [f"{each['scores'][name][key]:.4g}" for name, keys in columns.items() for key in keys],
        )
        for system, each in systems.items()
    ]
    console.print(NumbersTable(counted(sources, "source"), groups, rows, is_dense=True), crop=False)
    for baseline in baselines:
        tests = [test for test in results["tests"] if test["baseline"] == baseline]
        if tests:
            console.print(_tests_table(baseline, tests), crop=False)
    if results["tests"]:
        console.print(WHY_TWO_ANSWERS, style="dim")
    for sentence in _notes(results):
        note(sentence)


def _notes(results: Mapping[str, Any]) -> Iterator[str]:
    """What is to be noted about scores and tests."""
    from bidibeam.cli.console import counted

    sources, systems = results["sources"], results["systems"]
    if sources < FEW_SOURCES:
        yield f"{counted(sources, 'source')}: scores and tests on so few say little."
    empty = results["empty_references"]
    if empty:
        fate = (
            "is empty; it counts as it is, and no reply has a word in common with it"
            if empty == 1
            else "are empty; they count as they are, and no reply has a word in common with them"
        )
        yield f"{empty:,} of {counted(sources, 'reference')} {fate}."
    for name, each in systems.items():
        if each["empty"]:
            is_one = each["empty"] == 1
            fate = "is empty; it scores as it is" if is_one else "are empty; they score as they are"
            yield f"{each['empty']:,} of {counted(sources, 'reply', 'replies')} of {name} {fate}."
    sizes: dict[str, int] = results["beam_sizes"]
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{name} {size}" for name, size in sizes.items())
        yield f"the systems did not choose among as many hypotheses (N_B): {told}."
    if len(systems) == 1:
        yield "there is one system and nothing to compare it with, so no test was made."
    elif not results["tests"]:
        yield "tests are made on BLEU, which was not asked for, so there is none; add --metric bleu."


def _tests_table(baseline: str, tests: Sequence[Mapping[str, Any]]) -> NumbersTable:
    from bidibeam.reporting.tables import NumbersTable

    rows = [
        (
            test["system"],
            [
                *(f"{test[key]:.4g}" for key in ("difference", "low", "high")),
                *(f"{test[key]:.2g}" for key in ("paired_bootstrap", "approximate_randomisation")),
            ],
        )
        for test in tests
    ]
    groups = [("difference", "low", "high"), ("p, paired\nbootstrap", "p, approximate\nrandomisation")]
    return NumbersTable(f"BLEU beside that of {baseline}", groups, rows, is_dense=True)


def print_signatures(results: Mapping[str, Any]) -> None:
    """How every number was computed; what is the same for all systems is said once."""
    from bidibeam.cli.console import console

    told = [(name, each["signature"]) for name, each in results["systems"].items()]
    for each in results["systems"].values():
        told += [(metric, score["signature"]) for metric, score in each["scores"].items()]
    told += [("tests", test["signature"]) for test in results["tests"]]
    for name, signature in dict.fromkeys(told):
        console.print(f"{name}: {signature}", soft_wrap=True)


def print_analyses(contents: Mapping[str, Any]) -> None:
    """A small table or two of each analysis, by its name; those of other packages go to the file alone."""
    from bidibeam.cli.console import console

    for name, content in contents.items():
        if name in _TABLES:
            for table in _TABLES[name](content):
                console.print(table)


def _ranks(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    def row(found: Mapping[str, Any]) -> list[float]:
        counts = found["counts"]
        shares = (100 * sum(counts[:first]) / sum(counts) for first in (1, 5))
        return [found["mean"], found["median"], *shares, found["tied"]]

    yield values_table(
        f"Ranks: places in the regular beam of {content['beam_size']}",
        ["mean", "median", "first, %", "first 5, %", "tied for it"],
        [(name, row(found)) for name, found in content["systems"].items()],
    )


def _headroom(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

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


def _diversity(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

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
    if any(found["matched"] for found in systems.values()):
        yield values_table(
            "Beside it, VBS with a word reward that makes it as long",
            ["bleu", "length", "dist-1", "dist-2", "reward"],
            [
                (name, [found["matched"][each] for each in (*names, "word_reward")])
                for name, found in systems.items()
            ],
        )
        tested = ("difference", "low", "high", "approximate_randomisation")
        yield values_table(
            "BLEU beside that of this VBS",
            ["difference", "low", "high", "p, approximate\nrandomisation"],
            [(name, [found["matched"][each] for each in tested]) for name, found in systems.items()],
        )


def _sensitivity(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    rows = [
        (
            f"{row['system']}, {row['option']} {row['value']}{' *' if row['is_default'] else ''}"
            if row["option"] != "baseline"
            else row["system"],
            [row["bleu"], row["length_ratio"], row["distinct-2"]],
        )
        for row in content["rows"]
    ]
    title = f"Sensitivity at N_B = {content['beam_size']} (* is the default)"
    yield values_table(title, ["bleu", "length", "dist-2"], rows)


def _examples(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import samples_panel

    if content["examples"]:
        yield samples_panel("Where the systems disagree most", content["examples"][:SAMPLES])


def _constant(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    names = ("validation_bleu", "bleu", "low", "high", "length_ratio", "exact")
    yield values_table(
        f"One reply to all {content['references']['sources']:,} test sources, best on validation first",
        ["validation", "bleu", "low", "high", "length", "exact"],
        [
            (each["reply"], [each[name] for name in names])
            for each in (content["chosen"], *content["runners_up"])
        ],
    )


def _positions(content: Mapping[str, Any]) -> Iterator[RenderableType]:
    from bidibeam.reporting.tables import values_table

    yield values_table(
        f"Words by position in {content['pairs']:,} replies",
        ["different", "bits", "above 1,000"],
        [
            (
                f"{place['position']} from the {side}",
                [place["different"], place["entropy_bits"], place["above_1000"]],
            )
            for side, places in content["from"].items()
            for place in places
        ],
    )


_TABLES: Mapping[str, Callable[[Mapping[str, Any]], Iterator[RenderableType]]] = {
    "ranks": _ranks,
    "headroom": _headroom,
    "diversity": _diversity,
    "sensitivity": _sensitivity,
    "examples": _examples,
    "constant": _constant,
    "positions": _positions,
}
"""What is made of an analysis, by its name."""
