"""``import artix`` loads no packages except those that JAX loads."""

import subprocess
import sys

#: Packages that artix uses, or may use, somewhere; importing each takes as long as artix, or
#: longer.
CODE = """
import sys
import artix
print("jax" in sys.modules)
import jax
before = set(sys.modules)
artix.load
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(new - set(sys.stdlib_module_names) - {"artix", "jax", "jaxlib", "numpy"}))
print(sum(name.startswith("artix.") for name in sys.modules))
print([room for room in ("viewer", "envs", "optimal_control", "examples", "cli") if f"artix.{room}" in sys.modules])
"""


def test_importing_artix_loads_nothing_but_artix():
    """Neither an extra nor flax, matplotlib or llvmlite: 0.2 s of CPU time beyond jax (flax would
    double it)."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    has_jax, others, count, rooms = done.stdout.splitlines()
    assert has_jax == "False"  # The command line answers without it.
    assert others == "[]"
    assert rooms == "[]"
    assert 100 < int(count) < 325
