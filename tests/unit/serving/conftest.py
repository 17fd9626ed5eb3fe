"""A server of the toy run, in this process."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

import bidibeam
from bidibeam.models.base import Model
from bidibeam.serving.app import create_app
from bidibeam.serving.service import Service
from bidibeam.serving.settings import ServerSettings
from bidibeam.serving.telemetry import Log


@dataclass
class Served:
    """A server's client, and what it logged."""

    client: TestClient
    service: Service
    logged: io.StringIO

    def post(self, path: str, body: Any, **options: Any) -> Any:
        """What a request is answered with, which must be 200."""
        answer = self.client.post(path, json=body, **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def refuse(self, path: str, body: Any, status: int = 400, **options: Any) -> tuple[str, str | None]:
        """The message and the field of a refusal."""
        answer = self.client.post(path, json=body, **options)
        assert answer.status_code == status, answer.text
        error = answer.json()["error"]
        assert set(error) == {"message", "type", "param", "code"}
        return error["message"], error["param"]

    @property
    def log(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.logged.getvalue().splitlines()]


@contextmanager
def serve(models: dict[str, Model], *, vectors: Path | None = None, **settings: Any) -> Iterator[Served]:
    service, logged = Service(models, max_batch=4, vectors=vectors), io.StringIO()
    made = ServerSettings(max_batch=4, **settings)
    app = create_app(service, made, Log(logged, has_texts=made.logs_texts))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield Served(client, service, logged)


@pytest.fixture(scope="session")
def toy_model(toy_run: Path) -> Model:
    return bidibeam.load(toy_run, device="cpu")


@pytest.fixture
def served(toy_model: Model) -> Iterator[Served]:
    with serve({"toy": toy_model, "again": toy_model}) as served:
        yield served
