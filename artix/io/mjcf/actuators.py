"""Reads the forces on joints of a compiled MJCF: actuators and springs become drives and limits."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from artix.io.common.diagnostics import Location
from artix.io.mjcf.source import BALL, FREE, MjcfSource, import_mujoco
from artix.model.joints import Drive, JointFriction

#: How the torques of the springs of ball joints differ, for messages.
BALL_SPRING = (
    "MuJoCo's spring on a ball joint pulls by its angle a, artix's drive by 2 sin(a/2), as in PhysX"
)


class Transmission(NamedTuple):
    """How an actuator acts on a joint: its length is ``gear q + offset``."""

    joint: int
    gear: float
    offset: float = 0.0


@dataclasses.dataclass(frozen=True)
class ActuatorLaw:
    """An actuator's effort on its joint, ``control + constant - stiffness q - damping qd`` within a
    limit.

    Attributes:
      constant: effort at zero [N m or N].
      stiffness: [N m/rad or N/m].
      damping: [N m s/rad or N s/m].
      limit: largest effort at each DOF of the joint [N m or N], zero where it does not act, shape
        [n].
    """

    constant: float
    stiffness: float
    damping: float
    limit: np.ndarray

    @classmethod
    def affine(cls, gear: float, bias: np.ndarray, offset: float = 0.0) -> ActuatorLaw:
        """MuJoCo's law without a limit: the force ``control + bias[0] + bias[1] l + bias[2] l'`` at
        ``l = gear q + offset``.
        """
        constant = gear * (bias[0] + bias[1] * offset)
        stiffness = -(gear**2) * bias[1]
        damping = -(gear**2) * bias[2]
        return cls(float(constant), float(stiffness), float(damping), np.full(1, np.inf))

    @property
    def is_motor(self) -> bool:
        """Whether its effort depends on neither position nor velocity."""
        return self.stiffness == 0.0 and self.damping == 0.0

    @property
    def is_negative(self) -> bool:
        """Whether it pushes away from its target or along the velocity."""
        return self.stiffness < 0.0 or self.damping < 0.0

    @property
    def smallest_limit(self) -> float:
        """The limit of a servo."""
        return float(self.limit.min())


@dataclasses.dataclass
class Actuation:
    """All actuators of one joint that are read.

    Attributes:
      servos: the law of each servo, by actuator.
      motors: the law of each motor, by actuator.
    """

    servos: dict[int, ActuatorLaw] = dataclasses.field(default_factory=dict)
    motors: dict[int, ActuatorLaw] = dataclasses.field(default_factory=dict)

    @property
    def stiffness(self) -> float:
        """Of the servos together [N m/rad or N/m]; at most one has any."""
        return sum(law.stiffness for law in self.servos.values())

    @property
    def damping(self) -> float:
        """Of the servos together [N m s/rad or N s/m]."""
        return sum(law.damping for law in self.servos.values())

    @property
    def drive_limit(self) -> float:
        """Effort limit of the servos [N m or N]."""
        return min((law.smallest_limit for law in self.servos.values()), default=np.inf)

    @property
    def motor_limit(self) -> float | np.ndarray:
        """Effort limit of the motors together for each DOF [N m or N], zero without motors."""
        return sum((law.limit for law in self.motors.values()), start=0.0)

    @property
    def target(self) -> float:
        """Position that the position servo holds at zero control [rad or m]."""
        return sum(one.constant / one.stiffness for one in self.servos.values() if one.stiffness)

    @property
    def target_velocity(self) -> float:
        """Velocity that the other servos hold at zero control [rad/s or m/s]."""
        pull = sum(one.constant for one in self.servos.values() if not one.stiffness)
        return pull / self.damping if pull else 0.0


def joint_options(source: MjcfSource, joints: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Drive, friction, armature and commanded-force limits by joint, as options of
    :class:`~artix.Joint`.
    """
    actuations = read_actuators(source, joints)
    moved = {joint for joint, actuation in actuations.items() if actuation.motors}
    tendon_limits = _limits_of_tendon_motors(source, moved)
    options: dict[int, dict[str, Any]] = {}
    for joint, actuation in actuations.items():
        if source.model.jnt_type[joint] == FREE:
            _check_free_joint(source, joint)
        else:
            options[joint] = _options(source, joint, actuation, tendon_limits.get(joint, 0.0))
    return options


def read_actuators(source: MjcfSource, joints: Iterable[int]) -> dict[int, Actuation]:
    """The actuators of each joint that are read; reports the others."""
    actuations = {joint: Actuation() for joint in joints}
    for actuator in range(len(source.model.actuator_trntype)):
        _add_actuator(source, actuator, actuations)
    return actuations


def _options(
    source: MjcfSource, joint: int, actuation: Actuation, tendon_limit: float
) -> dict[str, Any]:
    """The options of a joint; the motors on tendons exert at most ``tendon_limit`` there."""
    model = source.model
    dof = int(model.jnt_dofadr[joint])
    loss = 0.0 if source.disables("FRICTIONLOSS") else float(model.dof_frictionloss[dof])
    viscous = 0.0 if source.disables("DAMPER") else float(model.dof_damping[dof])
    limit = _joint_limit(source, joint)
    num_dofs = 3 if model.jnt_type[joint] == BALL else 1
    motors = np.broadcast_to(actuation.motor_limit + tendon_limit, num_dofs)
    if model.jnt_actgravcomp[joint]:
        message = (
            "MuJoCo counts its gravity compensation as actuator effort, artix as reduced gravity"
        )
        source.report.warning(
            source.place("jnt", joint), message, "nothing, unless effort limits should include it"
        )
    if limit < np.inf and actuation.servos and np.any(motors):
        message = (
            "its actuatorfrcrange limits the sum of its servo and its motors; artix limits each "
            "of the two"
        )
        source.report.warning(
            source.place("jnt", joint), message, "leave some of the range to each"
        )
    drive = Drive(
        stiffness=actuation.stiffness,
        damping=actuation.damping,
        max_force=min(actuation.drive_limit, limit) if actuation.servos else np.inf,
        target=actuation.target,
        target_velocity=actuation.target_velocity,
    )
    return {
        "armature": float(model.dof_armature[dof]),
        "friction": JointFriction(static=loss, dynamic=loss, viscous=viscous),
        "max_force": np.minimum(np.where(motors > 0.0, motors, np.inf), limit).tolist(),
        "drive": _with_spring(source, joint, drive, bool(actuation.servos)),
    }


def _with_spring(source: MjcfSource, joint: int, drive: Drive, driven: bool) -> Drive:
    """The drive with the joint's passive spring, if it can hold both."""
    model = source.model
    place = source.place("jnt", joint)
    _refuse_nonlinear(source, place, joint, "jnt_stiffnesspoly", "jnt_springyield")
    _refuse_nonlinear(source, place, int(model.jnt_dofadr[joint]), "dof_dampingpoly")
    stiffness = 0.0 if source.disables("SPRING") else float(model.jnt_stiffness[joint])
    if stiffness == 0.0:
        return drive
    if stiffness < 0.0:
        source.report_unsupported("spring", place, "its stiffness is negative")
        return drive
    if model.jnt_type[joint] == BALL:
        source.report.warning(
            place, BALL_SPRING, "nothing, if the joint turns little: at 1 rad they differ by 4 %"
        )
        return Drive(stiffness=stiffness)
    if drive.max_force < np.inf:
        return drive  # The limit is not one of the spring, which becomes a tendon.
    if driven:
        message = (
            "its drive combines its spring and its servo, whose target is only a part of the "
            "drive's"
        )
        fix = "command it by MujocoCoordinates.control"
        source.report.warning(place, message, fix)
    rest = float(model.qpos_spring[model.jnt_qposadr[joint]])
    total = drive.stiffness + stiffness
    target = (drive.stiffness * drive.target + stiffness * rest) / total
    return dataclasses.replace(drive, stiffness=total, target=target)


def springs_beside_drives(
    source: MjcfSource, options: Mapping[int, Mapping[str, Any]]
) -> dict[int, tuple[float, float]]:
    """Stiffness and reference position of the springs that are not part of their joint's drive, by
    joint.
    """
    model = source.model
    springs = dict[int, tuple[float, float]]()
    for joint, option in options.items():
        stiffness = 0.0 if source.disables("SPRING") else float(model.jnt_stiffness[joint])
        if stiffness > 0.0 and model.jnt_type[joint] != BALL and option["drive"].max_force < np.inf:
            springs[joint] = stiffness, float(model.qpos_spring[model.jnt_qposadr[joint]])
    return springs


def _refuse_nonlinear(source: MjcfSource, place: Location, index: int, *fields: str) -> None:
    """Refuses the nonlinear springs and dampers of later MuJoCo versions if they are used."""
    for field in fields:
        values = getattr(source.model, field, None)
        if values is not None and len(values) > index and np.any(values[index]):
            source.report_unsupported(
                "spring", place, f"{field}: artix has linear springs and dampers only"
            )


def _check_free_joint(source: MjcfSource, joint: int) -> None:
    dofs = slice(int(source.model.jnt_dofadr[joint]), int(source.model.jnt_dofadr[joint]) + 6)
    for field in ("armature", "damping", "frictionloss"):
        if np.any(getattr(source.model, f"dof_{field}")[dofs]):
            source.report_unsupported(
                "free_joint", source.place("jnt", joint), f"its {field}: a free root has none"
            )
    if source.model.jnt_stiffness[joint]:
        source.report_unsupported(
            "free_joint", source.place("jnt", joint), "its stiffness: a free root has no spring"
        )


# --- actuators ----------------------------------------------------------------------------------


def _add_actuator(source: MjcfSource, actuator: int, actuations: dict[int, Actuation]) -> None:
    """Adds an actuator to the entry of its joint in ``actuations``; ignores actuators of other
    joints.
    """
    model = source.model
    place = source.place("actuator", actuator)
    transmission = joint_transmission(source, actuator)
    if is_off(source, actuator) or transmission is None or _is_plugin(source, actuator):
        return
    joint = transmission.joint
    if joint not in actuations:
        return
    if int(model.jnt_type[joint]) in (FREE, BALL) and int(model.actuator_biastype[actuator]):
        source.report_unsupported(
            "actuator", place, "a servo on a ball or free joint does not act on one coordinate"
        )
        return
    law = _law(source, actuator, transmission)
    if law is None:
        return
    actuation = actuations[joint]
    if law.is_motor:
        if law.constant:
            message = "the constant force that it adds; MujocoCoordinates.control adds it"
            source.report_unsupported("actuator", place, message)
        if model.jnt_type[joint] == FREE:
            message = "a motor on a free joint is not read; it has no effect without a command"
            source.report.warning(place, message, "apply its force as wrenches on the root link")
        actuation.motors[actuator] = law
    elif actuation.servos and (
        min(law.stiffness, actuation.stiffness)
        or min(law.smallest_limit, actuation.drive_limit) < np.inf
    ):
        source.report_unsupported(
            "actuator", place, "its joint has another servo already, but only one drive"
        )
    else:
        actuation.servos[actuator] = law


def is_off(source: MjcfSource, actuator: int) -> bool:
    """Whether the model disables an actuator, its group, or all actuators."""
    group = int(source.model.actuator_group[actuator])
    return source.disables("ACTUATION") or bool(int(source.model.opt.disableactuator) >> group & 1)


def _is_plugin(source: MjcfSource, actuator: int) -> bool:
    """Whether a plugin computes the force, whatever the actuator's own gain and bias."""
    return bool(source.model.actuator_plugin[actuator] >= 0)


def acts_on_joint(source: MjcfSource, actuator: int) -> bool:
    """Whether an actuator acts on a joint, rather than on a tendon, site or body."""
    kinds = import_mujoco().mjtTrn
    return int(source.model.actuator_trntype[actuator]) in (
        int(kinds.mjTRN_JOINT),
        int(kinds.mjTRN_JOINTINPARENT),
    )


def joint_transmission(source: MjcfSource, actuator: int) -> Transmission | None:
    """How an actuator acts on a joint, ``None`` if it does not act on a single one.

    A servo on a tendon of coupled joints, as of a gripper's two fingers, acts on the joint that the
    others follow.
    """
    model = source.model
    gear = float(model.actuator_gear[actuator, 0])
    target = int(model.actuator_trnid[actuator, 0])
    if acts_on_joint(source, actuator):
        return Transmission(target, gear)
    if not is_tendon_servo(source, actuator):
        return None
    coupled = _coupled_tendon(source, target)
    if coupled is None:
        return None
    joint, ratio, length = coupled
    return Transmission(joint, gear * ratio, gear * length)


def _coupled_tendon(source: MjcfSource, tendon: int) -> tuple[int, float, float] | None:
    """The joint, ratio and constant of a fixed tendon of length ``ratio * q + constant``, whose
    joints all follow this one by equalities, as a gripper's fingers do; ``None`` for other tendons.
    """
    model = source.model
    leaders = dict[int, tuple[int, float, float]]()
    for equality in range(0 if source.disables("EQUALITY") else model.neq):
        relation = source.joint_relation(equality) if model.eq_active0[equality] else None
        if relation is None or relation[1] < 0 or any(relation[2][2:]):
            continue
        follower, reference, (constant, slope, *_) = relation
        start, start_of_reference = model.qpos0[model.jnt_qposadr[[follower, reference]]].tolist()
        offset = start + constant - slope * start_of_reference
        leaders.setdefault(follower, (reference, slope, offset))
    joints = set[int]()
    ratio, length = 0.0, 0.0
    for kind, joint, factor in source.tendon_path(tendon):
        if kind != "joint":
            return None
        followed = set[int]()
        while joint in leaders and joint not in followed:
            followed.add(joint)
            joint, slope, offset = leaders[joint]
            length += factor * offset
            factor *= slope
        joints.add(joint)
        ratio += factor
    return (joints.pop(), ratio, length) if len(joints) == 1 and ratio else None


def _limits_of_tendon_motors(source: MjcfSource, joints: Set[int]) -> dict[int, float]:
    """The largest efforts that the motors on tendons exert together at some joints [N m or N]."""
    limits = dict[int, float]()
    for actuator in range(len(source.model.actuator_trntype)):
        is_read = acts_on_tendon(source, actuator) and not is_off(source, actuator)
        if is_read and is_motor(source, actuator):
            for kind, joint, factor in source.tendon_path(source.model.actuator_trnid[actuator, 0]):
                if kind == "joint" and joint in joints and factor:
                    gear = float(source.model.actuator_gear[actuator, 0]) * factor
                    (limit,) = _effort_limit(
                        source, actuator, Transmission(joint, gear), motor=True
                    )
                    limits[joint] = limits.get(joint, 0.0) + limit
    return limits


def acts_on_tendon(source: MjcfSource, actuator: int) -> bool:
    """Whether an actuator acts on a tendon."""
    kind = import_mujoco().mjtTrn.mjTRN_TENDON
    return int(source.model.actuator_trntype[actuator]) == int(kind)


def is_tendon_servo(source: MjcfSource, actuator: int) -> bool:
    """Whether an actuator is a servo on a tendon, rather than a motor."""
    return acts_on_tendon(source, actuator) and bool(source.model.actuator_biastype[actuator])


def check_transmissions(source: MjcfSource) -> None:
    """Reports actuators that are disabled, plugins, or do not act on joints.

    Disabled ones are warnings, and so are motors that do not act on joints.
    """
    model = source.model
    mujoco = import_mujoco()
    for actuator in range(len(model.actuator_trntype)):
        if is_off(source, actuator):
            message = "it is disabled and not read"
            source.report.warning(
                source.place("actuator", actuator), message, "enable it if it should act"
            )
            continue
        if _is_plugin(source, actuator):
            source.report_unsupported(
                "actuator", source.place("actuator", actuator), "a plugin computes its force"
            )
            continue
        if joint_transmission(source, actuator) is not None:
            continue
        place = source.place("actuator", actuator)
        kind = mujoco.mjtTrn(int(model.actuator_trntype[actuator]))
        laws = [
            int(getattr(model, f"actuator_{field}")[actuator])
            for field in ("dyntype", "gaintype", "biastype")
        ]
        if any(laws):
            source.report_unsupported(
                "actuator",
                place,
                f"it acts on a {kind.name[6:].lower()}, where drives are of joints",
            )
        else:
            message = (
                f"a motor on a {kind.name[6:].lower()} is not read; it has no effect without a "
                "command"
            )
            source.report.warning(
                place, message, "command it by MujocoCoordinates.control, or by forces and wrenches"
            )


def is_motor(source: MjcfSource, actuator: int) -> bool:
    """Whether an actuator's force depends on its control alone."""
    bias = _bias(source, actuator)
    is_plain = not _is_plugin(source, actuator) and _unsupported_form(source, actuator) is None
    return is_plain and not bias[1:].any()


def _bias(source: MjcfSource, actuator: int) -> np.ndarray:
    """An affine actuator's force at zero control: constant, by length, by rate; shape [3]."""
    affine = import_mujoco().mjtBias.mjBIAS_AFFINE
    is_affine = int(source.model.actuator_biastype[actuator]) == int(affine)
    return np.array(source.model.actuator_biasprm[actuator][:3]) * is_affine


def _unsupported_form(source: MjcfSource, actuator: int) -> str | None:
    """What artix does not have of an actuator's law, for messages; ``None`` if it has all."""
    mujoco = import_mujoco()
    forms = (
        ("dyntype", mujoco.mjtDyn, (mujoco.mjtDyn.mjDYN_NONE,)),
        ("gaintype", mujoco.mjtGain, (mujoco.mjtGain.mjGAIN_FIXED,)),
        ("biastype", mujoco.mjtBias, (mujoco.mjtBias.mjBIAS_NONE, mujoco.mjtBias.mjBIAS_AFFINE)),
    )
    for field, names, known in forms:
        value = int(getattr(source.model, f"actuator_{field}")[actuator])
        if value not in map(int, known):
            return f"{field} {names(value).name.split('_')[1].lower()}"
    for field in ("damping", "dampingpoly", "armature", "delay"):
        if np.any(getattr(source.model, f"actuator_{field}", np.zeros(actuator + 1))[actuator]):
            return field
    return None


def _law(source: MjcfSource, actuator: int, transmission: Transmission) -> ActuatorLaw | None:
    """The actuator's force law at its joint; reports an unsupported one and returns ``None``."""
    place = source.place("actuator", actuator)
    unsupported = _unsupported_form(source, actuator)
    if unsupported is not None:
        source.report_unsupported("actuator", place, f"an actuator with {unsupported}")
        return None
    law = ActuatorLaw.affine(transmission.gear, _bias(source, actuator), transmission.offset)
    if law.is_negative:
        source.report_unsupported("actuator", place, "its stiffness or damping is negative")
        return None
    limit = _effort_limit(source, actuator, transmission, motor=law.is_motor)
    return dataclasses.replace(law, limit=limit)


def _effort_limit(
    source: MjcfSource, actuator: int, transmission: Transmission, *, motor: bool
) -> np.ndarray:
    """The effort limits of an actuator at the DOFs of its joint; a motor's may follow from its
    control range.
    """
    model = source.model
    place = source.place("actuator", actuator)
    limit = np.inf
    if model.actuator_forcelimited[actuator]:
        low, high = map(float, model.actuator_forcerange[actuator])
        if low != -high and motor:
            _warn_of_range(source, place, "forcerange")
        elif low != -high:
            message = (
                "its forcerange is not symmetric; artix limits the drive to the larger side in "
                "both directions"
            )
            source.report_unsupported("actuator", place, message, left_out=False)
        limit = max(-low, high, 0.0)
    control = source.controls[actuator]
    if motor and model.actuator_ctrllimited[control] and not source.disables("CLAMPCTRL"):
        low, high = map(float, model.actuator_ctrlrange[control])
        if low != -high:
            _warn_of_range(source, place, "ctrlrange")
        # With the constant force that commands add.
        gain, constant = float(model.actuator_gainprm[actuator, 0]), _bias(source, actuator)[0]
        limit = min(limit, max(abs(gain * end + constant) for end in (low, high)))
    kind = model.jnt_type[transmission.joint]
    gears = np.abs(model.actuator_gear[actuator, : {BALL: 3, FREE: 6}.get(kind, 1)])
    if kind not in (BALL, FREE):
        gears = np.abs([transmission.gear])
    in_parent = int(model.actuator_trntype[actuator]) == int(
        import_mujoco().mjtTrn.mjTRN_JOINTINPARENT
    )
    if kind == BALL and limit < np.inf and (in_parent or np.count_nonzero(gears) > 1):
        message = "its limit is not one of a component of the ball joint's torque, and is not read"
        source.report.warning(place, message, "limit its command")
        return np.full(3, np.inf)
    return np.array([gear * limit if gear else 0.0 for gear in gears.tolist()])


def _warn_of_range(source: MjcfSource, place: Location, field: str) -> None:
    message = (
        f"its {field} is not symmetric; artix limits the commanded force to the larger side in "
        "both directions"
    )
    source.report.warning(place, message, "clip its command")


def _joint_limit(source: MjcfSource, joint: int) -> float:
    """The limit on the total effort of all actuators of a joint."""
    model = source.model
    if not model.jnt_actfrclimited[joint]:
        return np.inf
    low, high = map(float, model.jnt_actfrcrange[joint])
    if low != -high:
        message = (
            "its actuatorfrcrange is not symmetric; artix limits efforts to the larger side in "
            "both directions"
        )
        source.report_unsupported("limit", source.place("jnt", joint), message, left_out=False)
    return max(-low, high, 0.0)
