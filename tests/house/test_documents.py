"""Code in documents runs, and their links and names exist."""

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import jax
import pytest

import artix
from tests.support.users_types import users_types

ROOT = Path(__file__).parents[2]
#: What a newcomer runs first. The other notebooks run once a week: they use code that slow tests
#: run as well.
FIRST_NOTEBOOKS = ("batched_inverse_dynamics", "getting_started")


def code_of(document: str, least: int = 1) -> str:
    """The Python code of a document, which has at least so many blocks of it."""
    found = re.findall(
        r"```python\n(.*?)```", (ROOT / document).read_text(encoding="utf-8"), re.DOTALL
    )
    assert len(found) >= least
    return "\n".join(found)


def run_code_of(document: str, least: int = 1, **namespace: Any) -> dict:
    """What the code of a document defines when it runs from top to bottom, with the names of
    ``namespace`` defined."""
    exec(compile(code_of(document, least), document, "exec"), namespace)
    return namespace


def printed_by_code_of(document: str) -> list[str]:
    """The lines that the code of a document prints in a process without this one's x64 and strict
    promotion."""
    command = [sys.executable, "-c", code_of(document)]
    return subprocess.run(
        command, check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.splitlines()


@pytest.mark.slow
def test_the_examples_of_the_readme_run(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert run_code_of("README.md", 2)["M"].shape[0] == 3000


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as MkDocs and GitHub name them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {
        re.sub(r"[ -]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())
        for heading in headings
    }


def test_what_the_documents_link_to_is_there():
    pages = [
        ROOT / name
        for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "artix/compiler/README.md")
    ]
    for page in [*pages, *(ROOT / "docs").glob("*.md")]:
        for link, anchor in re.findall(
            r"\]\(([^)#\s]*)#?([^)\s]*)\)", page.read_text(encoding="utf-8")
        ):
            if "://" in link or re.match(r"(reference|tutorials)/|gallery\.md$", link):
                continue  # the strict build of the site looks at its own pages
            target = page.parent / link if link else page
            assert target.exists(), f"{page.name} links to {link}"
            if anchor and target.suffix == ".md":
                assert anchor in anchors_of(target), f"{page.name} links to {link}#{anchor}"


@pytest.mark.slow
def test_the_examples_of_the_first_page_run():
    assert run_code_of("docs/index.md", 2)["M"].shape == (64, 18, 18)


@pytest.mark.slow
def test_the_examples_of_the_formats_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    run_code_of("docs/formats.md")
    out = capsys.readouterr().out
    assert "MJCF cannot express its speed limit" in out
    assert "[100.] [0.5]" in out
    assert "[0. 0. 1. 0. 0. 0. 1.]" in out


@pytest.mark.slow
def test_the_examples_of_the_page_on_vmap_run():
    assert run_code_of("docs/vmap.md", 3)["slope"].shape == (4096, 2)


def test_the_examples_about_usd_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_code_of("docs/usd.md", 2)
    assert "(18, 18)" in capsys.readouterr().out


def test_the_example_of_the_page_on_the_compiler_runs(capsys):
    """And what the page shows is what it prints."""
    page = "artix/compiler/README.md"
    run_code_of(page, 4)
    shown = re.findall(r"```text\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    assert capsys.readouterr().out == "".join(shown)


@pytest.mark.slow
def test_the_examples_of_the_page_on_evaluation_run():
    """And what the page shows is what they print, but for the machine's lanes; in a process without
    this one's x64."""
    text = (ROOT / "docs/evaluation.md").read_text(encoding="utf-8")
    shown = re.findall(r"```text\n(mass_matrix.*?)```", text, re.DOTALL)[0]
    printed = printed_by_code_of("docs/evaluation.md")[1:]
    # The estimate of a first call is the machine's.
    assert [line for line in printed if not line.startswith("first call")] == shown.splitlines()[
        1:-1
    ]
    assert any(line.startswith("first call: about") for line in printed)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "shown"),
    [
        (
            "environments",
            [
                "(64, 5) (64,) 0.02",
                "(8, 7) ['nan', 'reward/height', 'reward/jerk']",
                "{'privileged_state': 121, 'state': 50}",
                "[('gyro', 3, 3), ('gravity', 3, 1), ('joint_position', 12, 1)]",
                "16.0",
            ],
        ),
        ("sim_to_real", ["(32, 18)", "(43,)", "{'privileged_state': 154, 'state': 83}"]),
    ],
)
def test_the_examples_about_environments_run(page, shown, capsys):
    """With users' 32-bit types."""
    with users_types():
        run_code_of(f"docs/{page}.md")
    assert capsys.readouterr().out.splitlines() == shown


@pytest.mark.slow
@pytest.mark.parametrize("page", ["fleets", "devices"])
def test_the_examples_about_many_robots_run(page, capsys):
    """And what they assert holds, with users' 32-bit types."""
    with users_types():
        run_code_of(f"docs/{page}.md", 3)
    printed = re.findall(r"  # (\d.*)", code_of(f"docs/{page}.md"))
    assert capsys.readouterr().out.splitlines() == printed


@pytest.mark.slow
def test_the_example_of_the_page_on_pinocchio_runs(capsys):
    run_code_of("docs/pinocchio.md")
    assert capsys.readouterr().out == "(256, 18, 18)\n"


@pytest.mark.slow
def test_the_examples_of_the_page_on_conventions_run():
    """And the identities that it asserts hold."""
    run_code_of("docs/conventions.md", 4)


@pytest.mark.slow
def test_the_examples_of_the_page_on_derivatives_run():
    namespace = run_code_of("docs/derivatives.md", 7)
    assert namespace["gradient"].shape == (20, 7)
    assert namespace["A"].shape == (14, 14)


@pytest.mark.slow
def test_the_examples_about_shapes_and_ground_run(capsys, tmp_path, monkeypatch):
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    namespace = run_code_of("docs/contact.md", 5)
    out = capsys.readouterr().out
    assert (
        "['front_left_foot', 'front_right_foot', 'rear_left_foot', 'rear_right_foot']\n[-0.01 "
        "-0.01 -0.01 -0.01]" in out
    )
    assert "(64, 12)\n" in out
    assert out.endswith("[0.6]\n")
    assert namespace["slope"].shape == (200, 200)
    assert float(namespace["slope"].sum()) < -1


@pytest.mark.slow
def test_the_examples_of_the_page_on_constraints_run():
    """And what they assert holds, with users' 32-bit types."""
    with users_types():
        namespace = run_code_of("docs/constraints.md", 4)
    robot, feet = namespace["robot"], namespace["weight"]
    assert feet[2] == pytest.approx(9.81 * float(robot.link_mass.sum()), rel=0.2)
    assert float(namespace["solution"].residual) < 1e-3


def test_the_example_of_the_page_on_gpus_runs():
    """The page leaves out the robot and its states. A CPU takes its own kernels."""
    arm = artix.robots.load("double_pendulum")
    states = jax.tree.map(lambda x: jax.numpy.stack([x] * 4), artix.neutral_state(arm))
    namespace = run_code_of("docs/gpu.md", robot=arm, states=states, artix=artix, jax=jax)
    assert namespace["step"](states).joint_position.shape == (4, 2)


@pytest.mark.slow
def test_the_examples_of_the_page_on_configurations_run(capsys):
    run_code_of("docs/configuration.md", 7)
    out = capsys.readouterr().out
    assert "('screw', 'hinge:twist', 'hinge:swing1')\n7 4\n" in out
    assert "[[0.2" in out


@pytest.mark.slow
def test_the_examples_of_the_stepping_page_run(capsys):
    pytest.importorskip("diffrax")
    with users_types():  # which diffrax needs
        namespace = run_code_of("docs/stepping.md", 2)
    assert "\n0.357" in capsys.readouterr().out  # 5/7 of 0.5: the sphere rolls.
    assert abs(float(namespace["states"].joint_position[-1, 0]) - 0.8) < 0.1
    # The smooth motion has no dry friction and no limit of 30 N m, but the same springs.
    assert abs(float(namespace["solution"].ys.joint_position[-1, 0]) - 0.8) < 0.2


@pytest.mark.parametrize(
    "notebook",
    [
        pytest.param(
            path, marks=pytest.mark.slow if path.stem in FIRST_NOTEBOOKS else pytest.mark.exhaustive
        )
        for path in sorted((ROOT / "notebooks").glob("*.ipynb"))
    ],
    ids=lambda path: path.stem,
)
def test_the_notebooks_run(notebook):
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    content = nbformat.read(notebook, as_version=4)
    nbclient.NotebookClient(
        content, timeout=600, resources={"metadata": {"path": str(ROOT)}}
    ).execute()


@pytest.mark.parametrize(
    "notebook", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem
)
def test_the_notebooks_hold_what_they_print_and_draw(notebook):
    """Those who read them on the site, or before they install anything, see the results; and they
    stay small."""
    cells = [
        cell
        for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        if cell["cell_type"] == "code"
    ]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert outputs
    assert not [output for output in outputs if output["output_type"] == "error"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert notebook.stat().st_size < 300_000


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        "CONTRIBUTING.md",
        "artix/compiler/README.md",
        "docs/algorithms.md",
        "docs/configuration.md",
        "docs/constraints.md",
        "docs/conventions.md",
        "docs/derivatives.md",
        "docs/devices.md",
        "docs/evaluation.md",
        "docs/fleets.md",
        "docs/formats.md",
        "docs/identification.md",
        "docs/index.md",
        "docs/inverse_kinematics.md",
        "docs/log_to_torques.md",
        "docs/optimal_control.md",
        "docs/constrained_motions.md",
        "docs/mpc.md",
        "docs/physx.md",
        "docs/pinocchio.md",
        "docs/stepping.md",
        "docs/usd.md",
        "docs/verification.md",
        "docs/vmap.md",
    ],
)
def test_the_functions_that_documents_name_exist(document):
    text = (ROOT / document).read_text(encoding="utf-8")
    names = set(re.findall(r"\bartix\.([a-zA-Z_]+)\b", text)) - {"cli", "io", "png"}
    missing = sorted(
        name for name in names if not hasattr(artix, name) and find_spec(f"artix.{name}") is None
    )
    assert not missing


@pytest.mark.slow
def test_the_examples_of_the_page_on_the_viewer_run(tmp_path, monkeypatch, capsys):
    pytest.importorskip("viser")
    monkeypatch.chdir(tmp_path)
    namespace = run_code_of("docs/viewer.md", 7)
    assert namespace["image"].shape == (200, 200, 4)
    assert {"landing.html", "fleet.html", "landing.png", "arm.png"} <= {
        path.name for path in tmp_path.iterdir()
    }
    out = capsys.readouterr().out
    assert "http://localhost:" in out
    assert "0.3" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        "optimal_control",
        "constrained_motions",
        "mpc",
        "minimum_time",
        "inverse_kinematics",
        "identification",
        "log_to_torques",
    ],
)
def test_the_examples_about_optimal_control_run(page, tmp_path, monkeypatch, capsys):
    """And reach what they assert, with users' 32-bit types."""
    pytest.importorskip("optimistix")
    monkeypatch.chdir(tmp_path)
    with users_types():
        run_code_of(f"docs/{page}.md")
    out = capsys.readouterr().out
    shown = {
        "optimal_control": "(36, 36) (36, 12) (12,)",
        "constrained_motions": "(26, 4) (4,)",
        "mpc": "(26, 37) (25, 12) (25, 12, 36)",
        "minimum_time": "1.2649",
        "inverse_kinematics": "(1000, 7)",
        "identification": "('friction', 'trunk', 'height', 'motor')",
        "log_to_torques": "(4700, 7)",
    }
    assert shown[page] in out


@pytest.mark.slow
def test_the_examples_about_training_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with users_types():
        monkeypatch.setattr(jax, "devices", lambda *_: jax.local_devices()[:1])
        namespace = run_code_of("docs/train.md", 3)
    assert namespace["action"].shape == (1, 1)
    assert (tmp_path / "cart_pole.npz").exists()


@pytest.mark.slow
def test_the_page_about_gradients_runs():
    with users_types():
        assert run_code_of("docs/gradients.md")["policy"].action_size == 1
