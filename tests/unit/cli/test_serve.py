"""`bidibeam serve`: what it refuses before it serves. tests/end_to_end/test_serve.py serves."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.unit.cli.calls import called, refused


def test_a_port_in_use_is_told_before_a_model_is_loaded(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = refused("serve", tmp_path / "none", "--port", port)

    assert told == (
        f"The server cannot listen at 127.0.0.1, port {port}: Address already in use. Choose another --port "
        "or --host."
    )


def test_others_need_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BIDIBEAM_API_KEY", raising=False)

    assert refused("serve", "--host", "0.0.0.0") == (
        "At 0.0.0.0 others can reach the server, and no key protects it: give --api-key (or set "
        "BIDIBEAM_API_KEY), or listen at 127.0.0.1."
    )


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--model", "chat"), "--model must be NAME=PATH, not 'chat'."),
        (("--model", "=x"), "--model must be NAME=PATH, not '=x'."),
        (("--model", "a=x", "--model", "a=y"), "Two models are called 'a': give each a name of its own."),
        (
            ("run", "--model", "a=x"),
            "Give MODEL, or --regular and --reverse, or --model NAME=PATH, not several.",
        ),
        (("run", "--regular", "x"), "--regular x stands instead of MODEL, not beside run."),
    ],
)
def test_models_are_named_once(args: tuple[str, ...], told: str) -> None:
    call = called("serve", *args)

    assert call.status == 2
    assert told in call.told


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--max-wait-ms", "nan"), "--max-wait-ms must be between 0 and 60,000, not nan."),
        (("--timeout-s", "0"), "--timeout-s must be above 0 and at most 86,400, not 0.0."),
        (
            ("--queue", "8"),
            "--queue must be at least --max-sources, 64, not 8.",
        ),
    ],
)
def test_settings_are_refused_by_their_flags(args: tuple[str, ...], told: str) -> None:
    assert refused("serve", *args) == told


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastapi", None)

    told = refused("serve")

    assert told == "The server needs fastapi, which is not installed: pip install 'bidibeam[serve]'"
