"""What our hook makes of the states that container runtimes write to its standard input."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from building import json_values
from gpusharing.agent.walls.build import build
from gpusharing.agent.walls.directories import WallDirectories
from gpusharing.agent.walls.wall import Wall
from gpusharing.api.sharing.offers import Enforcement
from gpusharing.nvidia.cdi_specs import Hook
from gpusharing.sim import SimNode
from toolkit.container import Container, container
from toolkit.machine import machine

UNREADABLE = "the container's state has no id and pid that can be read"
TOO_MUCH = "the container's state does not come or is longer than 1048576 bytes"
ID = "0f3c"
"""Of a container."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """Some container. What speaks to GPUs is not needed here."""
    directory = tmp_path_factory.mktemp("states")
    (directory / "proc/driver").mkdir(parents=True)
    with machine(SimNode(directory)) as where, container(where, directory / ID, {}) as one:
        yield one


@pytest.fixture
def walls(tmp_path: Path) -> Path:
    """A wall with a program in place of NVIDIA's that writes down what it is told."""
    program = tmp_path / "recorder"
    program.write_text(f"#!/bin/sh\ncat >{tmp_path}/told\n")
    program.chmod(0o755)
    wall = Wall(
        claim="ml/train",
        uuid="GPU-1",
        limit_mib=4096,
        enforcement=Enforcement.REQUIRED,
        nvidia_hook=Hook(str(program), ("recorder",), ("PATH=/usr/bin:/bin",)),
        patience=20,
    )
    return WallDirectories(tmp_path / "walls").write("uid", 0, wall)


GOOD: dict[str, str] = {
    "runc": '{"ociVersion":"1.2.0","id":"0f3c","status":"creating","pid":PID,"bundle":"/run/c/0f3c",'
    '"annotations":{"io.kubernetes.cri.container-type":"container"}}\n',
    "crun": '{\n  "ociVersion": "1.0",\n  "id": "0f3c",\n  "pid": PID,\n  "root": "/r",\n  "bundle": "/b",\n'
    '  "status": "created",\n  "annotations": {}\n}',
    "other order": '{"pid":PID,"id":"0f3c"}',
    "spaces": ' \t\r\n{ "pid" : PID , "id" : "0f3c" } \n',
    "without bundle": '{"id":"0f3c","pid":PID}',
    "all kinds of values": '{"a":null,"b":[true,false,[],{}],"c":-1.5e+7,"d":{"e":[1,"2"]},"id":"0f3c","pid":PID}',
    # A tenant may choose these.
    "annotations like members": '{"annotations":{"id":"evil","pid":"1","x":{"pid":1}},"id":"0f3c","pid":PID}',
    "annotations like JSON": '{"annotations":{"a":"\\",\\"pid\\":1,\\"id\\":\\"evil\\"}"},"id":"0f3c","pid":PID}',
    "escapes": '{"annotations":{"\\\\":"\\\\\\\\","\\"":"\\"\\u007d"},"id":"0f3c","pid":PID}',
    "other characters": '{"annotations":{"ключ":"\U0001f600\x7f"},"id":"0f3c","pid":PID}',
    "names that are longer": '{"identity":"x","pids":7,"ID":"y","i":1,"id":"0f3c","pid":PID}',
    "deep": '{"x":' + "[" * 60 + "]" * 60 + ',"id":"0f3c","pid":PID}',
    "long": '{"annotations":{"a":"' + "x" * 1000000 + '"},"id":"0f3c","pid":PID}',
}

ODD: dict[str, str] = {
    "nothing": "",
    "no object": '["id","0f3c","pid",PID]',
    "empty": "{}",
    "a word": "null",
    "no id": '{"pid":PID}',
    "no pid": '{"id":"0f3c"}',
    "cut off": '{"id":"0f3c","pid":PID',
    "cut off in a string": '{"id":"0f3c","pid":PID,"x":"',
    "cut off after a backslash": '{"id":"0f3c","pid":PID,"x":"\\',
    "more after it": '{"id":"0f3c","pid":PID}{}',
    "a NUL after it": '{"id":"0f3c","pid":PID}\0',
    "a NUL in it": '{"id":"0f3c",\0"pid":PID}',
    "a comma too many": '{"id":"0f3c","pid":PID,}',
    "a comma too few": '{"id":"0f3c" "pid":PID}',
    "no colon": '{"id" "0f3c","pid":PID}',
    "names without quotes": '{id:"0f3c",pid:PID}',
    "brackets that do not match": '{"x":[},"id":"0f3c","pid":PID}',
    "a line break in a string": '{"x":"\n","id":"0f3c","pid":PID}',
    "no value": '{"x":,"id":"0f3c","pid":PID}',
    "no word": '{"x":nul,"id":"0f3c","pid":PID}',
    "too deep": '{"x":' + "[" * 5000 + "]" * 5000 + ',"id":"0f3c","pid":PID}',
    "two pids": '{"id":"0f3c","pid":PID,"pid":1}',
    "two ids": '{"id":"0f3c","id":"evil","pid":PID}',
    "pid as a text": '{"id":"0f3c","pid":"PID"}',
    "pid as a list": '{"id":"0f3c","pid":[PID]}',
    "negative pid": '{"id":"0f3c","pid":-PID}',
    "pid 0": '{"id":"0f3c","pid":0}',
    "fraction": '{"id":"0f3c","pid":PID.5}',
    "exponent": '{"id":"0f3c","pid":PIDe1}',
    "huge pid": '{"id":"0f3c","pid":18446744073709551616}',
    "pid null": '{"id":"0f3c","pid":null}',
    "empty id": '{"id":"","pid":PID}',
    "id as a number": '{"id":7,"pid":PID}',
    "id that leads elsewhere": '{"id":"..","pid":PID}',
    "id that leads up": '{"id":"../x","pid":PID}',
    "id with an escape": '{"id":"0f\\u0033c","pid":PID}',
    "id with a quote": '{"id":"a\\",\\"pid\\":1,\\"b","pid":PID}',
    "id that is hidden": '{"id":".x","pid":PID}',
    "long id": '{"id":"' + "x" * 255 + '","pid":PID}',
}


@pytest.mark.parametrize("name", GOOD)
def test_good(made: Container, program: Path, walls: Path, tmp_path: Path, name: str) -> None:
    done = made.machine.run(program, walls, stdin=GOOD[name].replace("PID", str(made.pid)))
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads((tmp_path / "told").read_text())
    assert told == {"ociVersion": "1.0.2", "id": ID, "status": "creating", "pid": made.pid, "bundle": str(walls)}
    (noted,) = WallDirectories(tmp_path / "walls").containers("uid", 0)
    assert (noted.id, f"/sys/fs/cgroup{noted.cgroup}") == (ID, made.cgroup)
    bundle = json.loads((walls / "config.json").read_text())
    assert bundle["process"]["env"] == ["NVIDIA_GPU_MEMORY_REQUEST=4096", "NVIDIA_GPU_MEMORY_LIMIT=4096"]


@pytest.mark.parametrize("name", ODD)
def test_odd(made: Container, program: Path, walls: Path, tmp_path: Path, name: str) -> None:
    done = made.machine.run(program, walls, stdin=ODD[name].replace("PID", str(made.pid)))
    assert done.returncode == 1
    assert UNREADABLE in done.stderr
    assert not (tmp_path / "told").exists()


def test_too_long(made: Container, program: Path, walls: Path) -> None:
    assert TOO_MUCH in made.machine.run(program, walls, stdin=" " * (1 << 20)).stderr


def test_state_that_does_not_come(made: Container, program: Path, walls: Path) -> None:
    (walls / "wall").write_text((walls / "wall").read_text().replace("seconds=20", "seconds=1"))
    read, write = os.pipe()
    try:
        command = made.machine.command([program, walls])
        done = subprocess.run(command, stdin=read, capture_output=True, text=True, timeout=20, check=False)
    finally:
        os.close(read)
        os.close(write)
    assert TOO_MUCH in done.stderr


def test_process_that_has_gone(made: Container, program: Path, walls: Path) -> None:
    done = made.machine.run(program, walls, stdin='{"id":"x","pid":999999999}')
    assert "/proc/999999999/cgroup cannot be read: No such file or directory" in done.stderr


# ----------------------------------------------------------------------------------------------- Any state whatsoever


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, ended at the first access to memory that is not its own."""
    output = tmp_path_factory.mktemp("checked") / "gpusharing-wall"
    build(output, flags=["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"])
    return output


PID = 999999999
members = st.dictionaries(
    st.sampled_from(["id", "pid", "bundle", "annotations"]) | st.text(), json_values.values, max_size=5
)
documents = st.builds(lambda before, after: {**before, **after, "id": "x", "pid": PID}, members, members)
texts = st.builds(
    lambda document, indent, escaped: json.dumps(document, indent=indent, ensure_ascii=escaped),
    documents,
    st.sampled_from([None, 1]),
    st.booleans(),
).map(lambda text: text.encode("utf-8", "surrogatepass"))
splices = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.binary(max_size=3)), max_size=4)
"""Where bytes are replaced, how many, and by which."""


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=texts, splices=splices)
def test_any(checked: Path, walls: Path, text: bytes, splices: list[tuple[int, int, bytes]]) -> None:
    """It gets past the state if it is one, and whatever comes, it says one line."""
    for position, count, inserted in splices:
        text = text[:position] + inserted + text[position + count :]
    done = subprocess.run([checked, walls], input=text, capture_output=True, timeout=20, check=False)
    error = done.stderr.decode()
    assert (done.returncode, error.count("\n")) == (1, 1)
    assert error.startswith("memory wall: claim ml/train may have 4096 MiB of GPU-1, which cannot be held")
    if not splices:
        assert UNREADABLE not in error
