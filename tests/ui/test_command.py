"""The command: the picture in a file, what goes wrong at the start, and what other commands load."""

import http.client
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser

from gpusharing.snapshots import archive, file
from harness.eventually import PATIENCE
from ui.fleets import example, hostile, large
from ui.serving import faults, visiting


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ui") / "cluster.json"
    path.write_text(file.dumps(example()))
    return path


def ui(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "gpusharing", "ui", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_file_needs_nothing_else(browser: Browser, snapshot: Path, tmp_path: Path, *, dark: bool) -> None:
    done = ui("-o", "html", "--snapshot", snapshot)
    assert (done.returncode, done.stderr) == (0, "")
    path = tmp_path / "gpus.html"
    path.write_text(done.stdout)
    with visiting(browser, dark=dark) as visit:
        page = visit.page
        page.goto(path.as_uri())
        assert visit.requests == [path.as_uri()]
        assert visit.complaints == []
        assert "60 of 80 GiB" in page.inner_text("#gpu-node-0-0")
        assert page.evaluate("getComputedStyle(document.querySelector('.fleet')).borderCollapse") == "collapse"
        assert faults(page) == []
    assert not re.search(r"<(script|link|form|img|iframe)|\s(src|hx-\w+)=|href=\"(?!#)", done.stdout)


def test_the_file_carries_no_script_of_others(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "hostile.json").write_text(file.dumps(hostile()))
    path = tmp_path / "gpus.html"
    path.write_text(ui("-o", "html", "--snapshot", tmp_path / "hostile.json").stdout)
    with visiting(browser) as visit:
        visit.page.goto(path.as_uri())
        assert visit.page.title() == "GPU sharing · hostile.json"
        assert visit.page.locator("img, script").count() == 0
        assert visit.requests == [path.as_uri()]


def test_the_file_has_all_nodes_and_claims(tmp_path: Path) -> None:
    (tmp_path / "large.json").write_text(file.dumps(large(30, shares=8)))
    text = ui("-o", "html", "--snapshot", tmp_path / "large.json").stdout
    assert text.count('class="node"') == 30
    assert text.count('<li class="timeslicing">team-') == 30 * 8


def test_a_port_that_another_program_has(snapshot: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = ui("--port", str(port), "--snapshot", snapshot)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"port {port}: Address already in use" in done.stderr


def test_a_bundle_is_a_snapshot(snapshot: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "cluster"
    bundle.write_bytes(archive.pack({archive.SNAPSHOT: snapshot.read_bytes()}))
    packed, plain = (ui("-o", "html", "--snapshot", one).stdout for one in (bundle, snapshot))
    assert packed
    assert packed == plain.replace(snapshot.name, bundle.name)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--snapshot", "nothing.json"], 1, "nothing.json: "),
        (["--kubeconfig", "nothing"], 1, "no kubeconfig at nothing"),
        (["--port", "70000"], 2, "argument --port: invalid"),
        (["-o", "json"], 2, "invalid choice"),
    ],
)
def test_errors(arguments: list[str], code: int, said: str) -> None:
    done = ui(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert said in done.stderr


def test_ctrl_c_ends_it(snapshot: Path) -> None:
    command = [sys.executable, "-m", "gpusharing", "ui", "--snapshot", str(snapshot)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        url = urlsplit(program.stdout.readline().strip())
        with closing(http.client.HTTPConnection(url.netloc, timeout=PATIENCE)) as connection:
            connection.request("GET", url.path)
            assert b"60 of 80 GiB" in connection.getresponse().read()
        program.send_signal(signal.SIGINT)
        _, error = program.communicate(timeout=PATIENCE)
    assert (program.returncode, error) == (0, "")


def test_the_kubelet_ends_the_server(tmp_path: Path) -> None:
    """By SIGTERM; and while nobody can say whose a token is, nobody gets in."""
    command = [sys.executable, "-m", "gpusharing", "ui-server", "--port", "0", "--api-server", "https://127.0.0.1:1"]
    command += ["--certificate-authority", str(tmp_path / "none")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        port = program.stdout.readline().split()[-1]
        with closing(http.client.HTTPConnection("127.0.0.1", int(port), timeout=PATIENCE)) as connection:
            connection.request("GET", "/", headers={"Authorization": "Bearer a-token"})
            answer = connection.getresponse()
            assert (answer.status, b"none: " in answer.read()) == (502, True)
        program.send_signal(signal.SIGTERM)
        _, error = program.communicate(timeout=PATIENCE)
    assert (program.returncode, error) == (0, "")


OTHERS: Final = ("--version", "explain --help", "plan --help", "top --help", "ui --help", "ui-server --help")


@pytest.mark.parametrize("arguments", OTHERS)
def test_nothing_of_the_page_is_loaded_before_it_is_needed(arguments: str) -> None:
    program = f"""
import sys
from gpusharing.cli.main import main
try:
    main({arguments.split()!r})
except SystemExit:
    print(*sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert "gpusharing.cli" in done.stderr.split()
    assert not {"jinja2", "gpusharing.ui", "http.server"} & set(done.stderr.split())
