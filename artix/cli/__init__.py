"""The ``artix`` command: demonstrates, inspects, checks and converts robot descriptions, and trains
policies.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from artix import robots
from artix.cli.names import check_output, did_you_mean, robot_file
from artix.cli.text import CommandFailure, Interrupts, installed, printable_output

#: Commands that share a module with another; each of the others has one of its own name. The
#: function of a command is ``run_`` and its name, and takes the command's options by their names.
_MODULES = {"check": "info"}
#: What the function of a command does not take: options for this module, and the only other
#: simulator.
_NOT_PASSED = ("command", "writes", "simulator")
#: Suffixes of the files that commands write.
_PICTURE, _PAGE = ("", ".png"), ("", ".html", ".htm")
#: Of commands that read a robot: only the options that the user gives are passed on, so the
#: readers' defaults hold.
_READS: dict[str, Any] = {"argument_default": argparse.SUPPRESS}
#: XLA's programs that take less to compile are not kept [s].
_WORTH_KEEPING = 0.1


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
      arguments: what follows the command's name; ``sys.argv`` when ``None``.

    Returns:
      The exit code: 0 for success, 1 for a failure that was explained on stderr (argparse itself
      exits with 2), 130 after Ctrl-C.
    """
    with printable_output(), Interrupts() as interrupts:
        try:
            options = _parser().parse_args(arguments)
            _check_names(options)
            with (
                interrupts.importing()
            ):  # Of JAX and Matplotlib, for which ``artix --help`` does not wait.
                module = importlib.import_module(
                    f"artix.cli.{_MODULES.get(options.command, options.command)}"
                )
            if arguments is None:  # This process is the command's.
                _keep_compiled_programs()
            chosen = {
                name: value for name, value in vars(options).items() if name not in _NOT_PASSED
            }
            return getattr(module, f"run_{options.command}")(**chosen)
        except KeyboardInterrupt:
            message, code = "interrupted", 130
        except BrokenPipeError:  # The reader of a pipe, such as ``head``, has closed it.
            sys.stderr.close()
            return 0
        except Exception as error:
            # Ctrl-C may cause any error, but what a command says about its files is meant.
            is_meant = isinstance(error, CommandFailure) and not isinstance(
                error.__cause__, ImportError
            )
            if interrupts.seen and not is_meant:
                message, code = "interrupted", 130
            elif (known := _message(error, options)) is not None:
                message, code = known, 1
            else:
                raise
        print(f"artix: {message}", file=sys.stderr)
        return code


def _keep_compiled_programs() -> None:
    """Has JAX keep what XLA compiles in artix's cache folder, so that a command that runs again
    does not compile again, unless the user keeps such programs elsewhere, or nothing.
    """
    import jax

    from artix.compiler.disk import folder_of_programs
    from artix.compiler.kernels import available, machine_key

    config: Any = jax.config  # JAX declares its options from 0.12 on.
    if config.jax_compilation_cache_dir or available() is not None:
        return
    programs = folder_of_programs(machine_key())
    if programs is not None:
        os.environ["ARTIX_CACHE"] = str(programs.parent)  # Kernels stay where they are.
        config.update("jax_compilation_cache_dir", str(programs))
        config.update("jax_persistent_cache_min_compile_time_secs", _WORTH_KEEPING)


def _check_names(options: argparse.Namespace) -> None:
    """Refuses files that cannot be read or written, before JAX is imported and any work is done."""
    if getattr(options, "robot", None) is not None:
        robot_file(options.robot)
    for name, suffixes in options.writes.items():
        if getattr(options, name, None) is not None:
            check_output(getattr(options, name), suffixes)


def _message(error: Exception, options: argparse.Namespace) -> str | None:
    """What a failure means to the user; ``None`` for a fault of artix."""
    if isinstance(
        error, CommandFailure | OSError
    ):  # The latter for a name that is too long or a full disk.
        return str(error)
    if isinstance(error, ValueError):
        from artix import DescriptionError  # With JAX, which is loaded if a description was read.

        if isinstance(error, DescriptionError):
            return f"{options.robot!r} was not loaded: {error}"
    return None


class _Parser(argparse.ArgumentParser):
    """A parser that suggests what was meant."""

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if choice is not None:
            message += did_you_mean(choice[1], re.findall(r"[\w-]+", choice[2]))
        super().error(message)


class _Version(argparse.Action):
    """Prints the versions that a report of a bug needs."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        about = "print the versions of artix, JAX and Python"
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, help=about)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        python = ".".join(map(str, sys.version_info[:3]))
        print(f"artix {installed('artix')}, jax {installed('jax')}, Python {python}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="artix", description="Robot dynamics in JAX, for one robot or for thousands."
    )
    parser.add_argument("--version", action=_Version)
    parser.set_defaults(writes={})
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")

    demo = commands.add_parser(
        "demo", help="compute, time and check every quantity for a mixed fleet, and draw it"
    )
    demo.add_argument(
        "--members", type=_positive, default=4096, help="size of the fleet (default: %(default)s)"
    )
    demo.add_argument(
        "--output", help="PNG file to write (default: artix_demo.png or artix_trajectories.png)"
    )
    demo.add_argument(
        "--seed", type=_seed, default=0, help="seed for the random states (default: %(default)s)"
    )
    trajectory_help = (
        "instead, optimise a swing-up by gradient descent and a reach by iLQR, and plot them"
    )
    demo.add_argument("--trajectory-optimization", action="store_true", help=trajectory_help)
    view_help = (
        "afterwards, show part of the fleet moving in a browser until Ctrl-C (needs artix[viewer])"
    )
    demo.add_argument("--view", dest="show", action="store_true", help=view_help)
    demo.set_defaults(writes={"output": (*_PICTURE, ".svg", ".pdf")})

    robot_help = (
        "a URDF, xacro, MJCF, USD or .npz file, or a built-in robot: "
        f"{', '.join(robots.names())}; or a name"
    )
    robot_help += " from example-robot-data, such as go2; or the folder of a training run"
    info = commands.add_parser(
        "info", help="print a robot's tree, degrees of freedom and masses", **_READS
    )
    info.add_argument("robot", help=robot_help)
    _add_reading_options(info)

    check_help = "report what is wrong with a description; exits with 1 on errors"
    check = commands.add_parser("check", help=check_help, **_READS)
    check.add_argument("robot", help=robot_help)
    _add_reading_options(check)

    convert_help = "convert a description to another format and report what is lost"
    convert = commands.add_parser("convert", help=convert_help, **_READS)
    convert.add_argument("robot", help=robot_help)
    convert.add_argument(
        "output", help="file to write: .urdf, .xml (MJCF), .usda, or .npz, which keeps everything"
    )
    _add_reading_options(convert)
    convert.add_argument(
        "--merge-fixed-joints", action="store_true", help="merge links on fixed joints"
    )
    convert.set_defaults(writes={"output": ()})

    view_help = "show a robot in a browser with a slider per joint, or save it"
    view = commands.add_parser("view", help=view_help, **_READS)
    view.add_argument("robot", help=robot_help)
    view.add_argument(
        "--html",
        metavar="FILE",
        help="instead, save one HTML file in which each joint moves in turn",
    )
    view.add_argument("--png", metavar="FILE", help="instead, save a picture")
    view.add_argument("--collision", action="store_true", help="also show the collision shapes")
    package_help = "folders to search for the meshes of package:// URLs"
    view.add_argument("--package-dirs", nargs="+", metavar="DIR", help=package_help)
    host_help = "address to listen on (default: %(default)s); 0.0.0.0 accepts other machines"
    view.add_argument("--host", default="127.0.0.1", help=host_help)
    view.add_argument(
        "--port", type=_whole, help="port to listen on (default: the first free one from 8080)"
    )
    view.add_argument(
        "--no-browser", action="store_true", help="print the address without opening a browser"
    )
    _add_reading_options(view)
    view.set_defaults(writes={"html": _PAGE, "png": _PICTURE})

    gpu = commands.add_parser(
        "gpu", help="whether kernels run on this machine's GPU, with what error and how fast"
    )
    gpu.add_argument(
        "--again", action="store_true", help="check once more, for instance if the GPU was busy"
    )
    json_help = "print everything as JSON, for a report of a bug"
    gpu.add_argument("--json", dest="as_json", action="store_true", help=json_help)

    _add_training_commands(commands)
    return parser


def _add_training_commands(commands: Any) -> None:
    train = commands.add_parser(
        "train", help="train a policy for a task; Ctrl-C saves a checkpoint"
    )
    task_help = (
        "the name of a task, or its beginning, such as quadruped (an unknown one lists all), or a "
        "Python file"
    )
    train.add_argument(
        "task", nargs="?", help=f"{task_help} with one (default: the one that fits --robot)"
    )
    train.add_argument(
        "--robot", help="a legged robot: URDF, MJCF, USD or .npz, or a name such as go2"
    )
    set_help = (
        "change options: rewards.pose=1, tracking_sigma=0.5, ppo.epochs=2, robot.stiffness=40"
    )
    several = {
        "dest": "assignments",
        "nargs": "+",
        "action": "extend",
        "metavar": "KEY=VALUE",
        "default": [],
    }
    train.add_argument("--set", help=set_help, **several)
    train.add_argument(
        "--steps",
        type=_count,
        help="environment steps, such as 20M (default: the task's usual number)",
    )
    envs_help = "number of environments (default: the task's usual one)"
    train.add_argument("--envs", dest="num_envs", type=_count, help=envs_help)
    train.add_argument("--seed", type=_seed, help="seed of all random numbers (default: 0)")
    train.add_argument(
        "--output",
        help="folder for checkpoints, curve and policy (default: runs/TASK or runs/ROBOT)",
    )
    train.add_argument(
        "--resume", action="store_true", help="continue from the checkpoint in that folder"
    )
    from_help = (
        "begin with what another training run learned: its folder, which also gives task, robot "
        "and settings"
    )
    train.add_argument("--from", dest="source", metavar="FOLDER", help=from_help)
    method_help = (
        "how it learns: by trials (ppo, the default) or by gradients of the simulation (shac)"
    )
    train.add_argument("--method", choices=("ppo", "shac"), help=method_help)
    residual_help = (
        "learn what to add to the actions of this policy, which stays as it is, such as "
        "quadruped_velocity for quadruped_rough: a built-in one, a training run's folder, or a file"
    )
    train.add_argument("--residual", metavar="POLICY", help=residual_help)
    stages_help = (
        "train in stages, each of which begins with what the one before learned: walk, for a "
        "quadruped that walks exactly and falls rarely, or a TOML file of your own"
    )
    train.add_argument("--stages", metavar="RECIPE", help=stages_help)
    tensorboard_help = (
        "also write TensorBoard's event files to that folder (needs artix[tensorboard])"
    )
    train.add_argument("--tensorboard", action="store_true", help=tensorboard_help)

    play = commands.add_parser(
        "play", help="print statistics of episodes of a trained policy, and animate one"
    )
    play.add_argument(
        "checkpoint",
        help="a policy.npz or checkpoint.npz of artix train, its folder, or the name of a built-in "
        "policy (an unknown one lists them)",
    )
    play.add_argument(
        "--episodes", type=_positive, default=64, help="number of episodes (default: %(default)s)"
    )
    play.add_argument(
        "--seed", type=_seed, default=1, help="seed of the episodes (default: %(default)s)"
    )
    play.add_argument("--html", help="save the first episode as an animation in a single HTML file")
    play.add_argument(
        "--video",
        help="save 10 s of the first episode as a .gif, or as an .mp4 (needs artix[video])",
    )
    play.set_defaults(writes={"html": _PAGE, "video": (".gif", ".mp4")})

    verify_help = (
        "run a policy in artix and in MuJoCo with the same commands, and compare (needs "
        "artix[mjcf])"
    )
    verify = commands.add_parser("verify", help=verify_help)
    verify.add_argument("checkpoint", help="as for artix play")
    simulator_help = "the other simulator (default: %(default)s)"
    verify.add_argument(
        "--in", dest="simulator", choices=("mujoco",), default="mujoco", help=simulator_help
    )
    seconds_help = "how long each command is followed (default: %(default)s)"
    verify.add_argument("--seconds", type=_seconds, default=10.0, help=seconds_help)
    plot_help = "PNG file for paths, height, feet and torques (default: %(default)s)"
    verify.add_argument("--output", default="verify.png", help=plot_help)
    verify.set_defaults(writes={"output": _PICTURE})

    export_help = (
        "write a policy as ONNX and StableHLO, with a JSON and a MuJoCo scene for the robot's "
        "runtime"
    )
    export = commands.add_parser("export", help=export_help)
    export.add_argument("checkpoint", help="as for artix play")
    export.add_argument("--output", help="folder for the files (default: exported/TASK)")


def _add_reading_options(command: argparse.ArgumentParser) -> None:
    base_help = "fix the root to the world or let it float (default: as the description says)"
    command.add_argument("--fixed-base", action=argparse.BooleanOptionalAction, help=base_help)
    command.add_argument(
        "--body",
        help="child of the worldbody to read, for an MJCF with several (default: the only one)",
    )
    root_help = (
        "path of the articulation root prim, for a USD stage with several (default: the only one)"
    )
    command.add_argument("--root", help=root_help)
    skip_help = "what --strict leaves out of an MJCF, such as actuator, or all"
    command.add_argument("--skip", nargs="+", metavar="KIND", help=skip_help)
    command.add_argument(
        "--repair", nargs="+", metavar="KIND", help="what to repair: inertia, or mimic in a URDF"
    )
    strict_help = (
        "reject what is otherwise read with a warning that says how, such as impossible inertias"
    )
    command.add_argument("--strict", action="store_true", help=strict_help)
    meshes_help = "what to make of collision meshes (default: they are left out)"
    command.add_argument("--meshes", choices=("hull", "capsule"), help=meshes_help)
    contact_help = "let all shapes touch each other that an MJCF or a USD stage allows to"
    command.add_argument("--self-contact", action="store_true", help=contact_help)


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number; found {text!r}") from None


def _positive(text: str) -> int:
    value = _whole(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1; found {value}")
    return value


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e5:
        raise argparse.ArgumentTypeError(f"must be a time in seconds; found {text!r}")
    return value


def _seed(text: str) -> int:
    value = _whole(text)
    if abs(value) >= 2**62:
        raise argparse.ArgumentTypeError(
            f"must be below 2^62, the most that random keys take; found {value}"
        )
    return value


def _count(text: str) -> int:
    """A whole number that may be abbreviated: 20M, 1.5M, 4k."""
    factor = {"k": 1e3, "m": 1e6, "g": 1e9}.get(text[-1:].lower())
    try:
        value = round(float(text if factor is None else text[:-1]) * (factor or 1))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(
            f"must be a number such as 4096, 20k or 1.5M; found {text!r}"
        ) from None
    return _positive(str(value))
