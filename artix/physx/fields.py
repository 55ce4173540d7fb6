"""Where the arrays are that PhysX's API reads and writes, by the names of the direct-GPU API."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import jax

Array = jax.Array


class Field(NamedTuple):
    """An array in a simulation or a cache, or some of its columns; ``path`` leads to it from attribute to attribute."""

    path: str
    columns: slice = slice(None)

    def of(self, tree: Any) -> Array:
        """The field of a simulation or a cache."""
        return operator.attrgetter(self.path)(tree)[..., self.columns]

    def written(self, tree: Any, values: Array) -> Any:
        """The simulation or the cache with these values in the field."""
        if self.columns != slice(None):
            values = operator.attrgetter(self.path)(tree).at[..., self.columns].set(values)
        owner, _, name = self.path.rpartition(".")
        if not owner:
            return tree.replace(**{name: values})
        return tree.replace(**{owner: getattr(tree, owner).replace(**{name: values})})


#: Columns of velocities, accelerations and wrenches.
LINEAR, ANGULAR = slice(0, 3), slice(3, 6)

#: What ``PxArticulationGPUAPIReadType`` and ``PxArticulationGPUAPIWriteType`` name, as far as a simulation stores it.
FIELDS = {
    "JOINT_POSITION": Field("state.joint_position"),
    "JOINT_VELOCITY": Field("state.joint_velocity"),
    "JOINT_ACCELERATION": Field("report.joint_acceleration"),
    "JOINT_FORCE": Field("joint_force"),
    "JOINT_TARGET_VELOCITY": Field("drive_target_velocity"),
    "JOINT_TARGET_POSITION": Field("drive_target"),
    "ROOT_GLOBAL_POSE": Field("state.root_pose"),
    "ROOT_LINEAR_VELOCITY": Field("state.root_velocity", LINEAR),
    "ROOT_ANGULAR_VELOCITY": Field("state.root_velocity", ANGULAR),
    "LINK_LINEAR_ACCELERATION": Field("report.link_acceleration", LINEAR),
    "LINK_ANGULAR_ACCELERATION": Field("report.link_acceleration", ANGULAR),
    "LINK_INCOMING_JOINT_FORCE": Field("report.incoming_joint_force"),
    "LINK_FORCE": Field("external_force", LINEAR),
    "LINK_TORQUE": Field("external_force", ANGULAR),
}
