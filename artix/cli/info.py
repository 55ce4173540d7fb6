"""``artix info`` and ``artix check``: the tree, the degrees of freedom and the masses of one robot;
its diagnostics.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from artix.cli.robot_source import check_robot, load_robot
from artix.cli.text import counted, printable, quantity, refused, table
from artix.model.articulation import Articulation
from artix.model.joints import Axis, JointType
from artix.model.topology import Topology


def run_info(robot: str, **options: Any) -> int:
    """Prints a summary of a robot, its tree, its degrees of freedom and any warnings.

    Args:
      robot: path of a robot description, or the name of a built-in robot.
      **options: options of the reader.

    Returns:
      0, or 1 if the description has errors; they are then printed instead.
    """
    issues = check_robot(robot, **options)
    if any(issue.severity == "error" for issue in issues):
        return refused(issues, f"{robot!r} has errors and was not loaded")
    articulation = load_robot(robot, **options)
    hint = base_hint(articulation)
    print("\n\n".join([summary(articulation), tree_drawing(articulation), dof_table(articulation)]))
    if hint:
        print(f"\n{hint}")
    if issues:
        print("\n" + "\n".join(str(issue) for issue in issues))
    return 0


def summary(articulation: Articulation) -> str:
    """The robot's name, sizes and total mass, on two lines."""
    topology = articulation.topology
    base = "fixed base" if topology.fixed_base else "floating base"
    fixed = topology.num_links - topology.num_bodies
    rigid = f" ({counted(fixed, 'fixed joint')})" if fixed else ""
    sizes = (
        f"{counted(topology.num_links, 'link')}{rigid}, {topology.num_dofs} DOFs, nv = "
        f"{topology.nv}"
    )
    parts = (
        (topology.mimic_dofs, "mimic joint"),
        (topology.fixed_tendons, "fixed tendon"),
        (topology.spatial_tendons, "spatial tendon"),
        (topology.loop_joints, "loop joint"),
        (topology.frame_names, "additional frame"),
        ([shape for shape in topology.geometries if not shape.sensor], "shape"),
        ([shape for shape in topology.geometries if shape.sensor], "sensor"),
        (topology.geometry_pairs, "contact pair"),
    )
    extras = [counted(len(names), noun) for names, noun in parts if names] + _joint_features(
        articulation
    )
    total = quantity(float(np.sum(np.asarray(articulation.link_mass, float))))
    return f"{printable(topology.name)}: {', '.join([base, sizes, *extras])}\ntotal mass {total} kg"


def base_hint(articulation: Articulation) -> str | None:
    """What to do if the base of an arm floats: of a robot with a single limb of several joints."""
    topology = articulation.topology
    root = {0}
    for link, above in enumerate(topology.parent):
        if above in root and not topology.joint_axes[link]:
            root.add(link)
    limbs = sum(above in root and link not in root for link, above in enumerate(topology.parent))
    if topology.fixed_base or limbs != 1 or topology.num_dofs < 2:
        return None
    return (
        f"its base, {topology.link_names[0]!r}, floats; read an arm on a table with "
        "fixed_base=True (--fixed-base)"
    )


def tree_drawing(articulation: Articulation) -> str:
    """The links as a tree, each with its inbound joint and its mass."""
    topology = articulation.topology
    mass = np.asarray(articulation.link_mass, float)
    children: list[list[int]] = [[] for _ in topology.parent]
    for link, above in enumerate(topology.parent):
        if above >= 0:
            children[above].append(link)
    rows: list[tuple[str, str, str]] = []

    def draw(link: int, first: str, rest: str) -> None:
        joint = f"{topology.joint_names[link - 1]} ({_joint_type(topology, link)})" if link else ""
        rows.append(
            (
                first + topology.link_names[link],
                f"{quantity(mass[link])} kg" if mass[link] else "-",
                joint,
            )
        )
        for child in children[link]:
            last = child == children[link][-1]
            draw(child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))

    draw(0, "", "")
    return table(("link", "mass", "joint to its parent"), rows, align="lrl")


def dof_table(articulation: Articulation) -> str:
    """One line per degree of freedom: its type, axis in the child's link frame, limits, effort and
    speed.
    """
    topology = articulation.topology
    names = ("joint_lower_limit", "joint_upper_limit", "max_joint_force", "max_joint_velocity")
    limits = np.stack([np.asarray(getattr(articulation, name), float) for name in names], axis=1)
    rows = []
    for dof, name in enumerate(topology.dof_names):
        kind = _joint_type(topology, int(topology.dof_link[dof]))
        rows.append(
            (str(dof), name, kind, _axis_text(articulation, dof), *map(quantity, limits[dof]))
        )
    kinds = sorted(set(np.asarray(topology.dof_is_linear).tolist()))  # Turning before sliding.

    def unit(turning: str, sliding: str) -> str:
        return f"[{' or '.join((turning, sliding)[kind] for kind in kinds)}]"

    angle, torque, speed = unit("rad", "m"), unit("N m", "N"), unit("rad/s", "m/s")
    limits_of = (f"lower {angle}", f"upper {angle}", f"effort {torque}", f"velocity {speed}")
    heading = ("DOF", "name", "type", "axis", *(limits_of if kinds else ()))
    return table(heading, rows, align="rlll")


def _joint_features(articulation: Articulation) -> list[str]:
    """How many DOFs have a drive, an envelope and friction; also that none has a drive or
    armature.
    """
    drive = articulation.drive
    friction = articulation.friction
    active = (
        ((drive.stiffness > 0) | (drive.damping > 0), "driven DOF"),
        (articulation.envelope.max_effort < np.inf, "performance envelope"),
        ((friction.static > 0) | (friction.viscous > 0), "DOF with friction"),
    )
    counts = [(int(np.sum(np.asarray(where))), noun) for where, noun in active]
    without = ["no drive gains"] if articulation.topology.num_dofs and not counts[0][0] else []
    if articulation.topology.num_dofs and not np.any(np.asarray(articulation.armature)):
        without.append("no armature")
    return [*without, *(counted(number, noun) for number, noun in counts if number)]


def _joint_type(topology: Topology, link: int) -> str:
    kind = topology.joint_types[link]
    names = {JointType.FIX: "fixed", JointType.REVOLUTE_UNWRAPPED: "revolute"}
    return names.get(kind, kind.name.lower())


def _axis_text(articulation: Articulation, dof: int) -> str:
    """The axis of a DOF in its child's link frame: ``x``, ``-y``, or three numbers."""
    topology = articulation.topology
    x, y, z, w = np.asarray(articulation.joint_child_pose, float)[topology.dof_link[dof], 3:]
    vector = np.eye(3)[topology.dof_axis[dof] % int(Axis.X)]
    turn = np.array([x, y, z])
    axis = vector + 2 * np.cross(turn, np.cross(turn, vector) + w * vector)
    largest = int(np.argmax(np.abs(axis)))
    if abs(axis[largest]) > 1 - 1e-6:
        return ("-" if axis[largest] < 0 else "") + "xyz"[largest]
    return "(" + ", ".join(quantity(round(float(component), 5), 3) for component in axis) + ")"


def run_check(robot: str, **options: Any) -> int:
    """Prints every issue of a description, one a line, and a summary.

    Args:
      robot: path of a robot description, or the name of a built-in robot.
      **options: options of the checker.

    Returns:
      1 if there is an error, 0 otherwise: warnings pass.
    """
    issues = check_robot(robot, **options)
    for issue in issues:
        print(issue)
    errors = sum(issue.severity == "error" for issue in issues)
    warnings = sum(issue.severity == "warning" for issue in issues)
    notes = len(issues) - errors - warnings
    if not errors and robot.lower().endswith(
        (".urdf", ".xacro")
    ):  # Other formats say whether the base is fixed.
        hint = base_hint(
            load_robot(
                robot, **{name: value for name, value in options.items() if name != "meshes"}
            )
        )
        if hint:
            print(f"{robot}: {hint}")
    if not issues:
        print(f"{robot}: no problems found")
        return 0
    also = f", {counted(notes, 'note')}" if notes else ""
    print(f"{robot}: {counted(errors, 'error')}, {counted(warnings, 'warning')}{also}")
    return 1 if errors else 0
