"""The API as a page to read, which needs nothing from elsewhere, made from the OpenAPI description."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from bidibeam._version import __version__
from bidibeam.serving.errors import STATUSES
from bidibeam.serving.requests import LIMIT
from bidibeam.similarities import SIMILARITIES

MOST = {"integer": "maximum", "string": "maxLength", "array": "maxItems"}
"""What JSON Schema calls the limit of a type."""

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bidibeam.serving.settings import RequestLimits


def render_reference(openapi: Mapping[str, Any], limits: RequestLimits, base: str) -> str:
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
    values = {
        "version": __version__,
        "routes": routes,
        "statuses": STATUSES,
        "limits": limits,
        "base": base.rstrip("/"),
    }
    return environment.get_template("docs.html.j2").render(values)


def describe_limits(openapi: dict[str, Any], models: Sequence[str], limits: RequestLimits) -> dict[str, Any]:
    """Returns an OpenAPI description that names the models, and the most that a request may ask for."""
    names: dict[str, Sequence[str]] = {"model": models, "similarity": SIMILARITIES.names()}
    for schema in openapi["components"]["schemas"].values():
        for field, described in schema.get("properties", {}).items():
            own = described.pop(LIMIT, {})
            for each in (described, *described.get("anyOf", ())):
                kind = each.get("type")
                if kind in own:
                    each[MOST[kind]] = getattr(limits, own[kind])
                if kind == "string" and names.get(field) and schema["title"].endswith("Request"):
                    each["enum"] = [*names[field]]
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
                "most": _find_most(each),
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
    options = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if options and "type" not in schema:
        return " or ".join(dict.fromkeys(map(_name_kind, options)))
    if "enum" in schema:
        return ", ".join(map(str, schema["enum"]))
    if "$ref" in schema:
        return "object"
    kind = str(schema.get("type", "any"))
    return f"list of {_name_kind(schema['items'])}" if kind == "array" and "items" in schema else kind


def _find_most(schema: Mapping[str, Any]) -> str:
    """Returns the most that a field may have: a number, or so many letters or items."""
    units = {"maximum": "", "maxLength": " letters", "maxItems": " items"}
    found = [
        f"{each[key]:,.10g}{unit}"
        for each in (schema, *schema.get("anyOf", ()))
        for key, unit in units.items()
        if key in each and "enum" not in each
    ]
    return ", ".join(dict.fromkeys(found))


def _show_default(schema: Mapping[str, Any]) -> str | None:
    default = schema.get("default")
    return None if default in (None, {}, []) else json.dumps(default)
