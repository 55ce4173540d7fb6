"""What a file says of a robot, in one form for all formats: how it is read, described and built."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypedDict, TypeVar

import numpy as np
import numpy.typing as npt

from artix.contact.ground import Ground, Plane
from artix.contact.height_field import HeightField
from artix.contact.scene import Scene, friction_of_pairs
from artix.io.common.diagnostics import Place, Report, listed
from artix.io.common.meshes import Meshes, Packages
from artix.io.common.poses import (
    IDENTITY,
    combine_inertias,
    compose,
    inverse,
    quaternion_from_x_to,
    rotation_pose,
)
from artix.math.arrays import device_array
from artix.model.articulation import Articulation, State
from artix.model.builder import STANDARD_GRAVITY, ArticulationBuilder
from artix.model.couplings import FixedTendon, LoopJoint, MimicJoint, SpatialTendon
from artix.model.geometry import Geometry
from artix.model.joints import IDENTITY_POSE, Joint, JointType
from artix.model.validation import (
    impossible_inertia,
    inertia_rounding,
    principal_inertias,
    without_negative_moments,
)
from artix.model.zeros import keep_zeros

# --- options -------------------------------------------------------------------------------------


class Options(TypedDict, total=False):
    """The keywords of all readers; :class:`ReadOptions` describes them."""

    fixed_base: bool | None
    merge_fixed_joints: bool
    repair: Collection[str]
    strict: bool
    meshes: Meshes | None
    dtype: Any
    keep_zeros: bool


class UrdfOptions(Options, total=False):
    """The keywords of the readers of URDF."""

    packages: Packages | None
    gravity: npt.ArrayLike | None


class MjcfOptions(Options, total=False):
    """The keywords of the readers of MJCF."""

    body: str | None
    skip: Collection[str] | Literal["all"]
    self_contact: bool


class UsdOptions(Options, total=False):
    """The keywords of the readers of USD."""

    root: str | None
    gravity: npt.ArrayLike | None
    self_contact: bool


@dataclasses.dataclass(frozen=True)
class ReadOptions:
    """The options of readers and checkers, as :func:`artix.load` describes them; a format has some
    of them.

    Attributes:
      root: the root of the articulation, where a file has several: a body of MJCF, the path of a
        prim of USD.
      fixed_base: whether the root is fixed to the world; ``None`` follows the file.
      merge_fixed_joints: whether links on fixed joints become part of their parent.
      skip: kinds of elements that a strict reader leaves out all the same.
      repair: repairs of invalid numbers, by name; one name alone is a tuple of it.
      strict: whether to refuse what is otherwise read with a warning.
      meshes: replacement for collision meshes; ``None`` leaves them out.
      packages: folders of ROS packages by name.
      self_contact: whether the shapes of one articulation touch each other.
      gravity: acceleration of gravity in world axes [m/s^2], shape [3]; the file's when ``None``.
      ground: whether to describe the ground as well.
      dtype: floating-point type of the arrays; JAX's default when ``None``.
      keep_zeros: whether zeros belong to the structure of the articulation, see
        :func:`artix.keep_zeros`.

    Raises:
      ValueError: a repair is not one of ``known_repairs``, or the replacement for meshes is
        unknown.
    """

    root: str | None = None
    fixed_base: bool | None = None
    merge_fixed_joints: bool = False
    skip: Collection[str] = ()
    repair: Collection[str] = ()
    strict: bool = False
    meshes: Meshes | None = None
    packages: Packages | None = None
    self_contact: bool = False
    gravity: npt.ArrayLike | None = None
    ground: bool = False
    dtype: Any = None
    keep_zeros: bool = False
    known_repairs: dataclasses.InitVar[tuple[str, ...]] = ("inertia",)

    @classmethod
    def of(cls, keywords: type, values: Mapping[str, Any], **others: Any) -> ReadOptions:
        """The options of a format: keywords of its readers, and what else it says.

        Raises:
          TypeError: the format has no such keyword.
        """
        for name in values:
            if name not in keywords.__annotations__:
                raise TypeError(
                    f"the reader got an unexpected keyword argument {name!r}; choose from: "
                    f"{', '.join(sorted(keywords.__annotations__))}"
                )
        return cls(**{**values, **others})

    def __post_init__(self, known_repairs: tuple[str, ...]) -> None:
        if self.meshes not in (None, "hull", "capsule"):
            raise ValueError(
                "meshes must be 'hull', 'capsule' or None, which leaves them out; found "
                f"{self.meshes!r}"
            )
        names = (self.repair,) if isinstance(self.repair, str) else tuple(self.repair)
        unknown = [name for name in names if name not in known_repairs]
        if unknown:
            known = ", ".join(known_repairs)
            raise ValueError(f"unknown repair {unknown[0]!r}; known repairs: {known}")
        object.__setattr__(self, "repair", names)


_Reader = TypeVar("_Reader", bound=Callable[..., Any])


def takes(keywords: type) -> Callable[[_Reader], _Reader]:
    """Decorates a reader with keywords of a format: ``help`` and editors show them, with their
    defaults.
    """
    defaults = {field.name: field.default for field in dataclasses.fields(ReadOptions)}

    def decorate(reader: _Reader) -> _Reader:
        signature = inspect.signature(reader)
        kind = inspect.Parameter.KEYWORD_ONLY
        named = [
            inspect.Parameter(name, kind, default=defaults.get(name))
            for name in keywords.__annotations__
        ]
        first = [
            each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD
        ]
        vars(reader)["__signature__"] = signature.replace(parameters=[*first, *named])
        return reader

    return decorate


# --- the description ----------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class LinkDescription:
    """A link as read from a file, in terms of the arguments of
    :meth:`~artix.ArticulationBuilder.add_link`.

    Attributes:
      name: the link's name.
      parent: the parent's name, ``None`` for the root.
      joint: the joint to the parent, ``None`` for the root.
      mass: mass [kg].
      com_pose: mass frame in the link frame, shape [7].
      inertia: inertia in the axes of the mass frame [kg m^2], shape [3, 3].
      options: further arguments of ``add_link``; links whose options differ are never merged.
      geometries: shapes in the link's frame with their names, ``None`` for unnamed ones.
    """

    name: str
    parent: str | None = None
    joint: Joint | None = None
    mass: float = 0.0
    com_pose: np.ndarray = dataclasses.field(default_factory=IDENTITY.copy)
    inertia: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros((3, 3)))
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    geometries: Sequence[tuple[str | None, Geometry]] = ()


@dataclasses.dataclass(frozen=True)
class LinkPlace:
    """Where a link of a file is in the description.

    Attributes:
      link: the name of the link that it is part of, itself unless it was merged into its parent.
      pose: its pose in the frame of that link, shape [7].
      geometries: names of its shapes.
    """

    link: str
    pose: np.ndarray
    geometries: tuple[str, ...] = ()


class Frame(NamedTuple):
    """An additional frame: its name, its link, and its pose in the link's frame, shape [7]."""

    name: str
    link: str
    pose: npt.ArrayLike = IDENTITY_POSE


class Surface(NamedTuple):
    """What a file draws on a link; it has no effect on dynamics.

    Attributes:
      link: the link's name.
      shape: a shape, the name of a mesh file, or vertices [V, 3] and triangles [F, 3].
      pose: pose of the surface in the link's frame, shape [7].
      color: red, green and blue, each from 0 to 1; ``None`` if the file has none.
      opacity: from 0 (invisible) to 1.
      scale: factors on the coordinates of the surface, shape [3].
      role: what it is in the file; a ``"substitute"`` is drawn only where a visual of its link
        cannot be.
    """

    link: str
    shape: Geometry | str | tuple[np.ndarray, np.ndarray]
    pose: np.ndarray
    color: tuple[float, float, float] | None = None
    opacity: float = 1.0
    scale: tuple[float, ...] = (1.0, 1.0, 1.0)
    role: Literal["visual", "collision", "substitute"] = "visual"


#: A relation between joints or links outside the tree.
Coupling = MimicJoint | FixedTendon | SpatialTendon | LoopJoint


@dataclasses.dataclass(frozen=True)
class InitialState:
    """A state as a file gives it, for :func:`build_state`.

    Attributes:
      root_pose: pose of the root link in the world, shape [7].
      root_velocity: velocity of its centre of mass and angular velocity in world axes, shape [6].
      position: positions of DOFs by name [rad or m]; zero for the others.
      velocity: velocities of DOFs by name [rad/s or m/s]; zero for the others.
    """

    root_pose: npt.ArrayLike = IDENTITY_POSE
    root_velocity: npt.ArrayLike = (0.0,) * 6
    position: dict[str, float] = dataclasses.field(default_factory=dict)
    velocity: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class GroundDescription:
    """The ground of a file: the arguments of each surface, and the ``friction_combination`` of the
    ground.
    """

    surfaces: Sequence[tuple[type[Plane] | type[HeightField], Mapping[str, Any]]]
    friction_combination: Literal["max", "ground", "robot"]


@dataclasses.dataclass(frozen=True)
class Description:
    """One robot of a file, as all readers describe it and :func:`build` builds it.

    Attributes:
      name: the robot's name.
      fixed_base: whether the root is fixed to the world.
      links: the links with their joints and shapes, parents first.
      gravity: acceleration of gravity in world axes [m/s^2], shape [3].
      frames: additional frames.
      contact_pairs: names of the shapes that touch each other.
      pair_friction: their coefficients, if the file says so of pairs.
      couplings: mimic joints, tendons and joints that close loops.
      state: the state in the file; ``None`` for the neutral one.
      ground: the ground, if the file has one and it was asked for.
    """

    name: str
    fixed_base: bool
    links: Sequence[LinkDescription]
    gravity: npt.ArrayLike = STANDARD_GRAVITY
    frames: Sequence[Frame] = ()
    contact_pairs: Sequence[tuple[str, str]] = ()
    pair_friction: Sequence[float] = ()
    couplings: Sequence[Coupling] = ()
    state: InitialState | None = None
    ground: GroundDescription | None = None


class Robot(NamedTuple):
    """A description and the articulation that is built from it."""

    description: Description
    articulation: Articulation


#: What a reader says of a file, and its robots by name; a robot with errors is missing.
Reading = tuple[Report, dict[str, Robot]]


def build(description: Description, options: ReadOptions | None = None) -> Articulation:
    """Builds the articulation that a file describes, in the dtype of the options.

    Raises:
      ValueError: the builder refuses a part of it, which the message names.
    """
    builder = ArticulationBuilder(
        fixed_base=description.fixed_base,
        gravity=description.gravity,
        name=description.name,
        strict=False,
    )
    number: dict[str | None, int | None] = {None: None}
    for link in description.links:
        number[link.name] = builder.add_link(
            number[link.parent],
            link.joint,
            mass=link.mass,
            com_pose=link.com_pose,
            inertia=link.inertia,
            name=link.name,
            **link.options,
        )
        for name, shape in link.geometries:
            builder.add_geometry(link.name, shape, name)
    for frame in description.frames:
        builder.add_frame(*frame)
    for pair in description.contact_pairs:
        builder.add_geometry_pair(*pair)
    for coupling in description.couplings:
        if isinstance(coupling, MimicJoint):
            builder.add_mimic(**dataclasses.asdict(coupling))
        elif isinstance(coupling, FixedTendon):
            builder.add_fixed_tendon(coupling)
        elif isinstance(coupling, SpatialTendon):
            builder.add_spatial_tendon(coupling)
        else:
            builder.add_loop_joint(coupling)
    if options is None:
        return builder.build()
    robot = builder.build(options.dtype)
    return keep_zeros(robot) if options.keep_zeros else robot


def build_state(description: Description, articulation: Articulation) -> State:
    """The state in which a file describes a robot, for the articulation built from the
    description.
    """
    state = description.state or InitialState()
    names = articulation.topology.dof_names
    vectors = (
        state.root_pose,
        state.root_velocity,
        [state.position.get(name, 0.0) for name in names],
        [state.velocity.get(name, 0.0) for name in names],
    )
    return State(*(device_array(np.asarray(vector), articulation.dtype) for vector in vectors))


def build_world(
    robots: Mapping[str, Articulation],
    states: Mapping[str, State],
    ground: Ground | None = None,
    pairs: Iterable[tuple[tuple[str, str], tuple[str, str]]] = (),
    friction: Mapping[frozenset[tuple[str, str]], float] | None = None,
    **combinations: Any,
) -> tuple[Scene, Any]:
    """The scene of a file and its state: of one robot, or of several by name.

    Args:
      robots: the robots by name. Slashes in names become colons.
      states: their states.
      ground: the ground.
      pairs: the robots and shapes that touch each other.
      friction: the coefficients of all pairs, those of each robot's own shapes included; ``None``
        if they are those that combine.
      combinations: how their materials combine, as :class:`artix.Scene` takes it.
    """
    if len(robots) == 1:
        (robot,), (state,) = robots.values(), states.values()
        scene = Scene(robot, ground=ground, **combinations)
        (name,) = robots
        return _with_friction(scene, friction, {name: name}), state
    unique = Names()
    names = {name: unique.new(name.replace("/", ":")) for name in robots}
    across = [(f"{names[a]}/{shape}", f"{names[b]}/{other}") for (a, shape), (b, other) in pairs]
    scene = Scene(
        {names[name]: robot for name, robot in robots.items()},
        ground=ground,
        pairs=across,
        **combinations,
    )
    scene = _with_friction(scene, friction, names)
    return scene, {names[name]: state for name, state in states.items()}


def _with_friction(
    scene: Scene, friction: Mapping[frozenset[tuple[str, str]], float] | None, names: dict[str, str]
) -> Scene:
    """The scene with the coefficients of its pairs, unless they are those that combine; ``names``
    has the names of the robots in the scene by those in ``friction``.
    """
    if friction is None or not scene.geometry_pairs:
        return scene
    prefix = {name: f"{other}/" if scene.names else "" for name, other in names.items()}
    by_name = {
        frozenset(prefix[robot] + shape for robot, shape in pair): value
        for pair, value in friction.items()
    }
    wanted = np.array([by_name[frozenset(pair)] for pair in scene.geometry_pairs])
    if np.allclose(friction_of_pairs(scene), wanted, rtol=1e-6, atol=1e-6):
        return scene
    return scene.replace(pair_friction=device_array(wanted, scene.dtype))


def build_ground(ground: GroundDescription, dtype: Any = None) -> Ground:
    """The ground that a file describes."""
    surfaces = tuple(make.of(**numbers, dtype=dtype) for make, numbers in ground.surfaces)
    return Ground(surfaces, friction_combination=ground.friction_combination)


# --- links --------------------------------------------------------------------------------------


def merge_links(
    links: Sequence[LinkDescription], *, merge_fixed_joints: bool
) -> tuple[list[LinkDescription], list[Frame], dict[str, LinkPlace]]:
    """The links of a description, whose shapes have unique names; some of them are joined.

    Args:
      links: the links of a file, parents before their children.
      merge_fixed_joints: whether links on fixed joints become part of their parent.

    Returns:
      The links, a frame for each link that became part of another, and the place of each link by
      its name.
    """
    by_name = {link.name: link for link in links}
    host: dict[str, str] = {}
    pose_in_host: dict[str, np.ndarray] = {}
    members: dict[str, list[str]] = {}
    for link in links:
        above = link.parent
        joint = link.joint
        if (
            merge_fixed_joints
            and above is not None
            and joint is not None
            and joint.type is JointType.FIX
            and (link.mass == 0.0 or link.options == by_name[host[above]].options)
        ):
            pose = compose(np.asarray(joint.parent_pose), inverse(np.asarray(joint.child_pose)))
            host[link.name] = host[above]
            pose_in_host[link.name] = compose(pose_in_host[above], pose)
        else:
            host[link.name] = link.name
            pose_in_host[link.name] = IDENTITY
        members.setdefault(host[link.name], []).append(link.name)
    merged: list[LinkDescription] = []
    names = _shape_names(by_name[part] for parts in members.values() for part in parts)
    for name, parts in members.items():
        link = by_name[name]
        poses = [(by_name[part], pose_in_host[part]) for part in parts]
        mass, com_pose, inertia = combine_inertias(
            [(part.mass, compose(pose, part.com_pose), part.inertia) for part, pose in poses]
        )
        parent = joint = None
        if link.parent is not None and link.joint is not None:
            outer = compose(pose_in_host[link.parent], np.asarray(link.joint.parent_pose))
            parent = host[link.parent]
            joint = dataclasses.replace(link.joint, parent_pose=outer)
        shapes = [
            (unique, shape if pose is IDENTITY else _move(shape, pose))
            for part, pose in poses
            for unique, (_, shape) in zip(names[part.name], part.geometries, strict=True)
        ]
        merged.append(
            LinkDescription(name, parent, joint, mass, com_pose, inertia, link.options, shapes)
        )
    frames = [Frame(name, host[name], pose_in_host[name]) for name in by_name if host[name] != name]
    places = {name: LinkPlace(host[name], pose_in_host[name], names[name]) for name in by_name}
    return merged, frames, places


def _move(shape: Geometry, pose: np.ndarray) -> Geometry:
    return dataclasses.replace(shape, pose=compose(pose, np.asarray(shape.pose)))


def _shape_names(links: Iterable[LinkDescription]) -> dict[str, tuple[str, ...]]:
    """Unique names of the shapes of each link.

    A shape without a name, or with one that other shapes share (some exporters write such names),
    is called ``<link>:<k>``.
    """
    links = list(links)
    file_names = [name for link in links for name, _ in link.geometries]
    names = Names(name for name in file_names if name is not None)

    def unique(link: LinkDescription, k: int, name: str | None) -> str:
        return names.new(f"{link.name}:{k}") if name is None or file_names.count(name) > 1 else name

    return {
        link.name: tuple(unique(link, k, name) for k, (name, _) in enumerate(link.geometries))
        for link in links
    }


#: Axes for which the joint frame is not rotated, so that its numbers stay exact.
_COORDINATE_AXES = {(1.0, 0.0, 0.0): 0, (0.0, 1.0, 0.0): 1, (0.0, 0.0, 1.0): 2}


def joint_frame(axis: np.ndarray) -> tuple[int, np.ndarray]:
    """A joint frame one of whose coordinate axes is a given axis.

    Args:
      axis: a unit vector, shape [3].

    Returns:
      The index of that coordinate axis, and the rotation of the joint frame, in the frame of
      ``axis``, as a pose [7].
    """
    coordinate = _COORDINATE_AXES.get(tuple(axis.tolist()))
    if coordinate is not None:
        return coordinate, IDENTITY
    return 0, rotation_pose(quaternion_from_x_to(axis))


class Names:
    """Generates unique names.

    Args:
      taken: names already in use.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def new(self, base: str) -> str:
        """``base``, with ``_2``, ``_3``, ... appended if it is taken."""
        name = base
        count = 1
        while name in self._taken:
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name


# --- physically impossible inertias -------------------------------------------------------------

#: Smaller moments are raised to this fraction of the largest one.
_MIN_MOMENT = 1e-6


def check_inertias(
    links: Sequence[LinkDescription], places: Mapping[str, Place], report: Report, *, repair: bool
) -> list[LinkDescription]:
    """Checks the masses and inertias of links.

    Moments that are negative within rounding become zero. Inertias that are impossible but still
    give well-defined dynamics (one principal moment above the sum of the others, inertia without
    mass) are kept, with one warning for all such links. Negative masses and moments are errors.

    Args:
      links: the links.
      places: where the file gives the mass of a link, by the link's name.
      report: receives the issues; every impossible inertia is an error if it is strict.
      repair: whether to repair inertias by :func:`repaired_inertia`, and to drop inertias without
        mass.

    Returns:
      The links, their inertias replaced where necessary.
    """
    checked: list[LinkDescription] = []
    impossible: dict[str, str] = {}
    for link in links:
        place = places.get(link.name)
        inertia = link.inertia
        if place is not None:
            inertia, problem = _checked_inertia(link, place, report, repair=repair)
            impossible |= {link.name: problem} if problem else {}
        checked.append(
            link if inertia is link.inertia else dataclasses.replace(link, inertia=inertia)
        )
    if impossible:
        first, problem = next(iter(impossible.items()))
        message = f"link {first!r} has a physically impossible inertia, used as given: {problem}"
        if len(impossible) > 1:
            message = (
                f"{len(impossible)} links have physically impossible inertias, used as given: "
            )
            message += listed(map(repr, impossible))
        fix = (
            "correct it in the file, or pass repair=('inertia',) to the reader; strict=True "
            "refuses it"
        )
        report.warning(places[first], message, fix)
    return checked


def _checked_inertia(
    link: LinkDescription, place: Place, report: Report, *, repair: bool
) -> tuple[np.ndarray, str | None]:
    """The inertia to compute with, and why it is impossible if it is kept all the same."""
    mass = link.mass
    inertia = link.inertia
    if mass < 0.0:
        report.error(
            place, f"the mass {mass:g} kg is negative", "give the mass in kg, 0 for a massless link"
        )
        return inertia, None
    least = float(np.linalg.eigvalsh(inertia)[0])
    negative = least < -inertia_rounding(mass, inertia)
    if negative:
        problem: str | None = f"the inertia is not positive definite: {principal_inertias(inertia)}"
    else:
        inertia = without_negative_moments(inertia)
        problem = impossible_inertia(mass, inertia)
    if problem is None:
        if mass > 0.0 and not np.any(inertia):
            point = f"a point mass: {mass:g} kg without rotational inertia"
            fix = "nothing, unless its inertia about the centre of mass matters [kg m^2]"
            report.note(place, point, fix, "point masses: no rotational inertia")
        return inertia, None
    if repair:
        repaired = repaired_inertia(inertia) if mass > 0.0 else np.zeros((3, 3))
        several = "{count} links had physically impossible inertias"
        report.repaired(
            place,
            f"{problem}; now {principal_inertias(repaired)}",
            "correct it in the file",
            several,
        )
        return repaired, None
    if negative or report.strict:
        report.error(place, problem, "correct it, or pass repair=('inertia',) to the reader")
        return inertia, None
    return inertia, problem


def repaired_inertia(inertia: np.ndarray) -> np.ndarray:
    """Raises the principal moments of an inertia just enough to make it physically possible; the
    axes stay.

    Every moment is first raised to a millionth of the largest. If the two smaller ones then sum to
    less than the largest, each is raised by half the difference. Raising moments only slows the
    motion about their axes; lowering the largest one could make a simulation unstable.

    Args:
      inertia: a symmetric matrix [kg m^2], shape [3, 3].
    """
    moments, axes = np.linalg.eigh(inertia)
    size = np.abs(moments).max()
    moments = np.maximum(moments, _MIN_MOMENT * size)
    missing = moments[2] - moments[0] - moments[1]
    moments[:2] += 0.5 * max(missing, 0.0)
    result = (axes * moments) @ axes.T
    return 0.5 * (result + result.T)
