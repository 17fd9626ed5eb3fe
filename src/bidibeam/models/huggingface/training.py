"""Fine-tuning a Hugging Face model to write in one direction, or in both, from prepared data."""

from __future__ import annotations

import json
import math
import shutil
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import torch
from transformers.trainer_callback import PrinterCallback
from transformers.utils import logging

from bidibeam._version import __version__
from bidibeam.errors import RunError, SettingsError, TrainingError
from bidibeam.files import write_json, write_text
from bidibeam.hypotheses import Direction
from bidibeam.models.checkpoint import STARTED_FILE, hugging_face_config
from bidibeam.models.huggingface.bases import Base, open_base
from bidibeam.models.huggingface.cards import model_card
from bidibeam.models.huggingface.directions import METADATA_FILE
from bidibeam.models.huggingface.joint import BidirectionalSeq2Seq
from bidibeam.models.huggingface.labels import PairCollator
from bidibeam.models.huggingface.pairs import encode_pairs, set_prompt_end
from bidibeam.models.huggingface.settings import DIRECTIONS, FineTuneSettings
from bidibeam.models.huggingface.trainer import DirectionalTrainer, Stopping, Watching, arguments, uses_bf16
from bidibeam.training.logs import Silence

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bidibeam.data.prepared import PreparedData
    from bidibeam.training.logs import TrainingObserver

WORK = "training"
"""The folder of checkpoints while training goes on."""
MAY_CHANGE_ON_RESUME = {"epochs", "max_steps", "early_stopping", "log_every"}


def fine_tune(
    data: PreparedData,
    out: Path,
    *,
    base: str,
    direction: str = "regular",
    tokenizer: str | None = None,
    settings: FineTuneSettings | None = None,
    resume: bool = False,
    observer: TrainingObserver | None = None,
) -> dict[str, Any]:
    """Train a Hugging Face model on prepared data, and save it as `from_pretrained` reads it.

    Args:
        data: Prepared with `keep_text`.
        out: A new folder: model, tokenizer, generation config, README.md and bidibeam.json.
        base: A name on the Hub, a folder with weights, or a folder or file with only a config, for fresh
            weights.
        direction: "regular"; "reverse", which learns replies turned around; or "both", one model with a
            shared encoder.
        tokenizer: A name on the Hub or a folder, where it is not the base's own. A fresh model without one
            takes that of the data.
        settings: How to train.
        resume: Go on where a killed training left off, if there is something to go on from.
        observer: Told what happens.

    Returns:
        What bidibeam.json holds: settings, data, and the validation loss of every epoch.

    Raises:
        InputError: If the base or its tokenizer cannot be used.
        SettingsError: If a setting is out of range, or base and direction do not go together.
        RunError: If `out` holds something already, or the data have no training text.
        TrainingError: If the loss stops being finite.
    """
    settings = settings or FineTuneSettings()
    if direction not in DIRECTIONS:
        raise SettingsError(f"direction is {direction!r}; choose one of: {', '.join(DIRECTIONS)}.")
    started = {
        "base": base,
        "direction": direction,
        "tokenizer": tokenizer,
        "fingerprint": data.fingerprint,
        "settings": asdict(settings),
    }
    checkpoint = _prepare_folder(out, started, resume=resume)
    data.examples("train")  # says at once if the text is missing
    with _without_bars():
        start = open_base(base, direction, tokenizer=tokenizer, data=data, seed=settings.seed)
        trainer = _trainer(start, data, out, direction, settings, observer or Silence())
        write_json(out / STARTED_FILE, started)
        trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None)
        facts = {**started, "data": _data_facts(data), **_outcome(trainer, start)}
        _save(trainer, start, out, facts)
    return facts


@contextmanager
def _without_bars() -> Iterator[None]:
    """No bar of transformers' own for every file that is read or written: the observer shows progress."""
    was_enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            logging.enable_progress_bar()


def started_with(out: Path) -> dict[str, Any] | None:
    """What an unfinished training in a folder began with: base, direction, tokenizer, settings."""
    path = out / STARTED_FILE
    if not path.is_file():
        return None
    try:
        started = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise RunError(f"{path} is damaged ({error}). Remove {out}, and train again.") from error
    return dict(started)


def _prepare_folder(out: Path, started: dict[str, Any], *, resume: bool) -> Path | None:
    """Refuse a folder that holds something else; return the checkpoint to go on from, if there is one."""
    if (out / "config.json").is_file():
        if hugging_face_config(out) is None:
            raise RunError(f"{out} holds a run of bidibeam's own network. Choose another --out.")
        if resume:
            raise RunError(
                f"{out} is finished already: there is nothing to resume. To train it further, give it as "
                "--base, and another --out."
            )
        raise RunError(
            f"{out} holds a finished model already. Choose another --out; to train it further, give it as "
            "--base."
        )
    before = started_with(out)
    if before is None:
        if out.exists() and (not out.is_dir() or {path.name for path in out.iterdir()} - {WORK}):
            raise RunError(f"{out} holds other things. Name an empty or new directory as --out.")
        return None
    if not resume:
        raise RunError(
            f"{out} holds an unfinished training. Add --resume to go on with it, or choose another --out."
        )
    _check_same(out, before, started)
    return _newest(out / WORK)


def _check_same(out: Path, before: dict[str, Any], now: dict[str, Any]) -> None:
    earlier, later = ({**each, **each["settings"]} for each in (before, now))
    for name in sorted(set(later) - {"settings"} - MAY_CHANGE_ON_RESUME):
        if earlier.get(name) != later[name]:
            what = "data with the fingerprint" if name == "fingerprint" else f"the {name.replace('_', ' ')}"
            raise SettingsError(
                f"{out} began with {what} {earlier.get(name)!r}, not {later[name]!r}. Resume with the same, "
                "or choose another --out."
            )


def _newest(folder: Path) -> Path | None:
    """The newest checkpoint that was written to its end; what a kill left of others goes."""
    whole: list[tuple[int, Path]] = []
    for path in folder.glob("checkpoint-*"):
        try:
            json.loads((path / "trainer_state.json").read_bytes())  # written last
            whole.append((int(path.name.partition("-")[2]), path))
        except (OSError, ValueError):
            shutil.rmtree(path)
    return max(whole)[1] if whole else None


def _trainer(
    start: Base,
    data: PreparedData,
    out: Path,
    direction: str,
    settings: FineTuneSettings,
    observer: TrainingObserver,
) -> DirectionalTrainer:
    config = start.model.config
    if not config.is_encoder_decoder:
        set_prompt_end(config, start.tokenizer, settings.separator)
    _check_positions(start, settings)
    limits = {
        "max_source_length": settings.max_source_length,
        "max_response_length": settings.max_response_length,
    }
    pairs, validation = (
        encode_pairs(data.examples(split), start.tokenizer, config, **limits)
        for split in ("train", "validation")
    )
    written = (
        Direction.REVERSE if direction == "reverse" else Direction.REGULAR
    )  # a joint model turns its own
    watching = Watching(observer, _described(start, direction, len(pairs), settings))
    trainer = DirectionalTrainer(
        direction=direction,
        label_smoothing=settings.label_smoothing,
        model=start.model,
        args=arguments(out / WORK, settings, steps=_steps(len(pairs), settings)),
        train_dataset=pairs,
        eval_dataset=validation,
        data_collator=PairCollator(start.tokenizer, start.model, direction=written),
        callbacks=[watching, Stopping(settings.early_stopping)],
    )
    watching.trainer = trainer
    trainer.remove_callback(PrinterCallback)  # stdout carries nothing but replies
    return trainer


def _steps(pairs: int, settings: FineTuneSettings) -> int:
    batches = math.ceil(pairs / settings.batch_size)
    steps = settings.epochs * math.ceil(batches / settings.accumulation)
    return min(steps, settings.max_steps) if settings.max_steps else steps


def _check_positions(start: Base, settings: FineTuneSettings) -> None:
    """Refuse lengths for which a model has no positions."""
    model = start.model.regular if isinstance(start.model, BidirectionalSeq2Seq) else start.model
    positions = getattr(model.config, "max_position_embeddings", None)
    if positions is None or model.config.model_type in ("t5", "mt5", "umt5", "longt5"):  # relative ones
        return
    lengths = settings.max_source_length, settings.max_response_length
    needed = max(lengths) if model.config.is_encoder_decoder else sum(lengths)
    if needed > positions:
        fitting = _fitting(settings, positions, are_apart=model.config.is_encoder_decoder)
        told = " ".join(f"--set {name}={value}" for name, value in fitting.items())
        raise SettingsError(
            f"The model has {positions:,} positions, too few for sources of {lengths[0]} and responses of "
            f"{lengths[1]} tokens: lower them, as by {told} (in Python: in FineTuneSettings)."
        )


def _fitting(settings: FineTuneSettings, positions: int, *, are_apart: bool) -> dict[str, int]:
    """The lengths that must change, as long as a model's positions allow."""
    response = min(settings.max_response_length, positions if are_apart else positions // 2)
    source = min(settings.max_source_length, positions if are_apart else positions - response)
    fitting = {"max_source_length": source, "max_response_length": response}
    return {name: value for name, value in fitting.items() if value != getattr(settings, name)}


def _described(start: Base, direction: str, pairs: int, settings: FineTuneSettings) -> dict[str, Any]:
    return {
        "parameters": sum(parameter.numel() for parameter in start.model.parameters()),
        "pairs": pairs,
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "precision": "bf16" if uses_bf16(settings.precision) else "float32",
        "directions": ["regular", "reverse"] if direction == "both" else [direction],
        "processes": 1,
    }


def _outcome(trainer: DirectionalTrainer, start: Base) -> dict[str, Any]:
    """What came of a training."""
    history = trainer.state.log_history
    evaluations = [
        {"epoch": each["epoch"], "step": each["step"]}
        | {name.removeprefix("eval_"): value for name, value in each.items() if name.startswith("eval_loss")}
        for each in history
        if "eval_loss" in each
    ]
    if not all(math.isfinite(each["loss"]) for each in evaluations):
        raise TrainingError(
            "The validation loss is not finite: lower learning_rate "
            f"(now {trainer.args.learning_rate:g}) or gradient_norm, and train again."
        )
    return {
        "bidibeam_version": __version__,
        "is_fresh": start.is_fresh,
        "parameters": sum(parameter.numel() for parameter in trainer.model.parameters()),
        "trained_on": len(trainer.train_dataset),
        "steps": trainer.state.global_step,
        "evaluations": evaluations,
        "best": min(evaluations, key=lambda each: float(each["loss"])) if evaluations else None,
    }


def _save(trainer: DirectionalTrainer, start: Base, out: Path, facts: dict[str, Any]) -> None:
    """Write the best weights and all that belongs to them; the training folder goes."""
    if not trainer.is_world_process_zero():
        return
    best = trainer.state.best_model_checkpoint
    is_best_kept = facts["settings"]["keep"] == "best" and best
    model = type(start.model).from_pretrained(best) if is_best_kept else start.model
    final = out / WORK / "final"
    shutil.rmtree(final, ignore_errors=True)
    model.save_pretrained(final)
    if not model.config.is_encoder_decoder:
        # A prompt goes on where it ends; what is saved are the arguments that a tokenizer was made with.
        start.tokenizer.padding_side = start.tokenizer.init_kwargs["padding_side"] = "left"
    start.tokenizer.save_pretrained(final)
    write_text(final / "README.md", model_card(facts))
    write_json(final / METADATA_FILE, facts)
    names = sorted(path.name for path in final.iterdir())
    for name in sorted(names, key=lambda name: name == "config.json"):  # a folder that has it has them all
        (final / name).replace(out / name)
    shutil.rmtree(out / WORK)


def _data_facts(data: PreparedData) -> dict[str, Any]:
    facts = {name: data.info[name] for name in ("corpus", "fingerprint", "pairs", "settings")}
    return {"path": str(data.path.resolve()), **facts}
