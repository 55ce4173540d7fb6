"""The ``artix`` command: a demonstration, a look at a robot, a check of its description, and its conversion."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from typing import Any

from artix.cli.errors import UnreadableRobot


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
      arguments: what follows the command's name; ``sys.argv`` when ``None``.

    Returns:
      The exit code: 0 for success, 1 for a failure that was explained on stderr (argparse itself exits with 2).
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without Unicode shows "?" for a branch, not a traceback
    options = _parser().parse_args(arguments)
    try:
        return options.run(options)
    except UnreadableRobot as error:
        print(f"artix: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader of a pipe, such as ``head``, has seen enough
        sys.stderr.close()
        return 0
    except KeyboardInterrupt:
        print("artix: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="artix", description="The dynamics of articulations in JAX, for one robot or for thousands."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    demo = commands.add_parser("demo", help="every quantity for a fleet of mixed robots, verified, with a plot")
    demo.add_argument("--members", type=_positive, default=4096, help="robots in the fleet (default: %(default)s)")
    demo.add_argument("--output", help="where the plot goes (default: artix_demo.png or artix_trajectories.png)")
    demo.add_argument("--seed", type=int, default=0, help="seed of the random states (default: %(default)s)")
    trajectory_help = "instead: swing-up by gradient descent, and a reach by iLQR, with a plot"
    demo.add_argument("--trajectory-optimization", action="store_true", help=trajectory_help)
    demo.set_defaults(run=_demo)

    robot_help = "path of a URDF, xacro, MJCF, USD or .npz file, or the name of a built-in robot"
    info = commands.add_parser("info", help="the tree, the degrees of freedom and the masses of a robot")
    info.add_argument("robot", help=robot_help)
    _add_reading_options(info)
    info.set_defaults(run=_info)

    check = commands.add_parser("check", help="what is wrong with a robot's description; exit code 1 for errors")
    check.add_argument("robot", help=robot_help)
    _add_checking_options(check)
    check.set_defaults(run=_check)

    convert = commands.add_parser("convert", help="a robot's description in another format, and what is lost")
    convert.add_argument("robot", help=robot_help)
    convert.add_argument("output", help="the file to write: .urdf, .xml (MJCF), .usda or .npz, which keeps everything")
    _add_reading_options(convert)
    convert.add_argument("--merge-fixed-joints", action="store_true", default=None, help="merge links on fixed joints")
    convert.set_defaults(run=_convert)
    return parser


def _add_reading_options(command: argparse.ArgumentParser) -> None:
    base_help = "fix the root to the world, or let it float (default: as the description says)"
    command.add_argument("--fixed-base", action=argparse.BooleanOptionalAction, default=None, help=base_help)
    command.add_argument("--body", help="child of the world to read, for MJCF with several (default: the only one)")
    _add_checking_options(command)


def _add_checking_options(command: argparse.ArgumentParser) -> None:
    root_help = "path of the prim that is the articulation's root, for USD with several (default: the only one)"
    command.add_argument("--root", help=root_help)
    command.add_argument("--skip", nargs="+", metavar="KIND", help="what of an MJCF may be left out, such as actuator")
    command.add_argument("--repair", nargs="+", metavar="KIND", help="what to repair: inertia, or mimic in a URDF")
    strict_help = "refuse inertias that no body has, instead of computing with them as given"
    command.add_argument("--strict", action="store_true", default=None, help=strict_help)


def _given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options of readers that were given."""
    values = {name: getattr(options, name) for name in (*names, "root", "skip", "repair", "strict")}
    if values["skip"] == ["all"]:
        values["skip"] = "all"
    return {name: value for name, value in values.items() if value is not None}


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; found {value}")
    return value


# Commands import what they run only when they run: ``artix --help`` should not wait for Matplotlib.


def _demo(options: argparse.Namespace) -> int:
    if options.trajectory_optimization:
        from artix.cli.trajectory_demo import run_trajectory_demo

        return run_trajectory_demo(output=options.output or "artix_trajectories.png", seed=options.seed)
    from artix.cli.demo import run_demo

    return run_demo(members=options.members, output=options.output or "artix_demo.png", seed=options.seed)


def _info(options: argparse.Namespace) -> int:
    from artix.cli.info import run_info

    return run_info(options.robot, **_given(options, "fixed_base", "body"))


def _check(options: argparse.Namespace) -> int:
    from artix.cli.check import run_check

    return run_check(options.robot, **_given(options))


def _convert(options: argparse.Namespace) -> int:
    from artix.cli.convert import run_convert

    return run_convert(options.robot, options.output, **_given(options, "fixed_base", "body", "merge_fixed_joints"))
