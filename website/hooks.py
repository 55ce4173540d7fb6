"""Hooks of MkDocs: pages that are made while the site is built, of docstrings, notebooks and files
beside ``docs/``.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from website import gallery, reference, tutorials  # noqa: E402


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Fills the section of the reference with a page for each room, and that of tutorials with all
    notebooks.
    """
    for section in config.nav or []:
        if "Reference" in section:
            section["Reference"] = list(reference.pages())
        if "Tutorials" in section:
            listed = {page for entry in section["Tutorials"] for page in entry.values()}
            found = [
                f"tutorials/{path.stem}.md" for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
            ]
            section["Tutorials"] += [page for page in found if page not in listed]
    return config


@event_priority(100)
def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the reference, the notebooks, the gallery, and the changelog."""
    made = {**reference.pages(), **tutorials.pages(ROOT / "notebooks"), **gallery.pages()}
    for name in ("CHANGELOG.md", "CONTRIBUTING.md"):
        made[name.lower()] = _moved((ROOT / name).read_text(encoding="utf-8"))
    made["compiler.md"] = _moved(
        (ROOT / "artix" / "compiler" / "README.md").read_text(encoding="utf-8")
    )
    for path, content in made.items():
        files.append(File.generated(config, path, content=content))
    return files


def _moved(text: str) -> str:
    """What lies beside ``docs/``, as a page within."""
    return re.sub(r"\]\((\.\./\.\./)?docs/", "](", text).replace(
        "](artix/compiler/README.md", "](compiler.md"
    )


def on_page_markdown(markdown: str, page, config: MkDocsConfig, files: Files) -> str:
    """Pages point at files of the repository as they lie there; on the site those are pages or
    their own text.
    """
    markdown = re.sub(
        r"\]\(\.\./(CHANGELOG|CONTRIBUTING)\.md", lambda m: f"]({m[1].lower()}.md", markdown
    )
    return re.sub(r"\]\(\.\./notebooks/(\w+)\.ipynb", r"](tutorials/\1.md", markdown)
