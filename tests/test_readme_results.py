"""What the README says of the real runs: every number of its paragraphs is one of the committed results."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean
from typing import Any

from bidibeam.strategies.tuning import EXPONENTS, LAMBDAS, PENALTIES, REWARDS

ROOT = Path(__file__).parents[1]
TOLD = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
CORPORA = ("cornell", "swda", "chitchat")
REAL: dict[str, Any] = {
    name: json.loads((ROOT / "results" / name / "results.json").read_text())
    for name in (*CORPORA, "cornell-overtrained")
}
CONSTANT: dict[str, Any] = {
    name: json.loads((ROOT / "results" / name / "constant.json").read_text()) for name in CORPORA
}
PENALISED = ("bidia bleu_t", "bidia wmd_t", "bidia bleu_t tuned", "bidia wmd_t tuned")


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


def different_words(corpus: str, *systems: str) -> str:
    """The fewest and the most that a system uses at N_B = 50, over its seeds."""
    words = CONSTANT[corpus]["constant"]["references"]["words"]
    found = [
        share * ratio * words
        for system in systems
        for share, ratio in zip(
            scores(corpus, system, "distinct-1"), scores(corpus, system, "length_ratio"), strict=True
        )
    ]
    assert all(abs(count - round(count)) < 1e-6 for count in found)
    return f"{min(found):.0f} to {max(found):.0f}"


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
        assert max(map(abs, changes)) < 0.04
    assert "BidiS stays within 0.04 BLEU of VBS at N_B = 50 in every run." in TOLD


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


def test_what_is_said_of_variety_is_what_came_out() -> None:
    matched_to, plain = [], []
    for network in REAL:
        for system in PENALISED:
            ours = mean(scores(network, system, "distinct-2"))
            facts = [seed["analyses"]["diversity"]["systems"][system] for seed in REAL[network]["seeds"]]
            matched_to.append(ours / mean(one["matched"]["distinct-2"] for one in facts))
            plain.append(ours / mean(scores(network, "vbs", "distinct-2")))

    told = f"is {min(matched_to):.1f} to {max(matched_to):.1f} times that of a VBS with the same length ratio"
    assert told in TOLD
    assert f"it is {min(plain):.1f} to {max(plain):.1f} times as high" in TOLD
    counts = {
        corpus: [different_words(corpus, name) for name in ("bidia bleu_t", "vbs", "vbs-tuned")]
        for corpus in CORPORA
    }
    assert "uses {} different words on Cornell (VBS {}, tuned VBS {}),".format(*counts["cornell"]) in TOLD
    assert "{} on SwDA ({} and {}) and".format(*counts["swda"]) in TOLD
    assert "{} on chitchat ({} and {}).".format(*counts["chitchat"]) in TOLD


def test_a_constant_reply_was_judged_on_the_data_of_the_experiments() -> None:
    for corpus, found in CONSTANT.items():
        assert found["data"] == REAL[corpus]["data"]
        assert found["constant"]["references"]["sources"] == REAL[corpus]["sources"]
        assert found["constant"]["validation_sources"] == REAL[corpus]["data"]["pairs"]["validation"]


def test_what_is_said_of_constant_replies_is_what_came_out() -> None:
    found = {corpus: one["constant"] for corpus, one in CONSTANT.items()}
    best = {corpus: one["chosen"] for corpus, one in found.items()}
    bleu = {
        corpus: {name: mean(scores(corpus, name)) for name in REAL[corpus]["seeds"][0]["systems"]}
        for corpus in CORPORA
    }

    swda = best["swda"]
    others = [one["bleu"] for one in found["swda"]["runners_up"]]
    assert (
        f"{swda['bleu']:.2f} BLEU on SwDA (“{swda['reply']}”; 95 % interval {swda['low']:.2f} to "
        f"{swda['high']:.2f}; the nine next best on validation have {min(others):.2f} to {max(others):.2f})"
    ) in TOLD
    assert len(others) == 9
    ahead = {
        corpus: [name for name in bleu[corpus] if bleu[corpus][name] > best[corpus]["bleu"]]
        for corpus in bleu
    }
    assert ahead["swda"] == ["bidia wmd_t tuned", "oracle"]
    assert f"but `bidia wmd_t tuned`, which has {bleu['swda']['bidia wmd_t tuned']:.2f};" in TOLD
    assert f"on Cornell {best['cornell']['bleu']:.2f} (“{best['cornell']['reply']}”), more than every" in TOLD
    assert ahead["cornell"] == ["oracle"]
    assert f"on chitchat {best['chitchat']['bleu']:.2f}, less than tuned VBS and BidiA." in TOLD
    assert {"vbs-tuned", *(name for name in bleu["chitchat"] if "bidia" in name)} <= set(ahead["chitchat"])


def test_what_is_said_of_stock_phrases_is_what_came_out() -> None:
    found = CONSTANT["swda"]["constant"]
    common = found["most_common"]

    share = f"{100 * found['references']['share_short']:.0f} % of its test references have at most 4 words"
    assert f"{share}, and {100 * common['share_exact']:.0f} % are exactly “{common['reply']}”" in TOLD
    assert (found["references"]["short"], common["words"]) == (4, 4)
    assert f"said to everybody it has {common['bleu']:.2f}." in TOLD
    vbs, tuned = (different_words("swda", name) for name in ("vbs", "vbs-tuned"))
    agreed = different_words("swda", "bidia bleu_t tuned", "bidia wmd_t tuned")
    told = f"VBS uses {vbs} different words, tuned VBS {tuned}, BidiA with T tuned {agreed}."
    assert f"in {REAL['swda']['sources']:,} replies {told}" in TOLD


def test_what_is_said_of_tuning_and_tests_is_what_came_out() -> None:
    pairs = {corpus: REAL[corpus]["data"]["pairs"]["validation"] for corpus in CORPORA}
    tuned = {corpus: [seed["tuned"]["50"] for seed in REAL[corpus]["seeds"]] for corpus in CORPORA}
    by_bootstrap = [
        test["paired_bootstrap"]
        for seed in REAL["cornell"]["seeds"]
        for test in seed["tests"]
        if (test["system"], test["baseline"]) == ("bidia bleu_t tuned", "vbs-tuned")
    ]
    ps = beside("cornell", "bidia bleu_t tuned", "vbs-tuned")[1]

    assert f"p = {listed(by_bootstrap)}, where randomisation has {listed(ps)}." in TOLD
    assert f"T had {len(PENALTIES)} values, the two settings of VBS {len(EXPONENTS)} x {len(REWARDS)}" in TOLD
    assert f"on {pairs['swda']} validation sources of SwDA (Cornell {pairs['cornell']:,}, chitchat" in TOLD
    lengths = [one["bidia wmd_t"]["T"] for one in tuned["chitchat"]]
    assert lengths.count(PENALTIES[-1]) == 2
    assert f"the last of its grid, {PENALTIES[-1]}, in two seeds of three" in TOLD
    weights = [one["bidis"]["lambda_"] for one in tuned["cornell"]]
    assert f"lambda on Cornell {min(weights):g} to {max(weights):g} of {LAMBDAS[-1]:g} at most" in TOLD


def test_what_is_said_of_other_measures_and_sizes_is_what_came_out() -> None:
    small = mean(scores("swda", "vbs-tuned", size=5))
    agreeing = [system for system in REAL["swda"]["seeds"][0]["systems"] if system.startswith("bidia")]
    base, tuned, *others = (
        mean(scores("swda", name, "sentence_bleu")) for name in ("vbs", "vbs-tuned", *agreeing)
    )

    assert f"with 5 hypotheses to choose from, tuned VBS has {small:.2f} BLEU and so has `longest`" in TOLD
    assert f"{mean(scores('swda', 'longest', size=5)):.2f}" == f"{small:.2f}"
    assert f"plain VBS has {base:.1f}, tuned VBS {tuned:.1f} and BidiA at best {max(others):.1f}" in TOLD


def test_what_is_said_of_over_training_is_what_came_out() -> None:
    (facts,) = (seed["training"] for seed in REAL["cornell-overtrained"]["seeds"])
    best, kept = (facts[f"{which}regular validation perplexity"] for which in ("", "kept "))
    (varied,) = scores("cornell-overtrained", "vbs", "distinct-2")
    ends = {
        network: [mean(scores(network, "vbs", size=size)) for size in (1, 50)]
        for network in ("cornell-overtrained", "cornell")
    }
    falls = {network: f"{100 * (1 - last / first):.0f} %" for network, (first, last) in ends.items()}
    plain = mean(scores("cornell", "vbs", "distinct-2"))
    (lengths, one), (distances, other) = (
        beside("cornell-overtrained", f"bidia {name} tuned", "vbs-tuned") for name in ("bleu_t", "wmd_t")
    )

    assert f"(regular perplexity {best:.1f}, then {kept:.1f})" in TOLD
    assert f"eightfold, from {plain:.3f} to {varied:.3f}" in TOLD
    assert round(varied / plain) == 8
    told = "from {:.2f} to {:.2f}".format(*ends["cornell-overtrained"])
    well = "{:.2f} to {:.2f}".format(*ends["cornell"])
    assert f"by {falls['cornell-overtrained']}, {told} (well trained: by {falls['cornell']}, {well})" in TOLD
    assert (
        f"is {lengths:.2f} (bleu_t, p = {one[0]:.2f}) and {distances:.2f} (wmd_t, p = {other[0]:.2f}) ahead"
        in TOLD
    )


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


def test_the_transformer_stands_beside_the_gru_as_it_came_out() -> None:
    folder = ROOT / "results" / "cornell-transformer"
    found = json.loads((folder / "results.json").read_text())
    training = json.loads((folder / "training.json").read_text())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    def bleu(system: str) -> float:
        value: float = found["systems"][f"{system} 50"]["scores"]["bleu"]["value"]
        return value

    systems = [name.removesuffix(" 50") for name in found["systems"]]
    for system in systems:
        assert f"| {system} | {mean(scores('cornell', system)):.2f} | {bleu(system):.2f} |" in readme
    assert readme.count("| GRU, three seeds | Transformer, one seed |") == 1
    best = training["best"]
    told = f"{training['parameters'] / 1e6:.1f} million parameters, {training['settings']['epochs']} epochs"
    assert told in TOLD
    assert f"validation loss {best['loss_regular']:.2f} and {best['loss_reverse']:.2f}" in TOLD
    (test,) = (
        test
        for test in found["tests"]
        if (test["system"], test["baseline"]) == ("bidia bleu_t 50", "vbs-tuned 50")
    )
    assert f"{-test['difference']:.2f} behind it (p = {test['approximate_randomisation']:.2f}" in TOLD
    assert f"random from VBS' beam has {bleu('random'):.2f}:" in TOLD
    validation = [seed["training"]["regular validation loss"] for seed in REAL["cornell"]["seeds"]]
    assert f"The GRU's are {min(validation):.2f} to {max(validation):.2f}" in TOLD
