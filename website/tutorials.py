"""The notebooks as pages: text, code, what it printed, and pictures."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import nbconvert
import nbformat


def pages(folder: Path) -> dict[str, str | bytes]:
    """Markdown and pictures of all notebooks of a folder, by their paths on the site."""
    exporter = nbconvert.MarkdownExporter()
    found: dict[str, str | bytes] = {}
    for path in sorted(folder.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        text, resources = exporter.from_notebook_node(notebook)
        text = with_printed(text)
        for name, picture in resources["outputs"].items():
            found[f"tutorials/{path.stem}_{name}"] = picture
            text = text.replace(f"]({name})", f"]({path.stem}_{name})")
        found[f"tutorials/{path.stem}.md"] = text.replace("](../docs/", "](../")
    return found


def with_printed(text: str) -> str:
    """Fences what cells printed, which nbconvert indents, so that it looks different from their
    code.
    """
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    fence = "``` {{ .text .printed }}\n{}\n```\n\n"
    indented = re.compile(r"^(?: {4}.*\n(?:\n+(?= {4}))?)+", re.MULTILINE)
    parts[::2] = [
        indented.sub(lambda match: fence.format(textwrap.dedent(match[0]).rstrip()), part)
        for part in parts[::2]
    ]
    return "".join(parts)
