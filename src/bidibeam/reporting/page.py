"""The page that shows explanations: one HTML document that needs nothing from elsewhere, nor a server."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from bidibeam._version import __version__
from bidibeam.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

COMPONENT_SCRIPTS = ("elements.js", "ranking.js", "tokens.js", "tree.js", "matrix.js", "explanation.js")
"""What shows one explanation, in this order: a page of its own and the examples of a report use it."""
COMPONENT_STYLE, COMPONENT_PARTS = "explanation.css", "explanation.html"


def render_page(
    explanations: Sequence[Mapping[str, Any]],
    *,
    server: Mapping[str, Any] | None = None,
    title: str = "bidibeam: why this reply",
) -> str:
    """Returns one self-contained HTML document that shows explanations, one at a time.

    Its policy lets no script run but its own, by its hash, and lets it connect to nothing but the server that
    it came from, where there is one. What models wrote is embedded as JSON and shown as text.

    Args:
        explanations: Documents of `Explanation.to_dict`.
        server: What a server offers: "models", "strategies" and "similarities", lists of names, "examples",
            a list of sources, "limits" with "beam_size" and "source_characters", and "version". The page then
            has a form that posts to api/explain.
        title: The title of the document.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bidibeam.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    script = f'\n(() => {{\n"use strict";\n{read_sources(*COMPONENT_SCRIPTS, "page.js")}}})();\n'
    style = f"\n{read_sources(COMPONENT_STYLE, 'page.css')}"
    return environment.get_template("page.html.j2").render(
        title=printable(title),
        policy=_make_policy(script, style, connects=server is not None),
        script=script,
        style=style,
        parts=read_sources(COMPONENT_PARTS),
        documents=embed_json(list(explanations)),
        server=server,
        server_json=embed_json(server),
        selects=[] if server is None else _list_selects(server),
        version=(server or {}).get("version", __version__),
    )


def read_sources(*names: str) -> str:
    """Returns templates that are no templates, scripts or style sheets, one behind another."""
    folder = files("bidibeam.reporting") / "templates"
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


def embed_json(value: Any) -> str:
    """Returns a value as JSON that a `script` element may hold: no text in it can end the element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _list_selects(server: Mapping[str, Any]) -> list[tuple[str, str, Sequence[str], str]]:
    """Returns each choice of the form: its id, label, options, and what an empty choice says."""
    return [
        ("model", "Model", server["models"], "the first"),
        ("strategy", "Strategy", server["strategies"], "the recommended one"),
        ("similarity", "Similarity", server["similarities"], "the strategy's own"),
    ]


def _make_policy(script: str, style: str, *, connects: bool) -> str:
    allowed = {
        "default-src": "'none'",
        "script-src": _hash(script),
        "style-src": _hash(style),
        "img-src": "data:",
        "connect-src": "'self'" if connects else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def _hash(text: str) -> str:
    """Returns what a policy calls an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
