"""Defines es.serve and es.show, which run entropy-scan serve for this process."""

from __future__ import annotations

import html
import os
import subprocess
import tempfile
import urllib.parse
import weakref
from typing import IO, Any

from . import _library

class Server:
    """A page with runs that is updated while they are written. It ends with this
    process, or with close(). A notebook displays the page.

    address   opens the page in a browser; contains a token, so treat it as a password
    """

    def __init__(
        self, paths: tuple[str | os.PathLike[str], ...], options: dict[str, Any]
    ) -> None:
        self.height = int(options.pop("height"))
        proxy = options.pop("proxy")
        port = options.pop("port")
        given = [f"--port={port}", "--until-eof"]
        for name, value in options.items():
            if value is True:
                given.append(f"--{name.replace('_', '-')}")
            elif value not in (None, False):
                given.append(f"--{name.replace('_', '-')}={value}")
        if proxy:
            place = urllib.parse.urlsplit(proxy.format(port=port))
            given += [f"--host={place.hostname}", f"--base-path={place.path or '/'}"]
        # Collect the server's messages in a file, because a full pipe would
        # block the server.
        with tempfile.TemporaryFile("w+", errors="replace") as messages:
            self._process = _start([*given, "--", *map(os.fspath, paths)], messages)
            self._finalizer = weakref.finalize(self, _end, self._process)
            self.address = _address_of(self._process, messages)
        if proxy:
            query = urllib.parse.urlsplit(self.address).query
            self.address = f"{proxy.format(port=port).rstrip('/')}/?{query}"

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the server. May be called repeatedly."""
        self._finalizer()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.address if self.is_running else 'a server that has ended'}>"

    def _repr_html_(self) -> str:
        # A browser sends no cookies from a frame that another site embeds, so the
        # page keeps the token itself. VS Code forwards the port only for the name
        # localhost.
        source = self.address.replace("/?token=", "/?embed=", 1).replace(
            "//127.0.0.1:", "//localhost:", 1
        )
        return (
            f'<iframe src="{html.escape(source)}" width="100%" height="{self.height}" '
            'style="border: 0" referrerpolicy="no-referrer"></iframe>'
        )


def serve(
    *paths: str | os.PathLike[str],
    port: int = 0,
    proxy: str | None = None,
    rules: str | os.PathLike[str] | None = None,
    allow_stop: bool = False,
    open: bool = False,
    height: int = 800,
) -> Server:
    """Shows runs on a page that is updated while they are written: run files, folders,
    and URLs of databases. Returns an object whose `address` opens the page.

        server = es.serve("runs")
        print(server.address)

    port        0: any free port
    proxy       the address under which the browser reaches the port, if it does not
                reach this machine, such as
                "https://hub.example/user/me/proxy/{port}/" with jupyter-server-proxy;
                needs a port
    rules       a file of rules and thresholds
    allow_stop  True: users of the page may stop training runs
    open        True: opens a browser
    height      of the frame in a notebook, in pixels

    The page is visible only to programs of this machine that know the token in the
    address. Raises es.Error.
    """
    if not paths:
        raise _library.Error("serve: name run files or folders")
    if proxy and not port:
        raise _library.Error("serve: proxy needs a port: give port=6007")
    options: dict[str, Any] = {
        "port": port,
        "proxy": proxy,
        "rules": os.fspath(rules) if rules is not None else None,
        "allow_stop": allow_stop,
        "open": open,
        "height": height,
    }
    return Server(paths, options)


_shown: dict[Any, Server] = {}


def show(*paths: str | os.PathLike[str], **options: Any) -> Server:
    """Shows runs in a notebook, in a frame that is updated while they are written:

        es.show("runs")

    The parameters are those of es.serve. Calls with the same paths and options share
    one server, for example when a cell is run again. The server ends with the
    kernel."""
    key = (tuple(map(os.path.abspath, paths)), tuple(sorted(options.items())))
    server = _shown.get(key)
    if server is None or not server.is_running:
        server = _shown[key] = serve(*paths, **options)
    return server


def _start(options: list[str], messages: IO[str]) -> subprocess.Popen[str]:
    program = _library.program("entropy-scan")
    if program is None and _library.IS_PYTHON:
        raise _library.Error(f"serve: {_library.NO_PROGRAM}")
    program = program or "entropy-scan"
    try:
        # With --until-eof the server ends when its standard input is closed,
        # which also happens if this process is killed.
        return subprocess.Popen(
            [program, "serve", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=messages,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise _library.Error(f"{program}: {error.strerror}") from None


def _address_of(process: subprocess.Popen[str], messages: IO[str]) -> str:
    """Reads the address that the server prints. If the server ends without printing
    one, raises Error with the first line of its error message."""
    assert process.stdout
    line = process.stdout.readline().strip()
    if line:
        return line
    process.communicate()
    messages.seek(0)
    lines = messages.read().strip().splitlines()
    raise _library.Error(lines[0] if lines else f"serve: {process.returncode}")


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.communicate(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
