"""Time of similarity matrices beside the programs that people use for them now.

    python benchmarks/similarities.py BEAMS.jsonl [--vectors FILE.vec] [--quick] [--out results.json]

BEAMS.jsonl is an n-best file with both directions. Hypotheses of 5 to 20 tokens make matrices of 25 x 25: a
source that has too few of them is filled up with those of the sources after it, and the first line says how
often. Everybody takes turns at each matrix, on one core, so that a busy machine slows all; the figures are
medians. Peers get their input in the form they like best, made ready beforehand; ours starts from hypotheses
whose tokens are text. Without --vectors there is no word mover's distance. Peers not installed are named.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from importlib.metadata import distributions
from itertools import islice, pairwise
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import click
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bidibeam import __version__
from bidibeam.hypotheses import Beams, Direction, Hypothesis
from bidibeam.interchange import nbest
from bidibeam.metrics.bleu import sentence_bleus
from bidibeam.metrics.ngrams import count_ngrams
from bidibeam.similarities.bleu import Bleu, BleuT, number_tokens
from bidibeam.similarities.wmd import Wmd, WmdT
from bidibeam.similarities.word_vectors import WordVectors, english_stop_words

Array = np.ndarray[Any, np.dtype[np.float64]]
Call = Callable[[], Any]

SIZE, LONGEST = 25, 20
CALLS_A_TURN = 20
"""Ours is so much quicker that a turn of a single call would say more of cold caches than of it."""


class Case(NamedTuple):
    """One matrix."""

    hypotheses: Sequence[Hypothesis]
    references: Sequence[Hypothesis]

    @property
    def tokens(self) -> tuple[list[list[str]], list[list[str]]]:
        """Both lists as lists of tokens."""
        hypotheses, references = ([list(each.tokens) for each in side] for side in self)
        return hypotheses, references

    @property
    def lines(self) -> tuple[list[str], list[str]]:
        """Both lists as lines of text, each token a word that no tokenizer takes apart."""
        ids, offsets, hypotheses = number_tokens(*self.tokens)
        lines = [" ".join(f"w{number}" for number in ids[start:end]) for start, end in pairwise(offsets)]
        return lines[:hypotheses], lines[hypotheses:]


@dataclass(frozen=True)
class Contender:
    """Somebody who fills a matrix, from a `package`, or ours.

    `prepare` turns a case into the call that is timed; `expected` gives our numbers by its definition.
    """

    name: str
    package: str
    how: str
    prepare: Callable[[Case], Call]
    expected: Callable[[Case], Array] | None = None


def ours(similarity: BleuT | WmdT) -> list[Contender]:
    """The whole matrix, and the closest pair alone."""
    return [
        Contender("ours, matrix", "", "pairwise", lambda case: lambda: similarity.pairwise(*case)),
        Contender("ours, closest", "", "closest", lambda case: lambda: similarity.closest(*case)),
    ]


def nltk_bleu(case: Case) -> Call:
    """Its sentence BLEU with method 1, pair by pair."""
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    rows, columns = case.tokens
    smoothing = SmoothingFunction().method1
    return lambda: [[sentence_bleu([b], a, smoothing_function=smoothing) for b in columns] for a in rows]


def sacre_bleu(case: Case) -> Call:
    """Its sentence score, floored, pair by pair; unlike ours it leaves orders out below four tokens."""
    from sacrebleu.metrics.bleu import BLEU

    rows, columns = case.lines
    metric = BLEU(tokenize="none", smooth_method="floor", smooth_value=0.1, effective_order=True, force=True)
    return lambda: [[metric.sentence_score(a, [b]).score / 100 for b in columns] for a in rows]


def fast_bleu(case: Case) -> Call:
    """Its object for a fixed reference, made anew for each, and all hypotheses at once."""
    from fast_bleu import BLEU

    rows, columns = case.tokens
    return lambda: np.transpose([BLEU([b]).get_score(rows)[4] for b in columns])


def bleuscore(case: Case) -> Call:
    """Its only function, pair by pair, without smoothing, so that the numbers can be compared."""
    from bleuscore import compute

    rows, columns = case.lines
    return lambda: [[compute(references=[[b]], predictions=[a])["bleu"] for b in columns] for a in rows]


def ordinary(case: Case) -> Array:
    """Sentence BLEU with floored precisions and the ordinary brevity penalty."""
    rows, columns = case.tokens
    return np.stack([sentence_bleus(count_ngrams(rows, [[each]] * len(rows), 4)) for each in columns], axis=1)


def unsmoothed(case: Case) -> Array:
    """The same without smoothing."""
    lengths, references = (np.array([len(each.tokens) for each in side]) for side in case)
    penalties: Array = np.minimum(1.0, np.exp(1.0 - references / lengths[:, np.newaxis]))
    return Bleu(smoothing="none").pairwise(*case) * penalties


BLEU_PEERS = [
    Contender("nltk", "nltk", "sentence_bleu, method1, pair by pair", nltk_bleu, ordinary),
    Contender("sacreBLEU", "sacrebleu", "BLEU(floor).sentence_score, pair by pair", sacre_bleu, ordinary),
    Contender("fast-bleu (C++)", "fast-bleu", "BLEU(one reference).get_score(all)", fast_bleu, ordinary),
    Contender("bleuscore (Rust)", "bleuscore", "compute, pair by pair", bleuscore, unsmoothed),
]


class Bag(NamedTuple):
    """A hypothesis' words, the rows of different ones, and what share of it each has."""

    words: list[str]
    rows: np.ndarray[tuple[int], np.dtype[np.int64]]
    shares: Array


@dataclass(frozen=True)
class Movers:
    """The word mover's distance by others, on the words that ours compares."""

    space: WordVectors

    @cached_property
    def costs(self) -> Array:
        """How far words are from each other, (words, words)."""
        points = self.space.matrix.astype(np.float64)
        return np.stack([np.linalg.norm(points - point, axis=1) for point in points])

    def bags(self, case: Case) -> tuple[list[Bag], list[Bag]]:
        """Words that have vectors, without stop words where that leaves any."""

        def bag(hypothesis: Hypothesis) -> Bag:
            known = [token for token in hypothesis.tokens if token in self.space.rows]
            kept = [token for token in known if token not in english_stop_words()] or known
            counts = Counter(kept)
            shares = np.array(list(counts.values())) / counts.total()
            return Bag(kept, np.array([self.space.rows[word] for word in counts]), shares)

        return [bag(each) for each in case.hypotheses], [bag(each) for each in case.references]

    def joint(self, a: Bag, b: Bag) -> tuple[Any, Any, Any]:
        """What `wmd`'s solver reads: shares and costs of all words of both."""
        rows = np.union1d(a.rows, b.rows)
        shares = np.zeros((2, len(rows)), np.float32)
        for share, bag in zip(shares, (a, b), strict=True):
            share[np.searchsorted(rows, bag.rows)] = bag.shares
        return *shares, self.costs[np.ix_(rows, rows)].astype(np.float32)

    def distances(self, case: Case) -> Array:
        """Ours."""
        return 1 / Wmd(self.space).pairwise(*case) - 1

    def nearest(self, case: Case) -> Any:
        """Ours, from each hypothesis to the nearest reference."""
        return self.distances(case).min(axis=1)

    def gensim(self, case: Case) -> Call:
        """Its method, pair by pair, on words."""
        from gensim.models import KeyedVectors

        rows, columns = self.bags(case)
        vectors = KeyedVectors(self.space.matrix.shape[1])
        vectors.add_vectors(self.space.words, self.space.matrix)
        return lambda: [[vectors.wmdistance(a.words, b.words, norm=False) for b in columns] for a in rows]

    def pot(self, case: Case) -> Call:
        """Its exact solver, pair by pair; all that it reads is made beforehand."""
        from ot import emd2

        rows, columns = self.bags(case)
        pairs = [[(a.shares, b.shares, self.costs[np.ix_(a.rows, b.rows)]) for b in columns] for a in rows]
        return lambda: [[emd2(*pair) for pair in row] for row in pairs]

    def wmd_solver(self, case: Case) -> Call:
        """The solver inside it, pair by pair; all that it reads is made beforehand, and its memory kept."""
        from wmd import libwmdrelax

        rows, columns = self.bags(case)
        pairs = [[self.joint(a, b) for b in columns] for a in rows]
        memory = libwmdrelax.emd_cache_init(500)
        return lambda: [[libwmdrelax.emd(*pair, memory) for pair in row] for row in pairs]

    def wmd_bags(self, case: Case) -> Call:
        """The same from bags of words and the costs of all words."""
        from wmd import libwmdrelax

        rows, columns = self.bags(case)
        memory = libwmdrelax.emd_cache_init(500)
        return lambda: [[libwmdrelax.emd(*self.joint(a, b), memory) for b in columns] for a in rows]

    def wmd_search(self, case: Case) -> Call:
        """Its own search, for each hypothesis' nearest reference, told to look at all."""
        from wmd import WMD

        queries, references = (
            [(bag.rows.astype(np.uint64), bag.shares.astype(np.float32)) for bag in bags]
            for bags in self.bags(case)
        )
        documents = {place: (str(place), *bag) for place, bag in enumerate(references)}
        points = self.space.matrix.astype(np.float32)

        def search() -> list[float]:
            model = WMD(points, documents, vocabulary_min=1, verbosity=logging.WARNING)
            model.cache_centroids()
            return [model.nearest_neighbors(query, k=1, early_stop=1)[0][1] for query in queries]

        return search

    @property
    def peers(self) -> list[Contender]:
        """Who is compared."""
        return [
            Contender("gensim", "gensim", "wmdistance, pair by pair", self.gensim, self.distances),
            Contender("POT", "POT", "emd2 alone, pair by pair", self.pot, self.distances),
            Contender("wmd", "wmd", "emd alone, pair by pair", self.wmd_solver, self.distances),
            Contender("wmd, from bags", "wmd", "emd, pair by pair", self.wmd_bags, self.distances),
            Contender("wmd, search", "wmd", "nearest of each row", self.wmd_search, self.nearest),
        ]


def make_cases(beams: Iterable[Beams], shortest: int) -> Iterator[tuple[Case, bool]]:
    """Yield matrices, and whether each is of one source alone."""
    found: dict[Direction, list[Hypothesis]] = {direction: [] for direction in Direction}
    pooled = 0
    for each in beams:
        pooled += 1
        for direction, hypotheses in found.items():
            hypotheses += [one for one in each.of(direction) if shortest <= len(one.tokens) <= LONGEST]
        if min(map(len, found.values())) >= SIZE:
            yield Case(*(hypotheses[:SIZE] for hypotheses in found.values())), pooled == 1
            found, pooled = {direction: [] for direction in Direction}, 0


@dataclass(frozen=True)
class Row:
    """What one contender took, and took over ours: median, least, most. `difference` is the largest."""

    name: str
    how: str
    ms: float
    times_matrix: tuple[float, float, float]
    times_closest: tuple[float, float, float]
    difference: float | None


def measure(contenders: Sequence[Contender], cases: Sequence[Case], turns: int) -> list[Row]:
    """Let all take turns at each matrix; the first two are ours."""
    times: dict[Contender, list[float]] = {each: [] for each in contenders}
    differences: dict[Contender, float] = {}
    for case in track(cases, console=Console(stderr=True), description="Comparing"):
        calls = {each: each.prepare(case) for each in contenders}
        taken: dict[Contender, list[float]] = {each: [] for each in contenders}
        for _ in range(turns):
            for each, call in calls.items():
                for _ in range(1 if each.package else CALLS_A_TURN):
                    began = time.perf_counter()
                    call()
                    taken[each].append(time.perf_counter() - began)
        for each, call in calls.items():
            times[each].append(median(taken[each]))
            if each.expected:
                difference = float(np.abs(np.asarray(call()) - each.expected(case)).max())
                differences[each] = max(difference, differences.get(each, 0.0))
    rows = []
    for each in contenders:
        ratios = [np.divide(times[each], times[mine]) for mine in contenders[:2]]
        matrix, closest = ((float(np.median(of)), float(min(of)), float(max(of))) for of in ratios)
        rows.append(
            Row(each.name, each.how, 1000 * median(times[each]), matrix, closest, differences.get(each))
        )
    return rows


FIRST_CALL = """import time
from bidibeam.hypotheses import Hypothesis
hypotheses = [Hypothesis("", tuple("abcde"), None, 6, None)]
began = time.perf_counter()
{setup}
similarity.closest(hypotheses, hypotheses)
print(time.perf_counter() - began)
"""
BLEU_SETUP = "from bidibeam.similarities.bleu import BleuT; similarity = BleuT()"
WMD_SETUP = """from bidibeam.similarities import wmd, word_vectors
similarity = wmd.WmdT(word_vectors.WordVectors("abcde", [[1.0], [2.0], [3.0], [4.0], [5.0]]))"""


def first_call_s(setup: str) -> dict[str, float]:
    """Seconds to import a similarity and call it once, where it must be compiled and where it has been."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", FIRST_CALL.format(setup=setup)]
        variables = {**os.environ, "NUMBA_CACHE_DIR": folder}
        runs = [float(subprocess.check_output(command, env=variables)) for _ in range(4)]
    return {"compiling": runs[0], "compiled": median(runs[1:])}


def table(title: str, rows: Sequence[Row], first: dict[str, float]) -> Table:
    """The rows for people."""
    seconds = "Import and first call: {compiling:.2f} s with compiling, then {compiled:.2f} s".format(**first)
    shown = Table(title=title, caption=seconds)
    for name in ("", "called", "ms", "times our matrix", "times our closest", "largest difference"):
        shown.add_column(name)
    for row in rows:
        ratios = ("{:.1f} ({:.1f} to {:.1f})".format(*each) for each in (row.times_matrix, row.times_closest))
        difference = "" if row.difference is None else f"{row.difference:.0e}"
        shown.add_row(row.name, row.how, f"{row.ms:.3f}", *ratios, difference)
    return shown


@click.command(help=__doc__)
@click.argument("beams", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--vectors", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Word vectors.")
@click.option("--quick", is_flag=True, help="Three matrices, one turn each.")
@click.option("--shortest", type=click.IntRange(min=0), default=5, show_default=True, help="In tokens.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="Write the numbers as JSON.")
def main(*, beams: Path, vectors: Path | None, quick: bool, shortest: int, out: Path | None) -> None:
    """Measure each similarity, print a table of each."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    turns = 1 if quick else 3
    sources = list(nbest.read(beams))
    found = list(islice(make_cases(sources, shortest), 3 if quick else 50))
    cases = [case for case, _ in found]
    if not cases:
        raise click.UsageError(f"{beams} has fewer than {SIZE} hypotheses of {shortest} to {LONGEST} tokens.")
    groups = [("bleu_t", ours(BleuT()), BLEU_PEERS, BLEU_SETUP)]
    if vectors:
        wanted = {token for case in cases for side in case for each in side for token in each.tokens}
        space = WordVectors.from_file(vectors, wanted)
        groups.append(("wmd_t", ours(WmdT(space)), Movers(space).peers, WMD_SETUP))
    packages = sorted({each.package for _, _, peers, _ in groups for each in peers})
    installed = {each.name: each.version for each in distributions()}
    signature = {
        "bidibeam": __version__,
        "python": platform.python_version(),
        "versions": {name: installed.get(name) for name in ("numpy", "numba", *packages)},
        "file": beams.name,
        "sources": len(sources),
        "matrices": [len(cases), SIZE, SIZE],
        "of one source": sum(is_of_one for _, is_of_one in found),
        "tokens": [shortest, LONGEST],
        "vectors": vectors and vectors.name,
        "turns": turns,
    }
    console, results = Console(width=150), {}
    console.print(signature)
    for absent in set(packages) - set(installed):
        console.print(f"{absent} is not installed: no comparison with it.")
    for name, mine, peers, setup in groups:
        contenders = [*mine, *(each for each in peers if each.package in installed)]
        rows, first = measure(contenders, cases, turns), first_call_s(setup)
        console.print(table(name, rows, first))
        results[name] = {"rows": [asdict(row) for row in rows], "first_call_s": first}
    if out:
        out.write_text(json.dumps({"signature": signature, **results}, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
