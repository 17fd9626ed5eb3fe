"""The documentation site, for Sphinx: `make docs` builds it into build/docs.

The source folder is the repository's root (`sphinx-build -c docs . build/docs`), so that relative links
between docs/, results/ and CONTRIBUTING.md are the same on the site as in the repository. Nothing comes from
another host.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = html_title = "bidibeam"
copyright = "The bidibeam authors"  # noqa: A001
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "docs/index"
include_patterns = [
    "docs/**.md",
    "results/README.md",
    "results/*/report.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
]

myst_heading_anchors = 3
autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
maximum_signature_line_length = 88
napoleon_use_ivar = True
default_role = "code"  # docstrings mark code as Markdown does
nitpick_ignore_regex = [("py:.*", ".*")]  # types in signatures, of which most are not public

html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_search_summary = False  # from a file:// address no page may be read for excerpts


def read_as_markdown(
    _app: Sphinx, _kind: str, _name: str, _what: object, _options: object, lines: list[str]
) -> None:
    """Make reStructuredText of Markdown in docstrings: indented code, bars, names like lambda_."""
    text = re.sub(r"^(\S.*\n\n)(?=    )", r"\1::\n\n", "\n".join(lines), flags=re.MULTILINE)
    lines[:] = re.sub(r"(?<=\|Y)\||\|(?=Y\|)|(?<=\w)_(?=[\s.,;])", r"\\\g<0>", text).split("\n")


def tell_defaults(
    _app: Sphinx,
    _kind: str,
    _name: str,
    _what: object,
    _options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None]:
    """Write defaults that are made anew as Python that Sphinx can read."""
    return signature and re.sub(r"<class '(\w+)'>", r"\1", signature.replace("<factory>", "...")), returns


def name_report(_app: Sphinx, page: str, source: list[str]) -> None:
    """Give a report its folder's name, and keep its tables from drowning the manual when one searches."""
    if found := re.fullmatch(r"results/(.+)/report", page):
        source[0] = f"---\nnosearch: true\n---\n\n{source[0].replace('# ', f'# {found[1]}: ', 1)}"


def lead_to_the_index(app: Sphinx, error: Exception | None) -> None:
    """Send whoever opens the folder of the site on to its first page."""
    if not error:
        refresh = '<meta http-equiv="refresh" content="0; url=docs/index.html">'
        page = f"<!doctype html>{refresh}<title>bidibeam</title>\n"
        Path(app.outdir, "index.html").write_text(page, encoding="utf-8")


def setup(app: Sphinx) -> None:
    """Connect them."""
    app.connect("autodoc-process-docstring", read_as_markdown, priority=100)
    app.connect("autodoc-process-signature", tell_defaults)
    app.connect("source-read", name_report)
    app.connect("build-finished", lead_to_the_index)
