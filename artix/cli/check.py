"""``artix check``: prints the diagnostics of a robot description."""

from __future__ import annotations

from typing import Any

from artix.cli.robot_source import check_robot
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
    warnings = len(issues) - errors
    if not issues:
        print(f"{robot}: no problems found")
        return 0
    print(f"{robot}: {counted(errors, 'error')}, {counted(warnings, 'warning')}")
    return 1 if errors else 0
