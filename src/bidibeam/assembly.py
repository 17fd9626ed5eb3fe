"""A run directory and names to a working decoder: the one place where the parts meet."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from bidibeam.data.tokenization import Tokenizer
from bidibeam.decoding.beams import SearchGenerator
from bidibeam.decoding.decoder import Decoder
from bidibeam.errors import SettingsError
from bidibeam.hypotheses import Direction
from bidibeam.models import checkpoint
from bidibeam.models.gru import BidirectionalModel
from bidibeam.models.scoring import GRUScorer
from bidibeam.search.settings import SearchSettings
from bidibeam.selection import STRATEGIES


@dataclass(frozen=True)
class Run:
    """A trained run, loaded.

    Attributes:
        path: Its directory.
        model: The network with the best weights.
        tokenizer: Its tokenizer.
        config: What config.json says.
        device: Where the network is.
    """

    path: Path
    model: BidirectionalModel
    tokenizer: Tokenizer
    config: checkpoint.ModelConfig
    device: torch.device

    @property
    def max_source_length(self) -> int | None:
        """The longest source that training saw."""
        settings = self.config.facts.get("data", {}).get("settings", {})
        value = settings.get("max_source_length")
        return value if isinstance(value, int) else None


def load_run(path: Path | str, *, device: str | None = None) -> Run:
    """Load a run directory.

    Args:
        path: What `bidibeam train --out` wrote.
        device: "cpu", "cuda", "cuda:1"; the first GPU, if there is one, by default.

    Raises:
        RunError: If a file is missing, damaged or of another version.
        SettingsError: If there is no such device.
    """
    folder = Path(path)
    chosen = _device(device)
    config = checkpoint.read_config(folder)
    tokenizer = Tokenizer.load(folder / checkpoint.TOKENIZER_FILE)
    model = BidirectionalModel.from_pretrained(folder, device=chosen)
    checkpoint.check_vocabulary(folder, model.vocabulary_size, tokenizer.vocabulary_size)
    return Run(folder, model, tokenizer, config, chosen)


def load_decoder(
    run: Run | Path | str,
    strategy: str = "vbs",
    *,
    direction: Direction | str = Direction.REGULAR,
    settings: SearchSettings | None = None,
    batch_size: int = 32,
    score_other: bool = False,
) -> Decoder:
    """A decoder for a run.

    Args:
        run: A run, or its directory.
        strategy: How to choose among hypotheses.
        direction: Which decoder writes them.
        settings: How to search.
        batch_size: Sources searched at once.
        score_other: Whether the other direction scores every hypothesis too, where the run has one.
    """
    loaded = run if isinstance(run, Run) else load_run(run)
    writing = Direction(direction)
    wants_other = score_other and writing.other in loaded.model.directions
    generator = SearchGenerator(
        loaded.tokenizer,
        GRUScorer(loaded.model, writing),
        writing,
        settings or SearchSettings(),
        other=GRUScorer(loaded.model, writing.other) if wants_other else None,
        max_source_length=loaded.max_source_length,
        device=loaded.device,
    )
    return Decoder(generator, STRATEGIES.create(strategy, direction=writing), batch_size)


def _device(name: str | None) -> torch.device:
    if name is None:
        return checkpoint.default_device()
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise SettingsError(
            f"There is no device {name!r} here that can compute. Use cpu, cuda or cuda:1, or leave it out."
        ) from error
    return device
