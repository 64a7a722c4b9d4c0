"""How the site is built: sphinx-build docs site (or `make docs`).

The API reference comes from docstrings, the settings page from `config.SETTINGS`, the table of
operations from their records; nothing of these is written twice.
"""

from __future__ import annotations

import importlib.metadata
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import bedplate  # noqa: F401 - fills the table of operations
from bedplate.config import SETTINGS
from bedplate.ops import table
from bedplate.ops.record import REGISTRY

project = "Bedplate"
author = "the Bedplate developers"
release = importlib.metadata.version("bedplate")
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode"]
html_theme = "furo"
html_title = f"Bedplate {release}"
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
autodoc_member_order = "bysource"
autodoc_typehints = "none"
exclude_patterns = ["README.md"]
# docstrings are plain text: what they name in code is code, not a cross reference
default_role = "code"
smartquotes = False


def show_as_written(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]
) -> None:
    """Keep the columns of a docstring: its first paragraph is prose, the rest as it stands."""
    first_blank = lines.index("") if "" in lines else len(lines)
    rest = lines[first_blank + 1 :]
    prose = " ".join(line.strip() for line in lines[:first_blank])
    lines[:] = [prose.replace("*", r"\*").replace("|", r"\|").replace("`_", r"`\_"), ""]
    if any(line.strip() for line in rest):
        lines += ["::", "", *("    " + line for line in rest), ""]


class GeneratedTable(SphinxDirective):
    """A table in Markdown whose rows come from the product."""

    def rows(self) -> list[list[str]]:
        raise TypeError("a table needs rows")

    def run(self) -> list[nodes.Node]:
        head, *body = self.rows()
        lines = [_markdown_row(row) for row in (head, ["---"] * len(head), *body)]
        node = nodes.container()
        self.state.nested_parse(StringList(lines, source="generated"), self.content_offset, node)
        return node.children


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|").replace("\n", " ") for cell in cells) + " |"


class SettingsTable(GeneratedTable):
    """One row a setting of `config.SETTINGS`."""

    def rows(self) -> list[list[str]]:
        body = [
            [f"`{s.name}`", f"`{s.variable}`", type(s.default).__name__, _default(s), s.meaning]
            for s in SETTINGS
        ]
        return [["setting", "environment variable", "type", "default", "meaning"], *body]


def _default(setting: Any) -> str:
    if setting.name == "cache_dir":
        return "`$XDG_CACHE_HOME/bedplate`"
    return f"`{setting.default!r}`"


class OperationsTable(GeneratedTable):
    """One row an operation of the registry."""

    def rows(self) -> list[list[str]]:
        head = ["operation", "meaning", *table.HEADINGS[1:]]
        body = [
            [f"`{name}`", _first_line(REGISTRY[name].doc), *cells]
            for name, *cells in table.rows()
        ]
        return [head, *body]


def _first_line(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", show_as_written)
    app.add_directive("settings-table", SettingsTable)
    app.add_directive("operations-table", OperationsTable)
