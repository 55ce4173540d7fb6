"""Pinocchio as a reference: its models as articulations, and its quantities in artix's conventions.

Pinocchio writes the velocity of a free-flyer as the body twist in the base's own axes at the base's
origin, orders joints depth first and uses the joint's frame as the body's. :class:`Oracle` converts
all of this with ``nu = T nu_pin`` and ``nu' = T nu_pin' + b``, where T includes a permutation of
the DOFs. The conversion of every other quantity follows from these two.
"""

from __future__ import annotations

import dataclasses
import functools
import sysconfig
from pathlib import Path

import numpy as np
import pinocchio as pin

from artix import Articulation, ArticulationBuilder, Axis, Joint, State
from tests.support.models import random_link, random_pose

ROBOTS = (
    Path(sysconfig.get_paths()["purelib"])
    / "cmeel.prefix"
    / "share"
    / "example-robot-data"
    / "robots"
)
#: Robots of example-robot-data by the names that tests give them.
ROBOT_FILES = {
    "panda": "panda_description/urdf/panda.urdf",
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "kinova": "kinova_description/robots/kinova.urdf",
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "anymal_b": "anymal_b_simple_description/robots/anymal.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "go2": "go2_description/urdf/go2.urdf",
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
    "icub": "icub_description/robots/icub.urdf",
    "allegro": "allegro_hand_description/urdf/allegro_right_hand.urdf",
    "tiago": "tiago_description/robots/tiago.urdf",
    "pr2": "pr2_description/urdf/pr2.urdf",
    "centauro": "centauro_description/urdf/centauro.urdf",
    "baxter": "baxter_description/urdf/baxter.urdf",
    "z1": "z1_description/urdf/z1.urdf",
}


def pose_of(placement: pin.SE3) -> np.ndarray:
    """A placement as position and quaternion xyzw."""
    return np.concatenate([placement.translation, pin.Quaternion(placement.rotation).coeffs()])


def placement_of(pose) -> pin.SE3:
    """The placement of a pose [7]."""
    pose = np.asarray(pose, float)
    return pin.SE3(pin.Quaternion(*np.roll(pose[3:] / np.linalg.norm(pose[3:]), 1)), pose[:3])


def load_model(file: str, *, fixed_base: bool) -> pin.Model:
    """A robot of ``example-robot-data``."""
    path = str(ROBOTS / file)
    return (
        pin.buildModelFromUrdf(path)
        if fixed_base
        else pin.buildModelFromUrdf(path, pin.JointModelFreeFlyer())
    )


def _subspace(joint: pin.JointModel) -> np.ndarray:
    """The motion subspace of a joint of one DOF at the neutral configuration."""
    model = pin.Model()
    model.addJoint(0, joint, pin.SE3.Identity(), "joint")
    return np.reshape(pin.computeJointJacobians(model, model.createData(), pin.neutral(model)), 6)


def _pitch_of(joint: pin.JointModel) -> float:
    """Pitch of a helical joint."""
    return float(_subspace(joint)[:3] @ _subspace(joint)[3:])


def _axis_of(joint: pin.JointModel) -> np.ndarray:
    """Axis of a joint of one DOF."""
    subspace = _subspace(joint)
    return subspace[:3] if "JointModelP" in joint.shortname() else subspace[3:]


def articulation_from_pinocchio(
    model: pin.Model, dtype=None, root: pin.Inertia | None = None
) -> Articulation:
    """The articulation of a Pinocchio model of revolute, prismatic, spherical and free-flyer
    joints.

    ``root`` is the inertia of the root link of a fixed base, which Pinocchio discards.
    """
    fixed_base = model.nv == 0 or model.joints[1].shortname() != "JointModelFreeFlyer"
    builder = ArticulationBuilder(
        fixed_base=fixed_base, gravity=model.gravity.linear, name=model.name
    )

    def inertia_of(body: pin.Inertia) -> dict:
        pose = np.concatenate([body.lever, [0.0, 0.0, 0.0, 1.0]])
        # What is left of a point mass when Pinocchio merges links and moves its inertia to and fro.
        inertia = np.where(np.abs(body.inertia) < 1e-16, 0.0, body.inertia)
        return {"mass": body.mass, "com_pose": pose, "inertia": inertia}

    first = 1 if fixed_base else 2
    body = (pin.Inertia.Zero() if root is None else root) if fixed_base else model.inertias[1]
    number = {first - 1: builder.add_link(name="root", **inertia_of(body))}
    for joint in range(first, model.njoints):
        kind, placement = model.joints[joint].shortname(), model.jointPlacements[joint]
        options = {
            "name": model.names[joint],
            "armature": model.armature[
                model.idx_vs[joint] : model.idx_vs[joint] + model.nvs[joint]
            ],
        }
        if kind == "JointModelSpherical":
            made = Joint.spherical(parent_pose=pose_of(placement), **options)
        else:
            turn = pin.SE3(
                pin.Quaternion.FromTwoVectors(
                    np.array([1.0, 0.0, 0.0]), _axis_of(model.joints[joint])
                ),
                np.zeros(3),
            )
            frames = {
                "parent_pose": pose_of(placement * turn),
                "child_pose": pose_of(turn),
                **options,
            }
            if "JointModelR" in kind:
                made = Joint.revolute(Axis.TWIST, wrapped=False, **frames)
            elif "JointModelP" in kind and "Planar" not in kind:
                made = Joint.prismatic(Axis.X, **frames)
            elif "JointModelH" in kind:
                made = Joint.helical(pitch=_pitch_of(model.joints[joint]), **frames)
            else:
                raise NotImplementedError(kind)
        link = inertia_of(model.inertias[joint])
        number[joint] = builder.add_link(
            number[model.parents[joint]], made, name=f"body_{joint}", **link
        )
    return builder.build(dtype)


def load_robot(file: str, *, fixed_base: bool, dtype=None) -> tuple[pin.Model, Articulation]:
    """A robot of ``example-robot-data`` as a Pinocchio model and as an articulation."""
    model = load_model(file, fixed_base=fixed_base)
    root = load_model(file, fixed_base=False).inertias[1] if fixed_base else None
    return model, articulation_from_pinocchio(model, dtype, root)


def spherical_model(seed: int, *, fixed_base: bool) -> tuple[pin.Model, Articulation]:
    """A random branching tree with spherical, revolute and prismatic joints, oblique axes and
    armature."""
    rng = np.random.default_rng(seed)
    model = pin.Model()
    model.gravity = pin.Motion(np.array([1.0, -2.0, -9.0]), np.zeros(3))
    model.name = "spherical"

    def inertia() -> pin.Inertia:
        lever, mass, points = (
            rng.normal(size=3) * 0.1,
            rng.uniform(0.5, 2.0),
            rng.normal(size=(6, 3)) * 0.2,
        )
        second = points.T @ points * mass
        return pin.Inertia(mass, lever, np.trace(second) * np.eye(3) - second)

    root = inertia()
    last = 0
    if not fixed_base:
        last = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
        model.appendBodyToJoint(last, root, pin.SE3.Identity())
    base = last

    def add(parent: int, joint, name: str) -> int:
        placement = pin.SE3(
            pin.Quaternion(*(lambda q: q / np.linalg.norm(q))(rng.normal(size=4))),
            rng.normal(size=3) * 0.4,
        )
        index = model.addJoint(parent, joint, placement, name)
        model.appendBodyToJoint(index, inertia(), pin.SE3.Identity())
        return index

    def oblique() -> np.ndarray:
        axis = rng.normal(size=3)
        return axis / np.linalg.norm(axis)

    shoulder = add(base, pin.JointModelSpherical(), "shoulder")
    elbow = add(shoulder, pin.JointModelRevoluteUnaligned(oblique()), "elbow")
    add(
        add(elbow, pin.JointModelSpherical(), "wrist"),
        pin.JointModelPrismaticUnaligned(oblique()),
        "slider",
    )
    add(add(shoulder, pin.JointModelRZ(), "finger"), pin.JointModelSpherical(), "fingertip")
    add(add(base, pin.JointModelPY(), "rail"), pin.JointModelSpherical(), "camera")
    model.armature = rng.uniform(0.01, 0.2, model.nv) * (
        np.arange(model.nv) >= (0 if fixed_base else 6)
    )
    return model, articulation_from_pinocchio(model, root=root)


def helical_model(*, fixed_base: bool) -> tuple[pin.Model, Articulation]:
    """A random branching tree that includes helical joints along and across the coordinate axes."""
    rng, model = np.random.default_rng(8), pin.Model()
    model.gravity = pin.Motion(np.array([1.0, -2.0, -9.0]), np.zeros(3))
    joints = [
        pin.JointModelHX(0.3),
        pin.JointModelRZ(),
        pin.JointModelHelicalUnaligned(np.array([0.36, 0.48, 0.8]), -0.2),
    ]
    joints += [
        pin.JointModelSpherical(),
        pin.JointModelHY(0.5),
        pin.JointModelPZ(),
        pin.JointModelHZ(-0.1),
    ]
    parent = 0
    if not fixed_base:
        parent = model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "root")
        model.appendBodyToJoint(parent, pin.Inertia.Random(), pin.SE3.Identity())
    for k, joint in enumerate(joints):
        above = parent if k in (0, 4) else model.njoints - 1
        at = model.addJoint(above, joint, placement_of(random_pose(rng)), f"joint {k}")
        link = random_link(rng)
        body = pin.Inertia(link["mass"], link["com_pose"][:3], link["inertia"])
        model.appendBodyToJoint(at, body, pin.SE3.Identity())
    root = pin.Inertia(1.5, np.array([0.1, 0.2, 0.3]), np.diag([0.3, 0.2, 0.25]))
    if not fixed_base:
        model.inertias[1] = root
    return model, articulation_from_pinocchio(model, root=root)


@dataclasses.dataclass
class Oracle:
    """One Pinocchio model at one state, and its quantities in artix's conventions (all float64)."""

    model: pin.Model
    articulation: Articulation
    q: np.ndarray
    v: np.ndarray
    fixed_base: bool

    @classmethod
    def at(cls, model: pin.Model, articulation: Articulation, state: State) -> Oracle:
        """The reference for a state of the articulation, converted to float64."""
        topology = articulation.topology
        position, velocity = (
            np.asarray(x, float) for x in (state.joint_position, state.joint_velocity)
        )
        pose, root_velocity = (np.asarray(x, float) for x in (state.root_pose, state.root_velocity))
        q, v = pin.neutral(model), np.zeros(model.nv)
        base = placement_of(pose)
        for joint in cls._joints(model, topology.fixed_base):
            at, dofs = joint, topology.dofs(model.names[joint])
            angle, first = position[dofs], model.idx_qs[at]
            if model.nqs[at] == 4:
                q[first : first + 4] = pin.Quaternion(pin.exp3(angle)).coeffs()
            elif model.nqs[at] == 2:
                q[first : first + 2] = np.cos(angle[0]), np.sin(angle[0])
            else:
                q[first] = angle[0]
            v[model.idx_vs[at] : model.idx_vs[at] + model.nvs[at]] = velocity[dofs]
        oracle = cls(model, articulation, q, v, topology.fixed_base)
        if not topology.fixed_base:
            q[:7] = np.concatenate([base.translation, pin.Quaternion(base.rotation).coeffs()])
            v[:6] = np.linalg.solve(oracle.twist_map[:6, :6], root_velocity)
        else:
            oracle.model = model.copy()
            for joint in range(1, model.njoints):
                if model.parents[joint] == 0:
                    oracle.model.jointPlacements[joint] = base * model.jointPlacements[joint]
        oracle.base = base
        return oracle

    base: pin.SE3 = dataclasses.field(default_factory=pin.SE3.Identity)

    @staticmethod
    def _joints(model: pin.Model, fixed_base: bool) -> range:
        return range(1 if fixed_base else 2, model.njoints)

    # --- the map ---------------------------------------------------------------------------------

    @functools.cached_property
    def dof_order(self) -> np.ndarray:
        """For each velocity of the articulation, the index of the same velocity in Pinocchio."""
        order = [] if self.fixed_base else list(range(6))
        for joint in self.articulation.topology.joint_names:
            at = self.model.getJointId(joint)
            order += range(self.model.idx_vs[at], self.model.idx_vs[at] + self.model.nvs[at])
        return np.array(order)

    @property
    def twist_map(self) -> np.ndarray:
        """T of ``nu = T nu_pin``."""
        matrix = np.eye(self.model.nv)
        if not self.fixed_base:
            rotation = pin.Quaternion(*np.roll(self.q[3:7], 1)).toRotationMatrix()
            matrix[:3, :3], matrix[3:6, 3:6] = rotation, rotation
            matrix[:3, 3:6] = -rotation @ pin.skew(self.model.inertias[1].lever)
        return matrix[self.dof_order]

    @property
    def twist_map_drift(self) -> np.ndarray:
        """b of ``nu' = T nu_pin' + b``."""
        drift = np.zeros(self.model.nv)
        if not self.fixed_base:
            rotation, omega = (
                pin.Quaternion(*np.roll(self.q[3:7], 1)).toRotationMatrix(),
                self.v[3:6],
            )
            drift[:3] = rotation @ np.cross(
                omega, self.v[:3] + np.cross(omega, self.model.inertias[1].lever)
            )
        return drift

    def _columns(self, jacobian: np.ndarray) -> np.ndarray:
        return jacobian @ np.linalg.inv(self.twist_map)

    def _forces(self, force: np.ndarray) -> np.ndarray:
        return np.linalg.solve(self.twist_map.T, force)

    @functools.cached_property
    def joint_of_link(self) -> list[int]:
        """Pinocchio's joint that carries each link of the articulation."""
        root = 0 if self.fixed_base else 1
        return [root] + [
            self.model.getJointId(joint) for joint in self.articulation.topology.joint_names
        ]

    # --- the quantities --------------------------------------------------------------------------

    def quantities(self, acceleration, wrenches, link: int, offset) -> dict[str, np.ndarray]:
        """The quantities by the names of their functions; frames are at ``offset`` on link
        ``link``."""
        model, q, v, drift, twist_map = (
            self.model,
            self.q,
            self.v,
            self.twist_map_drift,
            self.twist_map,
        )
        nu_rate = np.linalg.solve(twist_map, np.asarray(acceleration, float) - drift)
        data, out = model.createData(), {}
        poses, centers, com_jacobians, velocities, rates = [], [], [], [], []
        pin.computeJointJacobians(model, data, q)
        pin.computeJointJacobiansTimeVariation(model, data, q, v)
        pin.forwardKinematics(model, data, q, v, nu_rate)
        levers = np.asarray(self.articulation.link_com_pose, float)[:, :3]
        for joint, lever in zip(self.joint_of_link, levers, strict=True):
            placement = data.oMi[joint] if joint else self.base
            center = placement.act(lever)
            poses.append(pose_of(placement))
            centers.append(center)
            if joint:
                jacobian = pin.getJointJacobian(model, data, joint, pin.WORLD).copy()
                shifted = pin.SE3(np.eye(3), center).inverse().toActionMatrix() @ jacobian
                com = pin.SE3(placement.rotation, center)
                local = pin.SE3(np.eye(3), lever)
                rate = local.actInv(data.a[joint])
                speed = local.actInv(data.v[joint])
                classical = rate.linear + np.cross(speed.angular, speed.linear)
                rates.append(
                    np.concatenate([com.rotation @ classical, com.rotation @ rate.angular])
                )
                velocities.append(
                    np.concatenate([com.rotation @ speed.linear, com.rotation @ speed.angular])
                )
            else:
                shifted = np.zeros((6, model.nv))
                rates.append(np.zeros(6))
                velocities.append(np.zeros(6))
            com_jacobians.append(self._columns(shifted))
        out["link_poses"] = np.array(poses)
        out["link_velocities"] = np.array(velocities)
        out["link_accelerations"] = np.array(rates)
        out["dense_jacobian"] = np.concatenate(
            com_jacobians[1:] if self.fixed_base else com_jacobians
        )

        frames = model.copy()
        joint = self.joint_of_link[link]
        frame = frames.addFrame(
            pin.Frame("point", joint, 0, placement_of(offset), pin.FrameType.OP_FRAME)
        )
        fdata = frames.createData()
        pin.computeJointJacobiansTimeVariation(frames, fdata, q, v)
        pin.forwardKinematics(frames, fdata, q, v)
        pin.updateFramePlacements(frames, fdata)
        out["frame_pose"] = pose_of(fdata.oMf[frame])
        # T depends on the configuration, so dJ/dt = (dJ_pin/dt - J dT/dt) T^-1.
        map_rate = self._twist_map_rate()
        for axes, reference in (
            ("world_aligned", pin.LOCAL_WORLD_ALIGNED),
            ("local", pin.LOCAL),
            ("world", pin.WORLD),
        ):
            jacobian = self._columns(pin.getFrameJacobian(frames, fdata, frame, reference).copy())
            rate = pin.getFrameJacobianTimeVariation(frames, fdata, frame, reference).copy()
            out[f"frame_jacobian_{axes}"] = jacobian
            out[f"frame_jacobian_rate_{axes}"] = self._columns(rate - jacobian @ map_rate)
        out["frame_velocity"] = out["frame_jacobian_world_aligned"] @ (twist_map @ v)

        armature = np.zeros(model.nv)
        armature[0 if self.fixed_base else 6 :] = np.asarray(self.articulation.armature, float)
        mass = pin.crba(model, model.createData(), q).copy()
        mass = np.triu(mass) + np.triu(mass, 1).T
        inverse = np.linalg.inv(twist_map)
        out["mass_matrix_armature"] = inverse.T @ mass @ inverse
        out["mass_matrix"] = out["mass_matrix_armature"] - np.diag(armature)
        gravity = pin.computeGeneralizedGravity(model, model.createData(), q).copy()
        effects = pin.nonLinearEffects(model, model.createData(), q, v).copy()
        out["gravity_compensation"] = self._forces(gravity)
        out["coriolis_compensation"] = self._forces(effects - gravity) - out["mass_matrix"] @ drift
        out["bias_force"] = self._forces(effects) - out["mass_matrix"] @ drift
        bodies = pin.StdVec_Force()
        bodies.extend(pin.Force.Zero() for _ in range(model.njoints))
        external = np.zeros(model.nv)
        for link_joint, center, wrench, jac in zip(
            self.joint_of_link, centers, wrenches, com_jacobians, strict=True
        ):
            wrench = np.asarray(wrench, float)
            external = external + jac.T @ wrench
            if link_joint:
                bodies[link_joint] += (
                    data.oMi[link_joint].inverse() * pin.SE3(np.eye(3), center)
                ).act(pin.Force(wrench))
        out["generalized_external_force"] = external
        out["inverse_dynamics"] = self._forces(
            pin.rnea(model, model.createData(), q, v, nu_rate, bodies).copy()
        )

        out.update(self._momentum(q, v, drift))
        return out

    def forward_dynamics(self, force, wrenches) -> np.ndarray:
        """Pinocchio's articulated-body algorithm, for wrenches on the links at their centres of
        mass."""
        model, data = self.model, self.model.createData()
        pin.forwardKinematics(model, data, self.q)
        bodies = pin.StdVec_Force()
        bodies.extend(pin.Force.Zero() for _ in range(model.njoints))
        levers = np.asarray(self.articulation.link_com_pose, float)[:, :3]
        for joint, lever, wrench in zip(
            self.joint_of_link, levers, np.asarray(wrenches, float), strict=True
        ):
            if joint:
                turned = data.oMi[joint].rotation.T
                at_center = pin.Force(turned @ wrench[:3], turned @ wrench[3:])
                bodies[joint] += pin.SE3(np.eye(3), lever).act(at_center)
        torque = self.twist_map.T @ np.asarray(force, float)
        rate = pin.aba(model, model.createData(), self.q, self.v, torque, bodies).copy()
        return self.twist_map @ rate + self.twist_map_drift

    def _twist_map_rate(self) -> np.ndarray:
        rate = np.zeros((self.model.nv, self.model.nv))
        if not self.fixed_base:
            spin = self.twist_map[3:6, 3:6] @ pin.skew(self.v[3:6])
            rate[:3, :3], rate[3:6, 3:6] = spin, spin
            rate[:3, 3:6] = -spin @ pin.skew(self.model.inertias[1].lever)
        return rate

    def _momentum(self, q, v, drift) -> dict[str, np.ndarray]:
        """Whole-body quantities. For a fixed base they include the mass of the root, which
        Pinocchio discards."""
        model, out = self.model, {}
        data = model.createData()
        pin.ccrba(model, data, q, v)
        pin.dccrba(model, data, q, v)
        matrix, rate, momentum = data.Ag.copy(), data.dAg.copy(), data.hg.vector.copy()
        center, jacobian = (
            pin.centerOfMass(model, data, q).copy(),
            pin.jacobianCenterOfMass(model, model.createData(), q).copy(),
        )
        mass, potential = (
            pin.computeTotalMass(model),
            pin.computePotentialEnergy(model, model.createData(), q),
        )
        force = rate @ v
        if self.fixed_base:
            lever = np.asarray(self.articulation.link_com_pose, float)[0, :3]
            own, root = float(self.articulation.link_mass[0]), self.base.act(lever)
            total = mass + own
            whole = (mass * center + own * root) / total
            # About the common centre of mass; dh/dt is the moment of the forces there.
            shift = np.vstack(
                [
                    np.hstack([np.eye(3), np.zeros((3, 3))]),
                    np.hstack([pin.skew(center - whole), np.eye(3)]),
                ]
            )
            matrix, momentum, force = shift @ matrix, shift @ momentum, shift @ force
            jacobian, center = jacobian * (mass / total), whole
            potential = potential - own * np.dot(model.gravity.linear, root)
        out["center_of_mass"] = center
        out["center_of_mass_jacobian"] = self._columns(jacobian)
        out["centroidal_momentum_matrix"] = self._columns(matrix)
        out["centroidal_momentum_bias"] = force - out["centroidal_momentum_matrix"] @ drift
        out["centroidal_momentum"] = momentum
        # pin 4.1's kinetic energy forgets the armature of JointModelRevoluteUnaligned; its crba
        # does not.
        bare = model.copy()
        bare.armature = np.zeros(model.nv)
        out["kinetic_energy"] = np.array(pin.computeKineticEnergy(bare, bare.createData(), q, v))
        mass_matrix = np.triu(pin.crba(model, data, q))
        out["kinetic_energy_armature"] = v @ (mass_matrix + np.triu(mass_matrix, 1).T) @ v / 2
        out["potential_energy"] = np.array(potential)
        return out
