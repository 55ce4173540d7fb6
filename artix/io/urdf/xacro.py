"""Reads xacro, the macro language of URDF, with the package ``xacrodoc``."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from artix.io.common.diagnostics import DescriptionError, DescriptionWarning, Issue, listed
from artix.io.common.meshes import Packages, find_package
from artix.io.common.xml_tree import ExpandedText
from artix.io.urdf.reader import check_urdf, load_urdf
from artix.model.articulation import Articulation


def load_xacro(
    path: str | Path,
    *,
    arguments: Mapping[str, Any] | None = None,
    packages: Packages | None = None,
    **options: Any,
) -> Articulation:
    """Expands a xacro file and reads the resulting URDF.

    A xacro file is a program: it may include other files and evaluate Python expressions, so expand
    only files that you trust. Line numbers in messages about the URDF refer to the expanded text.
    Relative names of included files are looked up beside the file that includes them.
    ``$(find NAME)`` is one of ``packages``, a folder NAME above the file or beside those, or in
    ``ROS_PACKAGE_PATH``, or a package that ROS knows.

    Args:
      path: the file.
      arguments: values of its ``<xacro:arg>``; numbers may be given as such. Those that the file
        does not ask for are said in a warning.
      packages: folders of ROS packages by name, for ``$(find NAME)`` and for meshes
        ``package://NAME/...``.
      **options: passed to :func:`artix.load_urdf`.

    Returns:
      The articulation.

    Raises:
      DescriptionError: it cannot be expanded, or the URDF is refused.
      ImportError: ``xacrodoc`` (extra ``xacro``) is not installed.
      OSError: the file cannot be read.

    Examples:
      >>> import pathlib, tempfile
      >>> text = '''
      ... <robot name="rod" xmlns:xacro="http://www.ros.org/wiki/xacro">
      ...   <xacro:arg name="mass" default="1"/>
      ...   <link name="rod">
      ...     <inertial>
      ...       <mass value="$(arg mass)"/><inertia ixx="0.1" iyy="0.1" izz="0.1" ixy="0" ixz="0" iyz="0"/>
      ...     </inertial>
      ...   </link>
      ... </robot>'''
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "rod.xacro"
      >>> _ = path.write_text(text)
      >>> print(artix.io.load_xacro(path, arguments={"mass": "2.5"}).link_mass)
      [2.5]
    """  # noqa: E501
    text = expand_xacro(path, arguments, packages)
    for issue in text.issues:
        warnings.warn(str(issue), DescriptionWarning, stacklevel=2)
    return load_urdf(text, packages=packages, **options)


def check_xacro(
    path: str | Path,
    *,
    arguments: Mapping[str, Any] | None = None,
    packages: Packages | None = None,
    **options: Any,
) -> list[Issue]:
    """Lists all errors and warnings of the URDF that a xacro file expands to; see
    :func:`load_xacro`.

    Args:
      path: the file.
      arguments: values of its ``<xacro:arg>``.
      packages: as for :func:`load_xacro`.
      **options: passed to :func:`artix.check_urdf`.

    Returns:
      The issues, none for a description without errors and warnings.

    Raises:
      ImportError: ``xacrodoc`` (extra ``xacro``) is not installed.
      OSError: the file cannot be read.

    Examples:
      >>> import pathlib, tempfile
      >>> path = pathlib.Path(tempfile.mkdtemp()) / "rod.xacro"
      >>> name = "http://www.ros.org/wiki/xacro"
      >>> _ = path.write_text(f'<robot name="rod" xmlns:xacro="{name}"><link name="rod"/></robot>')
      >>> print([issue.severity for issue in artix.io.check_xacro(path)])
      []
    """
    try:
        text = expand_xacro(path, arguments, packages)
        return [*text.issues, *check_urdf(text, packages=packages, **options)]
    except DescriptionError as error:
        return list(error.issues)


def expand_xacro(
    path: str | Path, arguments: Mapping[str, Any] | None = None, packages: Packages | None = None
) -> ExpandedText:
    """Expands a xacro file to the text of a URDF; raises the same errors as :func:`load_xacro`."""
    try:
        import xacrodoc
    except ImportError as error:
        raise ImportError(
            "expanding xacro files requires xacrodoc: pip install 'artix[xacro]'"
        ) from error
    if not isinstance(arguments or {}, Mapping):
        raise TypeError(
            f"arguments: expected values by name, such as {{'side': 'left'}}; found {arguments!r}"
        )
    path = Path(path)
    # Raises OSError here rather than a DescriptionError below if the file cannot be read.
    path.read_bytes()
    known = dict(packages or {})
    while True:
        try:
            values = _Arguments(arguments or {})
            text = _expand(xacrodoc, path, values, known)
            return ExpandedText.of(text, path, *values.unknown(path))
        except Exception as error:  # Expressions in the file may raise any exception.
            name = _missing_package(xacrodoc, error)
            folder = None if name is None or name in known else find_package(name, path.parent)
            if name is not None and folder is not None:
                known[name] = folder
                continue
            message = (
                f"xacro cannot expand it: {' '.join(str(error).split()) or type(error).__name__}"
            )
            fix = "correct the file, or give the value of each <xacro:arg> in arguments"
            if name is not None:
                fix = f"give the folder of the package: packages={{{name!r}: ...}}"
            raise DescriptionError([Issue("error", str(path), 1, "xacro", message, fix)]) from error


class _Arguments(dict[str, str]):
    """The values of xacro arguments, which remembers those that the file asks for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__({name: str(value) for name, value in values.items()})
        self._names, self._asked = tuple(self), set[object]()

    def __contains__(self, name: object) -> bool:
        self._asked.add(name)
        return super().__contains__(name)

    def __getitem__(self, name: str) -> str:
        self._asked.add(name)
        return super().__getitem__(name)

    def unknown(self, path: Path) -> list[Issue]:
        """A warning of arguments that the file does not have."""
        unknown = [name for name in self._names if name not in self._asked]
        if not unknown:
            return []
        known = listed(map(repr, sorted(map(str, self._asked)))) or "none"
        message = f"it has no argument {listed(map(repr, unknown))}; it has {known}"
        fix = "correct the name, or leave it out"
        return [Issue("warning", str(path), 1, "xacro", message, fix)]


def _expand(xacrodoc: Any, path: Path, arguments: _Arguments, packages: Packages) -> str:
    """The text of the URDF. xacro keeps the packages that it has found and the file in hand in
    global variables.
    """
    xacrodoc.packages.reset()
    xacrodoc.packages.update_package_cache(packages)
    xacro = xacrodoc.xacrodoc.xacro
    xacro.init_stacks(str(path))
    try:
        document = xacrodoc.XacroDoc.from_file(path, subargs=arguments, resolve_packages=False)
    finally:
        xacro.init_stacks(None)
        xacrodoc.packages.reset()
    return document.dom.toxml()


def _missing_package(xacrodoc: Any, error: BaseException | None) -> str | None:
    """The name of the package that an expansion lacked, if that is why it failed."""
    while error is not None:
        if isinstance(error, xacrodoc.packages.PackageNotFoundError):
            return str(error.args[0])
        error = error.__cause__ or error.__context__
    return None
