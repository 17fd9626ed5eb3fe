"""Options that several commands share, and the settings they stand for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES

if TYPE_CHECKING:
    from bidibeam.strategies.settings import StrategySettings

Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)

STRATEGY_WORDS = (
    "More may stand behind bidia, in quotes: its similarity, either, expected or mean, and tuned, as in "
    "'bidia wmd_t either' and 'bidia bleu_t tuned'"
)
"""What every --strategy says of the names of systems."""
STRATEGY_FLAGS = ("lambda_", "answer", "agreement", "length_exponent", "word_reward", "seed")
"""What a strategy's own settings are called in a command's parameters."""


def together(options: Sequence[Callable[[Any], Any]]) -> Callable[[Command], Command]:
    """Several options as one decorator; help lists them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


vectors_option = click.option(
    "--vectors",
    type=click.Path(path_type=Path),
    help="Word vectors for wmd, wmd_t, embedding_cosine: fastText's text format, plain, .gz or .xz.",
)
tuned_option = click.option(
    "--tuned",
    "tuned_file",
    type=click.Path(path_type=Path),
    help="A tuned.json, or the run that has it, for bidis, vbs-tuned and names with 'tuned'.",
)
max_length_option = click.option(
    "--max-length",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    help="T of bleu_t and wmd_t: the most steps that the search took.",
)
workers_option = click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=None,
    help="Threads that compare hypotheses; the result is the same.  [default: one a core]",
)
batch_size_option = click.option(
    "--batch-size",
    type=click.IntRange(min=1),
    help="Sources searched at once.  [default: 32, or 512 on a GPU]",
)
device_option = click.option("--device", help="cpu, cuda, cuda:1 ...  [default: a GPU where there is one]")

search_options = together(
    [
        click.option(
            "--beam-size",
            type=int,
            default=10,
            show_default=True,
            help="Hypotheses kept, B; bidia gives half of them to each direction.",
        ),
        click.option(
            "--max-length",
            type=int,
            help="Most steps, T, the end token counted.  [default: what the model's data were prepared with, "
            "else 20]",
        ),
        click.option(
            "--min-length", type=int, default=1, show_default=True, help="Tokens before the reply may end."
        ),
        click.option(
            "--stopping",
            help="When a source's search is over: shrinking (the paper's), constant, patience[=FACTOR], "
            "heuristic, optimal, exhaust.  [default: shrinking, or what the model's engine has]",
        ),
        click.option(
            "--length-penalty",
            type=float,
            default=0.6,
            show_default=True,
            help="Exponent a of the length formula; 0 ranks by log-probability alone.",
        ),
        click.option(
            "--length-formula",
            type=click.Choice(["gnmt", "power"]),
            default="gnmt",
            show_default=True,
            help="What scores are divided by: (5+|Y|)^a / 6^a, the paper's; or |Y|^a, Hugging Face's.",
        ),
        click.option(
            "--count-end/--no-count-end",
            default=True,
            show_default=True,
            help="Does |Y| count the end token?",
        ),
        click.option(
            "--unfinished",
            type=click.Choice(["keep", "rank", "drop"]),
            default="keep",
            show_default=True,
            help="Replies cut off at --max-length: kept behind all others, ranked by score, or dropped.",
        ),
        click.option("--allow-unknown", is_flag=True, help="Let the unknown token be written."),
    ]
)
"""The options of a search."""


class StrategyOption(click.Option):
    """One that takes a system's name, and tells whoever leaves out its quotes so."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Read it, once no other word of such a name stands where files do, and is none.

        Raises:
            UsageError: If one does.
        """
        from bidibeam.strategies.settings import OPTION_WORDS, TUNED

        given = opts.get(self.name or "")  # a sentinel where it is not given
        names = [given] if isinstance(given, str) else given if isinstance(given, list) else []
        beside: list[Any] = []
        for each in ctx.command.params:
            value = opts.get(each.name or "") if isinstance(each, click.Argument) else None
            beside += value if isinstance(value, list | tuple) else [value]
        known = {*SIMILARITIES.names(), *OPTION_WORDS, TUNED}
        words = [word for word in (*beside, *args) if word in known and not Path(word).exists()]
        if names and words and not ctx.resilient_parsing:
            name = " ".join([names[-1], *words])
            told = f'After --strategy stands more than one word; put the name in quotes: --strategy "{name}".'
            raise click.UsageError(told, ctx)
        return super().handle_parse_result(ctx, opts, args)


def strategy_option(names: Sequence[str]) -> Callable[[Any], Any]:
    """--strategy, offering these."""
    return click.option(
        "--strategy",
        cls=StrategyOption,
        default="bidia",
        show_default=True,
        help=f"Who answers: {', '.join(names)}. bidia takes what both directions agree on, bidis the best "
        "of the regular beam by both scores, vbs the most likely; the others are there to compare with. "
        f"{STRATEGY_WORDS}; flags go over such words.",
    )


choice_options = together(
    [
        click.option(
            "--similarity",
            help=f"How bidia compares hypotheses: {', '.join(SIMILARITIES.names())}, or package.module:name "
            "of a Python function of two lists of hypotheses.  [default: bleu_t]",
        ),
        click.option(
            "--similarity-option",
            "similarity_options",
            multiple=True,
            metavar="NAME=VALUE",
            help="A setting of the similarity: smoothing=add-1, form=ratio, weights=log, max_length=30 ...",
        ),
        vectors_option,
        click.option(
            "--lambda",
            "lambda_",
            type=float,
            help="bidis: weight of the reverse score.  [default: the tuned one, or 1]",
        ),
        click.option(
            "--answer",
            type=click.Choice(["regular", "either"]),
            help="bidia: may a reverse hypothesis answer too?  [default: regular]",
        ),
        click.option(
            "--agreement",
            type=click.Choice(["closest", "expected", "mean"]),
            help="bidia: the closest match in the other beam, the mean weighted by probability, the mean.  "
            "[default: closest]",
        ),
        click.option(
            "--length-exponent", type=float, help="vbs-tuned: exponent a.  [default: the tuned one]"
        ),
        click.option(
            "--word-reward", type=float, help="vbs-tuned: reward for each token.  [default: the tuned one]"
        ),
        click.option(
            "--strategy-option",
            "strategy_options",
            multiple=True,
            metavar="NAME=VALUE",
            help="A setting of a strategy that another package brings.",
        ),
        click.option("--seed", type=int, help="random: another seed, another choice.  [default: 0]"),
        workers_option,
    ]
)
"""The options of a choice, but for the strategy."""
strategy_options = together([strategy_option(STRATEGIES.names()), choice_options])
"""The options of a choice."""

output_options = together(
    [
        click.option(
            "--n-best",
            "nbest_file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Also write every hypothesis and the full ranking, with all scores, as JSON lines.",
        ),
        click.option(
            "--resume",
            is_flag=True,
            help="Go on with an --n-best file that a killed call left behind; stdout gets every reply again.",
        ),
    ]
)
"""The options of what is written."""


def strategy_settings(flags: dict[str, Any]) -> tuple[StrategySettings, int]:
    """Take a strategy's flags out of a command's parameters: its settings, and how many threads it may use.

    Flags go over the words of the name; where they contradict one, a note says so.

    Raises:
        SettingsError: If an option of the similarity is not NAME=VALUE, or a word or flag does not apply.
        UnknownNameError: If nothing has the strategy's name, or there is no such word.
    """
    from bidibeam.errors import SettingsError
    from bidibeam.strategies.naming import SystemName

    name = SystemName.of(flags.pop("strategy"))
    similarity, options, vectors = (
        flags.pop(each) for each in ("similarity", "similarity_options", "vectors")
    )
    given = {flag: value for flag in STRATEGY_FLAGS if (value := flags.pop(flag)) is not None}
    strategy = name.settings(
        options={**_pairs("--strategy-option", flags.pop("strategy_options")), **given},
        similarity=similarity,
        similarity_options=_pairs("--similarity-option", options),
        vectors=vectors,
    )
    compared = {"--similarity": similarity, "--similarity-option": options, "--vectors": vectors}
    for flag, value in compared.items():
        if value and not strategy.compares:
            raise SettingsError(f"The strategy {strategy.name} compares no hypotheses, so it has no {flag}.")
    if strategy.compares:
        allow_local(strategy.similarity)
        strategy.check_similarity()
    if words := name.contradictions(strategy):
        from bidibeam.cli.console import note

        note(f"flags go over {' and '.join(map(repr, words))} of --strategy.")
    return strategy, flags.pop("workers") or cores()


def allow_local(similarity: str | None) -> None:
    """Let package.module:name be found where `python -m` would look, and a script of ours would not."""
    here = str(Path.cwd())
    if similarity is not None and ":" in similarity and sys.path[:1] != [here]:
        sys.path.insert(0, here)


def check_output(nbest_file: Path | None, input_file: str, *, resume: bool) -> None:
    """Make sure that what is to be resumed is named, and that what is to be written is not the input.

    Raises:
        SettingsError: If not.
    """
    from bidibeam.errors import SettingsError

    if nbest_file is None:
        if resume:
            raise SettingsError("--resume needs --n-best FILE: what is done is read from that file.")
        return
    written = nbest_file.resolve()
    growing = written.with_name(f"{written.name}.partial")
    if input_file != "-" and Path(input_file).resolve() in (written, growing):
        raise SettingsError(f"--n-best would overwrite the input, {input_file}. Name another file.")


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pairs(flag: str, given: Sequence[str]) -> dict[str, Any]:
    """Read NAME=VALUE, the values as YAML."""
    import yaml

    from bidibeam.errors import SettingsError

    options: dict[str, Any] = {}
    for item in given:
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise SettingsError(f"{flag} must be NAME=VALUE, not {item!r}.")
        try:
            read = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise SettingsError(f"{flag} {name} has a value that cannot be read: {value!r}.") from error
        options[name.strip()] = tuple(read) if isinstance(read, list) else read
    return options
