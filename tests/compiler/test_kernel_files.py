"""Kernels on disk: a second process finds them, and foreign or damaged files are not loaded."""

from __future__ import annotations

import errno
import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix.compiler import disk
from artix.compiler.compilation import cpu_kernel
from artix.compiler.disk import KernelFiles, cache_folder, folder_of_programs, program_key
from tests.support.programs import programs_in

PROGRAM = """
import sys
import jax, jax.numpy as jnp
import artix
from artix.compiler import kernels, program, quantity

if sys.argv[1] == "again":
    def refused(*_, **__):
        raise AssertionError("this is on disk")

    sys.modules["artix.compiler.quantity"].trace = program.trace = kernels.build = refused
robot = artix.robots.load("arm7")
states = jax.vmap(lambda key: artix.random_state(robot, key))(jax.random.split(jax.random.key(0), 3))
matrices = jax.jit(jax.vmap(lambda state: artix.mass_matrix(robot, state)))(states)
gradient = jax.grad(lambda q: artix.bias_force(robot, jax.tree.map(lambda x: x[0], states).replace(joint_position=q)).sum())
print(float(matrices.sum()), float(gradient(states.joint_position[0]).sum()))
"""

#: A task of the user's own, whose reward is not known by its name.
TASK = """
import sys
import jax, jax.numpy as jnp
from artix import envs
from artix.compiler import kernels
from artix.envs.tasks.cart_pole import CartPole

if sys.argv[2] == "again":
    def refused(*_, **__):
        raise AssertionError("this is on disk")

    kernels.build = refused

class Mine(CartPole):
    def outcome(self, transition):
        outcome = super().outcome(transition)
        return outcome._replace(reward=float(sys.argv[1]) * outcome.reward)

task = Mine()
state = jax.jit(jax.vmap(task.reset))(jax.random.split(jax.random.key(0), 3))
reward = jax.jit(lambda action: jnp.sum(jax.vmap(task.step)(state, action).reward))
print(float(reward(jnp.ones((3, 1)))), float(jax.grad(reward)(jnp.ones((3, 1))).sum()))
"""

#: A problem whose cost is edited between two runs of a script.
EDITED = """
import functools, sys
import jax, jax.numpy as jnp
import artix
from artix import optimal_control

def effort(scale, knot):
    return scale * {factor} * knot.control

def arrive(knot):
    return knot.state.joint_position - 0.1

pendulum = artix.robots.load("double_pendulum")
dynamics = optimal_control.discrete_dynamics(pendulum, 0.1)
effort = functools.partial(effort, 1.0)
problem = optimal_control.Problem(dynamics, jnp.zeros(4), effort, final_equality=arrive)
solve = jax.jit(lambda controls: optimal_control.solve_constrained(problem, controls))
end = solve(jnp.zeros((5, 2)))
print(float(end.solution.cost), 0.5 * float(jnp.sum(({factor} * end.solution.controls) ** 2)))
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KernelFiles:
    monkeypatch.setenv("ARTIX_CACHE", str(tmp_path / "artix-kernels"))
    return KernelFiles()


@pytest.mark.slow
def test_a_second_process_neither_traces_nor_compiles(tmp_path: Path) -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM, which],
            check=True,
            capture_output=True,
            text=True,
            env={key: value for key, value in os.environ.items() if key != "ARTIX_CACHE"}
            | {"XDG_CACHE_HOME": str(tmp_path)},
        ).stdout
        for which in ("first", "again")
    ]
    assert found[0] == found[1] != ""


@pytest.mark.slow
def test_functions_of_users_are_known_by_what_they_compute(tmp_path: Path) -> None:
    found = [
        subprocess.run(
            [sys.executable, "-c", TASK, *what],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"ARTIX_CACHE": str(tmp_path)},
        ).stdout
        for what in (("1", "first"), ("1", "again"), ("2", "changed"))
    ]
    assert found[0] == found[1]
    once, twice = ([float(number) for number in one.split()] for one in found[1:])
    np.testing.assert_allclose(twice, 2 * np.array(once), rtol=1e-6)
    assert min(map(abs, once)) > 0


@pytest.mark.slow
def test_a_function_that_was_edited_is_compiled_again(tmp_path: Path) -> None:
    """Residuals and constraints reach functions of artix as arguments, by name only."""
    for factor in (0.1, 2.0):
        printed = subprocess.run(
            [sys.executable, "-c", EDITED.replace("{factor}", str(factor))],
            check=True,
            capture_output=True,
            text=True,
            env=os.environ | {"ARTIX_CACHE": str(tmp_path)},
        ).stdout
        cost, effort = map(float, printed.split())
        assert cost == pytest.approx(effort, rel=0.2)  # With what is left of the constraint.


def _double(robot: Any, state: Any) -> Any:
    return 2 * artix.mass_matrix(robot, state)


class _Pair(NamedTuple):
    first: Any
    second: Any


class _Cost:
    def __call__(self, x: Any) -> Any:
        return x


def test_what_a_user_may_edit_has_no_key() -> None:
    def key(*rest: Any, function: Any = artix.mass_matrix.__wrapped__, arguments: Any = 1.0) -> Any:
        return program_key(function, jax.tree.structure(arguments), rest)

    assert key() is not None
    assert key((1, "a", np.float32, functools.partial(artix.bias_force, 1))) is not None
    assert key() != key(function=artix.bias_force.__wrapped__) is not None
    for mine in (_double, _Cost, _Cost(), functools.partial(_double, 1), {"a": (_double,)}):
        assert key(mine) is None
    without_module = {}
    exec("def effort(x): return x", without_module)
    assert key(functools.partial(without_module["effort"], 1)) is None
    assert key(arguments=_Pair(1.0, 2.0)) is None
    for mine in (
        _double,
        functools.wraps(artix.mass_matrix)(_double),
        functools.wraps(artix.mass_matrix.__wrapped__)(_double),
        jax.vmap(artix.mass_matrix, (None, 0)),
    ):
        assert key(function=mine) is None


def test_equal_programs_have_one_kernel_and_others_their_own() -> None:
    def kernel(factor: float, size: int = 3) -> str | None:
        function = artix.quantity(lambda x: jnp.sin(x) * factor + x[0])
        (equation,) = programs_in(function, jnp.ones(size))
        return cpu_kernel(equation.params["program"], (1,))

    assert kernel(2.0) == kernel(2.0) is not None
    assert len({kernel(2.0), kernel(3.0), kernel(2.0, size=4)}) == 3


def test_what_is_written_is_read(files: KernelFiles, tmp_path: Path) -> None:
    assert files.read("one") is None
    files.write("one", b"code")
    assert files.read("one") == b"code"
    folder = tmp_path / "artix-kernels"
    assert folder.stat().st_mode & 0o777 == 0o700
    assert (folder / "one").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in folder.iterdir()] == ["one"]


def test_what_is_corrupt_or_foreign_is_not_read(files: KernelFiles, tmp_path: Path) -> None:
    files.write("one", b"code")
    path = tmp_path / "artix-kernels" / "one"
    content = path.read_bytes()
    for wrong in (b"", content[:-1], content + b"x", content.replace(b"code", b"evil"), b"evil"):
        path.write_bytes(wrong)
        assert files.read("one") is None
    path.write_bytes(content)
    os.rename(path, path.with_name("two"))
    assert files.read("two") is None  # The digest is that of another name.
    files.write("one", b"code")
    path.chmod(0o620)
    assert files.read("one") is None
    path.chmod(0o600)
    path.parent.chmod(0o777)
    assert files.read("one") is None
    path.parent.chmod(0o700)
    assert files.read("one") == b"code"
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert files.read("one") is None


def test_a_cache_that_cannot_be_written_is_read(
    files: KernelFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Modes do not keep an administrator from writing, so the operations fail in its place."""
    files.write("one", b"code")

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert files.read("one") == b"code"
    monkeypatch.setattr(os, "replace", refuse)
    files.write("two", b"code")
    assert files.folder is not None and [path.name for path in files.folder.iterdir()] == ["one"]


def test_the_oldest_go_first(
    files: KernelFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk, "_MAX_BYTES", 250)
    for age, name in enumerate(("first", "second", "third")):
        files.write(name, bytes(50))
        path = tmp_path / "artix-kernels" / name
        if path.exists():
            os.utime(path, (age, age))
    assert files.read("first") is None
    assert files.read("third") == bytes(50)


def test_the_folder_is_the_users_unless_another_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARTIX_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(disk.sys, "platform", "linux")
    assert cache_folder() == tmp_path / "artix"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "artix"
    before = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path / "of_jax"))
        assert cache_folder() == tmp_path / "of_jax" / "artix-kernels"
        jax.config.update("jax_compilation_cache_dir", "gs://bucket")
        assert cache_folder() == tmp_path / ".cache" / "artix"
    finally:
        jax.config.update("jax_compilation_cache_dir", before)
    monkeypatch.setenv("ARTIX_CACHE", str(tmp_path / "named"))
    assert cache_folder() == tmp_path / "named"


def test_switched_off_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARTIX_CACHE", "0")
    files = KernelFiles()
    files.write("one", b"code")
    assert files.folder is None
    assert files.read("one") is None


def test_a_folder_that_others_may_write_to_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("ARTIX_CACHE", str(tmp_path / "shared"))
    files = KernelFiles()
    files.write("one", b"code")
    assert files.read("one") == b"code" and not caplog.records
    (tmp_path / "shared").chmod(0o777)
    for _ in range(3):
        assert files.read("one") is None
        files.write("two", b"code")
    (record,) = caplog.records
    assert f"kernels in {tmp_path / 'shared'} are not used" in record.getMessage()


def test_programs_of_xla_have_a_folder_for_each_kind_of_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARTIX_CACHE", str(tmp_path / "kernels"))
    files = KernelFiles()
    one, other = folder_of_programs("one"), folder_of_programs("other")
    assert one is not None and other is not None and one != other
    assert one.parent == tmp_path / "kernels" and folder_of_programs("one") == one
    monkeypatch.setattr(disk, "_MAX_BYTES", 80)  # Folders are not among what is deleted.
    files.write("first", bytes(10))
    files.write("second", bytes(10))
    assert files.read("second") == bytes(10) and one.is_dir()
    one.chmod(0o777)
    assert folder_of_programs("one") is None
    monkeypatch.setenv("ARTIX_CACHE", "0")
    assert folder_of_programs("one") is None
