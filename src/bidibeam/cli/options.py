"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from bidibeam.interchange.formats import FORMATS
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES

Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)

PATH = click.Path(path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
COUNT = click.IntRange(min=1)
DIRECTION = click.Choice(["regular", "reverse"])
DTYPE = click.Choice(["float32", "bfloat16", "float16"])

STRATEGY_WORDS = (
    "More may stand behind bidia, in quotes: its similarity, either, expected or mean, and tuned, as in "
    "'bidia wmd_t either' and 'bidia bleu_t tuned'"
)
"""What every --strategy says of the names of systems."""


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one decorator; help lists them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


vectors = click.option(
    "--vectors",
    type=PATH,
    help="Word vectors for wmd, wmd_t, embedding_cosine: fastText's text format, plain, .gz or .xz.",
)
tuned = click.option(
    "--tuned",
    "tuned_file",
    type=PATH,
    help="A tuned.json, or the run that has it, for bidis, vbs-tuned and names with 'tuned'.",
)
max_length = click.option(
    "--max-length", type=COUNT, default=20, help="T of bleu_t and wmd_t: the most steps that the search took."
)
workers = click.option(
    "--workers",
    type=COUNT,
    help="Threads that compare hypotheses; the result is the same.  [default: one a core]",
)
batch_size = click.option(
    "--batch-size", type=COUNT, help="Sources searched at once.  [default: 32, or 512 on a GPU]"
)
device = click.option("--device", help="cpu, cuda, cuda:1 ...  [default: a GPU where there is one]")
config = click.option(
    "--config", type=FILE, help="A YAML file with sections such as `model` and `training`, over the preset."
)
override = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="One setting, over everything else, such as training.epochs=3; `reproduce` has more, such as "
    "beam_sizes=[2,10] and examples=5. May be repeated.",
)
length = together(
    click.option(
        "--length-penalty",
        type=float,
        default=0.6,
        help="Exponent a of the length formula; 0 leaves the log-probability as it is.",
    ),
    click.option(
        "--length-formula",
        type=click.Choice(["gnmt", "power"]),
        default="gnmt",
        help="What scores are divided by: (5+|Y|)^a / 6^a, the paper's; or |Y|^a, Hugging Face's.",
    ),
)

model_argument = click.argument("model", required=False)
pair = together(
    click.option(
        "--reverse", metavar="MODEL", help="The model that writes from the end, where it is another one."
    ),
    click.option(
        "--dtype",
        type=DTYPE,
        help="Hugging Face models: the precision to compute in.  [default: float32; on a GPU as stored]",
    ),
    click.option(
        "--trust-remote-code",
        is_flag=True,
        help="Let code run that a Hugging Face model's folder or repository brings along.",
    ),
    device,
)
"""The options of a model that is named already."""
model = together(
    click.option(
        "--regular",
        metavar="MODEL",
        help="The model that writes from left to right, where MODEL is not given.",
    ),
    pair,
)
"""The options that name a model."""

search = together(
    click.option(
        "--beam-size",
        type=int,
        default=10,
        help="Hypotheses kept, B; bidia gives half of them to each direction.",
    ),
    click.option(
        "--max-length",
        type=int,
        help="Most steps, T, the end token counted.  [default: what the model's data were prepared with, "
        "else 20]",
    ),
    click.option("--min-length", type=int, default=1, help="Tokens before the reply may end."),
    click.option(
        "--stopping",
        help="When a source's search is over: shrinking (the paper's), constant, patience[=FACTOR], "
        "heuristic, optimal, exhaust.  [default: shrinking, or what the model's engine has]",
    ),
    length,
    click.option("--count-end/--no-count-end", default=True, help="Does |Y| count the end token?"),
    click.option(
        "--unfinished",
        type=click.Choice(["keep", "rank", "drop"]),
        default="keep",
        help="Replies cut off at --max-length: kept behind all others, ranked by score, or dropped.",
    ),
    click.option("--allow-unknown", is_flag=True, help="Let the unknown token be written."),
)
"""The options of a search."""


class StrategyOption(click.Option):
    """One that takes a system's name, and tells whoever leaves out its quotes so."""

    def handle_parse_result(
        self, ctx: click.Context, opts: Mapping[str, Any], args: list[str]
    ) -> tuple[Any, list[str]]:
        """Read it, once no other word of such a name stands where files do, and is none."""
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
        help=f"Who answers: {', '.join(names)}. bidia takes what both directions agree on, bidis the best "
        "of the regular beam by both scores, vbs the most likely; the others are there to compare with. "
        f"{STRATEGY_WORDS}; flags go over such words.",
    )


choice = together(
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
    vectors,
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
    click.option("--length-exponent", type=float, help="vbs-tuned: exponent a.  [default: the tuned one]"),
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
    workers,
)
"""The options of a choice, but for the strategy."""
strategy = together(strategy_option(STRATEGIES.names()), choice)
"""The options of a choice."""

output = together(
    click.option(
        "--n-best",
        "nbest_file",
        type=FILE,
        help="Also write every hypothesis and the full ranking, with all scores, as JSON lines.",
    ),
    click.option(
        "--resume",
        is_flag=True,
        help="Go on with an --n-best file that a killed call left behind; stdout gets every reply again.",
    ),
)
"""The options of what is written."""
out = click.option("-o", "--out", "out_file", metavar="FILE", default="-", help="Where to; - is stdout.")

LIST_DIRECTION = "Whose hypotheses a file holds that has one list a source.  [default: regular]"
lists = together(
    click.option(
        "--from",
        "from_format",
        metavar="FORMAT",
        help=f"How the lists are written: {', '.join(FORMATS.names())}.  [default: as their first lines or "
        "the file's ending tell]",
    ),
    click.option(
        "--reverse",
        "reverse_file",
        metavar="FILE",
        help="The reverse lists of the same sources, by id, where they are in a file of their own.",
    ),
    click.option(
        "--per-source",
        type=COUNT,
        metavar="N",
        help="mbrs: how many hypotheses, a line each, every source has.",
    ),
    click.option("--log-prob", metavar="NAME", help="moses: the feature to read as log-probability."),
    click.option(
        "--sources",
        "sources_file",
        metavar="FILE",
        help="The sources, one a line, in the order of the lists.",
    ),
    click.option(
        "--references",
        "references_file",
        metavar="FILE",
        help="The references, in the same way; of a .tsv file its second column.",
    ),
)
"""The options of what lists are read."""
directions = together(
    click.option("--direction", type=DIRECTION, help=LIST_DIRECTION),
    click.option("--words", is_flag=True, help="Split the texts into words, whatever tokens the file gives."),
)
