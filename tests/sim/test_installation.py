"""What the init container of manifests/overlays/simulated does, time and again."""

from pathlib import Path

import pytest

from gpusharing import sim
from gpusharing.cli.main import main
from gpusharing.sim import store
from gpusharing.sim.errors import SimError
from gpusharing.sim.installation import install

GPUS = "H100-80GB:2"


@pytest.fixture
def boot_id(tmp_path: Path) -> Path:
    file = tmp_path / "boot_id"
    file.write_text("first\n")
    return file


def files(directory: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_ino, path.read_bytes()) for path in directory.iterdir()}


def test_it_is_made_once_and_its_cdi_spec_is_where_runtimes_look(tmp_path: Path, boot_id: Path) -> None:
    directory, cdi = tmp_path / "node", tmp_path / "etc" / "cdi"
    node = install(directory, GPUS, seed="node-1", cdi_dir=cdi, boot_id_file=boot_id)
    published = files(cdi)
    assert {name: content for name, (_, content) in published.items()} == {
        path.name: path.read_bytes() for path in node.cdi.iterdir()
    }
    node.set_compute_mode(node.gpus()[0].uuid, sim.ComputeMode.EXCLUSIVE_PROCESS)
    booted = node.boot_id
    again = install(directory, GPUS, seed="node-1", cdi_dir=cdi, boot_id_file=boot_id)
    assert again.gpus()[0].compute_mode is sim.ComputeMode.EXCLUSIVE_PROCESS
    assert again.boot_id == booted
    # Nothing is written that is there: runtimes would read it anew.
    assert files(cdi) == published


def test_its_control_groups_are_those_of_the_machine(tmp_path: Path, boot_id: Path) -> None:
    node = install(tmp_path / "node", GPUS, seed="node-1", cdi_dir=tmp_path / "cdi", boot_id_file=boot_id)
    assert (node.sys / "fs/cgroup").samefile("/sys/fs/cgroup")


def test_it_is_rebooted_with_the_machine(tmp_path: Path, boot_id: Path) -> None:
    directory, cdi = tmp_path / "node", tmp_path / "cdi"
    node = install(directory, GPUS, seed="node-1", cdi_dir=cdi, boot_id_file=boot_id)
    booted, uuids = node.boot_id, [gpu.uuid for gpu in node.gpus()]
    node.set_compute_mode(uuids[0], sim.ComputeMode.EXCLUSIVE_PROCESS)
    boot_id.write_text("second\n")
    rebooted = install(directory, GPUS, seed="node-1", cdi_dir=cdi, boot_id_file=boot_id)
    assert rebooted.boot_id != booted
    assert [gpu.uuid for gpu in rebooted.gpus()] == uuids
    assert rebooted.gpus()[0].compute_mode is sim.ComputeMode.DEFAULT
    later = install(directory, GPUS, seed="node-1", cdi_dir=cdi, boot_id_file=boot_id)
    assert later.boot_id == rebooted.boot_id


def test_it_is_begun_again_where_an_attempt_ended_half_way(tmp_path: Path, boot_id: Path) -> None:
    directory = tmp_path / "node"
    (directory / "lib").mkdir(parents=True)
    (directory / "lib" / "half").touch()
    (directory / "usr").symlink_to("lib")
    node = install(directory, GPUS, seed="node-1", cdi_dir=tmp_path / "cdi", boot_id_file=boot_id)
    assert len(node.gpus()) == 2
    assert not (directory / "lib" / "half").exists()


def test_it_is_not_exchanged_for_another(tmp_path: Path, boot_id: Path) -> None:
    directory, cdi = tmp_path / "node", tmp_path / "cdi"
    install(directory, GPUS, seed="node-1", cdi_dir=cdi, boot_id_file=boot_id)
    with pytest.raises(SimError, match=r"has the simulated GPUs H100-80GB:2, not L4: to change them, delete"):
        install(directory, "L4", seed="node-1", cdi_dir=cdi, boot_id_file=boot_id)


def test_one_that_another_version_has_made_is_named_with_the_remedy(tmp_path: Path, boot_id: Path) -> None:
    directory, cdi = tmp_path / "node", tmp_path / "cdi"
    node = install(directory, GPUS, seed="node-1", cdi_dir=cdi, boot_id_file=boot_id)
    with store.locked(node.state) as state:
        state.layout += 1
    remedy = rf"layout version .*: delete all pods that use GPUs of this node, and then the directory {directory}"
    with pytest.raises(SimError, match=remedy):
        install(directory, GPUS, seed="node-1", cdi_dir=cdi, boot_id_file=boot_id)


def test_from_a_shell(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["sim", "install", str(tmp_path / "node"), "--gpus", "L4", "--seed", "a", "--cdi-dir", str(tmp_path)]
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0
        assert capsys.readouterr().out == f"1 simulated GPUs are in {tmp_path}/node\n"
