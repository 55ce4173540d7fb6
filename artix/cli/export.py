"""``artix export``: writes a policy in the formats that robots and other simulators read."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax

from artix import envs
from artix.cli.play import load_played
from artix.cli.text import CommandFailure
from artix.envs import deployment
from artix.examples import deploy_mujoco, policies
from artix.io.common.atomic_file import write_atomically

#: What is written for legged robots only.
_OF_LEGS = ("policy.json", "scene.xml", "deploy_mujoco.py")


def run_export(checkpoint: str, *, output: str | None) -> int:
    """Exports a policy.

    Args:
      checkpoint: as for :func:`artix.cli.play.run_play`.
      output: folder for the files; ``None`` for ``exported/TASK``.

    Returns:
      0.

    Raises:
      CommandFailure: the checkpoint cannot be read, or the folder cannot be written.
    """
    header, environment, policy = load_played(checkpoint)
    folder = Path(output or f"exported/{header['task']}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written, missing = export_policy(folder, policy, environment)
    except OSError as error:
        raise CommandFailure(
            f"{str(folder)!r} cannot be written: {error.strerror or error}"
        ) from error
    print(f"written to {folder}/: {', '.join(written)}")
    for reason in missing:
        print(f"no {reason}")
    if {"policy.onnx", "policy.json", "scene.xml"} <= {*written}:
        print(
            f"to try it in MuJoCo, without artix: python {folder}/deploy_mujoco.py --command 0.5 "
            "0 0"
        )
    return 0


def export_policy(
    folder: Path, policy: policies.Policy, environment: envs.Environment
) -> tuple[list[str], list[str]]:
    """Writes a policy as StableHLO and ONNX and, for a legged robot, what its runtime needs to
    know.

    Returns:
      The names of the files, and why others are missing. Those of a former export leave.

    Raises:
      OSError: a file cannot be written.
    """
    policy = jax.device_get(policy)
    makers: dict[str, Any] = {
        "policy.stablehlo": lambda: policies.export(policy),
        "policy.onnx": lambda: policies.export_onnx(policy),
        "policy.json": lambda: (
            json.dumps(deployment.describe(environment), indent=1).encode() + b"\n"
        ),
        "scene.xml": lambda: deployment.scene(environment).encode(),
        "deploy_mujoco.py": lambda: Path(deploy_mujoco.__file__).read_bytes(),
    }
    if not isinstance(environment, deployment.LeggedVelocity):
        for name in _OF_LEGS:
            del makers[name]
        if _is_exported(folder / "policy.json"):
            _remove(folder, _OF_LEGS)
    written, missing = [], []
    for name, make in makers.items():
        try:
            content = make()
        except (ImportError, ValueError, TypeError) as error:
            missing.append(f"{name}: {error}")
            _remove(folder, (name,))
            continue
        write_atomically(folder / name, functools.partial(_write, content))
        written.append(name)
    return written, missing


def _is_exported(path: Path) -> bool:
    """Whether a description is one that :func:`export_policy` wrote."""
    try:
        return f'"{deployment.FORMAT}"' in path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False


def _remove(folder: Path, names: Iterable[str]) -> None:
    """Removes files of a former export: a robot must not be driven with what another policy
    needs.
    """
    for name in names:
        (folder / name).unlink(missing_ok=True)


def _write(content: bytes, part: Path) -> None:
    part.write_bytes(content)
