"""MuJoCo's USD schemas over random attributes against models that MuJoCo compiles from the same
numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import artix
from tests.support.usd_stages import body, joint, robot

mujoco = pytest.importorskip("mujoco")

#: Attributes of MuJoCo's schemas are doubles; limits are floats.
TOLERANCE = 1e-6
NAMES = ("turn", "slide", "servo", "wheel")


def actuator(name: str, target: str, content: str = "") -> str:
    return f"""
    def MjcActuator "{name}"
    {{
        rel mjc:target = <{target}>
        {content}
    }}"""


def scene(angle: str | None, content: str = "") -> str:
    unit = "" if angle is None else f'uniform token mjc:compiler:angle = "{angle}"'
    return f"""def PhysicsScene "scene" (prepend apiSchemas = ["MjcSceneAPI"])
{{
    {unit}
    {content}
}}
"""


def attributes(numbers: dict[str, float], spaces: str = "mjc") -> str:
    return "\n        ".join(
        f"uniform double {spaces}:{name} = {value!r}" for name, value in numbers.items()
    )


def random_joints(rng: np.random.Generator) -> dict[str, dict[str, float]]:
    """Passive properties by joint; each is authored or not."""
    bounds = {
        "armature": 2.0,
        "damping": 9.0,
        "frictionloss": 1.0,
        "stiffness": 30.0,
        "ref": 0.4,
        "springref": 0.5,
    }
    joints = {}
    for name in NAMES:
        chosen = [key for key in bounds if rng.random() < 0.6]
        joints[name] = {key: float(rng.uniform(0.01, bounds[key])) for key in chosen}
    for name in ("servo", "wheel"):
        joints[name].pop("stiffness", None)
    return joints


def stage(
    joints: dict[str, dict[str, float]],
    motor: dict[str, float],
    servo: dict[str, float],
    angle: str,
) -> str:
    parents = ["a", "a", "a", "a"]
    children = ["b", "c", "d", "e"]
    prims = [body("a"), *map(body, children), joint("fix", None, "a", kind="Fixed")]
    for name, parent, child in zip(NAMES, parents, children, strict=True):
        kind = "Prismatic" if name == "slide" else "Revolute"
        content = attributes(joints[name])
        if name != "wheel":
            low, high = (-40, 70) if kind == "Revolute" else (-0.3, 0.6)
            content += (
                f"\n        float physics:lowerLimit = {low}\n        float physics:upperLimit = "
                f"{high}"
            )
        prims.append(joint(name, parent, child, content, kind=kind, schemas='"MjcJointAPI"'))
    prims.append(
        actuator(
            "push",
            "/World/robot/slide",
            f"""uniform double[] mjc:gear = [{motor["gear"]!r}, 0, 0, 0, 0, 0]
        uniform double mjc:ctrlRange:min = {-motor["ctrl"]!r}
        uniform double mjc:ctrlRange:max = {motor["ctrl"]!r}""",
        )
    )
    prims.append(
        actuator(
            "hold",
            "/World/robot/servo",
            f"""uniform double[] mjc:gear = [{servo["gear"]!r}, 0, 0, 0, 0, 0]
        uniform double[] mjc:gainPrm = [{servo["kp"]!r}]
        uniform token mjc:biasType = "affine"
        uniform double[] mjc:biasPrm = [{servo["bias"]!r}, {-servo["kp"]!r}, {-servo["kv"]!r}]
        uniform double mjc:forceRange:min = {-servo["force"]!r}
        uniform double mjc:forceRange:max = {servo["force"]!r}""",
        )
    )
    prims.append(
        actuator(
            "spin",
            "/World/robot/wheel",
            f"""uniform double[] mjc:gainPrm = [{servo["kv"]!r}]
        uniform token mjc:biasType = "affine"
        uniform double[] mjc:biasPrm = [0, 0, {-servo["kv"]!r}]""",
        )
    )
    return robot(*prims, before=scene(angle))


def compiled(
    joints: dict[str, dict[str, float]],
    motor: dict[str, float],
    servo: dict[str, float],
    angle: str,
):
    """The same model, compiled by MuJoCo."""
    bodies = ""
    for name in NAMES:
        low, high = (-40.0, 70.0) if name != "slide" else (-0.3, 0.6)
        if angle == "radian" and name != "slide":
            low, high = np.radians([low, high])
        limits = "" if name == "wheel" else f'range="{low} {high}"'
        words = " ".join(f'{key}="{value}"' for key, value in joints[name].items())
        kind = "slide" if name == "slide" else "hinge"
        bodies += f'<body><joint name="{name}" type="{kind}" axis="1 0 0" {limits} {words}/><geom size="0.1"/></body>'
    return mujoco.MjModel.from_xml_string(f"""<mujoco><compiler angle="{angle}"/>
        <worldbody><body><geom size="0.1"/>{bodies}</body></worldbody><actuator>
        <motor joint="slide" gear="{motor["gear"]}" ctrlrange="{-motor["ctrl"]} {motor["ctrl"]}"/>
        <general joint="servo" gear="{servo["gear"]}" gainprm="{servo["kp"]}" biastype="affine"
            biasprm="{servo["bias"]} {-servo["kp"]} {-servo["kv"]}" forcerange="{-servo["force"]} {servo["force"]}"/>
        <velocity joint="wheel" kv="{servo["kv"]}"/></actuator></mujoco>""")


@pytest.mark.filterwarnings("ignore::artix.DescriptionWarning")
@pytest.mark.parametrize("angle", ["degree", "radian"])
def test_joints_and_actuators_are_those_of_mujoco(angle):
    rng = np.random.default_rng(0)
    for _ in range(25):
        joints = random_joints(rng)
        motor = {"gear": rng.choice([-1, 1]) * rng.uniform(0.5, 50), "ctrl": rng.uniform(0.5, 2)}
        servo = {key: rng.uniform(0.5, 20) for key in ("gear", "kp", "kv", "force")} | {
            "bias": rng.normal()
        }
        motor, servo = ({key: float(value) for key, value in one.items()} for one in (motor, servo))
        model = compiled(joints, motor, servo, angle)
        robot_ = artix.load_usd(stage(joints, motor, servo, angle))
        order = np.array([robot_.topology.dof_index(name) for name in NAMES])
        wanted = {
            "armature": (robot_.armature, model.dof_armature),
            "damping": (robot_.friction.viscous, model.dof_damping),
            "frictionloss": (robot_.friction.static, model.dof_frictionloss),
            "dynamic": (robot_.friction.dynamic, model.dof_frictionloss),
        }
        limits = np.where(
            model.jnt_limited[:, None], model.jnt_range - model.qpos0[:, None], [[-np.inf, np.inf]]
        )
        wanted["low"] = robot_.joint_lower_limit, limits[:, 0]
        wanted["high"] = robot_.joint_upper_limit, limits[:, 1]
        # Springs of the first two joints, servos of the others, in the coordinate that is zero
        # where frames coincide.
        gear, bias = model.actuator_gear[1, 0], model.actuator_biasprm[1]
        stiffness = [*model.jnt_stiffness[:2], -(gear**2) * bias[1], 0.0]
        targets = [
            *(model.qpos_spring - model.qpos0)[:2],
            bias[0] / (-gear * bias[1]) - model.qpos0[2],
            0.0,
        ]
        wanted["stiffness"] = robot_.drive.stiffness, stiffness
        wanted["target"] = (
            robot_.drive.target_position,
            np.where(np.array(stiffness) > 0, targets, 0.0),
        )
        wanted["drive damping"] = (
            robot_.drive.damping,
            [0.0, 0.0, -(gear**2) * bias[2], servo["kv"]],
        )
        wanted["drive limit"] = (
            robot_.drive.max_force,
            [np.inf, np.inf, gear * model.actuator_forcerange[1, 1], np.inf],
        )
        motor_limit = abs(model.actuator_gear[0, 0]) * model.actuator_ctrlrange[0, 1]
        wanted["limit"] = robot_.max_joint_force, [np.inf, motor_limit, np.inf, np.inf]
        for key, (mine, theirs) in wanted.items():
            assert np.allclose(np.array(mine)[order], theirs, rtol=TOLERANCE, atol=TOLERANCE), key


def test_lengths_and_masses_of_the_stage():
    content = attributes({"armature": 3.0, "damping": 5.0, "frictionloss": 7.0, "stiffness": 11.0})
    header = '#usda 1.0\n(\n    metersPerUnit = 0.01\n    kilogramsPerUnit = 0.001\n    upAxis = "Z"\n)\n'
    prims = [body("a"), body("b"), body("c"), joint("fix", None, "a", kind="Fixed")]
    for name, kind in (("b", "Revolute"), ("c", "Prismatic")):
        prims.append(joint(f"j{name}", "a", name, content, kind=kind, schemas='"MjcJointAPI"'))
    small = artix.load_usd(robot(*prims, header=header))
    order = np.array([small.topology.dof_index(name) for name in ("jb", "jc")])
    # Per radian: kg m^2, N m s, N m, N m. Along the axis: kg, N s/m, N, N/m.
    angular, linear = 1e-3 * 1e-4, np.array([1e-3, 1e-3, 1e-3 * 1e-2, 1e-3])
    values = [small.armature, small.friction.viscous, small.friction.static, small.drive.stiffness]
    wanted = np.array([[3.0, 5.0, 7.0, 11.0]]).T * np.stack([np.full(4, angular), linear], axis=1)
    assert np.allclose([np.array(value)[order] for value in values], wanted, rtol=1e-6)


def test_an_attribute_of_mujoco_comes_before_newtons():
    """As MuJoCo's own reader has it; Newton's gains are per degree."""
    both = (
        attributes({"damping": 0.7})
        + "\n"
        + attributes({"damping": 0.25, "armature": 2.0}, "newton")
    )
    prims = [body("a"), body("b"), joint("fix", None, "a", kind="Fixed")]
    schemas = '"MjcJointAPI", "NewtonJointAPI"'
    arm = artix.load_usd(robot(*prims, joint("j", "a", "b", both, schemas=schemas)))
    assert float(arm.friction.viscous[0]) == pytest.approx(0.7)
    assert float(arm.armature[0]) == 2.0
    newton = both.split("\n", 1)[1]
    arm = artix.load_usd(robot(*prims, joint("j", "a", "b", newton, schemas=schemas)))
    assert float(arm.friction.viscous[0]) == pytest.approx(0.25 * 180 / np.pi)


def test_a_relation_of_joints_has_mujocos_units():
    prims = [
        body("a"),
        body("b"),
        body("c"),
        joint("fix", None, "a", kind="Fixed"),
        joint("lead", "a", "b"),
    ]
    content = attributes({"coef0": 0.5, "coef1": 1.5}) + "\nrel mjc:target = </World/robot/lead>"
    text = robot(
        *prims, joint("follow", "a", "c", content, schemas='"MjcJointAPI", "MjcEqualityJointAPI"')
    )
    arm = artix.load_usd(text)
    # Followers: q + gear_ratio q_reference + offset = 0.
    assert float(arm.mimic.gear_ratio[0]) == -1.5
    assert float(arm.mimic.offset[0]) == -0.5


def test_a_gear_of_zero_does_nothing():
    motor = actuator("idle", "/World/robot/j", "uniform double[] mjc:gear = [0, 0, 0, 0, 0, 0]")
    arm = artix.load_usd(
        robot(
            body("a"), body("b"), joint("fix", None, "a", kind="Fixed"), joint("j", "a", "b"), motor
        )
    )
    assert np.isinf(arm.max_joint_force[0])


LEFT_OUT = {
    "site": (
        [body("b", inner='def Sphere "tip" (prepend apiSchemas = ["MjcSiteAPI"]) {\n}')],
        actuator("push", "/World/robot/b/tip"),
        "an MjcActuator on a site is not read",
    ),
    "body": (
        [body("b")],
        actuator("push", "/World/robot/b"),
        "an MjcActuator on a body is not read",
    ),
    "tendon": (
        [body("b"), '\ndef MjcTendon "cord"\n{\n rel mjc:path = </World/robot/j>\n}'],
        actuator("push", "/World/robot/cord"),
        "an MjcActuator on a tendon is not read",
    ),
    "muscle": (
        [body("b")],
        actuator("push", "/World/robot/j", 'uniform token mjc:dynType = "muscle"'),
        "an actuator with the dynType 'muscle' is not read",
    ),
    "asymmetric": (
        [body("b")],
        actuator(
            "push",
            "/World/robot/j",
            "uniform double mjc:ctrlRange:min = -1\nuniform double mjc:ctrlRange:max = 2",
        ),
        "its range is not symmetric",
    ),
    "elsewhere": ([body("b"), body("x")], actuator("push", "/World/robot/x"), None),
}


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_is_left_out_is_said(name):
    prims, act, message = LEFT_OUT[name]
    text = robot(
        body("a"), *prims, joint("fix", None, "a", kind="Fixed"), joint("j", "a", "b"), act
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        artix.load_usd(text, root="/World/robot/fix")
    said = [str(warning.message) for warning in caught]
    assert any(message in words for words in said) if message else not said
    issues = [str(issue) for issue in artix.check_usd(text, root="/World/robot/fix")]
    assert sorted(said) == sorted(issues)


def test_springs_beside_drives_and_options_of_the_scene_are_said():
    content = attributes({"stiffness": 3.0, "springdamper": 1.0}).replace(
        "uniform double mjc:springdamper = 1.0",
        "uniform double[] mjc:springdamper = [0.1, 1]\nfloat drive:angular:physics:stiffness = 2")  # fmt: skip
    schemas = '"MjcJointAPI", "PhysicsDriveAPI:angular"'
    flags = (
        "bool mjc:flag:gravity = false\nbool mjc:flag:damper = false\ndouble mjc:option:density = "
        "1.2"
    )
    prims = [
        body("a"),
        body("b"),
        joint("fix", None, "a", kind="Fixed"),
        joint("j", "a", "b", content, schemas=schemas),
    ]
    with pytest.warns(artix.DescriptionWarning) as caught:
        arm = artix.load_usd(robot(*prims, before=scene(None, flags)))
    said = " ".join(str(warning.message) for warning in caught)
    for words in (
        "because its PhysicsDriveAPI is read", 
        "time constant and damping ratio is not read",
                  "mjc:flag:damper>: left out: what the flag switches off", 
                      "the drag of a medium is not read"):  # fmt: skip
        assert words in said
    assert float(arm.drive.stiffness[0]) == pytest.approx(2 * 180 / np.pi)
    assert not np.any(arm.gravity)


def test_torsional_friction_is_said_to_be_left_out():
    shape = """def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI", "MjcCollisionAPI"])
        {
            rel material:binding:physics = </rubber>
            uniform int mjc:condim = DIMENSION
        }"""
    material = """def Material "rubber" (prepend apiSchemas = ["PhysicsMaterialAPI"])
{
    float physics:dynamicFriction = 0.8
}
"""

    def friction(dimension: int) -> float:
        ball = body("a", inner=shape.replace("DIMENSION", str(dimension)))
        return float(artix.load_usd(robot(ball, before=material)).geometry.friction[0])

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert friction(1) == pytest.approx(0.8)
        assert friction(3) == pytest.approx(0.8)
    with pytest.warns(artix.DescriptionWarning, match="no torsional and rolling friction"):
        assert friction(4) == pytest.approx(0.8)


def test_contact_parameters_and_solver_settings_are_one_warning_a_kind():
    shape = """def Sphere "ball" (prepend apiSchemas = ["PhysicsCollisionAPI", "MjcCollisionAPI"])
        {
            uniform int mjc:priority = 1
            uniform bool mjc:shellinertia = true
        }"""
    arm = ["a", "b", "c"]
    prims = [body(name, inner=shape).replace("float physics:mass = 2", "") for name in arm]
    solver = "uniform double[] mjc:solreflimit = [0.1, 1]"
    prims += [joint(f"j{name}", "a", name, solver, schemas='"MjcJointAPI"') for name in "bc"]
    with pytest.warns(artix.DescriptionWarning) as caught:
        artix.load_usd(robot(*prims))
    said = [str(warning.message) for warning in caught]
    assert sum("mjc:priority" in words for words in said) == 1
    assert not any("mjc:solreflimit" in words for words in said)
    notes = [issue for issue in artix.check_usd(robot(*prims)) if issue.severity == "note"]
    assert sum("mjc:solreflimit" in issue.message for issue in notes) == 1
    assert sum("not of a shell" in words for words in said) == 1
