"""Servers of viser: their ports, and no messages of their own."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

FIRST_PORT = 8080


def import_viser() -> Any:
    """The package ``viser``.

    Raises:
      ImportError: it is not installed, or too old; the message names the extra that brings it.
    """
    try:
        import viser
    except ImportError as error:
        raise ImportError("the viewer shows scenes with viser: pip install 'artix[viewer]'") from error
    if int(viser.__version__.partition(".")[0]) < 1:
        raise ImportError(
            f"the viewer needs viser 1.0 or later; found {viser.__version__}: pip install 'artix[viewer]'"
        )
    return viser


def open_server(host: str, port: int | None, title: str) -> Any:
    """A server of viser.

    Args:
      host: the address of this machine to which it listens: ``"127.0.0.1"`` for browsers on this machine alone,
        ``"0.0.0.0"`` for all.
      port: its port, 0 for any that is free; by default the first that is free from 8080.
      title: what its panel is called.

    Raises:
      OSError: the port is used, or the host is not an address of this machine.
      ImportError: viser is not installed.
    """
    viser = import_viser()
    if port != 0:
        port = _free_port(host, range(FIRST_PORT, FIRST_PORT + 100) if port is None else (port,))
    with _quiet():
        server = viser.ViserServer(host=host, port=port, label=title, verbose=False)
    server.gui.configure_theme(show_logo=False, show_share_button=False)
    if hasattr(server.gui, "main_panel"):  # viser 1.1: beside the robots instead of over them
        server.gui.main_panel.dock_right()
    return server


def close_server(server: Any) -> None:
    """Stops a server and its threads."""
    with _quiet():
        server.stop()


def wait_for(closed: threading.Event, close: Callable[[], None]) -> None:
    """Waits until a server is closed or the process is interrupted (Ctrl-C), and closes it."""
    try:
        while not closed.wait(0.2):
            pass
    except KeyboardInterrupt:
        pass
    finally:
        close()


@contextlib.contextmanager
def private_server() -> Iterator[Any]:
    """A server without visitors, for recordings."""
    server = open_server("127.0.0.1", 0, "artix")
    try:
        yield server
    finally:
        close_server(server)


def address(server: Any) -> str:
    """Where a browser on this machine finds a server."""
    host = server.get_host()
    return f"http://{'localhost' if host in ('0.0.0.0', '127.0.0.1') else host}:{server.get_port()}"


def _free_port(host: str, ports: range | tuple[int, ...]) -> int:
    for port in ports:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                if len(ports) > 1:
                    continue
                mend = "give another, or port=None for a free one"
                message = f"port {port} of {host} cannot be used ({error.strerror}); {mend}"
                raise OSError(error.errno, message) from error
            return port
    raise OSError(f"no port from {ports[0]} to {ports[-1]} is free; give another, or port=0 for any")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences viser, which prints with rich."""
    import rich

    console = rich.get_console()
    before, console.quiet = console.quiet, True
    try:
        yield
    finally:
        console.quiet = before
