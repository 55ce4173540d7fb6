"""``load``, ``load_world``, ``check`` and ``save``: the reader or writer follows from the file's
suffix or, of text, from its root element.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from artix.contact.scene import Scene
from artix.io.archive import check_archive, load_archive, save_archive
from artix.io.common.description import ReadOptions, Surface
from artix.io.common.diagnostics import Issue
from artix.io.mjcf.geometries import mjcf_visuals
from artix.io.mjcf.reader import check_mjcf, load_mjcf, load_mjcf_world
from artix.io.mjcf.writer import save_mjcf
from artix.io.urdf.parser import urdf_visuals
from artix.io.urdf.reader import check_urdf, load_urdf
from artix.io.urdf.writer import save_urdf
from artix.io.urdf.xacro import check_xacro, expand_xacro, load_xacro
from artix.io.usd import check_usd, load_usd, load_usd_world, save_usd
from artix.io.usd.reader import usd_visuals
from artix.io.usd.stage import is_usd_text
from artix.io.usd.writer import SUFFIXES as USD_SUFFIXES
from artix.model.articulation import Articulation
from artix.model.states import neutral_state

World = tuple[Scene, Any]
"""A scene and its state."""


def _alone(read: Callable[..., Articulation]) -> Callable[..., World]:
    """Reads a file of one robot without a ground as a scene in its neutral state."""

    def read_world(path: Any, **options: Any) -> World:
        robot = read(path, **options)
        return Scene(robot), neutral_state(robot)

    return read_world


@dataclasses.dataclass(frozen=True)
class Format:
    """A file format.

    Attributes:
      read: reads an articulation from a path or, in URDF, MJCF and USD, from text.
      read_world: reads a scene and its state from the same.
      check: lists the issues of the same.
      write: writes an articulation to a path; ``None`` for a format that is only read.
      visuals: reads what the file at a path draws. This does not need the rest of the file to be
        without errors.
      suffixes: the suffixes of its files.
    """

    read: Callable[..., Articulation]
    read_world: Callable[..., World]
    check: Callable[..., list[Issue]]
    write: Callable[..., list[Issue]] | None
    visuals: Callable[[Path, ReadOptions], list[Surface]]
    suffixes: tuple[str, ...]


def _xacro_visuals(path: Path, options: ReadOptions) -> list[Surface]:
    return urdf_visuals(expand_xacro(path, packages=options.packages))


URDF = Format(
    load_urdf,
    _alone(load_urdf),
    check_urdf,
    save_urdf,
    lambda path, _: urdf_visuals(path),
    (".urdf",),
)
XACRO = Format(load_xacro, _alone(load_xacro), check_xacro, None, _xacro_visuals, (".xacro",))
MJCF = Format(
    load_mjcf,
    load_mjcf_world,
    check_mjcf,
    save_mjcf,
    lambda path, _: mjcf_visuals(path),
    (".xml", ".mjcf"),
)
USD = Format(
    load_usd,
    load_usd_world,
    check_usd,
    save_usd,
    lambda path, options: usd_visuals(path, options.root),
    USD_SUFFIXES,
)
ARCHIVE = Format(
    load_archive, _alone(load_archive), check_archive, save_archive, lambda path, _: [], (".npz",)
)

FORMATS = {suffix: each for each in (URDF, XACRO, MJCF, USD, ARCHIVE) for suffix in each.suffixes}

#: Suffixes of all readable formats, and of those whose files are not text.
SUFFIXES = tuple(FORMATS)
BINARY_SUFFIXES = (".usd", ".usdc", ".usdz", ".npz")


def load(path: Any, **options: Any) -> Articulation:
    """Reads a robot description with the reader for its suffix, or that of its text.

    :func:`artix.load_urdf` reads ``.urdf``, :func:`artix.load_xacro` ``.xacro``,
    :func:`artix.load_mjcf` ``.xml`` and ``.mjcf``, :func:`artix.load_usd` ``.usd``, ``.usda``,
    ``.usdc`` and ``.usdz``, :func:`artix.load_archive` ``.npz``.

    Options have one meaning in all formats. Each reader says what its format adds to it, and has
    further options; xacro has URDF's. A :class:`~artix.DescriptionWarning` names what is read
    otherwise than it is written; :func:`artix.check` lists the same before loading.

    Args:
      path: the file, or the text of a URDF, MJCF or ``#usda``.
      **options: keywords of the reader, among them these.

        - ``fixed_base`` (URDF, MJCF, USD): whether the root is fixed to the world; ``None`` follows
          the file.
        - ``merge_fixed_joints`` (URDF, MJCF, USD): whether links on fixed joints become part of
          their parent; each stays as a named frame.
        - ``repair`` (URDF, MJCF, USD): names of repairs to apply to invalid numbers, each with a
          warning. ``"inertia"`` raises principal moments just enough to make an inertia physically
          possible, and drops the inertia of links without mass. Without it, impossible inertias are
          used as they are, with one warning for all links, and negative moments are refused.
        - ``strict`` (URDF, MJCF, USD): whether to refuse what is otherwise read with a warning that
          says how: what is left out or assumed, and physically impossible inertias.
        - ``meshes`` (URDF, MJCF, USD): replacement for collision meshes: a ``"hull"`` of at most 64
          of their vertices, or the enclosing ``"capsule"``; ``None`` leaves them out. The checkers
          report the distance of these shapes from the mesh.
        - ``self_contact`` (MJCF, USD): whether shapes of links touch each other wherever the
          filters of the file allow it.
        - ``packages`` (URDF): folders of ROS packages by name, for ``package://NAME/...`` and
          ``$(find NAME)``.
        - ``gravity`` (URDF, USD): acceleration of gravity in world axes [m/s^2], shape [3];
          ``None`` takes the stage's, or 9.81 m/s^2 downwards in a URDF. An MJCF has its own.
        - ``dtype`` (URDF, MJCF, USD, npz): floating-point type of the arrays; when ``None``, JAX's
          default, or that of the archive.
        - ``keep_zeros`` (URDF, MJCF, USD, npz): whether zeros, such as those of axes along
          coordinate axes, belong to the structure of the articulation: :func:`artix.keep_zeros`. A
          robot that is an argument of a compiled function, or one of a batch of different robots,
          then costs about what a known robot costs.

    Returns:
      The articulation.

    Raises:
      ValueError: there is no reader for this suffix; the message lists the known ones. Or text is
        neither a URDF, MJCF nor USD.
      OSError: the file cannot be read.
      DescriptionError: its content is refused; see the reader.

    Examples:
      >>> arm = artix.load(artix.robots.path("arm7"), fixed_base=True)
      >>> print(arm.topology.num_dofs)
      7
    """
    read, source = _reader(path, "read", "reader")
    return read(source, **options)


def load_world(path: Any, **options: Any) -> World:
    """Reads all robots and objects of a file, the ground under them, and their state.

    From MJCF, everything with a free joint is a robot of its own, called after its body, and
    everything else that moves, or stands around and may be touched, is one called ``world``. They
    touch each other where MuJoCo lets them, as far as artix has such pairs of shapes; meshes of
    free objects without joints become hulls, others only with ``meshes``. Planes and height fields
    of the world are the ground. A plane is unbounded, whatever its size; a height field
    interpolates bilinearly, whereas MuJoCo's consists of triangles. Friction is MuJoCo's for the
    geoms of the file: the larger of two coefficients or, with ``priority``, only that of the ground
    or of the robot. ``solref`` and ``solimp`` do not define a stiffness (MuJoCo scales them by the
    masses in contact), so surfaces are rigid. The state is MuJoCo's ``qpos0``.

    From USD, every articulation is a robot, and so are other rigid bodies with the joints between
    them, called after their first body. Colliders that do not move are one called ``world``, but
    planes with ``PhysicsCollisionAPI`` are the ground. Meshes of bodies without joints become
    hulls, too. Shapes of different robots touch each other unless PhysX's filters exclude them,
    with PhysX's friction for each pair. Restitution, and contacts with the ground, combine as most
    of the materials say, by default to the average; a warning names others. Joint positions and velocities come from
    ``PhysicsJointStateAPI``; they are zero where it is not applied, as in PhysX. The root link's
    pose is that of its body. The velocities in the root's ``PhysicsRigidBodyAPI`` are those of its
    centre of mass, in the axes of the prim above it.

    Other formats have one robot, without a ground, in its neutral state.

    Args:
      path: the file or its text, as for :func:`load`; USD may also be an open ``pxr.Usd.Stage``.
      **options: keywords of :func:`load`.

    Returns:
      The scene and its state: the plain state of a file's only robot, or the states of several by
      name.

    Raises:
      ValueError: as :func:`load`.
      OSError: the file cannot be read.
      DescriptionError: its content is refused, or a height field is not aligned with the world
        axes.

    Examples:
      >>> model = '''
      ... <mujoco>
      ...   <worldbody>
      ...     <geom type="plane" size="1 1 1" friction="0.7"/>
      ...     <body name="ball" pos="0 0 0.5"><freejoint/><geom size="0.1" mass="1"/></body>
      ...     <body name="box" pos="1 0 0.1"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="2"/></body>
      ...   </worldbody>
      ... </mujoco>'''
      >>> scene, state = artix.load_world(model)
      >>> print(scene.names, len(scene.pairs), scene.ground.surfaces[0].friction)
      ('ball', 'box') 1 0.7
      >>> end = artix.step(scene, state, None, 0.005)
      >>> print(end["ball"].root_velocity[2])
      -0.04905
    """  # noqa: E501
    read_world, source = _reader(path, "read_world", "reader")
    return read_world(source, **options)


def check(path: Any, **options: Any) -> list[Issue]:
    """Lists all issues of a robot description; the suffix or the text selects the checker, as for
    :func:`load`.

    Args:
      path: the file or its text, as for :func:`load`.
      **options: passed to the checker.

    Returns:
      The issues, none for a description without errors and warnings.

    Raises:
      ValueError: there is no checker for this suffix or text.
      OSError: the file cannot be read.

    Examples:
      >>> print(artix.check(artix.robots.path("quadruped")))  # no issues
      []
    """
    check_source, source = _reader(path, "check", "checker")
    return check_source(source, **options)


def save(
    articulation: Articulation | Scene, path: str | os.PathLike[str], **options: Any
) -> list[Issue]:
    """Writes a robot with the writer for the file's suffix.

    :func:`artix.save_archive` writes ``.npz``, which is lossless; :func:`artix.save_urdf`
    ``.urdf``, :func:`artix.save_mjcf` ``.xml`` and ``.mjcf``, :func:`artix.save_usd` ``.usda``,
    ``.usdc``, ``.usd`` and ``.usdz``, each as far as its format allows.

    Args:
      articulation: a single articulation, or a scene of one, of which MJCF has the planes of the
        ground, too.
      path: the file.
      **options: passed to the writer.

    Returns:
      One warning for each thing that the format cannot express.

    Raises:
      ValueError: there is no writer for this suffix; the message lists the known ones. Or the scene
        has several robots.
      OSError: the file cannot be written.
      DescriptionError: the format cannot describe the articulation at all; see the writer.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "arm7.urdf"
      >>> for warning in artix.save(artix.robots.load("arm7"), path):
      ...     print(warning.message)
      URDF does not say whether the base is fixed
      >>> print(artix.load(path).topology.dof_names == artix.robots.load("arm7").topology.dof_names)
      True
    """
    write = _function(path, "write", "writer")
    if write is save_mjcf or not isinstance(articulation, Scene):
        return write(articulation, Path(path), **options)
    if articulation.names:
        name = articulation.names[0]
        raise ValueError(
            f"{path}: the file holds one robot; save each of a scene, such as scene[{name!r}]"
        )
    issues = write(articulation.articulations[0], Path(path), **options)
    if articulation.ground is not None:
        fix = "save it as MJCF, or make it again: artix.Scene(robot, ground=...)"
        issues = [
            *issues,
            Issue("warning", os.fspath(path), 1, "ground", "the format has no ground", fix),
        ]
    return issues


def _reader(
    path: Any, action: Literal["read", "read_world", "check"], name: str
) -> tuple[Callable[..., Any], Any]:
    """What reads or checks a source, and the source as it takes it: a path, text, or a stage."""
    kind = type(path).__name__
    if kind in ("MjModel", "MjSpec"):
        raise TypeError(
            f"expected a path or the text of a description, found {kind}; an MjSpec writes it: "
            "artix.load(spec.to_xml())"
        )
    if not isinstance(path, str | os.PathLike) or is_usd_text(path):
        return getattr(USD, action), path
    if not isinstance(path, str) or not path.lstrip().startswith("<"):
        return _function(path, action, name), Path(path)
    # The first element; declarations and comments come before.
    root = re.search(r"<([A-Za-z_][\w:.-]*)", re.sub(r"<!--.*?-->", "", path, flags=re.DOTALL))
    formats = {"mujoco": MJCF, "robot": URDF}
    tag = root[1] if root else ""
    if tag not in formats:
        raise ValueError(
            f"the text is neither a URDF (<robot>), an MJCF (<mujoco>) nor USD (#usda): found "
            f"<{tag}>"
        )
    return getattr(formats[tag], action), path


def _function(
    path: str | os.PathLike[str], action: Literal["read", "read_world", "check", "write"], name: str
) -> Callable[..., Any]:
    """What the format of a file has for an action; ``name`` is its name in the message if there is
    none.
    """
    functions = {suffix: getattr(each, action) for suffix, each in FORMATS.items()}
    known = [suffix for suffix, function in functions.items() if function is not None]
    suffix = Path(path).suffix.lower()
    if suffix not in known:
        hint = "" if suffix or action == "write" else "; artix.robots.load has those of artix"
        raise ValueError(
            f"{os.fspath(path)}: no {name} for the suffix {suffix!r}; choose from: "
            f"{', '.join(known)}{hint}"
        )
    return functions[suffix]
