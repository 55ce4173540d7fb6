"""Random URDFs against Pinocchio, whose parser is urdfdom: authored attributes, and pieces that are
missing or double."""

from __future__ import annotations

import functools
import re
import warnings
from typing import NamedTuple

import jax
import numpy as np
import pytest

import artix
from artix.io.common.diagnostics import DescriptionError, DescriptionWarning
from artix.math.arrays import host_arrays
from tests.support.rigid_bodies import matrix_from_pose, placements

pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")

#: By name, whether the base floats, and the joints: name, kind, parent, child, axis (a coordinate,
#: "any" or "none"). Names are alphabetical and depth first, which is Pinocchio's order of joints.
TREES: dict[str, tuple[bool, tuple[tuple[str, str, str, str, str], ...]]] = {
    "arm": (
        False,
        (
            ("a", "revolute", "world", "upper", "0 1 0"),
            ("b", "prismatic", "upper", "slide", "any"),
            ("c", "continuous", "slide", "wrist", "0 0 1"),
            ("d", "fixed", "wrist", "tool", "none"),
            ("e", "revolute", "tool", "tip", "any"),
        ),
    ),
    "walker": (
        True,
        (
            ("a", "continuous", "trunk", "left", "any"),
            ("b", "revolute", "left", "shin", "none"),
            ("c", "fixed", "trunk", "head", "none"),
            ("d", "prismatic", "trunk", "mast", "0 0 1"),
            ("e", "revolute", "trunk", "right", "1 0 0"),
            ("f", "fixed", "right", "foot", "none"),
        ),
    ),
    "tree": (
        False,
        (
            ("a", "prismatic", "world", "rail", "none"),
            ("b", "fixed", "rail", "deck", "none"),
            ("c", "continuous", "deck", "wheel", "any"),
            ("d", "revolute", "deck", "boom", "any"),
            ("e", "prismatic", "boom", "hook", "0 1 0"),
        ),
    ),
}

#: The joint that others follow; in Pinocchio it may not be continuous.
MIMICKED = {"arm": "a", "walker": "b", "tree": "a"}

COUNT = 110  # Of each tree, 330 in all.


class Author:
    """Writes numbers and elements at random, in the ways in which files have them."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def maybe(self, text: str, chance: float = 0.8) -> str:
        return text if self.rng.random() < chance else ""

    def number(self, value: float) -> str:
        style = self.rng.choice(["{!r}", "{:.6g}", "{:+.4e}", "{:.3f}", "{:.9f}"])
        return str(style).format(float(value))

    def numbers(self, values: np.ndarray) -> str:
        return str(self.rng.choice([" ", "  "])).join(
            self.number(value).strip() for value in values
        )

    def attribute(self, name: str, *values: float) -> str:
        return f'{name}="{self.numbers(np.array(values))}"'

    def origin(self) -> str:
        xyz = self.maybe(self.attribute("xyz", *self.rng.uniform(-1, 1, 3)))
        return self.maybe(
            f"<origin {xyz} {self.maybe(self.attribute('rpy', *self.rng.uniform(-4, 4, 3)))}/>"
        )

    def inertial(self) -> str:
        """Mostly sound; without ``<inertia>``, ``<mass>`` or one of their attributes, or twice."""
        mass, turn = self.rng.uniform(0.1, 5), np.linalg.qr(self.rng.normal(size=(3, 3)))[0]
        a, b = self.rng.uniform(0.1, 1, 2)
        inertia = (turn * (a, b, a + b * self.rng.uniform(0.05, 0.9))) @ turn.T
        inertia += self.rng.uniform(0.0, 0.1) * np.eye(3)
        keys = zip(
            ("ixx", "ixy", "ixz", "iyy", "iyz", "izz"), inertia[np.triu_indices(3)], strict=True
        )
        moments = " ".join(f'{key}="{float(value)!r}"' for key, value in keys)
        parts = [self.origin(), f'<mass value="{self.number(mass)}"/>', f"<inertia {moments}/>"]
        broken = self.rng.choice(
            ["", "mass", "value", "inertia", "ixx", "izz", "second mass", "second inertial"],
            p=[0.86] + 7 * [0.02],
        )
        if broken in ("mass", "inertia"):
            parts = [part for part in parts if not part.startswith(f"<{broken}")]
        elif broken in ("value", "ixx", "izz"):
            parts = [re.sub(f'(?<=[ ]){broken}="[^"]*"', "", part) for part in parts]
        elif broken == "second mass":
            parts.append('<mass value="7"/>')
        self.rng.shuffle(parts[:2])
        inertial = f"<inertial>{''.join(parts)}</inertial>"
        return inertial + (
            '<inertial><mass value="9"/></inertial>' if broken == "second inertial" else ""
        )

    def axis(self, kind: str) -> str:
        if kind == "none":
            return ""
        axis = (
            self.rng.normal(size=3)
            if kind == "any"
            else np.array(kind.split(), float) * self.rng.uniform(0.5, 3)
        )
        return f'<axis xyz="{self.numbers(axis)}"/>'

    def limit(self, kind: str) -> str:
        lower, upper = sorted(self.rng.uniform(-3, 3, 2))
        if self.rng.random() < 0.05:
            lower, upper = upper, lower
        effort, velocity = self.rng.uniform(1, 99, 2) * (self.rng.random(2) < 0.9)
        bounds = f'effort="{self.number(effort)}" velocity="{self.number(velocity)}"'
        ends = (
            self.maybe(f'lower="{self.number(lower)}"', 0.95)
            + " "
            + self.maybe(f'upper="{self.number(upper)}"', 0.95)
        )
        text = f"<limit {ends} {bounds}/>"
        return self.maybe(text) if kind == "continuous" else text

    def dynamics(self) -> str:
        damping, friction = (self.number(value) for value in self.rng.uniform(0, 2, 2))
        text = self.rng.choice(
            [
                f'damping="{damping}"',
                f'friction="{friction}"',
                f'damping="{damping}" friction="{friction}"',
            ]
        )
        return self.maybe(f"<dynamics {text}/>", 0.6) + self.maybe('<dynamics damping="9"/>', 0.05)

    def mimic(self, tree: str, name: str) -> str:
        if name not in "de":
            return ""
        multiplier = self.maybe(self.attribute("multiplier", self.rng.uniform(-3, 3)))
        offset = self.maybe(self.attribute("offset", self.rng.uniform(-1, 1)))
        return f'<mimic joint="{MIMICKED[tree]}" {multiplier} {offset}/>'

    def robot(self, tree: str) -> str:
        is_floating, joints = TREES[tree]
        links = [joints[0][2], *(child for _, _, _, child, _ in joints)]
        text = [
            f'<link name="{name}">{self.inertial() if is_floating or name != "world" else ""}</link>'
            for name in links
        ]
        for name, kind, parent, child, axis in joints:
            ends = [f'<parent link="{parent}"/>', f'<child link="{child}"/>', self.origin()]
            self.rng.shuffle(ends)
            more = (
                ""
                if kind == "fixed"
                else self.axis(axis) + self.limit(kind) + self.dynamics() + self.mimic(tree, name)
            )
            text.append(f'<joint name="{name}" type="{kind}">{"".join(ends)}{more}</joint>')
        return f'<robot name="{tree}">{"".join(text)}</robot>'


class Case(NamedTuple):
    """One URDF as read by both."""

    text: str
    robot: artix.Articulation
    model: pin.Model


def read(tree: str, number: int) -> Case:
    text = Author(1000 * list(TREES).index(tree) + number).robot(tree)
    with warnings.catch_warnings(), jax.enable_x64(True):
        warnings.simplefilter("ignore", DescriptionWarning)
        robot = artix.load_urdf(text, merge_fixed_joints=True, dtype="float64")
    roots = [pin.JointModelFreeFlyer()] if TREES[tree][0] else []
    return Case(text, robot, pin.buildModelFromXML(text, *roots))


@functools.cache
def cases(tree: str) -> list[Case]:
    return [read(tree, number) for number in range(COUNT)]


pytestmark = pytest.mark.filterwarnings("ignore")


def joints_of(case: Case) -> list[tuple[str, int, int]]:
    """The moving joints: name, artix's number of its DOF, Pinocchio's number."""
    moving = [name for name in case.model.names[1:] if name != "root_joint"]
    return [
        (name, case.robot.topology.dofs(name).start, case.model.getJointId(name)) for name in moving
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "tree", [pytest.param(x, marks=() if x == "walker" else pytest.mark.slow) for x in TREES]
)
def test_names_limits_and_friction(tree):
    """What Pinocchio keeps as an empty interval or as zero is unlimited here, and said."""
    for case in cases(tree):
        topology, robot, model = case.robot.topology, host_arrays(case.robot), case.model
        bodies = {frame.name for frame in model.frames if frame.type == pin.FrameType.BODY} - {
            "universe"
        }
        assert {*topology.link_names, *topology.frame_names} == bodies
        assert sorted(topology.dof_names) == sorted(name for name, _, _ in joints_of(case))
        said = " ".join(issue.message for issue in artix.check_urdf(case.text))
        for _, dof, joint in joints_of(case):
            at, q = model.joints[joint].idx_v, model.joints[joint].idx_q
            effort, velocity = model.effortLimit[at], model.velocityLimit[at]
            assert robot.max_joint_velocity[dof] == (velocity or np.inf)
            assert robot.max_joint_force[dof] == (effort if effort or velocity else np.inf)
            assert velocity or "velocity is 0" in said
            assert effort or velocity or "effort is 0" in said
            assert robot.friction.viscous[dof] == model.damping[at]
            assert (
                robot.friction.dynamic[dof]
                == robot.friction.static[dof]
                == model.upperDryFrictionLimit[at]
            )
            low, high = robot.joint_lower_limit[dof], robot.joint_upper_limit[dof]
            if model.joints[joint].nq == 2:  # Continuous.
                assert (low, high) == (-np.inf, np.inf)
            elif model.lowerPositionLimit[q] > model.upperPositionLimit[q]:
                assert (low, high) == (-np.inf, np.inf) and "exceeds" in said
            elif model.lowerPositionLimit[q] == model.upperPositionLimit[q] == 0.0:
                assert (low, high) == (-np.inf, np.inf) and "neither lower nor upper" in said
            else:
                assert (low, high) == (model.lowerPositionLimit[q], model.upperPositionLimit[q])


@pytest.mark.slow
@pytest.mark.parametrize("tree", TREES)
def test_mimic_relations(tree):
    seen = 0
    for case in cases(tree):
        roots = [pin.JointModelFreeFlyer()] if TREES[tree][0] else []
        model = pin.buildModelFromXML(case.text, *roots, mimic=True)
        wanted = {}
        for name, _, _ in joints_of(case):
            joint = model.joints[model.getJointId(name)]
            if joint.shortname() == "JointModelMimic":
                wanted[name] = (joint.extract().scaling, joint.extract().offset)
        names, mimic = case.robot.topology.dof_names, host_arrays(case.robot.mimic)
        found = {
            names[follower]: (-float(mimic.gear_ratio[k]), -float(mimic.offset[k]))
            for k, (follower, reference) in enumerate(case.robot.topology.mimic_dofs)
            if names[reference] == MIMICKED[tree]
        }
        assert found == wanted
        seen += len(wanted)
    assert seen >= COUNT


@pytest.mark.parametrize("tree", TREES)
def test_masses_inertias_and_placements(tree):
    """Placements differ by up to 3e-15."""
    for case in cases(tree):
        robot, model, data = host_arrays(case.robot), case.model, case.model.createData()
        carriers = dict(zip(robot.topology.joint_names, robot.topology.link_names[1:], strict=True))
        if TREES[tree][0]:
            carriers["root_joint"] = robot.topology.link_names[0]
        for joint in range(1, model.njoints):
            link = robot.topology.link_names.index(carriers[model.names[joint]])
            frame, body = matrix_from_pose(robot.link_com_pose[link]), model.inertias[joint]
            assert float(robot.link_mass[link]) == pytest.approx(body.mass, rel=1e-12, abs=1e-300)
            inertia = frame[:3, :3] @ robot.link_inertia[link] @ frame[:3, :3].T
            np.testing.assert_allclose(
                inertia, body.inertia, atol=1e-12 * (1e-3 + np.abs(body.inertia).max())
            )
            if body.mass:
                np.testing.assert_allclose(frame[:3, 3], body.lever, atol=1e-12)
        position = np.random.default_rng(0).uniform(-1, 1, model.nv)
        position[: 6 * TREES[tree][0]] = 0.0
        pin.framesForwardKinematics(model, data, pin.integrate(model, pin.neutral(model), position))
        by_name = {
            name: float(position[model.joints[joint].idx_v]) for name, _, joint in joints_of(case)
        }
        for name, placement in placements(robot, by_name).items():
            wanted = data.oMf[model.getFrameId(name, pin.FrameType.BODY)].homogeneous
            np.testing.assert_allclose(placement, wanted, atol=1e-12)


@pytest.mark.parametrize("tree", TREES)
def test_mass_matrix_and_gravity(tree):
    """All robots of a tree by one program. Of a floating robot, the joints' part, which no choice
    of base axes changes."""
    rng = np.random.default_rng(1)
    with jax.enable_x64(True):
        robots = artix.Fleet([host_arrays(case.robot) for case in cases(tree)]).articulation
        states = jax.tree.map(np.asarray, artix.neutral_state(cases(tree)[0].robot))
        position = rng.uniform(-1, 1, (COUNT, len(states.joint_position)))
        states = jax.tree.map(lambda leaf: np.broadcast_to(leaf, (COUNT, *leaf.shape)), states)
        states = states.replace(joint_position=position)
        mass, gravity = jax.jit(
            jax.vmap(
                lambda robot, state: (
                    artix.mass_matrix(robot, state),
                    artix.gravity_compensation(robot, state),
                )
            )
        )(robots, states)
        mass, gravity = np.asarray(mass), np.asarray(gravity)
    base = 6 * TREES[tree][0]
    for number, case in enumerate(cases(tree)):
        model, data = case.model, case.model.createData()
        dofs = np.array([dof for _, dof, _ in joints_of(case)])
        at = np.array([model.joints[joint].idx_v for _, _, joint in joints_of(case)])
        tangent = np.zeros(model.nv)
        tangent[at] = position[number, dofs]
        q = pin.integrate(model, pin.neutral(model), tangent)
        wanted = pin.crba(model, data, q)
        wanted = np.triu(wanted) + np.triu(wanted, 1).T
        rows = base + dofs
        np.testing.assert_allclose(
            mass[number][np.ix_(rows, rows)], wanted[np.ix_(at, at)], atol=1e-11
        )
        forces = pin.computeGeneralizedGravity(model, data, q)
        np.testing.assert_allclose(gravity[number][rows], forces[at], atol=1e-10)


@pytest.mark.parametrize("tree", TREES)
def test_strict_reading_refuses_whatever_is_changed(tree):
    """And nothing else: what loads without such a warning loads strictly."""
    refused = 0
    for case in cases(tree)[::5]:
        said = [issue for issue in artix.check_urdf(case.text) if issue.severity == "warning"]
        changes = [issue for issue in said if "moves" not in issue.message]
        changes = [
            issue
            for issue in changes
            if "continuous" not in issue.message and "locks" not in issue.message
        ]
        if changes:
            refused += 1
            with pytest.raises(DescriptionError):
                artix.load_urdf(case.text, merge_fixed_joints=True, strict=True)
        else:
            artix.load_urdf(case.text, merge_fixed_joints=True, strict=True)
    assert 0 < refused < len(cases(tree)[::5])
