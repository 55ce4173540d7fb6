"""The table of formats, and the options that their readers share."""

import dataclasses
import inspect
import itertools
import re

import jax
import pytest

import artix
from artix.io.common.description import MjcfOptions, ReadOptions, UrdfOptions, UsdOptions
from artix.io.load import ARCHIVE, MJCF, SUFFIXES, URDF, USD, XACRO

READERS = {"URDF": URDF, "MJCF": MJCF, "USD": USD, "npz": ARCHIVE}
#: The keywords of the readers; those of archives are in their signature.
KEYWORDS = {"URDF": UrdfOptions, "MJCF": MjcfOptions, "USD": UsdOptions}


def keywords(name: str) -> set[str]:
    """The keywords of the reader of a format."""
    if name in KEYWORDS:
        return set(KEYWORDS[name].__annotations__)
    parameters = inspect.signature(READERS[name].read).parameters.values()
    return {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}


def documented() -> dict[str, list[str]]:
    """The options that ``artix.load`` describes, and the formats for which it does."""
    entries = re.findall(r"^ *- ``(\w+)`` \(([\w, ]+)\):", artix.load.__doc__, re.MULTILINE)
    return {name: formats.split(", ") for name, formats in entries}


def test_load_describes_the_options_that_formats_share():
    having = {}
    for name in READERS:
        for keyword in keywords(name):
            having.setdefault(keyword, []).append(name)
    shared = {keyword: names for keyword, names in having.items() if len(names) > 1}
    of_one = {keyword: names for keyword, names in documented().items() if len(names) == 1}
    assert shared | of_one == documented()
    assert all(having[keyword] == names for keyword, names in of_one.items())


@pytest.mark.parametrize("name", READERS)
def test_readers_and_checkers_take_the_same_keywords(name):
    each = READERS[name]
    read, check = (inspect.signature(function).parameters for function in (each.read, each.check))
    assert [(one.name, one.kind, one.annotation) for one in read.values()] == [
        (one.name, one.kind, one.annotation) for one in check.values()
    ]


@pytest.mark.parametrize("name", KEYWORDS)
def test_keywords_are_options_of_all_formats(name):
    """But for ``body``, MJCF's word for the root."""
    fields = {field.name for field in dataclasses.fields(ReadOptions)} | {"body"}
    assert keywords(name) <= fields


@pytest.mark.parametrize("function", ["read", "check"])
@pytest.mark.parametrize(
    ("name", "keyword"), [("URDF", "root"), ("MJCF", "gravity"), ("USD", "packages")]
)
def test_keywords_of_other_formats_are_refused(function, name, keyword):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{keyword}'; .*fixed_base"):
        getattr(READERS[name], function)("no file is opened", **{keyword: None})


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


def test_text_is_read_by_its_root_element(tmp_path):
    """With declarations and comments before it, by `load`, `load_world` and `check`."""
    mjcf = """<?xml version="1.0"?>\n<!-- <robot> -->
    <mujoco><worldbody><body name="ball"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>"""
    urdf = """<robot name="ball"><link name="ball"><inertial><mass value="1"/>
    <inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial></link></robot>"""
    path = tmp_path / "ball.usda"
    artix.save(artix.load(urdf, fixed_base=False), path)
    for text in (mjcf, urdf, path.read_text()):
        robot = artix.load(text, fixed_base=False)
        assert robot.topology.link_names == ("ball",)
        assert artix.load_world(text, fixed_base=False)[0].link_names == ("ball",)
        assert artix.check(text, fixed_base=False) == []
    for text in ("<sdf version='1.7'/>", "<!-- nothing -->"):
        for function in (artix.load, artix.load_world, artix.check):
            with pytest.raises(ValueError, match="the text is neither a URDF"):
                function(text)


@pytest.mark.parametrize("load", [artix.load, artix.load_world, artix.check])
def test_compiled_models_of_mujoco_are_said_to_be_no_text(load):
    """The text of an ``MjSpec`` is read."""
    mujoco = pytest.importorskip("mujoco")
    spec = mujoco.MjSpec.from_string(
        '<mujoco><worldbody><body name="a"><freejoint/><geom size="1"/></body></worldbody></mujoco>'
    )
    for compiled in (spec, spec.compile()):
        with pytest.raises(TypeError, match=r"found Mj\w+; .*artix\.load\(spec\.to_xml\(\)\)"):
            load(compiled)
    load(spec.to_xml())


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


def test_names_of_built_in_robots_are_no_files(tmp_path):
    with pytest.raises(ValueError, match=r"\.npz; artix\.robots\.load has those of artix$"):
        artix.load("quadruped")
    with pytest.raises(ValueError, match=r"suffix ''; choose from: [^;]*$"):
        artix.save(artix.robots.load("cart_pole"), tmp_path / "cart_pole")


@pytest.mark.parametrize("suffix", ["urdf", "xml", "usda", "npz"])
def test_writers_say_what_they_cannot_write(suffix, tmp_path):
    """Other things than robots, and coarse numbers, which have no unit quaternions."""
    robot, path = artix.robots.load("arm7"), tmp_path / f"robot.{suffix}"
    for wrong in (artix.neutral_state(robot), artix.Fleet([robot]), None):
        with pytest.raises(TypeError, match=r"^articulation: expected artix\.Articulation, found "):
            artix.save(wrong, path)
    coarse = jax.tree.map(lambda x: x.astype("float16"), robot)
    with pytest.raises(TypeError, match=r"must be of float32 or float64; found .* 'float16'"):
        artix.save(coarse, path)
    assert not path.exists()
