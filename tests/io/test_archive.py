"""artix's own format: lossless, and safe for files of unknown origin."""

from __future__ import annotations

import contextlib
import io
import json
import zipfile

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import artix
from artix import DescriptionError
from tests.support.models import zoo


@pytest.fixture
def path(tmp_path):
    return tmp_path / "robot.npz"


def members_of(path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write(path, members: dict[str, bytes], compression=zipfile.ZIP_STORED) -> None:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def with_couplings() -> artix.Articulation:
    """Every group of numbers that an articulation may have."""
    builder = artix.ArticulationBuilder(name="all of it ü", gravity=(0.1, 0.2, -9.0))
    base = builder.add_link(
        mass=2.0, inertia=[1, 1, 1], name="base", linear_damping=0.1, max_linear_velocity=5.0
    )
    links = [base]
    for name in ("first", "second"):
        joint = artix.Joint.revolute(
            name=name,
            limits=[(-1.0, np.inf)],
            drive=artix.Drive(stiffness=3.0, damping=1.0, acceleration=True, target=0.2),
            friction=artix.JointFriction(static=0.3, dynamic=0.2, viscous=0.1),
            envelope=artix.DriveEnvelope(max_effort=4.0),
        )
        links.append(
            builder.add_link(links[-1], joint, mass=1.0, inertia=[1, 2, 2.5], name=f"{name} link")
        )
    builder.add_frame("tool", links[-1], (0.1, 0.2, 0.3, 0.0, 0.6, 0.0, 0.8))
    builder.add_mimic(
        "second", "first", gear_ratio=-2.0, offset=0.1, natural_frequency=9.0, damping_ratio=0.7
    )
    joints = [artix.TendonJoint(dof="first", coefficient=1.0, recip_coefficient=2.0)]
    joints.append(
        artix.TendonJoint(dof="second", coefficient=-1.0, recip_coefficient=-2.0, parent=0)
    )
    builder.add_fixed_tendon(
        artix.FixedTendon(name="cable", joints=joints, stiffness=5.0, limits=(-1.0, 2.0))
    )
    points = [
        artix.Attachment(link="base", position=(0, 0, 1), name="start"),
        artix.Attachment(link="first link", position=(0, 1, 0), parent=0),
        artix.Attachment(
            link="second link", position=(1, 0, 0), parent=1, rest_length=0.5, limits=(0.1, 3.0)
        ),
        artix.Attachment(link="second link", position=(1, 1, 0), parent=1, rest_length=0.7),
    ]
    builder.add_spatial_tendon(artix.SpatialTendon(name="rope", attachments=points, stiffness=2.0))
    builder.add_loop_joint(
        artix.LoopJoint(name="bar", link_a=None, link_b="base", type="distance", max_distance=2.0)
    )
    axes = (artix.Axis.SWING1, artix.Axis.Z)
    builder.add_loop_joint(
        artix.LoopJoint(
            name="odd", link_a="base", link_b="second link", type="d6", locked_axes=axes
        )
    )
    return builder.build()


@pytest.mark.parametrize(
    "make", [with_couplings, lambda: zoo(fixed_base=True), lambda: zoo(fixed_base=False)]
)
def test_everything_is_kept_bit_by_bit(make, dtype, path):
    robot = make().astype(dtype)
    assert artix.save(robot, path) == []
    again = artix.load(path)
    assert again.topology == robot.topology
    for before, after in zip(jax.tree.leaves(robot), jax.tree.leaves(again), strict=True):
        assert after.dtype == before.dtype == dtype
        np.testing.assert_array_equal(after, before)
    assert artix.load(path, dtype=jnp.float32).dtype == jnp.float32


def test_batches_and_changed_numbers_are_kept(path):
    robot = zoo(fixed_base=False)
    masses = jnp.linspace(0.5, 2.0, 3)[:, None] * robot.link_mass[None]
    artix.save(robot.replace(link_mass=masses), path)
    np.testing.assert_array_equal(artix.load(path).link_mass, masses)


def test_the_file_is_an_ordinary_npz_with_a_readable_header(path):
    robot = with_couplings()
    artix.save(robot, path)
    with np.load(path, allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["drive.stiffness"], robot.drive.stiffness)
    header = json.loads(members_of(path)["header.json"])
    assert (header["version"], header["links"][1]["joint"]) == (1, "first")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda one: one.replace(link_mass=one.link_mass.at[1].set(jnp.nan)),
            "link_mass: must be finite",
        ),
        (
            lambda one: one.replace(link_mass=-one.link_mass),
            "link_mass: must be finite and not negative",
        ),
        (lambda one: one.replace(link_com_pose=2 * one.link_com_pose), "quaternions of length 1"),
        (lambda one: one.replace(link_inertia=-one.link_inertia), "without negative moments"),
        (lambda one: one.replace(joint_lower_limit=one.joint_upper_limit + 1.0), "must not exceed"),
    ],
)
def test_numbers_that_no_builder_accepts_are_not_saved(change, message, path):
    robot = artix.robots.load("arm7")
    with pytest.raises(ValueError, match=message):
        artix.save(change(robot), path)
    assert not path.exists()


def npy(array) -> bytes:
    content = io.BytesIO()
    np.save(content, array, allow_pickle=True)
    return content.getvalue()


def replaced(members, name, old, new):
    return {**members, name: members[name].replace(old, new)}


HUGE = npy(np.zeros(3)).replace(b"(3,), }          ", b"(3000000000000,), }", 1)

DAMAGES = {
    "not a zip": (lambda m: None, "not a zip file"),
    "pickled": (
        lambda m: {**m, "link_mass.npy": npy(np.array([{"a": 1}], dtype=object))},
        "not an array of floats",
    ),
    "integers": (lambda m: {**m, "link_mass.npy": npy(np.arange(8))}, "not an array of floats"),
    "shape": (
        lambda m: {**m, "link_mass.npy": npy(np.ones(3))},
        r"link_mass: expected shape \(..., 9\), found \(3,\)",
    ),
    "huge shape": (lambda m: {**m, "gravity.npy": HUGE}, "gravity: "),
    "short": (
        lambda m: {**m, "link_mass.npy": m["link_mass.npy"][:-8]},
        "its length does not match its shape",
    ),
    "nan": (lambda m: {**m, "gravity.npy": npy(np.full(3, np.nan))}, "gravity: must be finite"),
    "missing member": (
        lambda m: {k: v for k, v in m.items() if k != "gravity.npy"},
        "do not match its header: gravity",
    ),
    "extra member": (lambda m: {**m, "virus.npy": npy(np.ones(1))}, "virus.npy"),
    "no header": (
        lambda m: {k: v for k, v in m.items() if k != "header.json"},
        "it has no header.json",
    ),
    "no json": (lambda m: {**m, "header.json": b"{"}, "the header is not JSON"),
    "deep json": (lambda m: {**m, "header.json": b"[" * 100_000}, "the header is not JSON"),
    "binary header": (lambda m: {**m, "header.json": b"\xff\xfe"}, "decode"),
    "other format": (
        lambda m: replaced(m, "header.json", b"artix articulation", b"other"),
        "not of the format",
    ),
    "later version": (
        lambda m: replaced(m, "header.json", b'"version": 1', b'"version": 2'),
        "reads version 1",
    ),
    "types": (
        lambda m: replaced(m, "header.json", b'"fixed_base": true', b'"fixed_base": 1'),
        "must be of type bool",
    ),
    "unknown joint": (
        lambda m: replaced(m, "header.json", b'"revolute_unwrapped"', b'"screw"'),
        "not one of",
    ),
    "unknown link": (
        lambda m: replaced(m, "header.json", b'"parent": "base"', b'"parent": "nobody"'),
        "no link called",
    ),
    "two of a name": (
        lambda m: replaced(m, "header.json", b'"name": "hand"', b'"name": "base"'),
        "the name is taken",
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_files_are_refused(damage, path):
    artix.save(artix.robots.load("arm7"), path)
    change, message = DAMAGES[damage]
    members = change(members_of(path))
    if members is None:
        path.write_bytes(b"not a zip at all")
    else:
        write(path, members)
    with pytest.raises(DescriptionError, match=message):
        artix.load(path)
    assert [issue.severity for issue in artix.check(path)] == ["error"]


def test_compressed_members_are_refused_before_they_are_unpacked(path):
    artix.save(artix.robots.load("arm7"), path)
    write(path, {**members_of(path), "bomb.npy": b"\0" * 10**8}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**6
    with pytest.raises(DescriptionError, match="must not be compressed"):
        artix.load(path)


def test_members_before_the_beginning_are_refused(path):
    """Their place is told relative to that of the table of contents, which the last 22 bytes
    tell."""
    artix.save(artix.robots.load("double_pendulum"), path)
    data = bytearray(path.read_bytes())
    data[-6:-2] = (int.from_bytes(data[-6:-2], "little") + 40).to_bytes(4, "little")
    path.write_bytes(bytes(data))
    with pytest.raises(DescriptionError, match="its table of contents is damaged"):
        artix.load(path)


@pytest.mark.slow
def test_random_damage_never_escapes(path):
    artix.save(artix.robots.load("double_pendulum"), path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(300):
        data = bytearray(whole)
        for at in rng.integers(len(data), size=rng.integers(1, 4)):
            data[at] = rng.integers(256)
        path.write_bytes(bytes(data[: rng.integers(len(data))] if rng.random() < 0.3 else data))
        with contextlib.suppress(DescriptionError):
            artix.load(path)
