"""`bidibeam rerank`: lists in, replies out, and what it cannot use in one sentence."""

from __future__ import annotations

import gzip
import lzma
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from bidibeam import __version__
from tests.conftest import WORDS
from tests.unit.cli.calls import called, fill, lines_of, refused, refused_line, write_lines, write_vectors

DOCS = Path(__file__).parents[3] / "docs" / "nbest.md"
FILES = Path(__file__).parents[1] / "interchange" / "formats" / "files"
GOOD = '{"regular": [{"text": "a"}], "reverse": [{"text": "b"}]}'


def many(path: Path, *, sources: int) -> Path:
    """Lists of random length, of random words, some of them cut off."""
    chooser = random.Random(0)

    def hypotheses() -> list[dict[str, Any]]:
        return [
            {
                "text": " ".join(chooser.choices(WORDS, k=chooser.randint(0, 6))),
                "finished": chooser.random() < 0.8,
                "log_prob": -chooser.random(),
            }
            for _ in range(chooser.randint(1, 9))
        ]

    return write_lines(path, *({"regular": hypotheses(), "reverse": hypotheses()} for _ in range(sources)))


def test_a_note_says_when_t_decides_more_than_agreement(tmp_path: Path) -> None:
    short, long = {"text": "yes please"}, {"text": "i do not know what to say to yes"}
    one = {"regular": [short, long], "reverse": [short, {"text": "no"}]}
    lists = write_lines(tmp_path / "lists.jsonl", *[one] * 3)

    far = called("rerank", lists, "--max-length", "20")
    near = called("rerank", lists, "--max-length", "2")

    assert (far.replies, near.replies) == ([long["text"]] * 3, [short["text"]] * 3)
    others = "Note: of 3 replies, 3 by bidia bleu_t (T 20) would be others without T: length decides more"
    assert others in far.told
    assert "length decides" not in near.told
    assert "length decides" not in called("rerank", lists, "--similarity", "edit").told


def test_the_note_on_t_names_every_strategy_that_it_is_true_of(tmp_path: Path) -> None:
    short, long = {"text": "yes please"}, {"text": "i do not know what to say to yes"}
    one = {"regular": [short, long], "reverse": [short, {"text": "no"}], "reference": "yes"}
    lists = write_lines(tmp_path / "lists.jsonl", *[one] * 3)
    content = {"format_version": 2, "options": {"bidia bleu_t": {"T": 2}}}
    tuned = write_lines(tmp_path / "tuned.json", content)
    names = ("bidia bleu_t tuned", "bidia bleu_t", "bidia edit", "bidia bleu_t either")
    strategies = [word for name in names for word in ("--strategy", name)]

    call = called("evaluate", lists, *strategies, "--tuned", tuned, "--max-length", "20", "--trials", "9")

    assert (
        "Note: of 3 replies, 3 by bidia bleu_t (T 20), 3 by bidia bleu_t either (T 20) would be others"
        in call.told
    )


def test_who_answers_where_nobody_is_named(beams: Path, tmp_path: Path) -> None:
    scored = called("rerank", beams)
    assert "Strategy: bidis (the default for such lists)" in scored.told
    assert scored.replies == called("rerank", beams, "--strategy", "bidis").replies
    content = {"format_version": 2, "options": {}, "recommended": "mbr edit"}
    tuned = write_lines(tmp_path / "tuned.json", content)
    advised = called("rerank", beams, "--tuned", tuned)
    assert "Strategy: mbr edit (recommended by tuned.json)" in advised.told
    assert "strategy:mbr|similarity:edit|" in advised.signature
    assert "Strategy:" not in called("rerank", beams, "--tuned", tuned, "--strategy", "vbs").told


def test_texts_are_enough(lists: Path) -> None:
    call = called("rerank", lists)

    assert call.replies == ["At work.", "Not now."]
    assert "Strategy: bidia (the default for such lists)" in call.told
    assert "length decides" not in call.told
    assert re.search(r"2 sources in \d+\.\d s\. Work: 8 pairs compared\. Signature: ", call.told)
    assert call.signature == (
        "strategy:bidia|similarity:bleu_t|order:4|smoothing:floor|T:median|answer:regular|"
        f"agreement:closest|bidibeam:{__version__}"
    )
    assert "Work" not in called("rerank", lists, "--strategy", "random").told  # nothing was counted


@pytest.mark.parametrize("strategy", ["longest", "random", "bidia"])
def test_lists_come_from_files_packed_or_not_and_from_pipes(
    lists: Path, tmp_path: Path, strategy: str
) -> None:
    """A pipe may have a name, which can be read but once: `bidibeam rerank <(zcat lists.gz)`."""
    content = lists.read_bytes()
    (tmp_path / "lists.jsonl.gz").write_bytes(gzip.compress(content))
    (tmp_path / "lists.jsonl.xz").write_bytes(lzma.compress(content))
    reader, writer = os.pipe()
    os.write(writer, content)
    os.close(writer)
    flags = ("--strategy", strategy)
    plain = called("rerank", lists, *flags)

    assert len(plain.replies) == 2
    for packed in (tmp_path / "lists.jsonl.gz", tmp_path / "lists.jsonl.xz", f"/dev/fd/{reader}"):
        assert called("rerank", packed, *flags).out == plain.out
    assert called("rerank", "-", *flags, typed=content).out == plain.out
    os.close(reader)


def test_no_lists_no_replies(tmp_path: Path) -> None:
    call = called("rerank", write_lines(tmp_path / "empty.jsonl"), "--n-best", tmp_path / "out.jsonl")

    assert (call.status, call.out, (tmp_path / "out.jsonl").read_bytes()) == (0, "", b"")
    one_sided = write_lines(tmp_path / "r.jsonl", '{"regular": [{"text": "a"}]}')
    assert called("rerank", one_sided, "--strategy", "longest").out == "a\n"


def test_a_reply_takes_one_line_whatever_it_holds(tmp_path: Path) -> None:
    texts = ["a\nb", "a\r\nb\n", "\n", "a\u2028b\x0bc", "", "é 漢"]
    lines = ({"regular": [{"text": text}], "reverse": [{"text": "x"}]} for text in texts)

    call = called("rerank", write_lines(tmp_path / "l.jsonl", *lines), "--n-best", tmp_path / "o.jsonl")

    assert call.out == "a b\na b\n\na b c\n\né 漢\n"
    assert [line["regular"][0]["text"] for line in lines_of(tmp_path / "o.jsonl")] == texts
    again = called("rerank", tmp_path / "l.jsonl", "--n-best", tmp_path / "o.jsonl", "--resume")
    assert "6 were done already" in again.told
    assert again.out == call.out


@pytest.mark.parametrize(
    "flags", ["", "--similarity wmd_t", "--similarity edit", "--answer either", "--agreement expected"]
)
def test_any_number_of_workers_does_the_same_whether_all_is_ranked_or_not(
    tmp_path: Path, vectors: Path, flags: str
) -> None:
    source = many(tmp_path / "many.jsonl", sources=300)
    options = [*flags.split(), *(["--vectors", vectors] if "wmd" in flags else [])]
    outputs, files = set(), set()
    for workers in (1, 3):
        target = tmp_path / f"out{workers}.jsonl"
        for writing in ([], ["--n-best", target]):
            call = called("rerank", source, *options, "--workers", workers, *writing)
            assert len(call.replies) == 300
            outputs.add(call.out)
        files.add(target.read_bytes())

    assert (len(outputs), len(files)) == (1, 1)


def test_what_was_written_can_be_ranked_again(lists: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first.jsonl", tmp_path / "second.jsonl.gz"
    assert called("rerank", lists, "--n-best", first).status == 0

    assert called("rerank", first, "--n-best", second).status == 0
    assert gzip.decompress(second.read_bytes()) == first.read_bytes()


def test_the_lists_of_the_documentation_are_ranked(tmp_path: Path) -> None:
    first, second = re.findall(r"```json\n(.*?)```", DOCS.read_text(), flags=re.DOTALL)
    (tmp_path / "first.jsonl").write_text(first)
    (tmp_path / "second.jsonl").write_text(second)

    replies = called("rerank", tmp_path / "first.jsonl").replies
    assert [reply in line for reply, line in zip(replies, first.splitlines(), strict=True)] == [True, True]
    assert called("rerank", tmp_path / "second.jsonl", "--strategy", "vbs").replies == ["at work."]


@pytest.fixture
def scored(tmp_path: Path) -> Path:
    """A line whose first hypothesis the regular direction prefers, and the second the reverse one."""
    return write_lines(
        tmp_path / "l.jsonl",
        {
            "regular": [
                {"text": "likely", "log_prob": -2.0, "score": -1.0, "other_log_prob": -4.0},
                {"text": "agreed", "log_prob": -4.0, "score": -2.0, "other_log_prob": -2.0},
            ]
        },
    )


def test_tuned_settings_are_used_where_no_flag_says_otherwise_and_named_where_used(
    scored: Path, tmp_path: Path
) -> None:
    options = {"bidis": {"lambda_": 5}, "vbs-tuned": {"word_reward": 1}}
    tuned = write_lines(tmp_path / "tuned.json", {"format_version": 2, "options": options})
    command = ("rerank", scored, "--tuned", tuned, "--strategy")

    call = called(*command, "bidis")
    assert call.replies == ["agreed"]
    assert re.search(r"strategy:bidis\|lambda:5\|tuned:tuned\.json@[0-9a-f]{8}\|bidibeam:", call.signature)

    call = called(*command, "bidis", "--lambda", "0.1")
    assert call.replies == ["likely"]
    assert "tuned" not in call.signature
    assert "tuned" not in called(*command, "vbs").signature
    assert refused(*command, "vbs-tuned") == (
        "The strategy vbs-tuned needs --length-exponent; `bidibeam tune` finds good values, for a run or for "
        "Hugging Face models: decode then uses them, and rerank takes them by --tuned."
    )


def test_t_is_that_of_the_tuning_unless_a_flag_says_otherwise(lists: Path, tmp_path: Path) -> None:
    content = {"format_version": 2, "options": {}, "penalty_length": 17}
    tuned = write_lines(tmp_path / "tuned.json", content)
    command = ("rerank", lists, "--strategy", "bidia bleu_t", "--tuned", tuned)

    assert "|T:17|" in called(*command).signature
    assert "|T:9|" in called(*command, "--max-length", "9").signature


def test_lists_are_chosen_from_with_the_t_that_decode_has(copied_run: Path, tmp_path: Path) -> None:
    beams, system = tmp_path / "beams.jsonl", "bidia bleu_t"
    assert called("tune", copied_run, "--sources", "3", "--strategy", "bidis").status == 0
    decoded = called(
        "decode", copied_run, "--strategy", system, "--n-best", beams, typed="red cat\nblue dog\n"
    )

    reranked = called("rerank", beams, "--strategy", system, "--tuned", copied_run)

    length = dict(fact.split(":", 1) for fact in decoded.signature.split("|"))["T"]
    assert length.isdigit()
    assert f"|T:{length}|" in reranked.signature
    references = write_lines(tmp_path / "references.txt", "red cat!", "blue dog!")
    flags = ("--references", references, "--strategy", system, "--tuned", copied_run, "--signatures")
    assert f"|T:{length}|" in called("evaluate", beams, *flags).shown


def test_vectors_of_words_are_not_for_fairseqs_subwords_but_for_its_words(tmp_path: Path) -> None:
    vectors = write_vectors(tmp_path / "few.vec", ["i", "do", "know", "at", "."])
    lists = FILES / "fairseq-interactive.out"
    command = ("rerank", lists, "--reverse", lists, "--similarity", "wmd", "--vectors", vectors)

    said = refused(*command)

    assert said.startswith("The lists hold subwords, such as 'wor@@', and --vectors are vectors of words.")
    assert len(called(*command, "--words").replies) == 4


@pytest.fixture
def given(lists: Path, tmp_path: Path) -> dict[str, Path]:
    """Lists that can be used, and such that cannot, alone in a folder."""
    folder = tmp_path / "in"
    folder.mkdir()
    made = {
        "good": [GOOD],
        "regular": ['{"regular": [{"text": "a"}]}'],
        "late": [*[GOOD] * 700, "", '{"regular": [{"text": "a"}]}'],  # behind many batches
        "out.jsonl.partial": [GOOD],
    }
    files = {name: write_lines(folder / name, *content) for name, content in made.items()}
    text = FILES / "mbrs-decode.txt"
    other = folder / "other"
    other.write_bytes(text.read_bytes())
    (folder / "link").symlink_to(files["good"])
    more = {"link": folder / "link", "other": other, "out": folder / "out.jsonl", "in": folder}
    return {**files, **more, "lists": lists, "text": text}


LACKS = "source '1', regular[0] has no"
REFUSED = {
    "{text} --per-source 4 --strategy vbs": f'{{text}}, line 1: {LACKS} "score", and vbs needs it; '
    "`bidibeam score` adds it, given the model, or choose a strategy without, such as longest.",
    "{text} --per-source 4 --reverse {other} --agreement expected": f"{{text}} and {{other}}: {LACKS} "
    '"log_prob", and bidia needs it; `bidibeam score` adds it, given the model.',
    "{text} --from mbrs": "{text}: flat text does not say how many hypotheses a source has. Say it by "
    "--per-source.",
    "{late} --n-best {out}": "{late}, line 702: source '702' has no reverse hypotheses, and bidia needs "
    'them; add a list "reverse", or choose another strategy, such as "mbr mean".',
    "{regular} --strategy reverse-vbs --n-best {out}": "{regular}, line 1: source '1' has no reverse "
    'hypotheses, and reverse-vbs needs them; add a list "reverse", or choose another strategy, such as "mbr '
    'mean".',
    "{regular} --strategy oracle --n-best {out}": "{regular}, line 1: source '1' has no \"reference\", and "
    "oracle chooses by it; add one, or choose another strategy.",
    **{
        f"{{lists}} --similarity {name}": f"The similarity {name} needs word vectors: give --vectors, a file "
        "of them."
        for name in ("wmd_t", "embedding_cosine")
    },
    "{lists} --strategy bidis --seed 1": "The strategy bidis has no option seed. It has: --lambda.",
    "{lists} --similarity-option smoothing=some": "smoothing must be one of floor, none, add-1, not 'some'.",
    "{lists} --strategy-option answer": "--strategy-option must be NAME=VALUE, not 'answer'.",
    "{lists} --strategy bidia --strategy-option answer=both": "--answer must be one of regular, either, not "
    "'both'.",
    "{lists} --strategy bidis --tuned {out}": "There is no {out}: `bidibeam tune RUN` writes it.",
    "{lists} --resume": "--resume needs --n-best FILE: what is done is read from that file.",
    **{
        f"{{{name}}} --n-best {out}": f"--n-best would overwrite the input, {{{name}}}. Name another file."
        for name, out in (
            ("good", "{good}"),
            ("good", "{link}"),
            ("good", "{in}/../in/good"),
            ("out.jsonl.partial", "{out}"),  # where the output grows
        )
    },
}


@pytest.mark.parametrize("line", REFUSED)
def test_what_cannot_be_used_is_one_sentence_and_nothing_is_written(
    line: str, given: dict[str, Path]
) -> None:
    before = {path: path.read_bytes() for path in given["in"].iterdir()}

    assert refused_line(f"rerank {line}", given) == fill(REFUSED[line], given)

    assert {path: path.read_bytes() for path in given["in"].iterdir()} == before


def test_a_line_through_a_pipe_is_named_too() -> None:
    """`-` has no name but <stdin>, which a replaced stdin does not know."""
    assert ", line 2: this is not JSON" in refused("rerank", "-", typed=f"{GOOD}\n{{oops\n")


def test_workers_are_counted_from_one(lists: Path) -> None:
    call = called("rerank", lists, "--workers", "0")

    assert (call.status, call.out, "Invalid value for '--workers'" in call.err) == (2, "", True)
