import dataclasses
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

import artix
from artix import robots
from artix.cli import info, main
from artix.cli.demo import Identity

BROKEN = """<robot name="broken">
  <link name="a"/>
  <link name="b">
    <inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="-3" ixy="0" ixz="0" iyz="0"/></inertial>
  </link>
  <joint name="j" type="revolute"><parent link="a"/><child link="b"/><axis xyz="0 1 0"/></joint>
</robot>
"""
WARNED = BROKEN.replace('izz="-3"', 'izz="1.5"')
IMPOSSIBLE = BROKEN.replace('izz="-3"', 'izz="3"')


@pytest.fixture
def urdf(tmp_path):
    def write(text):
        path = tmp_path / "robot.urdf"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


def test_info_shows_the_tree_the_dofs_and_the_mass(capsys):
    assert main(["info", "arm7"]) == 0
    out = capsys.readouterr().out
    topology = robots.load("arm7").topology
    assert all(name in out for name in (*topology.link_names, *topology.joint_names))
    assert "fixed base" in out
    assert "total mass 17.1 kg" in out
    assert "└─ shoulder" in out


def test_view_says_what_is_wrong_with_a_description(urdf, capsys):
    assert main(["view", urdf(BROKEN), "--no-browser"]) == 1
    error = capsys.readouterr().err
    assert "was not loaded: the description has 1 error:" in error
    assert "not positive definite" in error


def test_info_knows_the_base_of_a_built_in_robot_and_lets_it_be_changed(capsys):
    assert main(["info", "quadruped"]) == 0
    out = capsys.readouterr().out
    assert "floating base" in out
    assert ", 4 shapes" in out
    assert main(["info", "quadruped", "--fixed-base"]) == 0
    assert "fixed base" in capsys.readouterr().out


def test_info_prints_joint_axes_in_the_child_link(urdf, capsys):
    oblique = WARNED.replace('xyz="0 1 0"', 'xyz="0 -0.6 0.8"')
    assert main(["info", urdf(oblique)]) == 0
    assert "(0, -0.6, 0.8)" in capsys.readouterr().out
    assert main(["info", urdf(WARNED.replace('xyz="0 1 0"', 'xyz="0 0 -1"'))]) == 0
    assert " -z " in capsys.readouterr().out


def test_info_of_a_broken_robot_explains_and_fails(urdf, capsys):
    assert main(["info", urdf(BROKEN)]) == 1
    assert "not positive definite" in capsys.readouterr().err


def test_check_fails_for_errors_only(urdf, capsys):
    assert main(["check", urdf(BROKEN)]) == 1
    assert "1 error, 1 warning" in capsys.readouterr().out
    assert main(["check", urdf(WARNED)]) == 0
    assert "no errors, 1 warning" in capsys.readouterr().out
    assert main(["check", urdf(IMPOSSIBLE)]) == 0
    assert "triangle inequality" in capsys.readouterr().out
    assert main(["check", urdf(IMPOSSIBLE), "--strict"]) == 1
    assert "2 errors, no warnings" in capsys.readouterr().out  # Its joint has no limit.
    assert main(["check", "humanoid"]) == 0
    assert "no problems found" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["check", "info"])
def test_a_missing_or_unreadable_file_is_one_line_on_stderr(command, tmp_path, capsys):
    binary = tmp_path / "mesh.stl"
    binary.write_bytes(b"\x80\xff\x00\x01")
    for robot in ("nobody", str(tmp_path), str(binary), "long" * 100, "/dev/null"):
        assert main([command, robot]) == 1
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err.startswith("artix: ")
        assert captured.err.count("\n") == 1


def test_content_that_is_no_urdf_is_an_error_with_its_line(urdf, capsys):
    assert main(["check", urdf("not xml at all")]) == 1
    assert ":1: error:" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["dance"],
        ["demo", "--members", "0"],
        ["info"],
        *(
            [*command, "--seed", str(2**70)]
            for command in (["demo"], ["train", "cart_pole"], ["play", "arm_reach"])
        ),
    ],
)
def test_wrong_usage_exits_with_two(arguments, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2


def test_a_port_that_does_not_exist_is_one_line_on_stderr(capsys):
    assert main(["view", "arm7", "--port", "99999", "--no-browser"]) == 1
    assert capsys.readouterr().err == "artix: port must be from 0 to 65535; found 99999\n"


def test_view_of_a_file_without_suffix_is_one_line_on_stderr(tmp_path, capsys):
    robot = tmp_path / "robot"
    robot.write_text(robots.path("cart_pole").read_text())
    assert main(["view", str(robot), "--png", str(tmp_path / "robot.png")]) == 1
    error = capsys.readouterr().err
    assert "no reader of visuals for the suffix ''" in error and error.count("\n") == 1


QUICK = """
import sys
from artix.cli import main
try:
    code = main(sys.argv[1:])
except SystemExit as exit_:
    code = exit_.code
print("code", code, [name for name in ("jax", "numpy", "matplotlib") if name in sys.modules])
"""


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--help"], 0, "convert a description"),
        (["--version"], 0, "Python 3."),
        (["info", "--help"], 0, "--fixed-base"),
        (["veiw", "arm7"], 2, "did you mean 'view'?"),
        (["demo", "--members", "x"], 2, "must be a whole number; found 'x'"),
        (["view", "arm7", "--port", "http"], 2, "must be a whole number; found 'http'"),
        (["info", "quadrupd"], 1, "did you mean 'quadruped'?"),
        (["info", ""], 1, "the name of the robot is empty"),
        (["view", "arm7", "--html", "missing/arm.html"], 1, "there is no folder"),
        (["play", "quadruped", "--html", "missing/walk.html"], 1, "there is no folder"),
        (["convert", "arm7", ""], 1, "the name of the file to write is empty"),
        (["convert", "arm7", "."], 1, "it is a folder"),
    ],
)
def test_what_needs_no_jax_does_not_wait_for_it(arguments, code, message):
    """0.05 s of CPU time instead of 1 to 3 s."""
    done = subprocess.run([sys.executable, "-c", QUICK, *arguments], capture_output=True, text=True)
    assert message in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == f"code {code} []"


def test_names_that_are_almost_right_are_suggested(tmp_path, urdf, capsys):
    path = urdf(WARNED)
    assert main(["info", path.replace("robot.urdf", "robot.udrf")]) == 1
    assert f"did you mean {path!r}?" in capsys.readouterr().err
    assert main(["convert", "arm7", str(tmp_path / "arm.usdd")]) == 1
    assert "no writer for the suffix '.usdd'; did you mean '.usd'?" in capsys.readouterr().err
    assert main(["play", "quadruped_velocty"]) == 1
    assert "did you mean 'quadruped_velocity'?" in capsys.readouterr().err
    assert main(["train", "quadrupd"]) == 1
    assert "no task called 'quadrupd'; did you mean 'quadruped'?" in capsys.readouterr().err


def test_control_characters_in_names_do_not_reach_the_terminal(tmp_path, capsys):
    """A name that would clear the screen, set the window's title, and forge a line of the table."""
    cart, path = robots.load("cart_pole"), tmp_path / "cart.npz"
    names = ("\x1b[2J\x1b]0;PWN\x07rail", "cart\rpole", "pole\n  wing")
    topology = dataclasses.replace(cart.topology, link_names=names, name="\x9b2J")
    artix.save(cart.replace(topology=topology), path)
    assert main(["info", str(path)]) == 0
    shown = capsys.readouterr()
    assert (
        r"\x1b[2J\x1b]0;PWN\x07rail" in shown.out
        and r"cart\x0dpole" in shown.out
        and r"pole\x0a  wing" in shown.out
    )
    assert not set(shown.out + shown.err) & set("\x1b\x07\x9b\r")
    assert main(["check", str(path)]) == 0
    told = capsys.readouterr().out
    assert "names with control characters" in told and "1 warning" in told and "\x1b" not in told
    with pytest.warns(artix.DescriptionWarning, match="control characters"):
        artix.load(path)
    assert artix.check(tmp_path / "cart.npz")[0].severity == "warning"


def test_info_prints_units(capsys):
    assert main(["info", "arm7"]) == 0
    assert "lower [rad]  upper [rad]  effort [N m]  velocity [rad/s]" in capsys.readouterr().out
    assert main(["info", "cart_pole"]) == 0
    assert "lower [rad or m]" in capsys.readouterr().out


INTERRUPTED = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # Where this suite runs in the background, it is ignored.

class Interrupting:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from artix.cli import main
sys.exit(main(["info", "arm7"]))
"""


@pytest.mark.parametrize(
    "module", ["numpy._core._multiarray_umath", "jax._src.interpreters.mlir", "artix.io.load"]
)
def test_ctrl_c_during_the_imports_is_one_line(module):
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, module], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "artix: interrupted\n")


def test_ctrl_c_that_becomes_another_error_is_still_ctrl_c(monkeypatch, capsys):
    def command(robot):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(info, "run_info", command)
        assert main(["info", "arm7"]) == 130
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == "artix: interrupted\n"


@pytest.mark.slow
def test_demo_verifies_its_numbers_and_saves_a_plot(tmp_path, capsys, monkeypatch):
    picture = tmp_path / "demo.png"
    assert main(["demo", "--members", "6", "--output", str(picture)]) == 0
    out = capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "mass matrix" in out
    assert "all identities hold" in out
    assert "FAILED" not in out

    # In the same test, so that the compiled programs serve twice: a wrong number is found and fails
    # the command.
    from artix.cli import demo

    def wrong(articulation, state):
        return 1.001 * artix.bias_force(articulation, state)

    quantities = [
        q if q.name != "bias force" else demo.Quantity(q.name, wrong, q.group)
        for q in demo.QUANTITIES
    ]
    monkeypatch.setattr(demo, "QUANTITIES", tuple(quantities))
    assert main(["demo", "--members", "6", "--output", str(picture)]) == 1
    assert "bias force is gravity and Coriolis" in capsys.readouterr().err


def test_demo_refuses_an_output_that_cannot_be_written_before_it_computes(tmp_path, capsys):
    assert main(["demo", "--output", str(tmp_path / "missing" / "demo.png")]) == 1
    assert "there is no folder" in capsys.readouterr().err


def test_a_nan_never_passes_as_an_identity():
    assert not Identity("", "", float("nan"), 1.0).holds
    assert not Identity("", "", float("nan"), 0.0, lower=True).holds
    assert Identity("", "", np.finfo(np.float32).eps, 1e-5).holds


# --- formats ------------------------------------------------------------------------------------

MUSCLE = """<mujoco><worldbody><body name="arm"><joint name="elbow"/><geom size="1"/></body>
<body name="ball"><freejoint/><geom size="1"/></body></worldbody>
<actuator><muscle name="biceps" joint="elbow" lengthrange="0 1"/></actuator></mujoco>"""


@pytest.fixture
def mjcf_file(tmp_path):
    pytest.importorskip("mujoco")
    path = tmp_path / "robot.xml"
    path.write_text(MUSCLE, encoding="utf-8")
    return str(path)


def test_info_and_check_of_an_mjcf(mjcf_file, capsys):
    assert main(["check", mjcf_file, "--strict"]) == 1
    assert 'error: <muscle name="biceps">' in capsys.readouterr().out
    assert main(["check", mjcf_file]) == 0
    assert 'warning: <muscle name="biceps">: left out' in capsys.readouterr().out
    assert main(["check", mjcf_file, "--strict", "--skip", "all"]) == 0
    assert main(["info", mjcf_file, "--skip", "actuator", "--body", "ball"]) == 0
    assert "floating base, 1 link" in capsys.readouterr().out
    assert main(["info", mjcf_file, "--skip", "actuator"]) == 1
    assert "choose one with body=" in capsys.readouterr().err
    assert main(["info", mjcf_file, "--skip", "biceps"]) == 1
    assert "nothing called 'biceps' can be skipped" in capsys.readouterr().err


def test_shapes_are_read_as_the_options_say(tmp_path, capsys):
    xml, npz = str(tmp_path / "pair.xml"), str(tmp_path / "pair.npz")
    vertices = " ".join(
        f"{0.1 * np.cos(k):.5f} {0.1 * np.sin(k):.5f} {0.01 * (k % 7)}" for k in range(40)
    )
    ball = '<geom type="sphere" size="0.1"/>'
    (tmp_path / "pair.xml").write_text(f"""<mujoco>
      <asset><mesh name="round" vertex="{vertices}"/></asset>
      <worldbody><body name="trunk"><freejoint/><geom type="mesh" mesh="round"/>
        <body name="left" pos="0 1 0"><joint axis="1 0 0"/>{ball}</body>
        <body name="right" pos="0 -1 0"><joint axis="1 0 0"/>{ball}</body>
      </body></worldbody></mujoco>""")
    assert main(["check", xml, "--self-contact"]) == 0
    assert "left out" in capsys.readouterr().out  # the mesh
    assert main(["check", xml, "--self-contact", "--meshes", "hull"]) == 0
    assert "left out" not in capsys.readouterr().out
    assert main(["convert", xml, npz, "--self-contact", "--meshes", "capsule"]) == 0
    assert main(["info", npz]) == 0
    assert "3 shapes, 1 contact pair" in capsys.readouterr().out
    assert main(["info", npz, "--meshes", "hull"]) == 1
    assert "--meshes does not apply" in capsys.readouterr().err


@pytest.mark.parametrize("name", robots.names())
def test_built_in_robots_are_checked_as_they_are_loaded(name, capsys):
    """The base of the arm is fixed, unless the user frees it."""
    assert main(["check", name]) == 0
    assert capsys.readouterr().out == f"{name}: no problems found\n"


def test_convert_between_formats(tmp_path, capsys):
    xml, npz, urdf = (str(tmp_path / f"arm.{suffix}") for suffix in ("xml", "npz", "urdf"))
    assert main(["convert", "arm7", npz]) == 0
    assert "9 links, 7 DOFs; not converted: 29 visuals" in capsys.readouterr().out
    assert main(["convert", npz, urdf]) == 0
    assert "whether the base is fixed" in capsys.readouterr().out
    assert main(["convert", urdf, xml, "--fixed-base"]) == 0
    assert "MJCF cannot express its speed limit" in capsys.readouterr().out
    original, again = robots.load("arm7"), artix.load(urdf, fixed_base=True)
    np.testing.assert_allclose(again.link_inertia, original.link_inertia, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["arm7", "robot.doc"], "no writer for the suffix '.doc'"),
        (["arm7", "missing/robot.npz"], "cannot be written"),
        (["arm7", "robot.npz", "--skip", "tendon"], "--skip does not apply to the format"),
        (["nobody", "robot.npz"], "there is no file 'nobody' and no built-in robot of that name"),
    ],
)
def test_convert_explains_what_it_cannot_do(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["convert", *arguments]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "ends"),
    [
        (["demo", "--output", "demo.tiff"], ".png or .svg or .pdf"),
        (["view", "arm7", "--png", "arm.pdf"], ".png"),
        (["view", "arm7", "--html", "arm.png"], ".html or .htm"),
        (["play", "quadruped", "--video", "walk.avi"], ".gif or .mp4"),
        (["play", "quadruped", "--html", "walk.gif"], ".html or .htm"),
        (["verify", "quadruped", "--output", "verify.pdf"], ".png"),
    ],
)
def test_files_of_another_suffix_are_refused_before_any_work(arguments, ends, capsys):
    """They ended in a traceback after it, or as a picture that its name says is a page."""
    assert main(arguments) == 1
    assert capsys.readouterr().err == (
        f"artix: {arguments[-1]!r} cannot be written: let its name end in {ends}\n"
    )


def test_convert_of_a_broken_robot_prints_its_errors(urdf, tmp_path, capsys):
    assert main(["convert", urdf(BROKEN), str(tmp_path / "robot.npz")]) == 1
    assert "not positive definite" in capsys.readouterr().err
    assert main(["convert", urdf(BROKEN), str(tmp_path / "robot.npz"), "--repair", "inertia"]) == 0


XACRO = """<robot name="printed" xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:arg name="mass" default="1"/>
<link name="a"><inertial><mass value="$(arg mass)"/>
<inertia ixx="${2*0.5}" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link></robot>"""


def test_xacro_is_expanded(tmp_path, capsys):
    path = tmp_path / "robot.xacro"
    path.write_text(XACRO, encoding="utf-8")
    pytest.importorskip("xacrodoc")
    assert artix.load(path, arguments={"mass": "3"}).link_mass[0] == 3.0
    assert main(["check", str(path)]) == 0
    path.write_text(XACRO.replace("2*0.5", "undefined"), encoding="utf-8")
    assert main(["check", str(path)]) == 1
    assert "xacro cannot expand it" in capsys.readouterr().out


def test_without_xacrodoc_the_extra_is_named(tmp_path, monkeypatch, capsys):
    path = tmp_path / "robot.xacro"
    path.write_text(XACRO, encoding="utf-8")
    monkeypatch.setitem(sys.modules, "xacrodoc", None)
    assert main(["info", str(path)]) == 1
    assert "pip install 'artix[xacro]'" in capsys.readouterr().err


ARM = """<robot name="arm">
<link name="base"/><link name="upper">{inner}</link><link name="lower">{inner}</link>
<joint name="a" type="continuous"><parent link="base"/><child link="upper"/></joint>
<joint name="b" type="continuous"><parent link="upper"/><child link="lower"/></joint>
<transmission name="t"/><gazebo/><gazebo reference="base"/>
</robot>"""
INNER = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial><visual/>'


def test_an_arm_whose_base_floats_gets_a_hint(urdf, capsys):
    arm = urdf(ARM.format(inner=INNER))
    hint = "its base, 'base', floats; read an arm on a table with fixed_base=True (--fixed-base)"
    for command in ("info", "check"):
        assert main([command, arm]) == 0
        assert hint in capsys.readouterr().out
    assert main(["info", arm, "--fixed-base"]) == 0
    assert "floats" not in capsys.readouterr().out
    assert main(["info", "quadruped"]) == 0
    assert "floats" not in capsys.readouterr().out


def test_info_says_that_a_robot_has_neither_drives_nor_armature(urdf, capsys):
    assert main(["info", urdf(ARM.format(inner=INNER))]) == 0
    assert "no drive gains, no armature" in capsys.readouterr().out


def test_the_base_counts_for_what_is_said_of_meshes(urdf, capsys):
    mesh = '<collision><geometry><mesh filename="mesh.obj"/></geometry></collision>'
    arm = urdf(ARM.format(inner=INNER + mesh))
    assert main(["info", arm]) == 0
    assert "warning: <robot" in capsys.readouterr().out
    assert main(["info", arm, "--fixed-base"]) == 0
    out = capsys.readouterr().out
    assert "note: <robot" in out
    assert "warning" not in out


def test_convert_says_what_it_leaves_behind(urdf, tmp_path, capsys):
    pytest.importorskip("mujoco")
    arm, xml = urdf(ARM.format(inner=INNER)), str(tmp_path / "arm.xml")
    assert main(["convert", arm, xml, "--fixed-base"]) == 0
    said = (
        "3 links, 2 DOFs; 2 features cannot be expressed in .xml; not converted: 2 visuals, 1 "
        "transmission, 2 gazebo"
    )
    assert said in capsys.readouterr().out
    path = tmp_path / "seen.xml"
    path.write_text("""<mujoco><worldbody><light/><body name="a"><freejoint/><geom size="0.1"/>
      <geom size="0.2" contype="0" conaffinity="0"/><camera/><site name="s"/></body></worldbody>
      <sensor><gyro site="s"/><accelerometer site="s"/></sensor></mujoco>""")
    assert main(["convert", str(path), str(tmp_path / "seen.npz")]) == 0
    assert "not converted: 1 visual, 2 sensors, 1 camera, 1 light" in capsys.readouterr().out
    assert main(["convert", str(tmp_path / "seen.npz"), str(tmp_path / "again.npz")]) == 0
    assert "nothing lost" in capsys.readouterr().out


def test_convert_counts_what_stands_and_moves_beside_the_robot(tmp_path, capsys):
    """One robot of a scene was converted with the words "nothing lost"."""
    pytest.importorskip("mujoco")
    path = tmp_path / "scene.xml"
    path.write_text("""<mujoco><worldbody><geom type="plane" size="1 1 1"/>
      <geom type="box" size="0.3 0.3 0.1" pos="1 0 0"/>
      <body name="a" pos="0 0 1"><freejoint/><geom size="0.1"/></body>
      <body name="b" pos="0 0 2"><freejoint/><geom size="0.1"/></body>
      <body name="c" pos="0 0 3"><freejoint/><geom size="0.1"/></body></worldbody></mujoco>""")
    assert main(["convert", str(path), str(tmp_path / "a.npz"), "--body", "a"]) == 0
    said = "1 link, 0 DOFs; not converted: 1 ground plane, 1 geom beside the robot, 2 other bodies"
    assert said in capsys.readouterr().out


def test_convert_of_a_stage_counts_what_stands_and_moves_beside_the_robot(tmp_path, capsys):
    pytest.importorskip("pxr")
    path = tmp_path / "arm.usda"
    artix.save(robots.load("arm7"), path)
    schemas = '(prepend apiSchemas = ["PhysicsCollisionAPI"%s])'
    path.write_text(
        f"""{path.read_text().rstrip()[:-1]}
        def Plane "floor" {schemas % ""} {{}}
        def Cube "table" {schemas % ""} {{}}
        def Cube "crate" {schemas % ', "PhysicsRigidBodyAPI"'} {{}}
        }}
        """
    )
    assert main(["convert", str(path), str(tmp_path / "arm.npz")]) == 0
    said = "not converted: 1 ground plane, 1 collider beside the robot, 1 other body"
    assert said in capsys.readouterr().out


def test_convert_of_a_stage_counts_what_only_looks(tmp_path, capsys):
    pytest.importorskip("pxr")
    stage, npz = str(tmp_path / "arm.usda"), str(tmp_path / "arm.npz")
    assert main(["convert", "arm7", stage]) == 0
    path = tmp_path / "arm.usda"
    text = path.read_text().rstrip()
    assert text.endswith("}")
    path.write_text(
        f'{text[:-1]}def Sphere "eye" {{}}\ndef Camera "camera" {{}}\ndef SphereLight "sun" {{}}\n}}\n'
    )
    capsys.readouterr()
    assert main(["convert", stage, npz]) == 0
    assert "not converted: 1 visual, 1 camera, 1 light" in capsys.readouterr().out


def test_what_info_says_of_a_usd_follows_its_options(tmp_path, capsys):
    pytest.importorskip("pxr")
    path = tmp_path / "arm.usda"
    artix.save(robots.load("arm7"), path)
    assert main(["info", str(path), "--no-fixed-base"]) == 0
    out = capsys.readouterr().out
    assert "floating base" in out
    assert "it is ignored because of fixed_base=False" in out
    assert main(["info", str(path)]) == 0
    assert "ignored" not in capsys.readouterr().out


def test_what_info_says_of_one_robot_of_an_mjcf_is_about_that_robot(tmp_path, capsys):
    pytest.importorskip("mujoco")
    path = tmp_path / "two.xml"
    path.write_text("""<mujoco><worldbody>
    <body name="cube"><freejoint/><geom size="0.1"/></body>
    <body name="arm"><freejoint/><geom size="0.1"/><body><joint name="elbow" range="-1 1"/><geom size="0.1"/></body></body>
    </worldbody></mujoco>""")
    assert main(["info", str(path), "--body", "arm"]) == 0
    assert "no actuator acts on its joint" in capsys.readouterr().out
    assert main(["info", str(path), "--body", "cube"]) == 0
    assert "actuator" not in capsys.readouterr().out


@pytest.mark.slow
def test_an_episode_is_saved_as_a_page_and_as_a_video(tmp_path, monkeypatch, capsys):
    from artix.cli import play

    monkeypatch.setattr(play, "FILM_SECONDS", 0.2)
    page = tmp_path / "arm.html"
    film = tmp_path / "arm.gif"
    assert (
        main(["play", "arm_reach", "--episodes", "1", "--html", str(page), "--video", str(film)])
        == 0
    )
    assert "drawing 0 s of video" in capsys.readouterr().out
    assert page.stat().st_size > 10_000
    assert film.read_bytes().startswith(b"GIF8")


#: Calls the command with what follows, as the terminal does, and says where JAX keeps programs.
COMMAND = """
import sys, jax
from artix.cli import main
code = main()
print(code, jax.config.jax_compilation_cache_dir)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["artix", "elsewhere", "nothing"])
def test_commands_keep_what_xla_compiles_unless_the_user_says_where(tmp_path, kept):
    settings = {
        "artix": {"ARTIX_CACHE": str(tmp_path)},
        "elsewhere": {"ARTIX_CACHE": str(tmp_path), "JAX_COMPILATION_CACHE_DIR": "/elsewhere"},
        "nothing": {"ARTIX_CACHE": "0"},
    }
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, "info", "arm7"],
        capture_output=True,
        text=True,
        env=os.environ | settings[kept],
    )
    folders = [str(path) for path in tmp_path.glob("xla-*")]
    wanted = {"artix": folders, "elsewhere": ["/elsewhere"], "nothing": ["None"]}
    assert done.stdout.splitlines()[-1].split() == ["0", *wanted[kept]]
    assert len(folders) == (kept == "artix")


def test_a_closed_output_takes_nothing(monkeypatch):
    """As a service without one has it, whose ``sys.stdout`` is ``None``."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["info", "double_pendulum"]) == 0
    assert main(["info", "nobody"]) == 1
