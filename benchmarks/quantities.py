"""The rows of the tables. To add one: a line here, its value in ``reference.py``, and a function in
each library."""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Quantity:
    """One row.

    Attributes:
      name: as in the tables.
      joint_axes: axes, counted from the end, along which entries are generalised coordinates in the
        library's order.
      joints_only: whether those axes omit the six entries of the root.
      robots: keys of the robots that have it; empty for all.
    """

    name: str
    joint_axes: tuple[int, ...] = ()
    joints_only: bool = False
    robots: tuple[str, ...] = ()


_ALL = (
    Quantity("link poses"),
    Quantity("poses and velocities"),
    Quantity("dense Jacobian", (-1,)),
    Quantity("mass matrix", (-1, -2)),
    Quantity("bias force", (-1,)),
    Quantity("inverse dynamics", (-1,)),
    Quantity("forward dynamics", (-1,)),
    # [n, 2, n]: of each joint's force or acceleration, by the joints' positions and by their
    # velocities.
    Quantity("inverse dynamics derivatives", (-1, -3), joints_only=True),
    Quantity("forward dynamics derivatives", (-1, -3), joints_only=True),
    # Of the sum of the joints' accelerations, by the joints' positions, in reverse mode.
    Quantity("gradient of forward dynamics", (-1,), joints_only=True),
    # [n, n]: of the joints' accelerations by their positions, in forward mode.
    Quantity("Jacobian of forward dynamics", (-1, -2), joints_only=True),
    # A position servo on every joint, no contacts, no active limit.
    Quantity("step", (-1,), joints_only=True),
    # Of the sum of the joints' mean accelerations during that step, by the joints' positions, in
    # reverse mode.
    Quantity("gradient of step", (-1,), joints_only=True),
    # Four feet held where they are; and the derivatives of the joints' accelerations, [n, 2, n] as
    # above.
    Quantity("constrained forward dynamics", (-1,), robots=("quadruped",)),
    Quantity(
        "constrained forward dynamics derivatives",
        (-1, -3),
        joints_only=True,
        robots=("quadruped",),
    ),
)

QUANTITIES: dict[str, Quantity] = {quantity.name: quantity for quantity in _ALL}
