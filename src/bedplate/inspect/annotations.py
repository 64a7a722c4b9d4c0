"""Annotations: lines of output that a pipeline shows at a file and line.

sources  "Workflow commands for GitHub Actions"; "Logging commands", Azure Pipelines
"""

from __future__ import annotations

import os
from collections.abc import Mapping

GITHUB, AZURE = "GITHUB_ACTIONS", "TF_BUILD"  # set by these services


def error(file: str, line: int, title: str, text: str, environment: Mapping[str, str]) -> str:
    """An error at a line, in the language of the service that runs this; empty if none does.

    file         "" if it is not known
    environment  `os.environ`
    >>> error("a.py", 3, "memory leak", "1 value", {"GITHUB_ACTIONS": "true"})
    '::error file=a.py,line=3,title=memory leak::1 value'
    """
    if environment.get(GITHUB):
        place = {"file": _relative(file, environment.get("GITHUB_WORKSPACE")), "line": str(line)}
        properties = {**(place if file else {}), "title": title}
        shown = ",".join(f"{name}={_github(value, ':,')}" for name, value in properties.items())
        return f"::error {shown}::{_github(text)}"
    if environment.get(AZURE):
        place = {"sourcepath": _relative(file, environment.get("BUILD_SOURCESDIRECTORY")),
                 "linenumber": str(line)}  # fmt: skip
        properties = {"type": "error", **(place if file else {})}
        shown = "".join(f"{name}={_azure(value)};" for name, value in properties.items())
        return f"##vso[task.logissue {shown}]{_azure(f'{title}: {text}')}"
    return ""


def _relative(file: str, root: str | None) -> str:
    """A file as seen from the root of the repository."""
    start = os.path.join(root or os.getcwd(), "")
    return file.removeprefix(start).replace(os.sep, "/")


def _github(text: str, more: str = "") -> str:
    for letter in "%\r\n" + more:  # the percent sign first
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text


def _azure(text: str) -> str:
    text = text.replace("%", "%AZP25")
    for letter in ";\r\n]":
        text = text.replace(letter, f"%{ord(letter):02X}")
    return text
