"""artix: the dynamics of articulations in JAX, for one robot or for thousands.

``__all__`` lists the names that most users need first. All other public names belong to a room,
such as ``artix.kinematics.joint_jacobians_rate`` or ``artix.constraints.delassus_matrix``, with
``artix.<name>`` as an alias.
"""

from functools import cache as _cache
from importlib import import_module as _import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from artix import physx, robots
    from artix.compiler import *
    from artix.constraints import *
    from artix.contact import *
    from artix.dynamics import *
    from artix.editing import *
    from artix.fleet import *
    from artix.io import *
    from artix.kinematics import *
    from artix.math import lie
    from artix.model import *
    from artix.physx.solver import *
    from artix.simulation import *

__all__ = [
    "Articulation",
    "ArticulationBuilder",
    "Attachment",
    "Axis",
    "CompositeJoint",
    "Constraint",
    "Constraints",
    "Contacts",
    "Control",
    "DescriptionError",
    "DescriptionWarning",
    "Drive",
    "DriveEnvelope",
    "FixedTendon",
    "Fleet",
    "Geometry",
    "Ground",
    "HeightField",
    "Joint",
    "JointFriction",
    "JointType",
    "LoopJoint",
    "LoopJointType",
    "MujocoCoordinates",
    "Plane",
    "Scene",
    "SolverOptions",
    "SpatialTendon",
    "State",
    "TendonJoint",
    "Topology",
    "attach_articulation",
    "bias_force",
    "center_of_mass",
    "center_of_mass_velocity",
    "centroidal_momentum",
    "check",
    "constrained_forward_dynamics",
    "contact_forces",
    "coriolis_compensation",
    "difference",
    "explain",
    "forward_dynamics",
    "forward_dynamics_derivatives",
    "forward_kinematics",
    "frame_acceleration",
    "frame_jacobian",
    "frame_pose",
    "frame_velocity",
    "generalized_external_force",
    "generalized_velocity",
    "geometry_distances",
    "geometry_pair_distances",
    "gravity_compensation",
    "ground_contacts",
    "integrate",
    "interpolate",
    "inverse_dynamics",
    "inverse_dynamics_derivatives",
    "kinetic_energy",
    "lie",
    "linearize",
    "load",
    "load_mjcf",
    "load_urdf",
    "load_usd",
    "load_world",
    "lock_joints",
    "mass_matrix",
    "mass_matrix_inverse",
    "mass_matrix_solve",
    "mechanical_energy",
    "neutral_state",
    "normalize",
    "physx",
    "potential_energy",
    "quantity",
    "random_state",
    "remember_contacts",
    "robots",
    "rollout",
    "save",
    "select_geometry",
    "step",
    "step_and_report",
    "use_kernels",
    "vector_field",
    "with_generalized_velocity",
]


#: The rooms whose public names are names of ``artix``, too, and those that are not.
_ROOMS = (
    "compiler",
    "constraints",
    "contact",
    "dynamics",
    "editing",
    "fleet",
    "io",
    "kinematics",
    "model",
    "physx.solver",
    "simulation",
)
_OTHER_ROOMS = ("math", "physx", "robots")
_OLD_ROOMS = ("evaluation",)


@_cache
def _load_rooms() -> None:
    """Imports the rooms, and JAX with them, as soon as one of their names is used.

    ``import artix`` alone takes a few milliseconds, so that the command line answers without
    waiting for JAX.
    """
    modules = {room: _import_module(f"artix.{room}") for room in (*_ROOMS, *_OTHER_ROOMS)}
    for room in _ROOMS:
        globals().update({name: getattr(modules[room], name) for name in modules[room].__all__})
    globals()["lie"] = _import_module("artix.math.lie")


if not TYPE_CHECKING:  # Type checkers must not take any name for an attribute.

    def __getattr__(name: str) -> Any:
        if name in (*_ROOMS, *_OTHER_ROOMS, *_OLD_ROOMS):
            return _import_module(f"artix.{name}")
        if name.startswith("_"):
            raise AttributeError(f"module 'artix' has no attribute {name!r}")
        _load_rooms()
        if name in globals():
            return globals()[name]
        return _import_module("artix.math.deprecated").old_names("artix", stacklevel=3)(name)


def __dir__() -> list[str]:
    """What completion offers: ``__all__`` and the rooms, without the aliases."""
    _load_rooms()
    modules = {name: value for name, value in globals().items() if isinstance(value, ModuleType)}
    return sorted(
        {
            *__all__,
            *(name for name, value in modules.items() if value.__name__.startswith("artix.")),
        }
    )
