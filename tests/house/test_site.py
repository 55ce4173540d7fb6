"""The documentation site: the reference is complete, every page is in the navigation, and the site
builds."""

import functools
import os
import re
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import artix
from tests.support.public_names import FILE
from website import reference
from website.markup import as_markdown

ROOT = Path(__file__).parents[2]


def recorded_objects() -> dict[str, Any]:
    """Public functions and classes by their names, without methods, from the snapshot, which
    another program writes."""
    names = {
        match[1] for match in re.finditer(r"^(artix[\w.]+)[(:] ?", FILE.read_text(), re.MULTILINE)
    }
    names |= {
        f"{room}.{name}"
        for room, name in re.findall(r"^(artix[\w.]*): (\w+)$", FILE.read_text(), re.MULTILINE)
    }
    found = {name: functools.reduce(getattr, name.split(".")[1:], artix) for name in names}
    classes = {name for name, value in found.items() if isinstance(value, type)}
    functions = {name for name, value in found.items() if isinstance(value, types.FunctionType)}
    return {
        name: found[name] for name in classes | functions if name.rpartition(".")[0] not in classes
    }


def test_every_public_name_has_an_entry():
    shown = set(re.findall(r"^::: ([\w.]+)$", "".join(reference.pages().values()), re.MULTILINE))
    homes = {
        name: f"{value.__module__}.{value.__qualname__}"
        for name, value in recorded_objects().items()
    }
    assert len(homes) > 300
    missing = {name for name, home in homes.items() if home not in shown}
    assert not missing


def test_an_entry_is_called_as_users_write_it():
    names = {entry.name for entry in reference.entries()}
    assert {
        "artix.mass_matrix",
        "artix.physx.create_cache",
        "artix.robots.load",
        "artix.lie.so3_exp",
    } <= names
    assert {"artix.envs.make", "artix.optimal_control.solve", "artix.viewer.view"} <= names
    assert len(names) == len(reference.entries())


def test_docstrings_become_markdown():
    home = "artix.kinematics.configuration.integrate"
    text = "See :func:`artix.integrate`, :class:`nowhere`; shapes [3] [m]::\n\n    code"
    found = as_markdown(text, "artix.kinematics.configuration", {home})
    assert found == f"See [`integrate`][{home}], `nowhere`; shapes [3] \\[m]:\n\n    code"
    example = "Examples:\n  >>> print(torque)  # [N m]\n  [1. 2.]"
    assert as_markdown(example, "artix.kinematics.configuration", {home}) == example


@pytest.mark.slow
def test_what_a_notebook_prints_is_fenced():
    pytest.importorskip("nbconvert")
    from website.tutorials import with_printed

    found = with_printed(
        "Text.\n\n```python\nif x:\n    y()\n```\n\n    [1 2\n\n     3]\n\nMore.\n"
    )
    fenced = "``` { .text .printed }\n[1 2\n\n 3]\n```\n\n"
    assert found == f"Text.\n\n```python\nif x:\n    y()\n```\n\n{fenced}\nMore.\n"


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    missing = {
        page for page in pages if not re.search(rf"[ ]{re.escape(page)}$", nav, re.MULTILINE)
    }
    assert not missing


@pytest.mark.parametrize(
    "num_recordings",
    [pytest.param(0, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.exhaustive)],
)
def test_the_site_builds(tmp_path, num_recordings):
    """Strictly: a link to nowhere, a page outside the navigation or an unknown name is an error."""
    for module in ("mkdocs", "material", "mkdocstrings", "nbconvert", "viser"):
        pytest.importorskip(module)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "ARTIX_GALLERY": str(num_recordings)}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    gallery = (tmp_path / "gallery" / "index.html").read_text(encoding="utf-8")
    recordings = sorted((tmp_path / "gallery").glob("*.html"))
    assert len(recordings) == num_recordings + 1  # with the page itself
    for recording in recordings:
        if recording.name != "index.html":
            assert recording.stat().st_size < 2e6
            assert f'href="{recording.name}"' in gallery
            assert f'src="{recording.stem}.png"' in gallery
    for entry in reference.entries():
        page = (tmp_path / "reference" / entry.room / "index.html").read_text(encoding="utf-8")
        assert f'id="{entry.home}"' in page
