"""Docstrings: their examples run, and those of public functions of a state say what goes in and what comes out."""

import doctest
import importlib
import inspect
import pkgutil
import re

import jax
import jax.numpy as jnp
import pytest

import artix

NAMES = {"artix": artix, "jax": jax, "jnp": jnp}


def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [name for _, name, _ in pkgutil.walk_packages(artix.__path__, "artix.") if name != "artix.__main__"]
    found = [test for name in modules for test in finder.find(importlib.import_module(name), extraglobs=NAMES)]
    return [test for test in found if test.examples]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_an_example_runs(example):
    said = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


def test_there_are_examples():
    assert {"artix.dynamics.mass_matrix.mass_matrix", "artix.kinematics.configuration.integrate"} <= {
        example.name for example in examples()
    }


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
    lacking = [section for section in ("Args:", "Returns:", "Raises:") if section not in text]
    parameters = inspect.signature(function).parameters
    lacking += [p for p in parameters if not re.search(rf"^ +\*{{0,2}}{p}\b.*:", text, re.MULTILINE)]
    assert lacking == []
