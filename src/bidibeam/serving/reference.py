"""The API as a page to read, which needs nothing from elsewhere, made from the OpenAPI description."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bidibeam._version import __version__
from bidibeam.similarities import SIMILARITIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bidibeam.serving.settings import Limits


def render_reference(openapi: Mapping[str, Any], statuses: Mapping[int, str], base: str) -> str:
    """Returns the page; `base` is the address that its examples call."""
    environment = Environment(
        loader=PackageLoader("bidibeam.serving"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    routes = [
        _describe_route(openapi, path, method, route)
        for path, methods in openapi["paths"].items()
        for method, route in methods.items()
    ]
    values = {"version": __version__, "routes": routes, "statuses": statuses, "base": base.rstrip("/")}
    return environment.get_template("docs.html.j2").render(values)


def describe_limits(openapi: dict[str, Any], models: Sequence[str], limits: Limits) -> dict[str, Any]:
    """Returns an OpenAPI description that names the models, and the most that a request may ask for."""
    most: dict[str, tuple[str, dict[str, Any]]] = {  # by field: the type it is said of, and what
        **dict.fromkeys(("beam_size", "n"), ("integer", {"maximum": limits.beam_size})),
        **dict.fromkeys(
            ("max_length", "max_tokens", "max_completion_tokens"), ("integer", {"maximum": limits.max_length})
        ),
        **dict.fromkeys(
            ("source", "prompt"), ("string", {"minLength": 1, "maxLength": limits.source_characters})
        ),
        **dict.fromkeys(("sources", "lists"), ("array", {"maxItems": limits.sources})),
        "similarity": ("string", {"enum": SIMILARITIES.names()}),
        "model": ("string", {"enum": [*models]} if models else {}),
    }
    for name, schema in openapi["components"]["schemas"].items():
        for field, (kind, known) in most.items() if name.endswith("Request") else ():
            described = schema.get("properties", {}).get(field, {})
            for each in (described, *described.get("anyOf", ())):
                if each.get("type") == kind:
                    each.update(known)
    for methods in openapi["paths"].values():
        for route in methods.values():
            route["responses"].pop("422", None)  # what FastAPI would answer is answered with 400
    return openapi


def _describe_route(
    openapi: Mapping[str, Any], path: str, method: str, route: Mapping[str, Any]
) -> dict[str, Any]:
    schema = _find_schema(openapi, route)
    properties: dict[str, Any] = schema.get("properties", {})
    examples = {name: each["examples"][0] for name, each in properties.items() if each.get("examples")}
    if "model" in schema.get("required", ()):
        examples = {"model": "bidibeam", **examples}
    return {
        "method": method.upper(),
        "path": path,
        "anchor": f"{method}{path.replace('/', '-')}".strip("-"),
        "summary": route.get("description", "").partition("\n\n")[0],
        "example": json.dumps(examples) if examples else "",
        "fields": [
            {
                "name": name,
                "kind": _name_kind(each),
                "default": _show_default(each),
                "told": each.get("description", ""),
                "is_required": name in schema.get("required", ()),
            }
            for name, each in sorted(properties.items(), key=lambda item: item[0] not in examples)
        ],
    }


def _find_schema(openapi: Mapping[str, Any], route: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of a route's body; empty where it has none."""
    content = route.get("requestBody", {}).get("content", {}).get("application/json", {})
    name = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
    found: Mapping[str, Any] = openapi.get("components", {}).get("schemas", {}).get(name, {})
    return found


def _name_kind(schema: Mapping[str, Any]) -> str:
    """Returns the type of a field in words."""
    if options := [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]:
        return " or ".join(dict.fromkeys(map(_name_kind, options)))
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "$ref" in schema:
        return "object"
    kind = str(schema.get("type", "any"))
    return f"list of {_name_kind(schema['items'])}" if kind == "array" and "items" in schema else kind


def _show_default(schema: Mapping[str, Any]) -> str | None:
    default = schema.get("default")
    return None if default in (None, {}, []) else json.dumps(default)
