"""What the README says of the real runs: every number of its paragraphs is one of the committed results."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

ROOT = Path(__file__).parents[1]
TOLD = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
CORPORA = ("cornell", "swda", "chitchat")
REAL: dict[str, Any] = {
    name: json.loads((ROOT / "results" / name / "results.json").read_text())
    for name in (*CORPORA, "cornell-overtrained")
}


def scores(corpus: str, system: str, measure: str = "bleu", size: int = 50) -> list[float]:
    """Of each seed."""
    return [seed["systems"][system][str(size)]["scores"][measure]["value"] for seed in REAL[corpus]["seeds"]]


def beside(corpus: str, system: str, baseline: str) -> tuple[float, list[float]]:
    """By how much BLEU is higher, mean over seeds, and p for each."""
    tests = [
        test
        for seed in REAL[corpus]["seeds"]
        for test in seed["tests"]
        if (test["system"], test["baseline"]) == (system, baseline)
    ]
    return mean(test["difference"] for test in tests), [test["approximate_randomisation"] for test in tests]


def matched(corpus: str, system: str) -> tuple[float, list[float]]:
    """The same beside a VBS of equal length."""
    found = [seed["analyses"]["diversity"]["systems"][system]["matched"] for seed in REAL[corpus]["seeds"]]
    return mean(one["difference"] for one in found), [one["approximate_randomisation"] for one in found]


def listed(values: list[float]) -> str:
    *first, last = ["< 0.001" if value < 0.001 else f"{value:.2f}" for value in values]
    return f"{', '.join(first)} and {last}"


def test_what_is_said_of_the_paper_is_what_came_out() -> None:
    plain = {corpus: mean(scores(corpus, "bidia bleu_t")) / mean(scores(corpus, "vbs")) for corpus in CORPORA}

    assert f"{plain['cornell']:.1f} times as much on Cornell and {plain['chitchat']:.0f} times on chi" in TOLD
    swda = listed(beside("swda", "bidia bleu_t", "vbs")[1])
    assert f"{plain['swda'] - 1:.0%} more on SwDA (p = {swda})".replace("%", " %") in TOLD
    for corpus in ("cornell", "chitchat"):
        assert max(beside(corpus, "bidia bleu_t", "vbs")[1]) < 0.001
    for network in REAL:
        changes = [
            mine - base for mine, base in zip(scores(network, "bidis"), scores(network, "vbs"), strict=True)
        ]
        assert max(map(abs, changes)) < 0.035  # within 0.03


def test_what_is_said_of_tuned_vbs_is_what_came_out() -> None:
    behind, ps = beside("cornell", "bidia bleu_t", "vbs-tuned")
    assert f"on Cornell (by {-behind:.2f} BLEU; p = {listed(ps)})" in TOLD
    behind, ps = beside("swda", "bidia bleu_t", "vbs-tuned")
    assert f"on SwDA (by {-behind:.2f}; p < 0.001 for each seed)" in TOLD
    assert max(ps) < 0.001
    ahead, ps = beside("chitchat", "bidia bleu_t", "vbs-tuned")
    assert f"it is behind by {ahead:.2f}, which the tests do not support (p = {listed(ps)})" in TOLD


def test_what_is_said_of_a_tuned_t_is_what_came_out() -> None:
    found = {
        corpus: [beside(corpus, f"bidia {name} tuned", "vbs-tuned") for name in ("bleu_t", "wmd_t")]
        for corpus in CORPORA
    }
    gains = [difference for difference, _ in found["swda"]]
    over = [mean(scores("swda", f"bidia {name} tuned")) for name in ("bleu_t", "wmd_t")]
    parts = [gain / (bleu - mean(scores("swda", "vbs"))) for gain, bleu in zip(gains, over, strict=True)]

    assert "by {:.2f} (bleu_t) and {:.2f} (wmd_t), p < 0.002 for each seed".format(*gains) in TOLD
    assert max(p for _, ps in found["swda"] for p in ps) < 0.002
    assert "{:.0f} and {:.0f} % of its gain over VBS".format(*(100 * part for part in parts)) in TOLD
    reaches = [f"{min(ps):.2f} to {max(ps):.2f}" for corpus in CORPORA[::2] for _, ps in found[corpus]]
    assert "(-0.11 with either; p = {} for bleu_t, {} for wmd_t)".format(*reaches[:2]) in TOLD
    assert {f"{difference:.2f}" for difference, _ in found["cornell"]} == {"-0.11"}
    more = [f"{difference:+.2f}" for difference, _ in found["chitchat"]]
    assert "({} and {}; p = {} and {})".format(*more, *reaches[2:]) in TOLD


def test_what_is_said_of_headroom_is_what_came_out() -> None:
    shares, ends = [], []
    for name in ("bidia bleu_t tuned", "bidia wmd_t tuned"):
        found = [seed["analyses"]["headroom"] for seed in REAL["swda"]["seeds"]]
        shares.append(mean(one["by_beam_size"]["50"][name] for one in found))
        ends += [end for one in found for end in one["intervals"]["50"][name]]

    told = "{:.0f} and {:.0f} % of the way to the oracle".format(*(100 * share for share in shares))
    reach = f"{100 * min(ends):.0f} to {100 * max(ends):.0f} %"
    assert f"{told} (the seeds' 95 % intervals reach from {reach})" in TOLD


def test_what_is_said_of_equal_length_is_what_came_out() -> None:
    found = {
        corpus: [matched(corpus, f"bidia {name} tuned") for name in ("bleu_t", "wmd_t")] for corpus in CORPORA
    }
    both = {corpus: "{:+.2f} and {:+.2f}".format(*(one for one, _ in pair)) for corpus, pair in found.items()}

    assert (
        f"{both['swda']} on SwDA (p < 0.001), {both['cornell']} on Cornell, {both['chitchat']} on c" in TOLD
    )
    assert max(p for _, ps in found["swda"] for p in ps) < 0.001
    for corpus in ("cornell", "chitchat"):
        assert all(sum(p < 0.05 for p in ps) <= 1 for _, ps in found[corpus])
    ratios = [
        mean(scores(network, system, "distinct-2"))
        / mean(
            seed["analyses"]["diversity"]["systems"][system]["matched"]["distinct-2"]
            for seed in REAL[network]["seeds"]
        )
        for network in REAL
        for system in ("bidia bleu_t", "bidia wmd_t", "bidia bleu_t tuned", "bidia wmd_t tuned")
    ]
    assert f"its distinct-2 is {min(ratios):.1f} to {max(ratios):.1f} times as high" in TOLD


def test_what_is_said_of_other_measures_and_sizes_is_what_came_out() -> None:
    small = mean(scores("swda", "vbs-tuned", size=5))
    agreeing = [system for system in REAL["swda"]["seeds"][0]["systems"] if system.startswith("bidia")]
    base, tuned, *others = (
        mean(scores("swda", name, "sentence_bleu")) for name in ("vbs", "vbs-tuned", *agreeing)
    )

    assert f"a tuned VBS that chooses from 5 has {small:.2f} BLEU" in TOLD
    assert f"plain VBS has {base:.1f}, tuned VBS {tuned:.1f} and BidiA at best {max(others):.1f}" in TOLD


def test_what_is_said_of_over_training_is_what_came_out() -> None:
    (facts,) = (seed["training"] for seed in REAL["cornell-overtrained"]["seeds"])
    best, kept = (facts[f"{which}regular validation perplexity"] for which in ("", "kept "))
    (varied,) = scores("cornell-overtrained", "vbs", "distinct-2")
    ends = {
        network: [mean(scores(network, "vbs", size=size)) for size in (1, 50)]
        for network in ("cornell-overtrained", "cornell")
    }
    ahead, (p,) = beside("cornell-overtrained", "bidia bleu_t tuned", "vbs-tuned")

    assert f"(regular perplexity {best:.1f}, then {kept:.1f})" in TOLD
    assert f"from {mean(scores('cornell', 'vbs', 'distinct-2')):.3f} to {varied:.3f}" in TOLD
    told = "from {:.2f} to {:.2f}".format(*ends["cornell-overtrained"])
    assert f"{told} (well trained: {ends['cornell'][0]:.2f} to {ends['cornell'][1]:.2f})" in TOLD
    assert f"BidiA is {ahead:.2f} ahead (p = {p:.2f})" in TOLD


def test_the_costs_of_the_experiments_are_those_of_the_committed_results() -> None:
    costs = [
        found["seeds"][0]["analyses"]["cost"]["rows"]
        for found in REAL.values()
        if "cost" in found["seeds"][0]["analyses"]
    ]
    ratios: dict[str, list[float]] = {"bidia": [], "bidis": []}
    for row in (row for rows in costs for row in rows if row["strategy"] != "vbs"):
        ratios[row["strategy"].split()[0]].append(row["ratio"])

    assert len(costs) == 3
    told = [f"{min(found):.2f} to {max(found):.2f}" for found in ratios.values()]
    assert "BidiA takes {} and BidiS {} times as long.".format(*told) in TOLD
