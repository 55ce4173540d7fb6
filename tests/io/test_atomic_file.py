"""A file is written completely or not at all: what was there survives a full disk, an interruption
and any error."""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import artix
from artix import viewer
from artix.cli.training_files import TrainingFiles, save_curve
from artix.examples import policies
from artix.io.common.atomic_file import check_writable, write_atomically

GOOD = b"a good file of an earlier run"


@contextlib.contextmanager
def full_disk(free: int = 100) -> Iterator[None]:
    """The system refuses to let any file grow beyond some bytes, as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def rod() -> artix.Articulation:
    builder = artix.ArticulationBuilder(fixed_base=True, name="rod")
    root = builder.add_link(name="world")
    joint = artix.Joint.revolute(artix.Axis.TWIST, name="hinge", limits=[(-1.0, 1.0)])
    builder.add_link(root, joint, mass=1.0, inertia=np.eye(3), name="rod")
    return builder.build()


def html(path: Path) -> None:
    viewer.save_html(path, rod(), artix.neutral_state(rod()), 0.02)


def png(path: Path) -> None:
    viewer.render_png(path, rod(), artix.neutral_state(rod()), size=(40, 30))


#: By the name of the file: how it is written.
WRITERS: dict[str, Callable[[Path], object]] = {
    "rod.urdf": lambda path: artix.save(rod(), path),
    "rod.xml": lambda path: artix.save(rod(), path),
    "rod.npz": lambda path: artix.save(rod(), path),
    "policy.npz": lambda path: policies.save(
        path, {"x": np.random.default_rng(0).uniform(size=100)}
    ),
    "rod.html": html,
    "rod.png": png,
    "learning_curve.png": lambda path: save_curve(
        TrainingFiles(path.parent), [{"steps": 1.0, "return": 3.0}], "curve"
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_good_file_survives_a_full_disk(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(GOOD)
    with full_disk(), pytest.raises(OSError, match="File too large") as caught:
        WRITERS[name](path)
    assert caught.value.filename == str(path)
    assert path.read_bytes() == GOOD
    assert list(tmp_path.iterdir()) == [path]
    WRITERS[name](path)
    assert path.read_bytes() != GOOD
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", WRITERS)
def test_a_missing_folder_is_named(tmp_path, name):
    path = tmp_path / "missing" / name
    with pytest.raises(FileNotFoundError, match="there is no folder") as caught:
        WRITERS[name](path)
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("save", [html, png])
def test_a_missing_folder_is_said_before_the_work(tmp_path, monkeypatch, save):
    def work(*_, **__):
        raise AssertionError("the work began")

    monkeypatch.setattr("artix.viewer.player.make_scene", work)
    monkeypatch.setattr("artix.viewer.pictures.make_scene", work)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        save(tmp_path / "missing" / "rod")


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_a_good_file_survives_any_exception(tmp_path, error):
    path = tmp_path / "file.txt"
    path.write_bytes(GOOD)

    def write(part: Path) -> None:
        part.write_text("half")
        raise error

    with pytest.raises(error):
        write_atomically(path, write)
    assert path.read_bytes() == GOOD
    assert list(tmp_path.iterdir()) == [path]


def test_a_symbolic_link_stays(tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target.urdf", tmp_path / "link.urdf"
    link.symlink_to(target)
    for content in ("first", "second"):
        write_atomically(link, lambda part, content=content: part.write_text(content))
        assert link.is_symlink()
        assert target.read_text() == content


def test_permissions_stay(tmp_path):
    old, new, plain = tmp_path / "old", tmp_path / "new", tmp_path / "plain"
    old.touch()
    old.chmod(0o640)
    for path in (old, new):
        write_atomically(path, lambda part: part.write_text("text"))
    plain.touch()
    assert stat.S_IMODE(old.stat().st_mode) == 0o640
    assert stat.S_IMODE(new.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_the_temporary_file_is_a_neighbour_of_the_same_kind(tmp_path):
    seen: list[Path] = []
    for name in (
        "a.usda",
        "a.tar.gz",
        ".hidden",
        "x" * 250 + ".png",
        "\N{GREEK SMALL LETTER MU}" * 127,
    ):
        path = tmp_path / name
        write_atomically(path, lambda part: seen.append(part) or part.touch())
        assert path.exists()
        assert seen[-1].parent == path.parent
        assert seen[-1].suffix == path.suffix


def test_what_is_no_file_is_written_directly(tmp_path):
    write_atomically("/dev/null", lambda part: part.write_text("text"))
    assert not os.path.isfile("/dev/null")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    received: list[str] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_text()))
    reader.start()
    write_atomically(pipe, lambda part: part.write_text("text"))
    reader.join(10.0)
    assert received == ["text"]


def test_nothing_written_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        write_atomically(tmp_path / "file", lambda part: None)
    assert caught.value.filename == str(tmp_path / "file")


def test_folders_and_protected_files_are_refused(tmp_path, monkeypatch):
    with pytest.raises(IsADirectoryError, match="it is a folder"):
        check_writable(tmp_path)
    path = tmp_path / "file"
    path.touch()
    check_writable(path)
    check_writable(tmp_path / "new")
    monkeypatch.setattr(os, "access", lambda place, mode: False)  # Root may write everywhere.
    for place in (path, tmp_path / "new"):
        with pytest.raises(PermissionError, match="permission denied"):
            write_atomically(place, lambda part: part.touch())
