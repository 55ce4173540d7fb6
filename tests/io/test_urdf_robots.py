"""Every URDF of the package example-robot-data against Pinocchio, which reads URDF with a parser of
its own."""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import numpy as np
import pytest

from artix.io.common.diagnostics import DescriptionError, DescriptionWarning
from artix.io.urdf.reader import check_urdf, load_urdf
from artix.math.arrays import host_arrays
from tests.support.rigid_bodies import placements, total_inertia

pin = pytest.importorskip("pinocchio", reason="Pinocchio (pip install pin) is not installed")
cmeel_prefix = Path(pin.__file__).parents[4]
ROOT = cmeel_prefix / "share" / "example-robot-data" / "robots"
FILES = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.urdf"))}
if not FILES:
    pytest.skip(
        "example-robot-data (pip install example-robot-data) is not installed",
        allow_module_level=True,
    )

#: Holds no link, and Pinocchio refuses it too.
EMPTY = "ur_description/urdf/ur3.urdf"

#: Descriptions of links that no body can be, and of which links the reader warns; it computes with
#: them as given.
IMPOSSIBLE = {
    "alex_description/urdf/alex_psyonic_hands.urdf": (
        "LeftPsyonicAbilityBaseLink",
        "Left_thumb_base",
    ),
    "allegro_hand_description/urdf/allegro_left_hand.urdf": (
        "link_11.0",
        "link_7.0",
        "link_3.0",
        "link_15.0",
    ),
    "allegro_hand_description/urdf/allegro_right_hand.urdf": (
        "link_3.0",
        "link_7.0",
        "link_11.0",
        "link_15.0",
    ),
    # All nine entries of the matrix are equal, hence two principal moments are zero beside the
    # third.
    "anymal_b_simple_description/robots/anymal-kinova.urdf": ("base",),
    "anymal_b_simple_description/robots/anymal.urdf": ("base",),
    "b1_description/urdf/b1-z1.urdf": ("base",),
    "b1_description/urdf/b1.urdf": ("base",),
    "go1_description/urdf/go1.urdf": ("base",),
    "hyq_description/robots/hyq_no_sensors.urdf": (
        "base_link",
        "lf_foot",
        "rf_foot",
        "lh_foot",
        "rh_foot",
    ),
    "anymal_c_simple_description/urdf/anymal.urdf": (
        "depth_camera_front_camera",
        "depth_camera_rear_camera",
    ),
    # Inertia without mass.
    "bolt_description/robots/bolt.urdf": ("FL_FOOT", "FR_FOOT"),
    "pr2_description/urdf/pr2.urdf": ("sensor_mount_link", "double_stereo_link"),
    "romeo_description/urdf/romeo_small.urdf": ("RShoulderYawLink", "RElbowYawLink"),
}

#: Descriptions of links with negative moments of inertia, which load with ``repair=("inertia",)``
#: alone.
NEGATIVE = {
    "romeo_description/urdf/romeo_laas_small.urdf": "(-0.0213468, 0.0521041, 0.0989523)",
    "tiago_description/robots/tiago.urdf": "(-3.53486e-08, 3.50085e-08, 9.08701e-08)",
    "tiago_description/robots/tiago_dual.urdf": "(-3.53486e-08, 3.50085e-08, 9.08701e-08)",
    "tiago_description/robots/tiago_no_hand.urdf": "(-3.53486e-08, 3.50085e-08, 9.08701e-08)",
}

#: Fingers that follow joints which exist only under a longer name.
BROKEN_MIMICS = ("alex_description/urdf/alex_psyonic_hands.urdf",)

LOADABLE = [name for name in FILES if name != EMPTY]


def repairs(name: str) -> tuple[str, ...]:
    """The repairs that a description needs."""
    return ("inertia",) * (name in NEGATIVE) + ("mimic",) * (name in BROKEN_MIMICS)


#: Whether links on fixed joints are merged.
MERGE = pytest.mark.parametrize("merge", [False, pytest.param(True, marks=pytest.mark.slow)])


@functools.cache
def load(name: str, merge: bool):
    """The articulation in double precision; exactly the descriptions listed above cause
    warnings."""
    with jax.enable_x64(True):
        if not repairs(name) and name not in IMPOSSIBLE:
            return load_urdf(FILES[name], merge_fixed_joints=merge, fixed_base=False)
        with pytest.warns(DescriptionWarning):
            return load_urdf(
                FILES[name], merge_fixed_joints=merge, fixed_base=False, repair=repairs(name)
            )


@functools.cache
def reference(name: str):
    """Pinocchio's model; with a free root it counts the mass of the root link."""
    return pin.buildModelFromUrdf(str(FILES[name]), pin.JointModelFreeFlyer())


def test_all_descriptions_are_there():
    assert len(LOADABLE) == 68
    assert set(IMPOSSIBLE) | set(BROKEN_MIMICS) <= set(LOADABLE)


def test_the_empty_description_is_refused():
    with pytest.raises(DescriptionError, match="it has no <link>"):
        load_urdf(FILES[EMPTY])


@pytest.mark.slow
def test_all_but_four_load_by_default():
    """As in Pinocchio, MuJoCo's URDF reader and PhysX; what is left has negative moments or broken
    mimic joints."""
    refused = [
        name
        for name in LOADABLE
        if any(issue.severity == "error" for issue in check_urdf(FILES[name], repair="mimic"))
    ]
    assert refused == sorted(NEGATIVE)


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_inertias_that_no_body_has_cause_one_warning(name):
    broken = ("mimic",) * (name in BROKEN_MIMICS)
    with pytest.warns(DescriptionWarning) as caught:
        load_urdf(FILES[name], repair=broken)
    (message,) = (
        text for text in (str(one.message) for one in caught) if "physically impossible" in text
    )
    assert (
        all(repr(link) in message for link in IMPOSSIBLE[name]) and "repair=('inertia',)" in message
    )
    assert (
        sum("triangle" in str(one.message) or "inertia" in str(one.message) for one in caught) == 1
    )
    with pytest.raises(DescriptionError) as refusal:
        load_urdf(FILES[name], repair=broken, strict=True)
    assert all(issue.element.startswith("<inertial>") for issue in refusal.value.issues)


@pytest.mark.parametrize("name", NEGATIVE)
def test_negative_moments_are_refused_without_repair(name):
    with pytest.raises(DescriptionError) as caught:
        load_urdf(FILES[name])
    assert f"{NEGATIVE[name]} kg m^2" in str(caught.value) and "repair=('inertia',)" in str(
        caught.value
    )


@MERGE
@pytest.mark.parametrize("name", LOADABLE)
def test_mass_and_degrees_of_freedom(name, merge):
    articulation, model = load(name, merge), reference(name)
    assert articulation.topology.num_dofs == model.nv - 6
    np.testing.assert_allclose(
        np.asarray(articulation.link_mass).sum(),
        sum(inertia.mass for inertia in model.inertias),
        rtol=1e-12,
    )


def joint_positions(model, name: str) -> tuple[np.ndarray, dict[str, float]]:
    """A configuration for Pinocchio and the same by joint name; the root stays at the origin."""
    step = np.random.default_rng(len(name)).uniform(-1.5, 1.5, model.nv)
    step[:6] = 0.0
    return pin.integrate(model, pin.neutral(model), step), {
        model.names[joint]: float(step[model.joints[joint].idx_v])
        for joint in range(2, model.njoints)
    }


@MERGE
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


@MERGE
@pytest.mark.parametrize("name", LOADABLE)
def test_center_of_mass_and_inertia_of_the_whole(name, merge):
    articulation, model = load(name, merge), reference(name)
    data = model.createData()
    configuration, position = joint_positions(model, name)
    _, center, inertia = total_inertia(articulation, position)
    np.testing.assert_allclose(center, pin.centerOfMass(model, data, configuration), atol=1e-10)
    pin.ccrba(model, data, configuration, np.zeros(model.nv))
    if name in NEGATIVE:
        # Repairs touch small parts only: a repaired robot differs by less than one part in fifty.
        size = np.linalg.norm(data.Ig.inertia)
        assert np.linalg.norm(inertia - data.Ig.inertia) < 0.02 * size
    else:
        np.testing.assert_allclose(inertia, data.Ig.inertia, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", LOADABLE)
def test_limits(name):
    articulation, model = host_arrays(load(name, False)), reference(name)
    topology = articulation.topology
    for joint, link in zip(topology.joint_names, range(1, topology.num_links), strict=True):
        if not topology.joint_axes[link]:
            continue
        dof, other = topology.dofs(joint).start, model.joints[model.getJointId(joint)]
        low, high = (
            float(articulation.joint_lower_limit[dof]),
            float(articulation.joint_upper_limit[dof]),
        )
        if np.isfinite(low):
            assert low == model.lowerPositionLimit[other.idx_q]
            assert high == model.upperPositionLimit[other.idx_q]
        if np.isfinite(articulation.max_joint_force[dof]):
            assert float(articulation.max_joint_force[dof]) == model.effortLimit[other.idx_v]
        assert float(articulation.friction.viscous[dof]) == model.damping[other.idx_v]
        assert float(articulation.friction.dynamic[dof]) == model.upperDryFrictionLimit[other.idx_v]
