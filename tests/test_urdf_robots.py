"""Every URDF of the package example-robot-data against Pinocchio, which reads URDF with a parser of its own."""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import numpy as np
import pytest

from artix.io.common.diagnostics import DescriptionError, DescriptionWarning
from artix.io.urdf.reader import check_urdf, load_urdf
from tests.rigid_bodies import placements, total_inertia

pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")
cmeel_prefix = Path(pin.__file__).parents[4]
ROOT = cmeel_prefix / "share" / "example-robot-data" / "robots"
FILES = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.urdf"))}
if not FILES:
    pytest.skip("example-robot-data (pip install example-robot-data) is not installed", allow_module_level=True)

#: Holds no link, and Pinocchio refuses it too.
EMPTY = "ur_description/urdf/ur3.urdf"

#: Descriptions with links that no body can be, and what is wrong with them. They load with ``repair=("inertia",)``.
IMPOSSIBLE = {
    "alex_description/urdf/alex_psyonic_hands.urdf": "triangle inequality",
    "allegro_hand_description/urdf/allegro_left_hand.urdf": "triangle inequality",
    "allegro_hand_description/urdf/allegro_right_hand.urdf": "triangle inequality",
    # All nine entries of the matrix are equal, hence two principal moments are zero.
    "anymal_b_simple_description/robots/anymal-kinova.urdf": "not positive definite",
    "anymal_b_simple_description/robots/anymal.urdf": "not positive definite",
    "anymal_c_simple_description/urdf/anymal.urdf": "triangle inequality",
    "b1_description/urdf/b1-z1.urdf": "not positive definite",
    "b1_description/urdf/b1.urdf": "not positive definite",
    "bolt_description/robots/bolt.urdf": "without mass cannot have inertia",
    # A rod without thickness.
    "finger_edu_description/robots/finger_edu.urdf": "not positive definite",
    "go1_description/urdf/go1.urdf": "not positive definite",
    "hyq_description/robots/hyq_no_sensors.urdf": "not positive definite",
    # Rounding errors of the order of 1e-20 in place of zero.
    "icub_description/robots/icub.urdf": "not positive definite",
    "icub_description/robots/icub_reduced.urdf": "not positive definite",
    "pr2_description/urdf/pr2.urdf": "triangle inequality",
    "romeo_description/urdf/romeo_laas_small.urdf": "triangle inequality",
    "romeo_description/urdf/romeo_small.urdf": "triangle inequality",
    "tiago_description/robots/tiago.urdf": "not positive definite",
    "tiago_description/robots/tiago_dual.urdf": "not positive definite",
    "tiago_description/robots/tiago_no_hand.urdf": "not positive definite",
}

#: Fingers that follow joints which exist only under a longer name.
BROKEN_MIMICS = ("alex_description/urdf/alex_psyonic_hands.urdf",)

LOADABLE = [name for name in FILES if name != EMPTY]


def repairs(name: str) -> tuple[str, ...]:
    """The repairs that a description needs."""
    return ("inertia",) * (name in IMPOSSIBLE) + ("mimic",) * (name in BROKEN_MIMICS)


@functools.cache
def load(name: str, merge: bool):
    """The articulation in double precision; exactly the descriptions listed above report repairs."""
    with jax.enable_x64(True):
        if not repairs(name):
            return load_urdf(FILES[name], merge_fixed_joints=merge, fixed_base=False)
        with pytest.warns(DescriptionWarning):
            return load_urdf(FILES[name], merge_fixed_joints=merge, fixed_base=False, repair=repairs(name))


@functools.cache
def reference(name: str):
    """Pinocchio's model; with a free root it counts the mass of the root link."""
    return pin.buildModelFromUrdf(str(FILES[name]), pin.JointModelFreeFlyer())


def test_all_descriptions_are_there():
    assert len(LOADABLE) == 68
    assert set(IMPOSSIBLE) | set(BROKEN_MIMICS) <= set(LOADABLE)


def test_the_empty_description_is_refused():
    with pytest.raises(DescriptionError, match="there is no <link> in it"):
        load_urdf(FILES[EMPTY])


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_impossible_descriptions_are_refused_without_repair(name):
    with pytest.raises(DescriptionError) as caught:
        load_urdf(FILES[name])
    assert IMPOSSIBLE[name] in str(caught.value)
    errors = [issue for issue in check_urdf(FILES[name]) if issue.severity == "error"]
    expected = ("<inertial>", "<mimic>") if name in BROKEN_MIMICS else ("<inertial>",)
    assert all(issue.element.startswith(expected) for issue in errors)


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("name", LOADABLE)
def test_mass_and_degrees_of_freedom(name, merge):
    articulation, model = load(name, merge), reference(name)
    assert articulation.topology.num_dofs == model.nv - 6
    np.testing.assert_allclose(
        np.asarray(articulation.link_mass).sum(), sum(inertia.mass for inertia in model.inertias), rtol=1e-12
    )


def joint_positions(model, name: str) -> tuple[np.ndarray, dict[str, float]]:
    """A configuration for Pinocchio and the same by joint name; the root stays at the origin."""
    step = np.random.default_rng(len(name)).uniform(-1.5, 1.5, model.nv)
    step[:6] = 0.0
    return pin.integrate(model, pin.neutral(model), step), {
        model.names[joint]: float(step[model.joints[joint].idx_v]) for joint in range(2, model.njoints)
    }


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("name", LOADABLE)
def test_placements_of_all_links(name, merge):
    articulation, model = load(name, merge), reference(name)
    data = model.createData()
    for zero in (True, False):
        configuration, position = joint_positions(model, name)
        if zero:
            configuration, position = pin.neutral(model), {}
        pin.framesForwardKinematics(model, data, configuration)
        expected = {
            frame.name: data.oMf[index].homogeneous
            for index, frame in enumerate(model.frames)
            if frame.type == pin.FrameType.BODY and frame.name != "universe"
        }
        found = placements(articulation, position)
        assert found.keys() == expected.keys()
        for link, placement in expected.items():
            np.testing.assert_allclose(found[link], placement, atol=1e-9, err_msg=link)


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("name", LOADABLE)
def test_center_of_mass_and_inertia_of_the_whole(name, merge):
    articulation, model = load(name, merge), reference(name)
    data = model.createData()
    configuration, position = joint_positions(model, name)
    _, center, inertia = total_inertia(articulation, position)
    np.testing.assert_allclose(center, pin.centerOfMass(model, data, configuration), atol=1e-10)
    pin.ccrba(model, data, configuration, np.zeros(model.nv))
    if name in IMPOSSIBLE:
        # Repairs touch small parts only: a repaired robot differs by less than one part in fifty.
        size = np.linalg.norm(data.Ig.inertia)
        assert np.linalg.norm(inertia - data.Ig.inertia) < 0.02 * size
    else:
        np.testing.assert_allclose(inertia, data.Ig.inertia, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LOADABLE)
def test_limits(name):
    articulation, model = load(name, False), reference(name)
    topology = articulation.topology
    for joint, link in zip(topology.joint_names, range(1, topology.num_links), strict=True):
        if not topology.joint_axes[link]:
            continue
        dof, other = topology.dofs(joint).start, model.joints[model.getJointId(joint)]
        low, high = float(articulation.joint_lower_limit[dof]), float(articulation.joint_upper_limit[dof])
        if np.isfinite(low):
            assert low == model.lowerPositionLimit[other.idx_q]
            assert high == model.upperPositionLimit[other.idx_q]
        if np.isfinite(articulation.max_joint_force[dof]):
            assert float(articulation.max_joint_force[dof]) == model.effortLimit[other.idx_v]
        assert float(articulation.friction.viscous[dof]) == model.damping[other.idx_v]
        assert float(articulation.friction.dynamic[dof]) == model.upperDryFrictionLimit[other.idx_v]
