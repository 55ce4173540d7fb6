"""The ``artix`` command: a demonstration, a look at a robot, and a check of its description."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence

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

    robot_help = "path of a URDF file, or the name of a built-in robot"
    info = commands.add_parser("info", help="the tree, the degrees of freedom and the masses of a robot")
    info.add_argument("robot", help=robot_help)
    base_help = "fix the root to the world, or let it float (default: as the description says)"
    info.add_argument("--fixed-base", action=argparse.BooleanOptionalAction, default=None, help=base_help)
    info.set_defaults(run=_info)

    check = commands.add_parser("check", help="what is wrong with a robot's description; exit code 1 for errors")
    check.add_argument("robot", help=robot_help)
    check.set_defaults(run=_check)
    return parser


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

    return run_info(options.robot, fixed_base=options.fixed_base)


def _check(options: argparse.Namespace) -> int:
    from artix.cli.check import run_check

    return run_check(options.robot)
