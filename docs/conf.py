"""How the site is built: sphinx-build docs site (or `make docs`).

The API reference comes from docstrings, the settings page from `config.SETTINGS`, the table of
operations from their records; nothing of these is written twice.
"""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import bedplate  # noqa: F401 - fills the table of operations
from bedplate.config import SETTINGS
from bedplate.ops import table
from bedplate.ops.record import REGISTRY

sys.path.insert(0, str(Path(__file__).parent))
import function_pages

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
    if what == "function":
        derived = function_pages.derived_rows(thing, "\n".join(lines))
        example = next((i for i, line in enumerate(rest) if line.startswith(">>>")), len(rest))
        rest = rest[:example] + derived + rest[example:]
    prose = " ".join(line.strip() for line in lines[:first_blank])
    lines[:] = [prose.replace("*", r"\*").replace("|", r"\|").replace("`_", r"`\_"), ""]
    if any(line.strip() for line in rest):
        lines += ["::", "", *("    " + line for line in rest), ""]


def skip_described(
    app: Sphinx, what: str, name: str, thing: Any, skip: bool, options: Any
) -> bool | None:
    """Leave to docs/functions/ what is described there."""
    described = function_pages.defined_in(thing) in function_pages.described()
    return True if what == "module" and described else None


class Functions(SphinxDirective):
    """Every public function of the folders or modules that a page names: `{functions} ops.scan`."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        entries = [
            entry
            for module in function_pages.modules_of(self.arguments[0].split())
            for entry in function_pages.by_module()[module]
        ]
        lines: list[str] = []
        for entry in sorted(entries, key=lambda entry: entry.names[0].lower()):
            lines += [f".. autofunction:: {entry.names[0]}", ""]
            others = ", ".join(f"``{name}``" for name in entry.names[1:])
            if others:
                lines += [f"   Also {others}.", ""]
        return self.parse_text_to_nodes("```{eval-rst}\n" + "\n".join(lines) + "\n```\n")


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
            [f"`{name}`", _first_line(REGISTRY[name].doc), *cells] for name, *cells in table.rows()
        ]
        return [head, *body]


class NamesTable(GeneratedTable):
    """One row a function of a namespace, with a link to where it is described."""

    required_arguments = 1

    def rows(self) -> list[list[str]]:
        space = self.arguments[0] + "."
        body = [
            [f"{{py:func}}`{name} <{entry.names[0]}>`", entry.summary]
            for entries in function_pages.by_module().values()
            for entry in entries
            for name in entry.names
            if name.startswith(space) and "." not in name.removeprefix(space)
        ]
        return [["function", "what it does"], *sorted(body)]


class DifferencesTable(GeneratedTable):
    """One row a reason why PyTorch answers otherwise, with the functions that it is given for."""

    def rows(self) -> list[list[str]]:
        functions: dict[str, list[str]] = {}
        for name, reason in function_pages.differences():
            functions.setdefault(reason, []).append(f"`{name}`" if name else "several")
        body = [[", ".join(sorted(set(names))), reason] for reason, names in functions.items()]
        return [["PyTorch's name", "why ours differs"], *body]


def _first_line(text: str) -> str:
    return " ".join(text.strip().split("\n\n")[0].split())


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", show_as_written)
    app.connect("autodoc-skip-member", skip_described)
    app.add_directive("functions", Functions)
    app.add_directive("names-table", NamesTable)
    app.add_directive("differences-table", DifferencesTable)
    app.add_directive("settings-table", SettingsTable)
    app.add_directive("operations-table", OperationsTable)
