"""What is published: the source distribution is complete, and the page on PyPI has links that work
there."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> dict[str, str]:
    """The texts of the source distribution by their path in it."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a clone")
    pytest.importorskip("build")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as tar:
        members = [member for member in tar.getmembers() if member.isfile()]
        return {
            member.name.partition("/")[2]: tar.extractfile(member).read().decode("utf-8", "replace")  # type: ignore[union-attr]
            for member in members
        }


@pytest.mark.slow
def test_the_source_distribution_is_complete(archive):
    """It holds all that git tracks but the workflows of one service, so that its tests pass."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    tracked = {path for path in listed.stdout.splitlines() if not path.startswith(".github/")}
    assert tracked - set(archive) == set()


@pytest.mark.slow
def test_the_page_on_pypi_has_no_relative_links(archive):
    page = archive["PKG-INFO"]
    assert "docs/images/quadruped.png" in page
    links = re.findall(r"\]\(([^)]+)\)", page) + re.findall(r'src="([^"]+)"', page)
    assert len(links) > 30
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_supported_versions_of_python_are_classified_and_tested():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    workflow = (ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8")
    for minor in (11, 12, 13):
        assert f'"Programming Language :: Python :: 3.{minor}"' in text
        assert f'"3.{minor}"' in workflow
