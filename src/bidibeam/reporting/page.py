"""The page that shows explanations: one HTML document that needs nothing from elsewhere, nor a server."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple

from bidibeam._version import __version__
from bidibeam.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

SCRIPTS = ("elements.js", "ranking.js", "tokens.js", "tree.js", "matrix.js", "explanation.js")
"""What shows one explanation, in this order: a page of its own and the examples of a report use it."""


class Component(NamedTuple):
    """What shows explanations in a page: the contents of its script and of its style, and HTML besides."""

    script: str
    style: str
    parts: str

    @property
    def script_source(self) -> str:
        """What a policy says of scripts: this one alone, by its hash."""
        return _hash(self.script) if self.script else "'none'"


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
        server: What a server offers: "models", "strategies" and "similarities", lists of names, "default",
            the strategy that answers where none is asked for, "examples", a list of sources, "limits" with
            "beam_size" and "source_characters", and "version". The page then has a form that posts to
            api/explain.
        title: The title of the document.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("bidibeam.reporting"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    component = make_component("page.js", "page.css")
    return environment.get_template("page.html.j2").render(
        title=printable(title),
        policy=_make_policy(component, connects=server is not None),
        component=component,
        documents=embed_json(list(explanations)),
        server=server,
        version=(server or {}).get("version", __version__),
    )


def make_component(script: str, style: str) -> Component:
    """Returns what shows explanations, with a page's own script and style sheet behind it."""
    scripts = read_sources(*SCRIPTS, script)
    return Component(
        f'\n(() => {{\n"use strict";\n{scripts}}})();\n',
        f"\n{read_sources('explanation.css', style)}",
        read_sources("explanation.html"),
    )


def read_sources(*names: str) -> str:
    """Returns scripts, style sheets or HTML, one file behind another."""
    folder = files("bidibeam.reporting") / "templates"
    return "".join((folder / name).read_text(encoding="utf-8") for name in names)


def embed_json(value: Any) -> str:
    """Returns a value as JSON that a `script` element may hold: no text in it can end the element."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _make_policy(component: Component, *, connects: bool) -> str:
    allowed = {
        "default-src": "'none'",
        "script-src": component.script_source,
        "style-src": _hash(component.style),
        "img-src": "data:",
        "connect-src": "'self'" if connects else "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in allowed.items())


def _hash(text: str) -> str:
    """Returns what a policy calls an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
