"""From what every seed left to results.json and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bidibeam._version import __version__
from bidibeam.data.prepared import PreparedData
from bidibeam.experiments.layout import TEST, SeedLayout
from bidibeam.experiments.plan import Plan, read_json
from bidibeam.experiments.settings import as_plain
from bidibeam.experiments.stages import Stage, content_identity
from bidibeam.files import write_json
from bidibeam.reporting.report import REPORT_FILES, write_report
from bidibeam.training.logs import progress_of

RESULTS_VERSION = 1


def gather_stage(seed: int, place: SeedLayout, before: Sequence[Stage]) -> Stage:
    """All numbers of a seed in one file.

    Args:
        seed: The seed.
        place: Where its things are.
        before: The stages that made the numbers.
    """

    def work() -> None:
        evaluation = read_json(place.evaluation)
        if place.cost in [output for stage in before for output in stage.outputs]:
            evaluation["analyses"]["cost"] = read_json(place.cost)
        write_json(
            place.results,
            {
                "seed": seed,
                "training": progress_of(place.run),
                "perplexity": read_json(place.perplexity),
                **evaluation,
            },
        )

    return Stage(
        f"gather seed {seed}",
        {},
        (place.results,),
        work,
        after=before,
        identity=content_identity(place.results),
    )


def report_stage(plan: Plan, seeds: Sequence[int], about: dict[str, str], before: Sequence[Stage]) -> Stage:
    """results.json and the report.

    Args:
        plan: The experiment.
        seeds: All of them.
        about: What the results say of where they come from: "preset" and "command".
        before: The stages that made the numbers.
    """
    layout = plan.layout

    def work() -> None:
        results = results_of(plan, seeds, about)
        write_json(layout.results, results)
        write_report(results, layout.folder)

    outputs = [
        layout.results,
        layout.folder / "figures",
        *(layout.folder / name for name in REPORT_FILES),
    ]
    return Stage("report", {**about, "version": __version__}, outputs, work, after=before)


def results_of(plan: Plan, seeds: Sequence[int], about: dict[str, str]) -> dict[str, Any]:
    """All that was found, as results.json has it."""
    layout, settings = plan.layout, plan.settings
    data = PreparedData.open(layout.data)
    return {
        "format_version": RESULTS_VERSION,
        "bidibeam": __version__,
        "corpus": data.info["corpus"],
        **about,
        "data": {name: value for name, value in data.info.items() if name != "path"},
        "settings": {
            "beam_sizes": list(settings.beam_sizes),
            "max_length": settings.search.max_length,
            "search": asdict(settings.search),
            "systems": list(settings.systems),
            "vectors": plan.vectors.name if plan.vectors is not None else None,
            "model": as_plain(settings.model),
            "training": asdict(settings.training),
            "sources": settings.sources,
            "validation_sources": settings.validation_sources,
            "examples": settings.examples,
            "cost_sources": settings.cost_sources,
            "cost_turns": settings.cost_turns,
        },
        "sources": len(plan.examples(TEST, settings.sources)),
        "positions": read_json(layout.positions),
        "constant": read_json(layout.constant),
        "seeds": [read_json(layout.seed(seed).results) for seed in seeds],
    }
