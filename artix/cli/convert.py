"""``artix convert``: converts a robot description to another format."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax

from artix.cli.names import did_you_mean, naming
from artix.cli.not_converted import not_converted
from artix.cli.robot_source import check_robot, description_path, load_robot
from artix.cli.text import CommandFailure, counted, refused
from artix.io.common.diagnostics import DescriptionError
from artix.io.load import SUFFIXES, save


def run_convert(robot: str, output: str, **options: Any) -> int:
    """Reads a robot in double precision, writes it, and prints all warnings and what is lost.

    Args:
      robot: path of a robot description, or the name of a built-in robot.
      output: the file to write; its suffix names the format.
      **options: options of the reader.

    Returns:
      0, or 1 if the description has errors or the format cannot describe the robot; both are printed.

    Raises:
      CommandFailure: the robot cannot be read, or the output cannot be written.
    """
    suffix = Path(output).suffix.lower()
    if suffix not in SUFFIXES:
        known = [one for one in SUFFIXES if one != ".xacro"]
        raise CommandFailure(
            f"{output}: no writer for the suffix {suffix!r}{did_you_mean(suffix, known)}; choose from: "
            f"{', '.join(known)}"
        )
    issues = check_robot(robot, **options)
    if any(issue.severity == "error" for issue in issues):
        return refused(issues, f"{robot!r} has errors and was not converted")
    left = not_converted(description_path(robot))  # Before the output may replace it.
    with _double_precision():
        articulation = load_robot(robot, **options)
        try:
            with naming(output):
                warnings = save(articulation, output)
        except DescriptionError as error:
            return refused(error.issues, f"{robot!r} was not written")
        except (ValueError, ImportError) as error:
            raise CommandFailure(str(error)) from error
    for issue in [*issues, *warnings]:
        print(issue)
    print(f"{output}: {articulation.topology.num_links} links, {articulation.topology.num_dofs} DOFs", end="")
    lost = [f"{counted(len(warnings), 'feature')} cannot be expressed in {suffix}"] if warnings else []
    lost += [f"not converted: {', '.join(left)}"] if left else []
    print("; ".join(["", *lost]) if lost else ", nothing lost")
    return 0


@contextlib.contextmanager
def _double_precision() -> Iterator[None]:
    """Enables double precision, so that conversion keeps all digits."""
    before = jax.config.read("jax_enable_x64")
    jax.config.update("jax_enable_x64", True)
    try:
        yield
    finally:
        jax.config.update("jax_enable_x64", before)
