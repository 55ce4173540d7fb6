"""``artix check``: prints the diagnostics of a robot description."""

from __future__ import annotations

from typing import Any

from artix.cli.info import base_hint
from artix.cli.robot_source import check_robot, load_robot
from artix.cli.text import counted


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
    if not errors and robot.lower().endswith((".urdf", ".xacro")):  # Other formats say whether the base is fixed.
        hint = base_hint(load_robot(robot, **{name: value for name, value in options.items() if name != "meshes"}))
        if hint:
            print(f"{robot}: {hint}")
    if not issues:
        print(f"{robot}: no problems found")
        return 0
    also = f", {counted(notes, 'note')}" if notes else ""
    print(f"{robot}: {counted(errors, 'error')}, {counted(warnings, 'warning')}{also}")
    return 1 if errors else 0
