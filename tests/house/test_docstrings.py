"""Docstrings: their examples run, and public functions of a state document arguments and results."""

import doctest
import importlib
import inspect
import pkgutil
import re

import jax
import jax.numpy as jnp
import pytest

import artix
from tests.support.doctest_numbers import NumberChecker
from website.reference import entries

#: What every example may take as imported; the reference says so.
ROOMS = {room: importlib.import_module(f"artix.{room}") for room in ("envs", "optimal_control", "viewer")}
NAMES = {"artix": artix, "jax": jax, "jnp": jnp, **ROOMS}

#: Examples that take long, beside those of whole rooms.
SLOW = {
    "artix.editing.surgery.lock_joints",
    "artix.envs.autoreset.autoreset",
    "artix.evaluation.compilation.use_kernels",
    "artix.viewer.pictures.draw_scene",
    "artix.viewer.pictures.render_png",
}

#: What shows robots in a browser, with a package that is an extra.
WITH_SERVER = {"artix.viewer.html.scene_html", "artix.viewer.player.Viewer", "artix.viewer.sliders.Poser"}


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [name for _, name, _ in pkgutil.walk_packages(artix.__path__, "artix.") if name != "artix.__main__"]
    found = [test for name in modules for test in finder.find(importlib.import_module(name), extraglobs=NAMES)]
    return [test for test in found if test.examples]


def parameters() -> list:
    """The examples. Slow are those of rooms with large programs, and of classes, whose functions have examples."""
    rooms = ("constraints", "dynamics", "examples", "fleet", "optimal_control", "physx", "simulation")
    slow = tuple(f"artix.{room}." for room in rooms)

    def is_slow(name: str) -> bool:
        return name.startswith(slow) or name.rpartition(".")[2][0].isupper() or name in SLOW

    marks = {example.name: [pytest.mark.slow] if is_slow(example.name) else [] for example in examples()}
    return [pytest.param(example, id=example.name, marks=marks[example.name]) for example in examples()]


@pytest.mark.parametrize("example", parameters())
def test_an_example_runs(example):
    if example.name in WITH_SERVER:
        pytest.importorskip("viser")
    said = []
    runner = doctest.DocTestRunner(NumberChecker(), optionflags=doctest.ELLIPSIS)
    result = runner.run(example, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


@pytest.mark.parametrize("room", sorted({entry.room for entry in entries()}))
def test_every_public_name_has_an_example(room):
    found = {example.name for example in examples()}
    missing = [entry.name for entry in entries() if entry.room == room and entry.home not in found]
    assert not missing


@pytest.mark.parametrize("printed", ["[2.6671 0.]", "[ 2.667 -0.   ]", "[2.6661 1e-4]"])
def test_a_few_digits_are_compared_as_such(printed):
    assert NumberChecker().check_output("[2.667 0.]\n", printed + "\n", 0)


@pytest.mark.parametrize("printed", ["[2.669 0.]", "[2.667 0.1]", "[2.667 0. 0.]", "(2.667 0.)"])
def test_other_numbers_are_noticed(printed):
    assert not NumberChecker().check_output("[2.667 0.]\n", printed + "\n", 0)


def test_integers_are_compared_exactly():
    assert not NumberChecker().check_output("(6, 7)\n", "(6, 8)\n", 0)


def functions_of_a_state() -> dict:
    found = {name: value for name, value in vars(artix).items() if inspect.isfunction(value)}
    return {
        name: f for name, f in found.items() if list(inspect.signature(f).parameters)[:2] == ["articulation", "state"]
    }


@pytest.mark.parametrize("name", functions_of_a_state())
def test_parameters_results_and_refusals_are_documented(name):
    function = functions_of_a_state()[name]
    text = inspect.getdoc(function)
    if "Arguments and exceptions are the same" in text or name == "put_to_sleep":
        return
    missing = [section for section in ("Args:", "Returns:", "Raises:") if section not in text]
    parameters = inspect.signature(function).parameters
    missing += [p for p in parameters if not re.search(rf"^ +\*{{0,2}}{p}\b.*:", text, re.MULTILINE)]
    assert missing == []
