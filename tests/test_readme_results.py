"""Numbers of README and docs are those of results/: a script fills tables, and claims are checked here."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT: dict[str, Any] = runpy.run_path(str(ROOT / "scripts" / "results_table"))
REAL, CORPORA, TUNED = (SCRIPT[name] for name in ("REAL", "CORPORA", "TUNED"))
scores, compare = SCRIPT["scores"], SCRIPT["compare"]
PAGE, CHOICES = (
    " ".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8").split())
    for name in ("results", "which-strategy")
)


@pytest.mark.parametrize("page", SCRIPT["PAGES"])
def test_the_tables_are_those_of_the_committed_results(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    assert SCRIPT["fill"](text) == text
    assert text.count("<!-- table ") == text.count("<!-- end -->") > 0


def test_every_table_stands_on_a_page() -> None:
    pages = "".join((ROOT / page).read_text(encoding="utf-8") for page in SCRIPT["PAGES"])

    assert all(f"<!-- table {name} -->" in pages for name in SCRIPT["TABLES"])


def test_a_table_is_filled_between_its_marks() -> None:
    text = "before\n<!-- table swda -->\nold\n<!-- end -->\nbehind\n"

    assert SCRIPT["fill"](text) == f"before\n<!-- table swda -->\n{SCRIPT['swda']()}<!-- end -->\nbehind\n"


def test_a_cell_is_its_number_of_the_results() -> None:
    values = [
        seed["systems"]["vbs"]["50"]["scores"]["bleu"]["value"]
        for seed in json.loads((ROOT / "results" / "swda" / "results.json").read_text())["seeds"]
    ]

    row = next(line for line in SCRIPT["bleu"]().splitlines() if line.startswith("| `vbs` |"))

    assert row.split(" | ")[2].startswith(f"{mean(values):.2f} ± ")


def test_bidis_is_vbs_but_for_a_little() -> None:
    pairs = [zip(scores(name, "bidis"), scores(name, "vbs"), strict=True) for name in REAL]

    assert max(abs(mine - base) for pair in pairs for mine, base in pair) < 0.04
    assert "within 0.04 BLEU of it in every run" in PAGE


def test_bidia_has_more_bleu_than_vbs_everywhere_and_than_tuned_vbs_on_swda_only() -> None:
    for network in REAL:
        assert mean(scores(network, "bidia bleu_t")) > mean(scores(network, "vbs"))
    for corpus in CORPORA:
        tests = [compare(corpus, system, "vbs-tuned") for system in TUNED]
        is_sure = all(gain > 0 and max(ps) < 0.05 for gain, ps in tests)
        assert is_sure == (corpus == "swda")


def test_variety_is_as_the_page_says() -> None:
    equal, plain = [], []
    for network in REAL:
        for system in SCRIPT["SYSTEMS"][2:6]:
            found = [seed["analyses"]["diversity"]["systems"][system] for seed in REAL[network]["seeds"]]
            ours = mean(scores(network, system, "distinct-2"))
            equal.append(ours / mean(one["matched"]["distinct-2"] for one in found))
            plain.append(ours / mean(scores(network, "vbs", "distinct-2")))
    vbs = [mean(scores(network, "vbs", "distinct-2")) for network in REAL]

    assert f"{min(equal):.1f} to {max(equal):.1f} times the distinct-2" in PAGE
    assert f"beside VBS as it is, {min(plain):.1f} to {max(plain):.1f} times" in PAGE
    assert f"{min(vbs[:3]):.3f} to {max(vbs[:3]):.3f}, and {vbs[3]:.3f} when over-trained" in PAGE


def test_constant_replies_were_scored_on_the_data_of_the_experiments() -> None:
    for corpus in CORPORA:
        found = json.loads((ROOT / "results" / corpus / "constant.json").read_text())
        assert found["data"] == REAL[corpus]["data"]
        assert found["constant"]["references"]["sources"] == REAL[corpus]["sources"]
        assert found["constant"]["validation_sources"] == REAL[corpus]["data"]["pairs"]["validation"]


def test_the_first_training_of_the_transformer_differs_as_the_page_says() -> None:
    folder = ROOT / "results" / "cornell-transformer"
    first, second = (
        json.loads((folder / f"{name}.json").read_text())["systems"] for name in ("results-first", "results")
    )
    differences = [
        abs(one["scores"]["bleu"]["value"] - second[name]["scores"]["bleu"]["value"])
        for name, one in first.items()
    ]

    assert f"differ by up to {max(differences):.2f} BLEU" in PAGE


def test_the_default_does_no_harm_beyond_dialogue_and_does_some_there() -> None:
    harm = {}
    for task, (name, _) in SCRIPT["TASKS"].items():
        gains, ps = SCRIPT["task_gain"](task, "bidis lambda=1", "vbs")
        harm[task] = sum(gain < 0 and p < 0.05 for gain, p in zip(gains, ps, strict=True))
        assert name in SCRIPT["DIALOGUE"] or (mean(gains) > 0 and not harm[task])

    lost = {task: count for task, count in harm.items() if count}
    assert lost == {"dailydialog-transformer": 2, "cornell-gru": 1, "dailydialog-gru": 1, "swda-gru": 1}
    most = mean(SCRIPT["task_gain"]("dailydialog-transformer", "bidis lambda=1", "vbs")[0])
    assert f"with DailyDialog's Transformer {-most:.1f} BLEU, with two seeds of three at p < 0.001" in CHOICES
    sure = {}
    for task, name in (("cornell-gru", "Cornell"), ("dailydialog-gru", "GRU"), ("swda-gru", "SwDA")):
        found = zip(*SCRIPT["task_gain"](task, "bidis lambda=1", "vbs"), strict=True)
        sure[name] = next((f"{-gain:.2f}", p) for gain, p in found if gain < 0 and p < 0.05)
    assert f"Cornell ({sure['Cornell'][0]}, p < 0.001)" in CHOICES
    assert f"GRU ({sure['GRU'][0]}, p {sure['GRU'][1]:.2f})" in CHOICES
    assert f"SwDA ({sure['SwDA'][0]}, p {sure['SwDA'][1]:.2f})" in CHOICES


def test_agreement_in_one_beam_is_below_tuned_vbs_but_with_dailydialogs_gru() -> None:
    for task in SCRIPT["TASKS"]:
        gains = SCRIPT["task_gain"](task, "mbr bleu", "vbs-tuned")[0]
        assert min(gains) > 0 if task == "dailydialog-gru" else max(gains) < 0


def test_two_directions_beside_two_networks_are_as_the_page_says() -> None:
    over = {task: SCRIPT["task_gain"](task, "bidis lambda=1", "control") for task in SCRIPT["TASKS"]}

    for task in ("inflection-transformer", "multi30k-de-en-transformer"):
        assert min(over[task][0]) > 0
        assert max(over[task][1]) < 0.001
    assert max(over["dailydialog-transformer"][0]) < 0
    mixed = ("cmudict-gru", "cmudict-transformer", "multi30k-de-en-gru", "multi30k-en-de-gru", "swda-gru")
    assert all(min(over[task][0]) < 0 < max(over[task][0]) for task in (*mixed, "e2e-gru", "e2e-transformer"))
    assert max(over["multi30k-en-de-gru"][1]) < 0.002
    assert sorted(gain > 0 for gain in over["multi30k-en-de-transformer"][0]) == [False, True, True]
    assert [f"{gain:.1f}" for gain in over["inflection-gru"][0]] == ["4.2", "-0.1", "3.8"]
    alone = SCRIPT["task_scores"]("inflection-gru", "vbs")
    assert (min(alone), max(alone)) == (alone[1], alone[2])  # the second seed's control is the third
    for task, found in (("de-en", ("0.0", "0.5")), ("en-de", ("0.1", "0.7"))):
        left, _ = SCRIPT["task_gain"](f"multi30k-{task}-transformer", "loglinear", "control")
        assert (f"{min(left):.1f}", f"{max(left):.1f}") == found
    assert "0.0 to 0.5 is left from German and 0.1 to 0.7 into German" in CHOICES


def test_loglinear_both_is_ahead_of_the_default_from_german_and_not_into_it() -> None:
    def beside(task: str) -> list[float]:
        ours, theirs = (SCRIPT["task_scores"](task, name) for name in ("loglinear both", "bidis lambda=1"))
        return [one - other for one, other in zip(ours, theirs, strict=True)]

    assert min(beside("multi30k-de-en-gru") + beside("multi30k-de-en-transformer")) > 0
    into = beside("multi30k-en-de-gru") + beside("multi30k-en-de-transformer")
    assert sum(gain > 0 for gain in into) == 3


def test_agreement_with_a_t_that_is_not_tuned_costs_short_outputs_what_the_page_says() -> None:
    costs = [
        f"{-mean(SCRIPT['task_gain'](f'{task}-{network}', 'bidia bleu_t', 'vbs-tuned')[0]):.0f}"
        for task in ("cmudict", "inflection")
        for network in ("gru", "transformer")
    ]

    told = "is {} and {} points of SER and {} and {} of exact match behind `vbs-tuned`"
    assert told.format(*costs) in CHOICES


def test_inflection_gains_in_all_languages_but_arabic_and_over_two_networks() -> None:
    rows = {row[1]: row for row in table_rows(SCRIPT["inflection"]())}
    gains, left, leads = {}, {}, {}
    for language, row in rows.items():
        gains[language], left[language] = (float(cell.partition(",")[0]) for cell in row[7:9])
        leads[language] = float(row[4].split()[0]) - float(row[3].split()[0])
    sure = {name for name, row in rows.items() if re.search(r"p < 0\.00[123]$", row[7])}

    assert [name for name in gains if gains[name] < 1] == ["Egyptian Arabic"]
    assert sure == {"Swahili", "Hebrew", "Finnish", "German", "Sanskrit"}
    assert sorted(left, key=lambda name: -left[name])[:3] == ["Finnish", "Hebrew", "Swahili"]
    assert {name for name, over in left.items() if over < 0} == {"Navajo", "Turkish"}
    assert sorted(leads, key=lambda name: leads[name])[:2] == ["Turkish", "Navajo"]
    assert min(leads[name] for name in ("Finnish", "Hebrew", "Swahili")) > 3
    suffixing = ("Finnish", "Turkish", "German", "Sanskrit")
    assert sorted(suffixing, key=lambda name: gains[name])[:: len(suffixing) - 1] == ["Sanskrit", "Finnish"]


def test_the_oracle_has_so_little_of_egyptian_arabic() -> None:
    """A quarter of its references is composed otherwise than replies are."""
    oracle = SCRIPT["task_scores"]("inflection-transformer", "oracle", "test_arz")

    assert f"Even the oracle has {mean(oracle):.0f} there" in CHOICES
    others = [SCRIPT["task_scores"]("inflection-transformer", "oracle", name) for name in SCRIPT["LANGUAGES"]]
    assert sorted(map(mean, others))[1] > 85  # of any other language


def test_what_is_recommended_in_dialogue_is_as_the_page_says() -> None:
    found = {}
    for task, (name, _) in SCRIPT["TASKS"].items():
        if name in SCRIPT["DIALOGUE"]:
            systems = ("recommended", "vbs-tuned", "bidia bleu_t", "bidia bleu_t tuned")
            values = [mean(SCRIPT["task_scores"](task, system)) for system in systems]
            found[task] = (*values, SCRIPT["TASK_RESULTS"][task]["constant"]["chosen"]["bleu"])

    over: list[float] = []
    for task in ("dailydialog-gru", "dailydialog-transformer"):
        recommended, tuned, agreed, _, constant = found[task]
        nearest = SCRIPT["TASK_RESULTS"][task]["constant"]["runners_up"][:4]
        assert f"{max(each['bleu'] for each in nearest):.2f}" == "2.60"
        assert 2 * max(constant, 2.60) < recommended < agreed - 1
        over += SCRIPT["task_gain"](task, "bidia bleu_t", "control")[0]
        seeds = SCRIPT["TASK_RESULTS"][task]["seeds"]
        equal = [seed["analyses"]["diversity"]["systems"]["bidia bleu_t"]["matched"] for seed in seeds]
        assert mean(one["difference"] for one in equal) < (agreed - tuned) / 2
    assert f"Over two networks it is {min(over):.1f} to {max(over):.1f} BLEU ahead with every seed" in CHOICES
    assert max(SCRIPT["task_gain"]("swda-gru", "bidia bleu_t", "control")[0]) < 0
    for system in ("bidia bleu_t tuned", "bidia bleu_t tuned control"):
        gains, ps = SCRIPT["task_gain"]("swda-gru", system, "vbs-tuned")
        assert min(gains) > 0
        assert max(ps) < 0.003
    assert f"every seed, {found['swda-gru'][4] - found['swda-gru'][0]:.1f} below the constant" in CHOICES
    gains, _ = SCRIPT["task_gain"]("chitchat-gru", "recommended", "vbs-tuned")
    assert gains[:2] == [0, 0]
    assert f"with the third `bidia bleu_t tuned`, {gains[2]:.2f} ahead of it (p 0.03)" in CHOICES
    assert min(SCRIPT["task_scores"]("chitchat-gru", "recommended")) > found["chitchat-gru"][4]
    for task in ("cornell-gru", "swda-gru", "chitchat-gru"):
        tuned, untuned = (
            SCRIPT["task_scores"](task, name) for name in ("bidia bleu_t tuned", "bidia bleu_t")
        )
        assert all(one >= other for one, other in zip(tuned, untuned, strict=True))


def table_rows(table: str) -> list[list[str]]:
    """The cells of a table in Markdown, without its head."""
    return [[cell.strip() for cell in line.strip("|\n").split("|")] for line in table.splitlines()[2:]]


def test_tuned_lengths_of_multi30k_en_de_did_not_transfer() -> None:
    lost = {}
    for network in ("gru", "transformer"):
        task = f"multi30k-en-de-{network}"
        gains, ps = SCRIPT["task_gain"](task, "vbs-tuned", "vbs")
        lost[network] = sum(gain < 0 for gain in gains)
        assert sum(p < 0.001 for p in ps) == 1
        both = [SCRIPT["task_gain"](task, name, "vbs")[0] for name in ("loglinear both", "bidis lambda=1")]
        assert mean(both[0]) < mean(both[1])
    assert lost == {"gru": 3, "transformer": 2}


def test_agreement_is_ahead_on_e2e_with_every_network() -> None:
    for task, who in (("e2e-transformer", "Transformers (p < 0.004)"), ("e2e-gru", "GRUs (p 0.005 to 0.06)")):
        over, ps = SCRIPT["task_gain"](task, "bidia edit expected", "control")
        assert f"by {min(over):.1f} to {max(over):.1f} with {who}" in CHOICES
        assert max(ps) < (0.004 if task == "e2e-transformer" else 0.065)
        gains, ps = SCRIPT["task_gain"](task, "bidia edit expected", "vbs-tuned")
        assert min(gains) > 0
        assert max(ps) < 0.05
        ours, default = (
            SCRIPT["task_scores"](task, name) for name in ("bidia edit expected", "bidis lambda=1")
        )
        assert all(one > other for one, other in zip(ours, default, strict=True))
    led = {}
    for task in ("e2e-transformer", "e2e-gru"):
        beside = [
            SCRIPT["task_gain"](task, name, "control")[0]
            for name in ("loglinear both", "loglinear edit both")
        ]
        led[task] = min(map(min, beside)), max(map(max, beside))
    least, most = led["e2e-transformer"]
    behind, ahead = led["e2e-gru"]
    assert f"lead by {least:.1f} to {most:.1f} with Transformers" in CHOICES
    assert f"with GRUs they lead by up to {ahead:.1f} or are up to {-behind:.1f} behind" in CHOICES


def test_e2e_is_better_written_from_the_end_but_by_the_worst_gru() -> None:
    tasks = ("e2e-transformer", "e2e-gru")
    ahead = {task: SCRIPT["task_gain"](task, "reverse-vbs", "vbs-tuned")[0] for task in tasks}
    gains = sorted(ahead["e2e-transformer"] + ahead["e2e-gru"])
    assert f"five of six networks, by {gains[1]:.1f} to {gains[-1]:.1f} BLEU" in CHOICES
    assert f"writes {-gains[0]:.1f} worse from the end" in CHOICES
    assert ahead["e2e-gru"][2] == gains[0]
    for direction in ("regular", "reverse"):
        seeds = SCRIPT["TASK_RESULTS"]["e2e-gru"]["seeds"]
        losses = [seed["training"][f"kept {direction} validation loss"] for seed in seeds]
        assert losses[2] == max(losses)
    names = ("reverse-vbs", "vbs-tuned", "bidia edit expected")
    by_seed = zip(*(SCRIPT["task_scores"]("e2e-transformer", name) for name in names), strict=True)
    shares = [(back - base) / (both - base) for back, base, both in by_seed]
    assert mean(shares) > 0.5  # of what agreement gains, the reverse direction alone has it
    assert "seed {:.0f}, {:.0f} and {:.0f} %".format(*(100 * share for share in shares)) in CHOICES


def test_two_grus_of_three_reach_the_published_bleu_on_e2e() -> None:
    values = SCRIPT["task_scores"]("e2e-gru", "recommended")

    assert min(values[:2]) > 65.93 > values[2]
    assert (
        f"to them, {values[0]:.1f} and {values[1]:.1f}; the mean of the three, {mean(values):.1f}," in CHOICES
    )


def test_the_figure_has_a_row_for_every_task(tmp_path: Path) -> None:
    figure = runpy.run_path(str(ROOT / "scripts" / "strategy_figure"))
    figure["draw"](tmp_path / "drawn.svg")

    drawn, committed = (
        path.read_text(encoding="utf-8") for path in (tmp_path / "drawn.svg", figure["PICTURE"])
    )
    assert all(", ".join(names) in committed for names in SCRIPT["TASKS"].values())
    assert all(label in committed for label, *_ in figure["SYSTEMS"].values())
    marks = [re.findall(r'<use [^>]*x="([\d.-]+)" y="([\d.-]+)"', text) for text in (drawn, committed)]
    assert len(marks[0]) > 4 * len(SCRIPT["TASKS"])
    assert marks[0] == marks[1]  # where every gain is drawn


def test_a_gru_learns_e2e_only_where_its_embeddings_start_large_enough() -> None:
    small = SCRIPT["read"]("trials/e2e-gru-inattentive.json")["seeds"]
    found = [seed["systems"]["vbs-tuned"]["50"]["scores"]["bleu"]["value"] for seed in small]

    learnt = mean(SCRIPT["task_scores"]("e2e-gru", "vbs-tuned"))
    assert f"`vbs-tuned` has {mean(found):.1f} with the default" in CHOICES
    assert f"(results/trials/e2e-gru-inattentive.json) and {learnt:.1f} with 1." in CHOICES
