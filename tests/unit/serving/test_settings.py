"""Who may call the server, and settings that cannot be."""

from __future__ import annotations

import pytest

from bidibeam.errors import SettingsError
from bidibeam.serving.settings import ServerSettings
from tests.unit.serving.conftest import serve


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("localhost", True),
        ("LOCALHOST:8000", True),
        ("127.0.0.1:8000", True),
        ("[::1]:8000", True),
        ("192.168.0.7", True),
        ("mine.example", True),
        ("evil.example", False),
        ("[::1]evil.example", False),
        ("localhost:80:evil.example", False),
        ("localhost.evil.example", False),
        ("", False),
    ],
)
def test_the_host_header_is_checked(host: str, is_allowed: bool) -> None:
    with serve({}, allowed_hosts=("mine.example",)) as served:
        answer = served.client.get("/ready", headers={"host": host})

        assert answer.status_code == (200 if is_allowed else 400)
        if not is_allowed:
            assert answer.json()["error"]["code"] == "invalid_host"


def test_a_server_that_others_reach_needs_a_key() -> None:
    for host in ("0.0.0.0", "::", "192.168.0.7", "box.example"):
        with pytest.raises(SettingsError, match=f"^At {host} others can reach the server"):
            ServerSettings(host=host)
        assert ServerSettings(host=host, api_key="k").host == host
    for host in ("127.0.0.1", "::1", "localhost", "127.0.0.2"):
        assert ServerSettings(host=host).api_key is None


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"max_batch": 0}, "max_batch must be a whole number of at least 1, not 0."),
        ({"max_wait_ms": float("nan")}, "max_wait_ms must be between 0 and 60,000, not nan."),
        ({"timeout_s": 0.0}, "timeout_s must be above 0 and at most 86,400, not 0.0."),
        ({"api_key": " "}, "api_key must be ASCII and not blank: clients send it in a header."),
        (
            {"queue": 3},
            "queue must be at least max_sources, 64, not 3.",
        ),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, object], told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        ServerSettings(**settings)  # type: ignore[arg-type]
    assert str(refused.value) == told
