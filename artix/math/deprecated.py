"""Public names that have moved or left: one table of them for all of artix."""

from __future__ import annotations

import functools
import importlib
import operator
import sys
import types
import warnings
from collections.abc import Callable
from typing import Any

_SOLVER = "artix.physx.solver"
_SOLVER_NAMES = (
    "SleepState",
    "is_sleeping",
    "put_to_sleep",
    "step_with_joint_drift",
    "step_with_sleep",
    "wake_up",
    "with_joint_drift",
)
_COMPILER_NAMES = ("Explanation", "OperationCost", "explain", "quantity", "use_kernels")
_NO_PADDING = (
    "trees are not data any more; artix.Fleet(members) takes any robots and evaluates them kind "
    "by kind"
)

#: Old functions of one kind of point -> the function of any point, and the arguments that the old
#: one fixed.
_POINTS: dict[str, tuple[str, dict[str, Any]]] = {
    "link_poses": ("frame_pose", {}),
    "link_velocities": ("frame_velocity", {"offset": "com"}),
    "link_frame_velocities": ("frame_velocity", {}),
    "link_accelerations": ("frame_acceleration", {"offset": "com", "classical": True}),
    "link_frame_accelerations": ("frame_acceleration", {}),
    "link_velocity_derivatives": ("frame_velocity_derivatives", {"offset": "com"}),
    "link_acceleration_derivatives": (
        "frame_acceleration_derivatives",
        {"offset": "com", "classical": True},
    ),
    "LinkVelocityDerivatives": ("FrameVelocityDerivatives", {}),
    "LinkAccelerationDerivatives": ("FrameAccelerationDerivatives", {}),
}

#: Old module -> the module that has its names now. It, too, goes on working for one release.
MOVED = {
    "artix.envs.gait_statistics": "artix.envs.gait",
    "artix.envs.noise": "artix.envs.disturbances",
    "artix.envs.registry": "artix.envs.tasks",
    "artix.envs.tasks.quadruped_rough": "artix.envs.tasks.quadruped_velocity",
    "artix.envs.transition": "artix.envs.control_step",
    "artix.examples.rollout": "artix.examples.swing_up",
    "artix.examples.ppo_settings": "artix.examples.learners",
    "artix.examples.shac_settings": "artix.examples.learners",
}

#: Old name -> new name. An old name goes on working for one release, with a ``DeprecationWarning``.
RENAMED = (
    {f"artix.simulation.{name}": f"{_SOLVER}.{name}" for name in _SOLVER_NAMES}
    | {f"artix.evaluation.{name}": f"artix.compiler.{name}" for name in _COMPILER_NAMES}
    | {
        f"{module}.dense_jacobian": "artix.physx.dense_jacobian"
        for module in ("artix", "artix.kinematics")
    }
    | {
        f"{module}.link_body_regressors": f"{module}.frame_body_regressor"
        for module in ("artix", "artix.dynamics")
    }
    | {
        f"{module}.{old}": f"{module}.{new}"
        for module in ("artix", "artix.kinematics")
        for old, (new, fixed) in _POINTS.items()
        if not fixed
    }
)

#: Old function -> new function and arguments to call it with, for one release, too.
CALLS = {
    f"{module}.{old}": (f"{module}.{new}", fixed)
    for module in ("artix", "artix.kinematics")
    for old, (new, fixed) in _POINTS.items()
    if fixed
}
RENAMED["artix.model.Scene"] = "artix.contact.Scene"
RENAMED["artix.envs.noise.GO1"] = "artix.envs.disturbances.GO1_NOISE"
RENAMED["artix.envs.noise.as_scales"] = "artix.envs.disturbances.as_noise_scales"
RENAMED["artix.examples.ppo_settings.SETTINGS"] = "artix.examples.learners.PPO_SETTINGS"
RENAMED["artix.examples.shac_settings.SETTINGS"] = "artix.examples.learners.SHAC_SETTINGS"

_STATE_REMEMBERS = "give the state a memory by artix.remember_contacts, and take artix.step"
_FORMER = "artix.simulation.former"

_MJCF = "artix.io.mjcf.reader"
_FORMER_STEPS = {
    "step_with_contact_memory": _STATE_REMEMBERS,
    "settled_contact_memory": "artix.remember_contacts gives the state that memory",
    "scene_step": "artix.step takes scenes",
    "scene_step_and_report": "artix.step_and_report takes scenes",
    "scene_step_with_contact_memory": _STATE_REMEMBERS,
    "scene_rollout": "artix.rollout takes scenes",
}
_FORMER_MEMORIES = {
    "ContactMemory": "artix.simulation.common.contact_memory",
    "FrictionAnchors": "artix.physx.solver.friction_anchors",
}
_FORMER_READERS = {
    "load_mjcf_all": (f"{_MJCF}.load_mjcf_all", "artix.load_world reads all robots of a file"),
    "load_mjcf_ground": (f"{_MJCF}.load_mjcf_ground", "write artix.load_world(path)[0].ground"),
    "load_usd_with_state": (
        "artix.io.usd.reader.load_usd_with_state",
        "artix.load_world(path) returns the state, too",
    ),
}

#: Old name -> where it still works for one release, and what to write instead.
REPLACED = {
    f"{room}.{name}": (f"{_FORMER}.{name}", advice)
    for name, advice in _FORMER_STEPS.items()
    for room in ("artix", "artix.simulation")
}
REPLACED |= {
    f"{room}.{name}": (f"{home}.{name}", _STATE_REMEMBERS)
    for name, home in _FORMER_MEMORIES.items()
    for room in ("artix", "artix.simulation")
}
REPLACED["artix.physx.solver.FrictionAnchors"] = REPLACED["artix.FrictionAnchors"]
REPLACED |= {
    f"{room}.{name}": old for name, old in _FORMER_READERS.items() for room in ("artix", "artix.io")
}
REPLACED["artix.optimal_control.inverse_kinematics"] = (
    "artix.inverse_kinematics.former.inverse_kinematics",
    "write artix.inverse_kinematics.solve(robot, [FrameTask(frame, target), ...], seeds)",
)
RENAMED["artix.optimal_control.InverseKinematics"] = "artix.inverse_kinematics.Solution"

#: Old getters of an ``artix.physx.ArticulationSimulation`` -> its attribute.
ATTRIBUTES = {
    "artix.physx.get_articulation_flags": "articulation_flags",
    "artix.physx.get_max_com_angular_velocity": "com_angular_velocity_limit",
    "artix.physx.get_max_com_linear_velocity": "com_linear_velocity_limit",
    "artix.physx.get_root_angular_velocity": "root_angular_velocity",
    "artix.physx.get_root_global_pose": "root_global_pose",
    "artix.physx.get_root_linear_velocity": "root_linear_velocity",
    "artix.physx.get_sleep_threshold": "sleep_threshold",
    "artix.physx.get_solver_iteration_counts": "solver_iteration_counts",
    "artix.physx.get_solver_residual": "solver_residual",
    "artix.physx.get_wake_counter": "wake_counter",
    "artix.physx.is_sleeping": "is_sleeping",
}

#: Names that nothing replaces -> why, and what to do instead.
REMOVED = {
    "artix.PaddedTopology": _NO_PADDING,
    "artix.Padding": _NO_PADDING,
    "artix.model.PaddedTopology": _NO_PADDING,
    "artix.model.Padding": _NO_PADDING,
    "artix.physx.common_init": (
        "nothing goes stale, so there is nothing to prepare: leave the call out"
    ),
    "artix.physx.get_stabilization_threshold": (
        "artix has no stabilisation, so there is no threshold"
    ),
    "artix.physx.set_stabilization_threshold": "artix has no stabilisation: leave the call out",
}


def exports(module: str) -> tuple[list[str], Callable[[str], Any]]:
    """The ``__all__`` and the ``__getattr__`` of a room: all that its ``__init__`` imports as
    itself, and old names.

    End the ``__init__`` with ``if not TYPE_CHECKING: __all__, __getattr__ = _exports(__name__)``.
    Type checkers know by ``from artix.room.module import name as name`` that a name is public, so
    that a room lists its names once.
    """
    names = vars(sys.modules[module])
    public = [
        name
        for name, value in names.items()
        if name[0] != "_" and not isinstance(value, types.ModuleType)
    ]
    return sorted({*public} - {"TYPE_CHECKING"}), old_names(module)


def old_modules(package: str) -> None:
    """Makes the modules of a package that have moved importable by their old names."""
    for old, new in MOVED.items():
        home, _, name = old.rpartition(".")
        if home == package:
            module = types.ModuleType(old, f"The old name of :mod:`{new}`.")
            vars(module)["__getattr__"] = old_names(old)
            sys.modules[old] = module
            setattr(sys.modules[package], name, module)


def old_names(module: str, stacklevel: int = 2) -> Callable[[str], Any]:
    """The ``__getattr__`` of a module, which finds its old names in these tables.

    Write it as ``if not TYPE_CHECKING: __getattr__ = old_names(__name__)``, so that type checkers
    go on refusing names that a module does not have. ``stacklevel`` counts the frames up to the
    user's line.
    """

    def __getattr__(name: str) -> Any:
        path = f"{module}.{name}"
        new, fixed = CALLS.get(path, (_renamed(module, name), {}))
        if new is not None:
            call = "".join(f", {key}={value!r}" for key, value in fixed.items())
            warnings.warn(
                f"{path} is now {new}{f'(...{call})' if fixed else ''}; the old name leaves with "
                "the next release",
                DeprecationWarning,
                stacklevel=stacklevel,
            )
            return _call(new, **fixed)
        if path in ATTRIBUTES:
            attribute = ATTRIBUTES[path]
            warnings.warn(
                f"{path}(simulation) is now simulation.{attribute}; the old name leaves with the "
                "next release",
                DeprecationWarning,
                stacklevel=stacklevel,
            )
            return operator.attrgetter(attribute)
        if path in REPLACED:
            path_of_former, advice = REPLACED[path]
            home, _, former = path_of_former.rpartition(".")
            warnings.warn(
                f"{path} leaves with the next release: {advice}",
                DeprecationWarning,
                stacklevel=stacklevel,
            )
            return getattr(importlib.import_module(home), former)
        if path in REMOVED:
            raise AttributeError(f"{module} no longer has {name}: {REMOVED[path]}")
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return __getattr__


def _renamed(module: str, name: str) -> str | None:
    """The new path of a name; ``None`` if it is no old one."""
    path, home = f"{module}.{name}", MOVED.get(module)
    if path in RENAMED or home is None or name.startswith("__"):
        return RENAMED.get(path)
    return f"{home}.{name}" if hasattr(importlib.import_module(home), name) else None


@functools.cache
def _call(path: str, **fixed: Any) -> Any:
    """A public name; with ``fixed`` arguments always the same function of the others, which JAX
    traces once.
    """
    home, _, name = path.rpartition(".")
    value = getattr(importlib.import_module(home), name)
    return functools.partial(value, **fixed) if fixed else value
