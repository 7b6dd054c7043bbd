"""Tests es.serve and es.show, which serve a page with runs until it is closed."""

import html
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
import waiting

import entropyscan as es

RUN = Path(__file__).resolve().parents[2] / "samples/runs/sm.db"


@pytest.fixture
def runs(tmp_path):
    shutil.copy(RUN, tmp_path / "sm.db")
    return tmp_path


def page_of(address):
    with urllib.request.urlopen(address) as answer:
        return answer.read().decode()


def test_the_address_opens_the_page(runs):
    with es.serve(runs) as server:
        token = server.address.partition("/?token=")[2]
        request = urllib.request.Request(
            server.address.partition("?")[0],
            headers={"Authorization": "Bearer " + token},
        )
        assert '"live":{' in page_of(request)
        assert server.is_running and server.address in repr(server)
    assert not server.is_running and "ended" in repr(server)
    with pytest.raises(urllib.error.URLError):
        page_of(request)


def test_a_notebook_shows_the_page_in_a_frame(runs):
    shown = es.show(runs, height=500)
    frame = shown._repr_html_()
    source = html.unescape(re.search('src="([^"]*)"', frame)[1])
    assert 'height="500"' in frame
    assert source.startswith("http://localhost:") and "?embed=" in source
    assert '"live":{' in page_of(source)
    assert es.show(runs, height=500) is shown
    shown.close()
    again = es.show(runs, height=500)
    assert again is not shown and again.is_running
    again.close()


def test_a_proxy_has_its_own_address(runs):
    with es.serve(runs) as free:
        port = int(re.search(r":(\d+)/", free.address)[1])
    proxy = "https://hub.example/user/me/proxy/{port}/"
    with es.serve(runs, port=port, proxy=proxy) as server:
        start = f"https://hub.example/user/me/proxy/{port}/?"
        assert server.address.startswith(start + "token=")
        assert f'src="{start}embed=' in server._repr_html_()
        request = urllib.request.Request(
            f"http://127.0.0.1:{port}/?embed=" + server.address.partition("=")[2],
            headers={"Host": "hub.example"},
        )
        assert '"live":{' in page_of(request)


@pytest.mark.parametrize(
    "act, said",
    [
        (lambda: es.serve(), "name run files"),
        (lambda: es.serve("/nowhere"), "/nowhere"),
        (lambda: es.serve(RUN, port=70000), "port"),
        (lambda: es.serve(RUN, rules="/nowhere.ini"), "/nowhere.ini"),
        (lambda: es.serve(RUN, proxy="https://hub.example/"), "port"),
    ],
)
def test_an_error_is_one_line(act, said):
    with pytest.raises(es.Error) as error:
        act()
    assert said in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, 0])
def test_the_server_ends_with_the_process(runs, how):
    code = (
        "import entropyscan as es, sys\n"
        f"server = es.show({str(runs)!r})\n"
        "print(server._process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    package = str(Path(es.__file__).parents[1])
    kernel = subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": package},
    )
    server = int(kernel.stdout.readline())
    assert os.path.exists(f"/proc/{server}")
    if how:
        kernel.send_signal(how)
    kernel.communicate("")
    waiting.until_true(
        lambda: not os.path.exists(f"/proc/{server}"), "the server has not ended"
    )
