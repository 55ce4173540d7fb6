"""The notebooks as pages: text, code, what it printed, and pictures."""

from __future__ import annotations

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
        for name, picture in resources["outputs"].items():
            found[f"tutorials/{path.stem}_{name}"] = picture
            text = text.replace(f"]({name})", f"]({path.stem}_{name})")
        found[f"tutorials/{path.stem}.md"] = text.replace("](../docs/", "](../")
    return found
