"""What commands hold in memory does not grow with their input; `benchmarks/memory.py` measures it."""

from __future__ import annotations

import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.cli.calls import called, write_lines

FEW, MANY = 600, 1800
WORDS = ["the", "tea", "is", "cold", "now"]


def growth(call: Callable[[int], object]) -> float:
    """How many bytes more a call holds at once for each source more."""
    call(FEW)  # what is loaded once, and caches
    peaks = []
    for count in (FEW, MANY):
        tracemalloc.start()
        call(count)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    return (peaks[1] - peaks[0]) / (MANY - FEW)


def write_lists(path: Path, count: int) -> Path:
    """Lists of a source, a reference and ten hypotheses each; as objects they take 10 kB a source."""
    lines = []
    for number in range(count):
        hypotheses = [
            {
                "text": f"{word} {number} {rank}",
                "log_prob": -1.0 - rank,
                "other_log_prob": -2.0,
                "score": -1.0,
            }
            for rank, word in enumerate(WORDS)
        ]
        about = {"id": f"source-{number}", "source": f"how is it {number} ?", "reference": f"cold {number}"}
        lines.append(about | {"regular": hypotheses, "reverse": hypotheses})
    return write_lines(path, *lines)


@pytest.fixture
def lists(tmp_path: Path) -> dict[int, Path]:
    return {count: write_lists(tmp_path / f"{count}.jsonl", count) for count in (FEW, MANY)}


@pytest.mark.parametrize("strategy", [(), ("--strategy", "bidia edit")])
def test_rerank_holds_no_lists(lists: dict[int, Path], tmp_path: Path, strategy: tuple[str, ...]) -> None:
    def rerank(count: int) -> None:
        call = called("rerank", lists[count], *strategy, "--n-best", tmp_path / "ranked.jsonl")
        assert len(call.replies) == count

    assert growth(rerank) < 1000  # batches of it, which the collector has not seen yet


@pytest.mark.parametrize("name", ["out.jsonl", "out.moses", "out.fairseq"])
def test_convert_holds_no_lists(lists: dict[int, Path], tmp_path: Path, name: str) -> None:
    def convert(count: int) -> None:
        assert called("convert", lists[count], "-o", tmp_path / f"{count}-{name}").status == 0

    def convert_back(count: int) -> None:
        files = ("--sources", texts[count], "--references", texts[count])
        here = called("convert", tmp_path / f"{count}-{name}", *files, "-o", tmp_path / "back.jsonl")
        assert here.status == 0, here.err

    texts = {count: write_lines(tmp_path / f"{count}.txt", *["some text"] * count) for count in lists}
    assert growth(convert) < 100  # garbage that waits for the collector
    assert growth(convert_back) < 100


def test_decode_holds_no_sources(toy_run: Path, tmp_path: Path) -> None:
    texts = {count: write_lines(tmp_path / f"{count}.txt", *["zzzz qqqq"] * count) for count in (FEW, MANY)}
    search = (
        "--strategy",
        "vbs",
        "--beam-size",
        "2",
        "--max-length",
        "3",
        "--n-best",
        tmp_path / "found.jsonl",
    )

    def decode(count: int) -> None:
        call = called("decode", toy_run, texts[count], *search)
        assert len(call.replies) == count
        assert f"Note: {count:,} sources have no token that the model knows, the first of them" in call.told

    assert growth(decode) < 150


def test_what_is_resumed_is_not_held(toy_run: Path, tmp_path: Path) -> None:
    texts = {count: write_lines(tmp_path / f"{count}.txt", *["a b c d"] * count) for count in (FEW, MANY)}
    search = ("--strategy", "vbs", "--beam-size", "2", "--max-length", "3")
    batch = ("--batch-size", "7")  # of which the last one was not finished
    for count, file in texts.items():
        found = tmp_path / f"{count}.jsonl"
        assert called("decode", toy_run, file, *search, *batch, "--n-best", found).status == 0
        lines = found.read_text().splitlines(keepends=True)
        found.with_name(f"{found.name}.part").write_text("".join(lines[:-10]))

    def resume(count: int) -> None:
        found = tmp_path / f"{count}.jsonl"
        shutil.copy(found.with_name(f"{found.name}.part"), found.with_name(f"{found.name}.partial"))
        call = called("decode", toy_run, texts[count], *search, *batch, "--n-best", found, "--resume")
        assert len(call.replies) == count

    assert growth(resume) < 300


@pytest.mark.parametrize("is_list", [False, True])
def test_evaluate_holds_texts_and_counts(
    tmp_path: Path, is_list: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(name: str, count: int, is_list: bool) -> Path:
        texts = [f"{WORDS[number % 5]} is {number % 500}" for number in range(count)]
        lists = [{"id": f"source-{at}", "regular": [{"text": text}] * 3} for at, text in enumerate(texts)]
        return write_lines(tmp_path / f"{name}-{count}", *(lists if is_list else texts))

    files = {
        count: (write("replies", count, is_list), "--references", write("references", count, False))
        for count in (FEW, MANY)
    }
    monkeypatch.setattr("bidibeam.metrics.scoring.AT_ONCE", FEW // 2)

    def evaluate(count: int) -> None:
        call = called("evaluate", *files[count], "--samples", "1")
        assert call.status == 0, call.err

    assert growth(evaluate) < 200
