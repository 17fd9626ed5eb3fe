"""The calls whose outputs are frozen, and how much of each output is kept.

`python -m tests.golden.cases` writes what the installed bidibeam answers into `expected/`: only for a change
of behaviour that is meant, and that the CHANGELOG tells. Calls are made in the folder `data/`.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.golden.calls import (
    DATA,
    EXPECTED,
    call_line,
    parse_lists,
    rows,
    short_list,
    short_ranking,
    without_versions,
)

VECTORS, TUNED = "--vectors words.vec", "--tuned tuned.json"
SIMILARITIES = ("bleu_t", "bleu", "token_f1", "edit")
EMBEDDED = ("wmd_t", "wmd", "embedding_cosine")
FORMATS = ("jsonl", "moses", "fairseq", "mbrs", "openai")
FEW = "--samples 100 --trials 150"

RERANK = [
    *(f"rerank both.jsonl --similarity {name}" for name in SIMILARITIES),
    *(f"rerank both.jsonl --similarity {name} {VECTORS}" for name in EMBEDDED),
    *(f"rerank both.jsonl --strategy 'bidia {words}'" for words in ("either", "expected", "mean")),
    f"rerank both.jsonl --strategy 'bidia wmd_t either' --agreement expected {VECTORS} --workers 2",
    f"rerank both.jsonl --strategy 'bidia bleu_t tuned' {TUNED}",
    f"rerank both.jsonl --strategy 'bidia wmd_t tuned' {TUNED} {VECTORS}",
    "rerank both.jsonl --similarity-option smoothing=add-1 --max-length 12 --words",
    "rerank both.jsonl --similarity-option smoothing=none --similarity-option order=2",
    f"rerank both.jsonl --similarity wmd --similarity-option form=ratio {VECTORS}",
    "rerank both.jsonl --strategy bidis --lambda 0.5",
    f"rerank both.jsonl --strategy bidis {TUNED}",
    *(f"rerank both.jsonl --strategy {name}" for name in ("vbs", "reverse-vbs", "longest", "oracle")),
    "rerank both.jsonl --strategy vbs-tuned --length-exponent 1 --word-reward 0.4",
    "rerank both.jsonl --strategy random --seed 3",
    "rerank regular.jsonl --strategy oracle",
    "rerank texts.jsonl",
    "rerank l2r.nbest --reverse r2l.nbest --log-prob F0 --agreement expected",
    "rerank l2r.out --reverse r2l.out --references tea.ref --strategy oracle",
    "rerank l2r.txt --per-source 3 --strategy longest --sources tea.txt",
    "rerank l2r.openai.jsonl --reverse r2l.openai.jsonl --similarity edit",
]
WORDS = "--tokenize words"
EVERY_SYSTEM = " ".join(
    f"--strategy '{name}'"
    for name in (
        *("vbs", "vbs-tuned", "reverse-vbs", "bidis", "random", "oracle", "bidia token_f1", "bidia wmd_t"),
        *("bidia bleu_t either", "bidia bleu_t tuned"),
    )
)
EVALUATE = [
    f"evaluate both.jsonl {EVERY_SYSTEM} {VECTORS} {TUNED} {FEW} {WORDS}",
    f"evaluate short=short.txt long=long.txt --references references.txt {FEW} {WORDS}",
    f"evaluate short=short.txt long.txt b=both.jsonl --baseline b --metric bleu --metric chrf {FEW} --seed 7",
    f"evaluate both.jsonl --strategy vbs --strategy oracle --metric wer --metric ser --metric ter {FEW}",
    f"evaluate both.jsonl --metric distinct-1 --metric length_ratio --references sources.tsv {FEW}",
]
ANALYSE = [
    f"analyse regular.jsonl both.jsonl {VECTORS} {TUNED} --examples 3 {WORDS}",
    "analyse both.jsonl --analysis ranks --analysis examples --examples 1 --max-length 12",
    f"analyse both.jsonl --systems vbs --systems 'bidia edit' {TUNED} --analysis diversity {WORDS}",
    "analyse texts.jsonl --analysis ranks",
    f"analyse --data old_data {WORDS}",
    f"analyse both.jsonl --metric chrf {TUNED} --analysis diversity --systems vbs --systems bidis",
]
INPUTS = {
    "jsonl": "texts.jsonl",
    "moses": "l2r.nbest --reverse r2l.nbest --log-prob F0 --sources tea.txt",
    "fairseq": "l2r.out --reverse r2l.out",
    "mbrs": "l2r.txt --per-source 3 --references tea.ref",
    "openai": "l2r.openai.jsonl --from openai",
}
CONVERT = [
    *(
        f"convert {given} --to {to}"
        for given in INPUTS.values()
        for to in FORMATS
        if to != "fairseq" or (given[:5] in ("l2r.n", "l2r.o") and "openai" not in given)  # it needs scores
    ),
    "convert both.jsonl --to moses --ranked",
    "convert r2l.txt --per-source 3 --direction reverse --to jsonl --words",
]
STOPPING = ("shrinking", "constant", "patience=2", "heuristic", "optimal", "exhaust")
TWO = "decode two.txt --max-length 10"
SWEEP = [
    f"{TWO} --beam-size {size} --stopping {rule} --length-formula {formula}"
    for size in (8, 20)  # 4 and 10 hypotheses in each direction
    for rule in STOPPING
    for formula in ("gnmt", "power")
]
DECODE = [
    *SWEEP,
    *(
        f"{TWO} --beam-size 8 {flags}"
        for flags in (
            "--no-count-end --length-penalty 1.5",
            "--length-penalty 0 --min-length 4",
            "--max-length 4 --unfinished rank",
            "--max-length 5 --unfinished drop",
            "--max-length 4 --unfinished keep",
            "--allow-unknown --batch-size 1",
        )
    ),
    *(
        f"decode sources.tsv --beam-size 6 --max-length 20 --strategy {choice}"
        for choice in (
            *("vbs", "vbs-tuned", "reverse-vbs", "longest", "oracle", "random --seed 2", "bidis"),
            *("bidis --lambda 0.5", "'bidia token_f1 either'", "'bidia bleu_t expected' --batch-size 5"),
            f"'bidia wmd_t' {VECTORS}",
        )
    ),
]
OLD_RUN = [
    *(f"decode old_run toy.txt --max-length 8 --beam-size {size}" for size in (4, 12)),
    "decode old_run old_data/test.jsonl --max-length 8 --strategy bidis --lambda 0.7 --stopping optimal",
    "decode old_run old_data/test.jsonl --max-length 5 --strategy oracle --unfinished rank",
]
SCORE = [
    "score texts.jsonl",
    "score texts.jsonl --direction reverse --length-formula power --length-penalty 1",
    "score l2r.nbest --reverse r2l.nbest --sources tea.txt --overwrite",
    "score l2r.out --batch-size 1",
    "score l2r.txt --per-source 3 --sources tea.txt --list-direction reverse --direction regular",
    "score texts.jsonl --model old_run",
]
CASES = {
    "rerank": RERANK,
    "evaluate": EVALUATE,
    "analyse": ANALYSE,
    "convert": CONVERT,
    "decode": [*DECODE, *OLD_RUN],
    "score": SCORE,
    "info": ["info --json", "info old_run --json"],
}


def observe(line: str, folder: Path) -> Any:
    """What a call writes, as far as it is frozen; `folder` is an empty one."""
    observers = (_rerank, _evaluate, _analyse, _convert, _decode, _score, _info)
    observed = dict(zip(CASES, observers, strict=True))[line.split(maxsplit=1)[0]](line, folder)
    return json.loads(without_versions(json.dumps(observed, ensure_ascii=False)))


def former_defaults(line: str) -> str:
    """What was meant where a line says nothing, as flags: the paper's strategy, and the search's T."""
    words = shlex.split(line)
    flags = "" if "--strategy" in words or words[0] not in ("rerank", "decode") else " --strategy bidia"
    if words[0] != "decode":
        return flags if "--max-length" in words or "--data" in words else f"{flags} --max-length 20"
    has_penalty = flags or any(name in line for name in ("bleu_t", "wmd_t"))
    length = words[len(words) - words[::-1].index("--max-length")]
    return f"{flags} --similarity-option max_length={length}" if has_penalty else flags


def _rerank(line: str, folder: Path) -> Any:
    done = call_line(f"{line}{former_defaults(line)} --n-best {{tmp}}/ranked.jsonl", folder)
    lists = parse_lists(folder / "ranked.jsonl")
    best = [each["ranking"]["replies"][0]["text"] for each in lists]
    assert done.out.splitlines() == best
    if line.startswith("rerank both.jsonl") and "--words" not in line:  # the lists stay as they were
        given = parse_lists(DATA / "both.jsonl")
        assert [{**each, "ranking": None} for each in lists] == [{**each, "ranking": None} for each in given]
    return {"signature": _signature(lists, done.err), "rankings": [short_ranking(each) for each in lists]}


def _signature(lists: list[dict[str, Any]], err: str) -> str:
    """The one signature of a call, which stderr tells too."""
    (signature,) = {each["ranking"]["signature"] for each in lists}
    assert f"Signature: {signature}" in err
    return str(signature)


def _decode(line: str, folder: Path) -> Any:
    done = call_line(f"{line}{former_defaults(line)} --n-best {{tmp}}/n-best.jsonl", folder)
    lists = parse_lists(folder / "n-best.jsonl")
    kept = lists[:1] if "sources.tsv" in line or "--beam-size 20" in line else lists[:4]
    return {
        "signature": _signature(lists, done.err) if line not in SWEEP else None,
        "replies": done.out.splitlines(),
        "regular": [short_list(each["regular"]) for each in kept],
        "reverse": [short_list(each["reverse"]) for each in kept],
        "rankings": [short_ranking(each) for each in kept if line not in SWEEP],
    }


def _evaluate(line: str, folder: Path) -> Any:
    done = call_line(f"{line}{former_defaults(line)} --out {{tmp}}/scores.json", folder)
    return {"rows": rows(done.out), "scores": json.loads((folder / "scores.json").read_text())}


def _analyse(line: str, folder: Path) -> Any:
    done = call_line(f"{line}{former_defaults(line)} --out {{tmp}}", folder)
    files = {path.name: json.loads(path.read_text()) for path in sorted(folder.iterdir())}
    for content in files.values():  # of what was left out the names are kept; why is prose
        content["left_out"] = {key: sorted(each) for key, each in content.get("left_out", {}).items()}
    return {"rows": rows(done.err), "files": files}


def _convert(line: str, folder: Path) -> Any:
    out = call_line(line, folder).out
    call_line(f"{line} --out {{tmp}}/lists.gz", folder)
    return out.splitlines()[:24]


def _score(line: str, folder: Path) -> Any:
    call_line(f"{line} --out {{tmp}}/scored.jsonl", folder)
    return [
        {
            way: [
                [each[key] for key in ("log_prob", "other_log_prob", "length", "score")] for each in line[way]
            ]
            for way in ("regular", "reverse")
        }
        for line in parse_lists(folder / "scored.jsonl")
    ]


def _info(line: str, folder: Path) -> Any:
    content = json.loads(call_line(line, folder).out)
    return {key: value for key, value in content.items() if key != "run"}


def _rounded(content: Any, digits: int) -> Any:
    """Keep so many significant digits of every float."""
    if isinstance(content, float):
        return float(f"{content:.{digits}g}")
    if isinstance(content, dict):
        return {key: _rounded(value, digits) for key, value in content.items()}
    return [_rounded(each, digits) for each in content] if isinstance(content, list) else content


def record() -> None:
    """Write what the calls answer now into `expected/`."""
    EXPECTED.mkdir(exist_ok=True)
    for command, lines in CASES.items():
        if sys.argv[1:] and command not in sys.argv[1:]:
            continue
        found = {}
        for line in lines:
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(DATA):
                found[line] = _rounded(
                    observe(line, Path(folder)), 7 if command in ("decode", "score") else 10
                )
        texts = (f"{json.dumps(key)}: {json.dumps(found[key], separators=(',', ':'))}" for key in lines)
        (EXPECTED / f"{command}.json").write_text("{\n" + ",\n".join(texts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    record()
