"""Malformed stages: each loads a valid articulation or raises artix's own error, and nothing else
happens."""

from __future__ import annotations

import random
import re
import warnings

import numpy as np
import pytest

import artix
from artix.io.usd.reader import load_usd_with_state
from tests.io.test_usd_features import pair, spatial
from tests.io.test_usd_mass import CUBE, FACES, MATERIAL, collider, lone_body, mesh_lists
from tests.support.usd_stages import MECHANISMS, numbers

_MESH = collider("Mesh", "mesh", mesh_lists(CUBE, FACES), schemas=', "PhysicsMassAPI"')
_CONE = collider("Cone", "cone", 'double radius = 1\nuniform token axis = "Y"')
SEEDS = [
    *MECHANISMS.values(),
    lone_body(_MESH, _CONE, before=MATERIAL),
    spatial(),
    pair('float physics:coneAngle0Limit = 30\nuniform token physics:axis = "Z"', kind="Spherical"),
]

WORDS = [
    "nan",
    "inf",
    "-inf",
    "0",
    "-1",
    "1e38",
    "3.5e38",
    "1e-40",
    "1e400",
    '"word"',
    "true",
    "(1, 2)",
    "[1, 2]",
    "None",
    "[]",
    "()",
]
TYPES = [
    "float",
    "double",
    "int",
    "string",
    "token",
    "bool",
    "quatf",
    "float3",
    "point3f[]",
    "float[]",
    "matrix4d",
    "asset",
]


def delete_line(lines: list[str], rng: random.Random) -> None:
    del lines[rng.randrange(len(lines))]


def duplicate_line(lines: list[str], rng: random.Random) -> None:
    lines.insert(rng.randrange(len(lines)), rng.choice(lines))


def swap_lines(lines: list[str], rng: random.Random) -> None:
    first, second = rng.randrange(len(lines)), rng.randrange(len(lines))
    lines[first], lines[second] = lines[second], lines[first]


def change_value(lines: list[str], rng: random.Random) -> None:
    index = rng.choice([k for k, line in enumerate(lines) if " = " in line] or [0])
    left, _, right = lines[index].partition(" = ")
    numbers_in = re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", right)
    if numbers_in and rng.random() < 0.7:
        lines[index] = f"{left} = {right.replace(rng.choice(numbers_in), rng.choice(WORDS[:9]), 1)}"
    else:
        lines[index] = f"{left} = {rng.choice(WORDS)}"


def change_type(lines: list[str], rng: random.Random) -> None:
    index = rng.choice([k for k, line in enumerate(lines) if " = " in line] or [0])
    words = lines[index].split()
    if len(words) > 1:
        place = 1 if words[0] == "uniform" else 0
        lines[index] = " ".join(
            [*words[:place], rng.choice(TYPES), *words[place + 1 : -1], rng.choice(WORDS)]
        )


def change_path(lines: list[str], rng: random.Random) -> None:
    paths = sorted(set(re.findall(r"<[^<>]*>", "\n".join(lines))))
    index = rng.choice([k for k, line in enumerate(lines) if "<" in line] or [0])
    if paths:
        other = rng.choice([*paths, "</World>", "</>", "</nowhere>", "</World/robot.attribute>"])
        lines[index] = re.sub(r"<[^<>]*>", lambda _: other, lines[index])


def change_name(lines: list[str], rng: random.Random) -> None:
    names = sorted(set(re.findall(r'"([A-Za-z]\w*(?::\w+)?)"', "\n".join(lines))))
    index = rng.choice([k for k, line in enumerate(lines) if '"' in line] or [0])
    if names:
        lines[index] = re.sub(r'"[^"]*"', lambda _: f'"{rng.choice(names)}"', lines[index], count=1)


def break_characters(lines: list[str], rng: random.Random) -> None:
    index = rng.randrange(len(lines))
    line = lines[index]
    place = rng.randrange(len(line) + 1)
    lines[index] = (
        line[:place]
        + rng.choice(["\0", "é", "{", "}", "(", '"', "\x80", "#", "\\"])
        + line[place + 1 :]
    )


def nest(lines: list[str], rng: random.Random) -> None:
    depth = rng.choice([5, 60])
    inner = "".join(
        'def Xform "n" (prepend apiSchemas = ["PhysicsRigidBodyAPI"])\n{\n' for _ in range(depth)
    )
    lines.append(inner + "}\n" * depth)


MUTATIONS = [delete_line, duplicate_line, swap_lines, change_value, change_value, change_value, change_type, change_path,
             change_path, change_name, change_name, break_characters, nest]  # fmt: skip


def mutated(seed: int) -> str:
    rng = random.Random(seed)
    lines = rng.choice(SEEDS).splitlines()
    for _ in range(rng.choice([1, 1, 1, 2, 3, 8])):
        rng.choice(MUTATIONS)(lines, rng)
    return "\n".join(lines)


def outcome(source) -> str:
    """Loads, checks and examines; returns whether it loaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", artix.DescriptionWarning)
        try:
            articulation, state = load_usd_with_state(source)
        except artix.DescriptionError as error:
            assert error.issues
            assert all(issue.message and issue.fix for issue in error.issues)
            assert any(issue.severity == "error" for issue in artix.check_usd(source))
            return "refused"
    assert not any(issue.severity == "error" for issue in artix.check_usd(source))
    assert not any(np.isnan(array).any() for array in numbers(articulation).values())
    assert all(
        np.isfinite(np.asarray(leaf)).all()
        for leaf in (state.root_pose, state.joint_position, state.root_velocity)
    )
    return "loaded"


def texts(seeds: range) -> list[str]:
    """Mutated texts that begin as USD text does, so that they are not taken for paths."""
    return [text for text in map(mutated, seeds) if text.lstrip().startswith("#usda")]


@pytest.mark.slow
def test_malformed_stages_load_or_are_refused():
    outcomes = [outcome(text) for text in texts(range(400))]
    assert min(outcomes.count("loaded"), outcomes.count("refused")) > 50


@pytest.mark.exhaustive
def test_many_malformed_stages_load_or_are_refused():
    outcomes = [outcome(text) for text in texts(range(1000, 11000))]
    assert min(outcomes.count("loaded"), outcomes.count("refused")) > 1000


@pytest.mark.parametrize("suffix", [".usda", ".usdc", ".usdz"])
def test_damaged_files_load_or_are_refused(suffix, tmp_path):
    path = tmp_path / f"robot{suffix}"
    artix.save_usd(artix.load_usd(MECHANISMS["e_combo"]), path)
    whole = path.read_bytes()
    rng = random.Random(suffix)
    for number in range(40):
        damaged = bytearray(whole)
        if number % 4 == 0:
            damaged = damaged[: rng.randrange(len(damaged))]
        elif suffix == ".usda":
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        else:  # Within the header, whose checks are USD's own: damage beyond it may crash USD itself.
            damaged[rng.randrange(8)] = rng.randrange(256)
        file = tmp_path / f"damaged_{number}{suffix}"
        file.write_bytes(bytes(damaged))
        outcome(file)
