"""Mutated robot descriptions: each must load as a valid articulation or raise artix's own error.

Run as ``python -m tests.support.fuzz FORMAT COUNT SEED``: a process of its own, for a crash of a
parser written in C would take the tests with it. It prints the number of each case before the case
runs, and what went wrong.
"""

from __future__ import annotations

import random
import resource
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

NUMBERS = (
    "nan",
    "inf",
    "-inf",
    "0",
    "-1",
    "1e308",
    "-1e308",
    "1e-308",
    "1e31",
    "99999999999",
    "",
    " ",
    "1 2 3 4 5 6 7 8",
    "0x10",
)
NAMES = (
    "",
    "world",
    "\u0000",
    "a" * 5000,
    "\u2028é\U0001d518",
    "<&>",
    "../../etc/passwd",
    "${x}",
    "true",
    "false",
    "none",
)
SECONDS_PER_CASE = 20.0
EXTRA_MEMORY = 600 * 2**20


def mutate_tree(document: ET.Element, rng: random.Random) -> None:
    """One change of elements or attributes."""
    elements = list(document.iter())
    parents = {child: parent for parent in elements for child in parent}
    element, other = rng.choice(elements), rng.choice(elements)
    kind = rng.randrange(9)
    if kind == 0 and element in parents:
        parents[element].remove(element)
    elif kind == 1 and element in parents:
        parents[element].append(element)
    elif (
        kind == 2 and element in parents and other in parents and element not in list(other.iter())
    ):
        if other not in list(element.iter()):
            parents[element].remove(element)
            other.append(element)
    elif kind == 3:
        element.tag, other.tag = other.tag, element.tag
    elif kind == 4:
        element.attrib, other.attrib = other.attrib, element.attrib
    elif element.attrib:
        key = rng.choice(sorted(element.attrib))
        value = element.attrib[key]
        if kind == 5:
            del element.attrib[key]
        elif kind == 6:
            words = value.split() or [""]
            words[rng.randrange(len(words))] = rng.choice(NUMBERS)
            element.attrib[key] = " ".join(words)
        elif kind == 7:
            element.attrib[key] = rng.choice(NUMBERS + NAMES)
        elif other.attrib:
            element.attrib[key] = rng.choice(sorted(other.attrib.values()))


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """One change of the bytes of the file."""
    kind, at = rng.randrange(10), rng.randrange(len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9))) + data[at:]
    if kind == 2:
        return data[:at] + data[at + rng.randrange(1, 60) :]
    if kind == 3:
        return data.decode("utf-8", "replace").encode(
            rng.choice(("utf-16", "utf-32", "latin-1", "utf-7")), "replace"
        )
    if kind == 4:
        bomb = '<!DOCTYPE b [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
        return bomb.encode() + data
    if kind == 5:
        tag = rng.choice((b"body", b"link", b"a", b"worldbody", b"default"))
        depth = rng.choice((100, 10_000, 200_000))
        return data[:at] + (b"<" + tag + b">") * depth + data[at:]
    if kind == 6:
        return b""
    if kind == 7:
        return (
            b'<?xml version="1.0" encoding="'
            + rng.choice((b"utf-8", b"nonsense", b"cp037", b"utf-16"))
            + b'"?>'
            + data
        )
    if kind == 8:
        other = rng.randrange(len(data))
        return data[:at] + data[other : other + 200] + data[at:]
    return data.replace(
        b">", b">" + rng.choice((b"\x00", b"]]>", b"&bad;", b"<!--", b"\xff\xfe")), 1
    )


def mutated(seeds: list[bytes], rng: random.Random) -> bytes:
    """A description with one to six changes, most of which keep it valid XML."""
    data = rng.choice(seeds)
    if rng.random() < 0.8:
        document = ET.fromstring(data)
        for _ in range(rng.randrange(1, 5)):
            mutate_tree(document, rng)
        # What XML has no character for is written as it is: readers must cope with it.
        data = ET.tostring(document, encoding="unicode").encode("utf-8", "surrogatepass")
    if rng.random() < 0.3:
        data = mutate_bytes(data, rng)
    return data


def seeds_of(format_name: str) -> tuple[list[bytes], str, Callable]:
    """Valid descriptions of a format, its suffix, and its reader."""
    import artix
    from artix.io.mjcf.reader import load_mjcf_all

    if format_name == "urdf":
        files = [artix.robots.path(name) for name in artix.robots.names()]
        return [file.read_bytes() for file in files], ".urdf", artix.load_urdf
    from tests.io.test_round_trips import EVERYTHING, MJCF_MODELS

    models = (
        "gymnasium/ant.xml",
        "gymnasium/humanoid.xml",
        "mjx/pendula.xml",
        "mjx/tendon/tendon.xml",
    )
    memory = b"""<mujoco><size nuser_body="2" memory="1M"/><custom><numeric name="n" size="3" data="1 2 3"/></custom>
    <worldbody><replicate count="3" offset="1 0 0"><body><freejoint/><geom size="1"/></body></replicate>
    <body><flexcomp name="f" type="grid" count="2 2 1" spacing="1 1 1" dim="2" radius="0.1"/></body></worldbody></mujoco>"""
    seeds = [EVERYTHING.encode(), memory, *(MJCF_MODELS[name].read_bytes() for name in models)]
    return seeds, ".xml", load_mjcf_all


def check(result) -> None:
    """Raises an error unless the loaded articulation is valid."""
    from artix.io.common.values import check_values, named_arrays

    for articulation in result.values() if isinstance(result, dict) else [result]:
        check_values(named_arrays(articulation))
        assert articulation.topology.num_links > 0


def main(format_name: str, count: int, seed: int) -> int:
    """Runs the cases; returns the number of failures."""
    import warnings

    import artix

    warnings.simplefilter("ignore")
    seeds, suffix, load = seeds_of(format_name)
    check(load(artix.robots.path("arm7")) if format_name == "urdf" else load(seeds[0].decode()))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    loaded = wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"robot{suffix}"
        for case in range(count):
            print(f"case {case}", flush=True)
            rng = random.Random(f"{format_name} {seed} {case}")
            path.write_bytes(mutated(seeds, rng))
            options = {"skip": "all"} if format_name == "mjcf" and rng.random() < 0.5 else {}
            start = time.monotonic()
            try:
                check(load(path, **options))
                loaded += 1
            except artix.DescriptionError:
                pass
            except Exception as error:
                wrong += 1
                print(f"WRONG case {case}: {type(error).__name__}: {str(error)[:300]}")
                (Path(tempfile.gettempdir()) / f"artix_fuzz_{case}{suffix}").write_bytes(
                    path.read_bytes()
                )
            if time.monotonic() - start > SECONDS_PER_CASE:
                wrong += 1
                print(f"WRONG case {case}: took {time.monotonic() - start:.0f} s")
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    if grown > EXTRA_MEMORY:
        wrong += 1
        print(f"WRONG memory: grew by {grown / 2**20:.0f} MiB")
    print(f"done: {count} cases, {loaded} loaded, {wrong} wrong, {grown / 2**20:.0f} MiB more")
    return wrong


if __name__ == "__main__":
    sys.exit(min(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), 100))
