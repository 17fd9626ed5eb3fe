"""Options that several commands share, and how an option is written down."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from bidibeam.errors import UnknownNameError
from bidibeam.interchange.formats import FORMATS
from bidibeam.metrics import DEFAULT_METRIC, METRICS
from bidibeam.similarities import SIMILARITIES
from bidibeam.strategies import STRATEGIES

Command = TypeVar("Command", bound=Callable[..., Any] | click.Command)
Decorator = Callable[[Any], Any]

LARGEST = 1_000_000_000
DIRECTION = ["regular", "reverse"]

STRATEGY_WORDS = (
    "More may stand behind bidia, mbr and loglinear, in quotes: a similarity, and options such as either, "
    "expected, both and tuned, as in 'bidia wmd_t either', 'bidia bleu_t tuned' and 'loglinear edit both'"
)
"""What every --strategy says of the names of systems."""


class NamedPath(click.Path):
    """A path that has a name, and one that every file of ours could hold."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, if it is one."""
        try:
            is_named = bool(str(value).encode())
        except UnicodeEncodeError:
            self.fail(f"{str(value)!r} is not UTF-8. Give it another name.", param, ctx)
        if not is_named:
            self.fail("it is empty.", param, ctx)
        return super().convert(value, param, ctx)


PATH = NamedPath(path_type=Path)
FILE = NamedPath(dir_okay=False, path_type=Path)
FOLDER = NamedPath(file_okay=False, path_type=Path)


COUNT = click.IntRange(1, LARGEST)


def option(
    names: str, told: str, kind: Any = None, default: Any = None, *, multiple: bool = False, **more: Any
) -> Decorator:
    """An option by its flag, behind which its parameter may be named, and what help tells of it.

    Its kind is a type of click or Python, a list of choices, bool for a flag, or what help calls its value.
    """
    if kind is bool:
        more["is_flag"] = True
    elif isinstance(kind, str):
        more["metavar"] = kind
    elif kind is not None:
        more["type"] = click.Choice(kind) if isinstance(kind, list) else kind
    if default is not None:
        more["default"] = default
    return click.option(*names.split(), help=told, multiple=multiple, **more)


def together(*options: Decorator) -> Callable[[Command], Command]:
    """Several options as one decorator; help lists them in this order."""

    def decorate(command: Command) -> Command:
        for each in reversed(options):
            command = each(command)
        return command

    return decorate


def _check_length_formula(ctx: click.Context, option: click.Parameter, name: str) -> str:
    """Refuse a name that is no formula's; the default is not looked up, since that imports PyTorch."""
    if name != option.default and not ctx.resilient_parsing:
        from bidibeam.search.length import LENGTH_PENALTIES

        try:
            LENGTH_PENALTIES.get(name)
        except UnknownNameError as error:
            raise click.BadParameter(str(error), ctx, option) from None
    return name


vectors = option(
    "--vectors",
    "Word vectors for wmd, wmd_t, embedding_cosine: fastText's text format, also .gz or .xz.",
    PATH,
)
tuned = option(
    "--tuned tuned_file",
    "A tuned.json, or the run that has it: for bidis, vbs-tuned, loglinear, names with 'tuned'. "
    "rerank takes the strategy that it recommends, where none is named.",
    PATH,
)
max_length = option(
    "--max-length",
    "T of bleu_t and wmd_t, in tokens.  [default: the median of what a hypothesis is compared with]",
    COUNT,
)
NOT_TUNABLE = ("distinct-1", "distinct-2", "length_ratio")
"""Metrics of a whole corpus alone, or best in between."""


def _list_metrics(left_out: Collection[str] = ()) -> str:
    names = ", ".join(name for name in METRICS.names() if name not in left_out)
    return f"{names}, or package.module:name (G2P papers call ser WER, and wer PER)"


OWN_METRIC = f"the corpus' own, or {DEFAULT_METRIC}"
METRIC_NAMES, TUNABLE_NAMES = _list_metrics(), _list_metrics(NOT_TUNABLE)


def _take_one(ctx: click.Context, option: click.Parameter, names: tuple[str, ...]) -> str | None:
    """The only metric; several are refused, of which click would take the last unsaid."""
    if len(names) > 1:
        raise click.BadParameter(
            f"replies are judged by one metric, not by {' and '.join(names)}.", ctx, option
        )
    return names[0] if names else None


metric, tunable_metric = (
    option(
        "--metric",
        f"What replies are judged by: {names}.  [default: {default}]",
        "NAME",
        multiple=True,
        callback=_take_one,
    )
    for names, default in (
        (METRIC_NAMES, f"{DEFAULT_METRIC}; with --data {OWN_METRIC}"),
        (TUNABLE_NAMES, f"as tuned, or {OWN_METRIC}"),
    )
)
metric_settings = together(
    option(
        "--tokenize",
        "BLEU's tokens: sacreBLEU's 13a, intl, char or none; or words, lower-cased, by bidibeam.  [default: "
        "13a; where a corpus or an earlier tuning names the metric, theirs]",
        "NAME",
    ),
    option("--lowercase", "Ignore case, where the metric can.", bool),
)
workers = option(
    "--workers",
    "Threads that compare hypotheses; the result is the same.  [default: one a core, shared out among "
    "--processes]",
    COUNT,
)
processes = option(
    "--processes",
    "Processes that share the work, each with its share of the cores; what is written is the same.  "
    "[default: 1, or one for each of --devices; ray: one for each GPU, or else core]",
    COUNT,
)
devices = option("--devices", "Where they compute, in turn: cuda:0,cuda:1 ...", "DEVICE,...")
batch_size = option("--batch-size", "Sources searched at once.  [default: 32, or 512 on a GPU]", COUNT)
device = option("--device", "cpu, cuda, cuda:1 ...  [default: a GPU where there is one]")
config = option(
    "--config", "A YAML file with sections such as `model` and `training`, over the preset.", FILE
)
override = option(
    "--set overrides",
    "One setting, over everything else, such as training.epochs=3; `reproduce` has more, such as "
    "beam_sizes=[2,10] and examples=5. May be repeated.",
    "KEY=VALUE",
    multiple=True,
)
length = together(
    option(
        "--length-penalty", "Exponent a of the length formula; 0 leaves log-probabilities alone.", float, 0.6
    ),
    option(
        "--length-formula",
        "What scores are divided by: gnmt, (5+|Y|)^a / 6^a, the paper's; power, |Y|^a, Hugging Face's; or a "
        "formula that another package brings.",
        "NAME",
        "gnmt",
        callback=_check_length_formula,
    ),
)

model_argument = click.argument("model", required=False)
trust = option(
    "--trust-remote-code", "Run code that a Hugging Face model's folder or repository brings along.", bool
)
loading = together(
    option(
        "--dtype",
        "Hugging Face models: the precision to compute in.  [default: float32; on a GPU as stored]",
        ["float32", "bfloat16", "float16"],
    ),
    trust,
    device,
)
"""The options of how a model is loaded."""
pair = together(
    option("--reverse", "The model that writes from the end, where it is another one.", "MODEL"), loading
)
"""The options of a model that is named already."""
named = together(
    option("--regular", "The model that writes from left to right, where MODEL is not given.", "MODEL"), pair
)
"""The options that name a model."""
device_map = option(
    "--device-map",
    "Hugging Face models: spread one that does not fit on a GPU over several, memory and disk.",
    ["auto", "balanced", "balanced_low_0", "sequential"],
)
model = together(named, device_map)
"""The options that name a model to decode with."""

search = together(
    option(
        "--beam-size",
        "Hypotheses kept, B; bidia gives half of them to each direction.  [default: as tuned, or 10]",
        int,
    ),
    option(
        "--max-length",
        "Most steps, T, the end token counted.  [default: as tuned, or what the data need, else 20]",
        int,
    ),
    option("--min-length", "Tokens before the reply may end.  [default: as tuned, or 1]", int),
    option(
        "--stopping",
        "When a source's search is over: shrinking (the paper's), constant, patience[=FACTOR], heuristic, "
        "optimal, exhaust.  [default: shrinking, or what the model's engine has]",
    ),
    length,
    option("--count-end/--no-count-end", "Does |Y| count the end token?", default=True),
    option(
        "--unfinished",
        "Replies cut off at --max-length: kept behind all others, ranked by score, or dropped.",
        ["keep", "rank", "drop"],
        "keep",
    ),
    option("--allow-unknown", "Let the unknown token be written.", bool),
    option(
        "--no-repeat-ngram-size",
        "No n-gram of so many tokens twice in a reply; 0 allows it.  [default: as tuned, or 0]",
        int,
    ),
    option(
        "--repetition-penalty",
        "What the log-probability of a token that the reply has already is multiplied by; more than 1 avoids "
        "repetition.  [default: as tuned, or 1]",
        float,
    ),
    option(
        "--bad-words",
        "A word or phrase that no reply may contain, as the model's tokenizer spells it. May be repeated.",
        "WORD",
        multiple=True,
    ),
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


def strategy_option(names: Sequence[str], default: str = "bidis") -> Decorator:
    """--strategy, offering these; help says what the default is."""
    return option(
        "--strategy",
        f"Who answers: {', '.join(names)}. bidis takes the best of the regular beam by both scores, bidia "
        "what both directions agree on, loglinear weighs all of it, vbs takes the most likely. "
        f"{STRATEGY_WORDS}; flags go over such words.  [default: what `bidibeam tune` recommends, or else "
        f"{default}]",
        cls=StrategyOption,
    )


choice = together(
    option(
        "--similarity",
        f"How bidia compares hypotheses: {', '.join(SIMILARITIES.names())}, or package.module:name of a "
        "Python function of two lists of hypotheses. It is imported from the current folder, or from what is "
        "installed, and importing runs it.  [default: bleu_t]",
    ),
    option(
        "--similarity-option similarity_options",
        "A setting of the similarity: smoothing=add-1, form=ratio, weights=log, max_length=30 ...",
        "NAME=VALUE",
        multiple=True,
    ),
    vectors,
    option("--lambda lambda_", "bidis: weight of the reverse score.  [default: the tuned one, or 1]", float),
    option(
        "--answer", "bidia: may a reverse hypothesis answer too?  [default: regular]", ["regular", "either"]
    ),
    option(
        "--agreement",
        "bidia: the closest match in the other beam, the mean weighted by probability, the mean.  [default: "
        "closest]",
        ["closest", "expected", "mean"],
    ),
    option("--length-exponent", "vbs-tuned: exponent a.  [default: the tuned one]", float),
    option("--word-reward", "vbs-tuned: reward for each token.  [default: the tuned one]", float),
    option(
        "--strategy-option strategy_options",
        "A setting of the strategy that has no flag of its own: reverse_weight=0.5 of loglinear, or one "
        "of a strategy that another package brings.",
        "NAME=VALUE",
        multiple=True,
    ),
    option("--seed", "random: another seed, another choice.  [default: 0]", int),
    workers,
)
"""The options of a choice, but for the strategy."""
strategy = together(strategy_option(STRATEGIES.names()), choice)
"""The options of a choice."""

output = together(
    option(
        "--n-best nbest_file", "Also write every hypothesis, ranked, with all scores, as JSON lines.", FILE
    ),
    option("--resume", "Go on with the --n-best file of a killed call; stdout gets every reply again.", bool),
)
"""The options of what is written."""
executor = together(
    option(
        "--executor",
        "ray: many machines, by Ray Data. The input is then a folder of shards (.jsonl, .txt, .tsv or "
        ".parquet), or one of them, here or at s3:// and the like; the answers are shards in --out.  "
        "[default: local]",
        ["local", "ray"],
    ),
    option("--out out_folder", "ray: the folder of answers; the same call goes on with it.", "FOLDER"),
    option("--to", "ray: how answers are written.  [default: jsonl]", ["jsonl", "parquet"]),
    option("--replies-only", "ray: write replies, not the lists that they were chosen from.", bool),
    option(
        "--max-rejected",
        "ray: how many rows may be impossible to read, in all; they go to OUT/_rejected.  [default: 0]",
        click.IntRange(0, LARGEST),
    ),
    option(
        "--ray-address",
        "ray: a running cluster, HOST:PORT or auto.  [default: RAY_ADDRESS; else one is started here]",
    ),
    option(
        "--gpus",
        "ray: GPUs of each of --processes.  [default: 1 where there are any]",
        click.FloatRange(0, LARGEST),
    ),
)
"""The options of work on many machines."""
out = option("-o --out out_file", "Where to; - is stdout.", "FILE", "-")

LIST_DIRECTION = "Whose hypotheses a file holds that has one list per source.  [default: regular]"
list_format = option(
    "--from from_format",
    f"How the lists are written: {', '.join(FORMATS.names())}.  [default: as their first lines or the file's "
    "ending tell]",
    "FORMAT",
)
lists = together(
    list_format,
    option(
        "--reverse reverse_file",
        "The reverse lists of the same sources, by id, where they are in a file of their own.",
        "FILE",
    ),
    option("--per-source", "mbrs: how many hypotheses, a line each, every source has.", COUNT, metavar="N"),
    option("--log-prob", "moses: the feature to read as log-probability.", "NAME"),
    option("--sources sources_file", "The sources, one a line, in the order of the lists.", "FILE"),
    option(
        "--references references_file", "The references, likewise; of a .tsv file its second column.", "FILE"
    ),
)
"""The options of what lists are read."""
directions = together(
    option("--direction", LIST_DIRECTION, DIRECTION),
    option("--words", "Split the texts into words, whatever tokens the file gives.", bool),
)
