"""Docstrings: their examples run, and they document arguments, results with their units, and
errors.

docs/conventions.md has what holds for all functions ("What every function checks"), so that no
docstring repeats it."""

import ast
import dataclasses
import doctest
import functools
import importlib
import inspect
import pkgutil
import re
import textwrap
import types
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import artix
from tests.support.doctest_numbers import NumberChecker
from website.reference import entries, public_objects

ROOT = Path(__file__).parents[2]

#: What every example may take as imported; the reference says so.
ROOMS = {
    room: importlib.import_module(f"artix.{room}")
    for room in ("envs", "identification", "inverse_kinematics", "optimal_control", "viewer")
}
NAMES = {"artix": artix, "jax": jax, "jnp": jnp, **ROOMS}

#: Examples that take long, beside those of whole rooms.
SLOW = {
    "artix.editing.surgery.lock_joints",
    "artix.envs.environment.autoreset",
    "artix.compiler.quantity.use_kernels",
    "artix.identification.estimation.cross_validate",
    "artix.io.load.load_world",
    "artix.viewer.pictures.draw_scene",
    "artix.viewer.pictures.render_png",
}

ALL_ROOMS = sorted({entry.room for entry in entries()})

#: What shows robots in a browser, with a package that is an extra.
WITH_SERVER = {
    "artix.viewer.player.scene_html",
    "artix.viewer.player.Viewer",
    "artix.viewer.sliders.Poser",
}

#: A unit in brackets, a reference to one, or a truth value.
UNIT = re.compile(
    r"\[(1|1/|m|rad|kg|N|J|s|B)\b[^\]]*\]|\bunits?\b( as)? (of|as)\b|same unit| is in (J|N)\b|[Bb]ool"
)

#: Functions that raise errors about the arguments of their callers, and those of the contract of
#: all functions.
CHECKS = re.compile(r"_?check(ed)?(_|$)")
CONTRACT_CHECKS = {
    "check_vector",
    "check_state",
    "check_one",
    "check_parameters",
    "check_key",
    "check_type",
    "check_constraints",
}

#: Parameters that mean the same everywhere. A docstring has them where it says more of them.
CONVENTIONAL = {"articulation", "state"}

#: What the conventions say of all functions, and the rooms whose docstrings no longer repeat it.
REPEATED = re.compile(
    r"^ *(articulation: the articulation\.$|state: its (state; only the configuration matters|configuration and velocity)\.$|"
    r"\w+: (an array|the arrays?)( of the state)? (has|have) (the wrong shape|(another|different) dtypes?))",
    re.MULTILINE,
)
CONCISE_ROOMS = (
    "kinematics",
    "dynamics",
    "model",
    "constraints",
    "math",
    "editing",
    "physx",
    "fleet",
    "viewer",
)


@functools.cache
def examples() -> list[doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    modules = [
        name
        for _, name, _ in pkgutil.walk_packages(artix.__path__, "artix.")
        if name != "artix.__main__"
    ]
    found = [
        test
        for name in modules
        for test in finder.find(importlib.import_module(name), extraglobs=NAMES)
    ]
    return [test for test in found if test.examples]


def parameters() -> list:
    """The examples. Slow are those of rooms with large programs, and of classes, whose functions
    have examples."""
    rooms = (
        "constraints",
        "dynamics",
        "examples",
        "fleet",
        "inverse_kinematics",
        "optimal_control",
        "physx",
        "simulation",
    )
    slow = tuple(f"artix.{room}." for room in rooms)

    def is_slow(name: str) -> bool:
        return name.startswith(slow) or name.rpartition(".")[2][0].isupper() or name in SLOW

    return [
        pytest.param(
            example, id=example.name, marks=[pytest.mark.slow] if is_slow(example.name) else []
        )
        for example in examples()
    ]


@pytest.mark.parametrize("example", parameters())
def test_an_example_runs(example):
    if example.name in WITH_SERVER:
        pytest.importorskip("viser")
    said = []
    runner = doctest.DocTestRunner(NumberChecker(), optionflags=doctest.ELLIPSIS)
    result = runner.run(example, out=said.append)
    assert result.attempted > 0
    assert result.failed == 0, "".join(said)


@pytest.mark.parametrize("room", ALL_ROOMS)
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
        name: f
        for name, f in found.items()
        if list(inspect.signature(f).parameters)[:2] == ["articulation", "state"]
    }


@pytest.mark.parametrize("name", functions_of_a_state())
def test_parameters_results_and_refusals_are_documented(name):
    """Errors are checked by test_errors_that_a_body_raises_are_documented."""
    function = functions_of_a_state()[name]
    text = inspect.getdoc(function)
    if "Arguments and exceptions are the same" in text or name == "put_to_sleep":
        return
    parameters = set(inspect.signature(function).parameters) - CONVENTIONAL
    wanted = ["Returns:", *(["Args:"] if parameters else [])]
    assert [section for section in wanted if section not in text] == []


@pytest.mark.parametrize("room", CONCISE_ROOMS)
def test_no_docstring_repeats_the_conventions(room):
    texts = {path: path.read_text() for path in sorted((ROOT / "artix" / room).rglob("*.py"))}
    repeated = [
        f"{path.name}: {match[0].strip()}"
        for path, text in texts.items()
        for match in REPEATED.finditer(text)
    ]
    assert repeated == []


def test_the_conventions_have_what_docstrings_leave_out():
    page = (ROOT / "docs" / "conventions.md").read_text()
    section = page.partition("## What every function checks\n")[2].partition("\n## ")[0]
    assert all(
        word in section for word in (*CONVENTIONAL, "ValueError", "TypeError", "dtype", "shape")
    )
    assert all(
        word in inspect.getdoc(artix.quantity)
        for word in ("ValueError", "TypeError", "dtype", "shape")
    )


def listed(text: str, section: str) -> list[str]:
    """The names that a section of a docstring explains."""
    found = re.search(rf"^{section}:\n((?:  .*\n|\n)+)", f"{text}\n", re.MULTILINE)
    names = re.findall(r"^  \*{0,2}(\w+(?:, \w+)*):", found[1], re.MULTILINE) if found else []
    return [name for several in names for name in several.split(", ")]


def parts_of(public: type | types.FunctionType) -> list[str]:
    """The parameters of a function; the fields of a class, where it has fields.

    Keywords that many functions share are one parameter, ``**options``, though the signature that
    ``help`` shows names them.
    """
    if inspect.isfunction(public) and "__signature__" in vars(public):
        return [name for name in public.__annotations__ if name != "return"]
    if inspect.isfunction(public):
        return list(inspect.signature(public).parameters)
    if dataclasses.is_dataclass(public):
        return [
            field.name for field in dataclasses.fields(public) if not field.name.startswith("_")
        ]
    return list(getattr(public, "_fields", ()))


@pytest.mark.parametrize("room", ALL_ROOMS)
def test_parameters_and_fields_are_those_documented(room):
    """In their order. The functions of :mod:`artix.lie` have one parameter, which their first lines
    explain.

    Parameters that mean the same everywhere may be left out.
    """
    wrong = []
    for each in {
        each for _, _, each in public_objects() if each.__module__.startswith(f"artix.{room}.")
    }:
        text, parts = inspect.getdoc(each), parts_of(each)
        refers = re.search(r"[Aa]rguments and (exceptions are the same|errors are those of)", text)
        if refers or each.__module__ == artix.lie.__name__:
            continue
        sections = [listed(text, section) for section in ("Args", "Attributes")]
        if parts and not any(has_all(section, parts) for section in sections):
            wrong.append(each.__qualname__)
    assert sorted(wrong) == []


def has_all(section: list[str], parts: list[str]) -> bool:
    """Whether these are the parts in their order, except for those that mean the same
    everywhere."""
    return section == [part for part in parts if part in section or part not in CONVENTIONAL]


def arrays_without_units(room: str) -> Iterator[str]:
    """Functions whose results are arrays alone. :mod:`artix.lie` says for all its functions in
    which units they are."""
    for each in {each for _, _, each in public_objects() if inspect.isfunction(each)}:
        returned = str(inspect.signature(each).return_annotation)
        arrays = re.fullmatch(r"Array|tuple\[Array(, Array)*\]", returned)
        if (
            arrays
            and each.__module__.startswith(f"artix.{room}.")
            and each.__module__ != artix.lie.__name__
        ):
            text = inspect.getdoc(each).partition("Examples:")[0]
            results = re.search(r"Returns:.*?(?=\n\n|$)", text, re.DOTALL)
            if not UNIT.search(results[0] if results else text.partition("\n")[0]):
                yield each.__qualname__


@pytest.mark.parametrize("room", ALL_ROOMS)
def test_arrays_have_units(room):
    assert sorted(arrays_without_units(room)) == []


def with_docstrings(room: str) -> Iterator[tuple[str, types.FunctionType, str]]:
    """Public functions of a room, and methods and constructors of its public classes, with what
    documents them."""
    for each in {
        each for _, _, each in public_objects() if each.__module__.startswith(f"artix.{room}.")
    }:
        if inspect.isfunction(each):
            yield each.__qualname__, inspect.unwrap(each), inspect.getdoc(each)
            continue
        for name, member in vars(each).items():
            method = getattr(member, "__func__", member)
            if not inspect.isfunction(method) or method.__code__.co_filename == "<string>":
                continue
            if not name.startswith("_"):
                yield method.__qualname__, method, inspect.getdoc(method) or ""
            elif name in ("__init__", "__post_init__") and "made by :func:" not in each.__doc__:
                yield method.__qualname__, method, f"{each.__doc__}{method.__doc__}"


def is_check(name: str) -> bool:
    return CHECKS.match(name) is not None and name not in CONTRACT_CHECKS


def errors_of(function: types.FunctionType) -> set[str]:
    """What a body raises by name, and "Raises" if it calls a function that checks an argument."""
    errors = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            errors.add(ast.unparse(node.exc.func))
        elif isinstance(node, ast.Call) and is_check(ast.unparse(node.func)):
            errors.add("Raises")
    return errors - {"AssertionError", "NotImplementedError"}


@pytest.mark.parametrize("room", ALL_ROOMS)
def test_errors_that_a_body_raises_are_documented(room):
    missing = [
        f"{name}: {error}"
        for name, function, text in with_docstrings(room)
        if function.__module__ != artix.lie.__name__  # whose first lines say it for all of them
        for error in errors_of(function)
        if error not in text and "Arguments and exceptions are the same" not in text
    ]
    assert sorted(missing) == []
