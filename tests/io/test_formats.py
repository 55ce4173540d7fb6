"""The table of formats, and the options that their readers share."""

import inspect
import itertools
import re

import pytest

import artix
from artix.io.common.options import ReadOptions
from artix.io.load import ARCHIVE, MJCF, SUFFIXES, URDF, USD, XACRO

READERS = {"URDF": URDF, "MJCF": MJCF, "USD": USD, "npz": ARCHIVE}


def keywords(function) -> dict[str, object]:
    """The keywords of a function and their defaults."""
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters if each.kind is each.KEYWORD_ONLY}


def documented() -> dict[str, list[str]]:
    """The options that ``artix.load`` describes, and the formats for which it does."""
    entries = re.findall(r"^ *- ``(\w+)`` \(([\w, ]+)\):", artix.load.__doc__, re.MULTILINE)
    return {name: formats.split(", ") for name, formats in entries}


def test_load_describes_the_options_that_formats_share():
    having = {}
    for name, each in READERS.items():
        for keyword in keywords(each.read):
            having.setdefault(keyword, []).append(name)
    shared = {keyword: names for keyword, names in having.items() if len(names) > 1}
    of_one = {keyword: names for keyword, names in documented().items() if len(names) == 1}
    assert shared | of_one == documented()
    assert all(having[keyword] == names for keyword, names in of_one.items())


@pytest.mark.parametrize("name", READERS)
def test_readers_and_checkers_agree_on_keywords_and_defaults(name):
    each = READERS[name]
    reading = keywords(each.read)
    assert keywords(each.check).items() <= reading.items()


@pytest.mark.parametrize("name", ["URDF", "MJCF", "USD"])
def test_defaults_are_those_of_read_options(name):
    options = ReadOptions()
    defaults = keywords(READERS[name].read)
    differ = {
        keyword
        for keyword, default in defaults.items()
        if hasattr(options, keyword) and (getattr(options, keyword) or None) != (default or None)
    }
    assert differ == ({"gravity"} if name == "URDF" else set())


def test_every_suffix_has_one_format():
    formats = (URDF, XACRO, MJCF, USD, ARCHIVE)
    assert tuple(itertools.chain.from_iterable(each.suffixes for each in formats)) == SUFFIXES
    assert len(set(SUFFIXES)) == len(SUFFIXES)


@pytest.mark.parametrize(
    ("function", "missing"),
    [(artix.load, "reader"), (artix.check, "checker")],
)
def test_an_unknown_suffix_names_the_known_ones(function, missing):
    message = rf"robot.sdf: no {missing} for the suffix '.sdf'; choose from: {', '.join(SUFFIXES)}"
    with pytest.raises(ValueError, match=re.escape(message)):
        function("robot.sdf")


def test_xacro_is_only_read(tmp_path):
    known = [suffix for suffix in SUFFIXES if suffix != ".xacro"]
    message = f"no writer for the suffix '.xacro'; choose from: {', '.join(known)}"
    with pytest.raises(ValueError, match=re.escape(message)):
        artix.save(artix.robots.load("double_pendulum"), tmp_path / "robot.xacro")


@pytest.mark.parametrize("reader", [artix.load_urdf, artix.load_mjcf, artix.load_usd])
def test_readers_refuse_unknown_repairs_and_meshes_alike(reader):
    with pytest.raises(ValueError, match="unknown repair 'mass'; known repairs: inertia"):
        reader("no file is opened", repair="mass")
    with pytest.raises(ValueError, match="meshes must be 'hull', 'capsule' or None"):
        reader("no file is opened", meshes="box")
