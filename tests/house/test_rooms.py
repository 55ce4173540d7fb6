"""Modules live where CONTRIBUTING.md says, and import only what it allows."""

import ast
import re
import sys
from pathlib import Path

import jax
import pytest

import artix
from artix.compiler.program import trace

ROOT = Path(__file__).parents[2]
SIMULATION = Path(artix.__file__).parent / "simulation"
#: From the lowest to the highest; a module imports from its own room and from lower ones. ``artix``
#: is the face, the package's own ``__init__``, on which examples and commands are built as users'
#: programs are.
ROOMS = (
    "math",
    "compiler",
    "model",
    "kinematics",
    "dynamics",
    "constraints",
    "contact",
    "simulation.common",
    "simulation.implicit",
    "simulation",
    "fleet",
    "editing",
    "io.common",
    "io.urdf",
    "io.mjcf",
    "io.usd",
    "io",
    "robots",
    "physx.solver",
    "physx",
    "artix",
    "optimal_control",
    "inverse_kinematics",
    "identification",
    "envs",
    "examples",
    "viewer",
    "cli",
)
#: Modules that lie in no folder, and where they count.
OUTSIDE = {"artix.__main__": "cli", "artix.evaluation": "artix"}
MAX_LINES = 700
EXAMPLE = re.compile(r'\n\n +Examples:(?:\n +.*)+?(?=\n +""")')
LONGEST_CHAIN = 15
#: From the face of the package down; not to grow.
LONGEST_CHAIN_OF_ALL = 24


def imports_of_all_modules() -> dict[str, set[str]]:
    """The modules of artix by name, and what each imports, anywhere in it: for types alone or
    within a function, too."""
    paths = {name_of(path): path for path in (ROOT / "artix").rglob("*.py")}
    return {name: imports_of(path, set(paths)) for name, path in paths.items()}


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports_of(path: Path, modules: set[str]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            found |= {name if name in modules else str(node.module) for name in inner}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {name for name in found if name.split(".")[0] == "artix"} - {name_of(path)}


def room_of(module: str) -> str:
    """The innermost room of a module."""
    inside = module.removeprefix("artix.")
    if module in OUTSIDE:
        return OUTSIDE[module]
    return max(
        (room for room in ROOMS if f"{inside}.".startswith(f"{room}.")), key=len, default="none"
    )


def circle_in(imports: dict[str, set[str]]) -> list[str] | None:
    """Modules of which each imports the next, and the last the first; ``None`` if there are
    none."""
    done: set[str] = set()

    def search(module: str, above: list[str]) -> list[str] | None:
        if module in above:
            return above[above.index(module) :]
        if module in done:
            return None
        for other in sorted(imports.get(module, ())):
            circle = search(other, [*above, module])
            if circle is not None:
                return circle
        done.add(module)
        return None

    return next(
        (circle for module in sorted(imports) if (circle := search(module, [])) is not None), None
    )


def longest_chain(imports: dict[str, set[str]]) -> list[str]:
    """The longest sequence of modules of which each imports the next."""
    chains: dict[str, list[str]] = {}

    def chain(module: str) -> list[str]:
        if module not in chains:
            below = [chain(other) for other in imports[module] if other in imports]
            chains[module] = [module, *max(below, key=len, default=[])]
        return chains[module]

    return max((chain(module) for module in imports), key=len)


@pytest.fixture(scope="module")
def imports() -> dict[str, set[str]]:
    return imports_of_all_modules()


@pytest.mark.slow
def test_every_module_is_in_a_room(imports):
    assert [module for module in imports if room_of(module) == "none"] == []


def test_rooms_import_from_lower_rooms_only(imports):
    upwards = [
        f"{module} ({room_of(module)}) imports {other} ({room_of(other)})"
        for module, others in imports.items()
        for other in others
        if ROOMS.index(room_of(other)) > ROOMS.index(room_of(module))
    ]
    assert upwards == []


def test_two_modules_use_what_jax_does_not_publish():
    paths = (ROOT / "artix").rglob("*.py")
    users = [name_of(path) for path in paths if "jax._src" in path.read_text()]
    assert sorted(users) == ["artix.compiler.jax_internals", "artix.math.traces"]


def test_no_circle(imports):
    assert circle_in(imports) is None


def test_a_circle_is_found():
    assert circle_in({"a": {"b"}, "b": {"c", "d"}, "c": set(), "d": {"b"}}) == ["b", "d"]
    assert circle_in({"a": {"b", "c"}, "b": {"c"}, "c": set()}) is None


def test_modules_are_short():
    """The examples of docstrings do not count."""
    texts = {path: EXAMPLE.sub("", path.read_text()) for path in (ROOT / "artix").rglob("*.py")}
    lines = {name_of(path): len(text.splitlines()) for path, text in texts.items()}
    assert {name: count for name, count in lines.items() if count > MAX_LINES} == {}


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_can_be_followed(imports, room):
    inside = {module: others for module, others in imports.items() if room_of(module) == room}
    chain = longest_chain(inside)
    assert len(chain) < LONGEST_CHAIN, " imports ".join(chain)


def test_the_package_can_be_followed(imports):
    below = {
        module: others
        for module, others in imports.items()
        if ROOMS.index(room_of(module)) <= ROOMS.index("artix")
    }
    chain = longest_chain(below)
    assert len(chain) <= LONGEST_CHAIN_OF_ALL, " imports ".join(chain)


def test_contacts_need_no_constraints(imports):
    """Points that touch are kinematics: constraints and contact both build on them."""
    users = {
        module
        for module, others in imports.items()
        if any(room_of(other) == "constraints" for other in others)
    }
    assert {module for module in users if room_of(module) == "contact"} == set()


#: What a step of a robot without contacts, tendons, mimic joints and loops runs through.
PLAIN_STEP = {
    "step",
    *(f"common.{name}" for name in ("control", "drives", "momentum_end", "options", "step_start")),
    *(
        f"implicit.{name}"
        for name in ("fast_motion", "first_guess", "joint_rows", "resolvents", "rows")
    ),
    *(f"implicit.{name}" for name in ("solution", "solver", "step", "system")),
}


@pytest.mark.slow
def test_a_plain_step_is_followed_through_few_modules():
    """Every other module of the room is entered only for its feature."""
    builder = artix.ArticulationBuilder()
    root = builder.add_link(mass=1.0, inertia=(0.1, 0.1, 0.1))
    builder.add_link(
        root, artix.Joint.revolute(artix.Axis.TWIST), mass=1.0, inertia=(0.1, 0.1, 0.1)
    )
    robot = builder.build()
    leaves, structure = jax.tree.flatten(artix.neutral_state(robot))
    files = set()

    def note(frame, event, _):
        if event == "call":
            files.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        trace(
            lambda *state: artix.step(robot, jax.tree.unflatten(structure, state), None, 0.01),
            leaves,
        )
    finally:
        sys.setprofile(before)
    inside = [Path(file) for file in files if SIMULATION in Path(file).parents]
    assert {
        ".".join(path.relative_to(SIMULATION).with_suffix("").parts) for path in inside
    } == PLAIN_STEP


def test_the_map_names_every_room_in_this_order():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    named = re.findall(r"^\| `([a-z_/]+)/` \|", page, flags=re.MULTILINE)
    assert [room.replace("/", ".") for room in named if room != "benchmarks"] == [
        r for r in ROOMS if r != "artix"
    ]


def test_the_map_names_no_module_that_is_not_there():
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^\| `([a-z_/]+)/` \| (.*) \|$", page, flags=re.MULTILINE)
    missing = [
        f"{room}/{module}"
        for room, text in rows
        for module in re.findall(r"`([a-z_/]+\.py)`", text)
        if not any((ROOT / folder / room / module).is_file() for folder in ("artix", "."))
    ]
    assert missing == []


def test_tests_mirror_the_rooms():
    """``pinocchio`` compares with a whole library, ``house`` reads documents and code, ``support``
    is what tests share."""
    folders = {
        path.name
        for path in (ROOT / "tests").iterdir()
        if path.is_dir() and not path.name.startswith("__")
    }
    assert folders - {"data", "house", "pinocchio", "support"} <= {
        room.split(".")[0] for room in ROOMS
    }
    strays = [
        path.name
        for path in (ROOT / "tests").glob("*.py")
        if path.name not in ("__init__.py", "conftest.py")
    ]
    assert strays == []
