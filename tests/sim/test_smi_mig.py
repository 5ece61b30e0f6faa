"""`nvidia-smi mig`, `-mig`, `-L` and `--gpu-reset`, as scripts call and read them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpusharing import sim
from gpusharing.sim import faults
from sim import smi_tables
from sim.conftest import Smi
from sim.smi_tables import Instance
from sim.test_models import TABLES, table

Run = Callable[..., str]
Commands = list[tuple[str, ...]]

NO_PERMISSION, NOT_FOUND, INVALID_ARGUMENT, IN_USE, INSUFFICIENT_RESOURCES = 4, 6, 2, 19, 23
GPU_LOST, OTHER_ERROR = 15, 255

pytestmark = pytest.mark.usefixtures("root")


@pytest.fixture
def node(tmp_path: Path) -> sim.SimNode:
    """In MIG mode are 0 and 1."""
    node = sim.create(tmp_path / "node", "A100-80GB:2,H100-80GB,L4", seed="smi")
    assert _run(node, "-i", "0,1", "-mig", "1").returncode == 0
    return node


@pytest.fixture
def good(smi: Smi) -> Run:
    """The output of a command that succeeds."""

    def run(*arguments: str) -> str:
        result = smi(*arguments)
        assert result.returncode == 0, result.stdout
        return str(result.stdout)

    return run


def _run(node: sim.SimNode, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    command = [str(node.nvidia_smi), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20, **options)


@pytest.mark.parametrize("model", TABLES)
class TestTables:
    """Of every model, as published."""

    def test_profiles(self, tmp_path: Path, model: str) -> None:
        node = sim.create(tmp_path / "node", f"L4,{model}")
        expected = table(model)["profiles"]
        for mode in ("off", "on"):
            listed = smi_tables.gpu_profiles(_run(node, "mig", "-lgip").stdout)
            assert {profile.name for profile in listed} == {profile["name"] for profile in expected}
            for profile in listed:
                known = next(each for each in expected if each["name"] == profile.name)
                self._compare(profile, known)
                assert profile.free == (profile.total if mode == "on" else 0)
                assert profile.gpu == 1
            _run(node, "-mig", "1")

    def _compare(self, profile: smi_tables.GpuProfile, known: dict[str, Any]) -> None:
        shown = {
            "id": profile.id,
            "max_instances": profile.total,
            "memory_gib_displayed": profile.memory_gib,
            "multiprocessors": profile.multiprocessors,
            "copy_engines": profile.copy_engines,
            "decoders": profile.decoders,
            "encoders": profile.encoders,
            "jpeg": profile.jpegs,
            "ofa": profile.ofas,
        }
        assert shown == {name: known[name] if known[name] is not None else value for name, value in shown.items()}

    def test_placements(self, tmp_path: Path, model: str) -> None:
        node = sim.create(tmp_path / "node", f"L4,{model}")
        expected = {
            (1, profile["id"]): sorted((place["start"], place["size"]) for place in profile["placements"])
            for profile in table(model)["profiles"]
        }
        assert smi_tables.placements(_run(node, "mig", "-lgipp").stdout) == expected

    def test_every_placement(self, tmp_path: Path, model: str) -> None:
        """Made by id or by name, listed, in the state, and destroyed, one after the other."""
        node = sim.create(tmp_path / "node", model)
        _run(node, "-mig", "1")
        for number, profile in enumerate(table(model)["profiles"]):
            for place in profile["placements"]:
                name = (str(profile["id"]), profile["name"], f"MIG {profile['name']}")[number % 3]
                made = _run(node, "mig", "-cgi", f"{name}:{place['start']}", "-C")
                assert made.returncode == 0, made.stdout
                (gpu,) = node.gpus()
                (instance,) = gpu.gpu_instances
                (compute,) = instance.compute_instances
                assert (instance.profile, instance.start, instance.size) == (
                    profile["name"],
                    place["start"],
                    place["size"],
                )
                assert compute.profile == profile["name"]
                assert smi_tables.gpu_instances(_run(node, "mig", "-lgi").stdout) == [
                    Instance(0, profile["name"], profile["id"], instance.id, place["start"], place["size"])
                ]
                assert _run(node, "mig", "-dci").returncode == 0
                assert _run(node, "mig", "-dgi", "-gi", str(instance.id)).returncode == 0
                assert node.gpus()[0].gpu_instances == ()

    def test_compute_profiles(self, tmp_path: Path, model: str) -> None:
        node = sim.create(tmp_path / "node", model)
        _run(node, "-mig", "1")
        largest = max(table(model)["profiles"], key=lambda profile: profile["compute_slices"])
        _run(node, "mig", "-cgi", largest["name"])
        known = sim.MODELS[model].mig_profiles
        profile = next(each for each in known if each.name == largest["name"])
        listed = smi_tables.compute_profiles(_run(node, "mig", "-lcip").stdout)
        assert [(each.name, each.id, each.multiprocessors, each.total) for each in listed] == [
            (each.name, each.kind, each.multiprocessors, len(each.starts)) for each in profile.compute_profiles
        ]
        assert [each.name for each in listed if each.default] == [largest["name"]]
        assert all(each.free == each.total for each in listed)


class TestWords:
    def test_create_and_destroy(self, good: Run) -> None:
        made = "Successfully created"
        assert good("mig", "-i", "0", "-cgi", "3g.40gb,19", "-C").splitlines() == [
            f"{made} GPU instance ID  2 on GPU  0 using profile MIG 3g.40gb (ID  9)",
            f"{made} compute instance ID  0 on GPU  0 GPU instance ID  2 using profile MIG 3g.40gb (ID  2)",
            f"{made} GPU instance ID  7 on GPU  0 using profile MIG 1g.10gb (ID 19)",
            f"{made} compute instance ID  0 on GPU  0 GPU instance ID  7 using profile MIG 1g.10gb (ID  0)",
        ]
        assert good("mig", "-dci").splitlines() == [
            "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  7",
            "Successfully destroyed compute instance ID  0 from GPU  0 GPU instance ID  2",
        ]
        assert good("mig", "-dgi", "-gi", "2") == "Successfully destroyed GPU instance ID  2 from GPU  0\n"

    def test_tables(self, good: Run) -> None:
        good("mig", "-i", "0", "-cgi", "9:4,14:0")
        good("mig", "-i", "0", "-gi", "3", "-cci", "0,0")
        assert good("mig", "-lgi") == (
            "+---------------------------------------------------------+\n"
            "| GPU instances:                                          |\n"
            "| GPU   Name               Profile  Instance   Placement  |\n"
            "|                            ID       ID       Start:Size |\n"
            "|=========================================================|\n"
            "|   0  MIG 2g.20gb           14        3          0:2     |\n"
            "+---------------------------------------------------------+\n"
            "|   0  MIG 3g.40gb            9        2          4:4     |\n"
            "+---------------------------------------------------------+\n"
        )
        assert good("mig", "-lci") == (
            "+--------------------------------------------------------------------+\n"
            "| Compute instances:                                                 |\n"
            "| GPU     GPU       Name             Profile   Instance   Placement  |\n"
            "|       Instance                       ID        ID       Start:Size |\n"
            "|         ID                                                         |\n"
            "|====================================================================|\n"
            "|   0      3       MIG 1c.2g.20gb       0         0          0:1     |\n"
            "+--------------------------------------------------------------------+\n"
            "|   0      3       MIG 1c.2g.20gb       0         1          1:1     |\n"
            "+--------------------------------------------------------------------+\n"
        )
        assert good("mig", "-lcip", "-gi", "3") == (
            "+--------------------------------------------------------------------------------------+\n"
            "| Compute instance profiles:                                                           |\n"
            "| GPU     GPU       Name             Profile  Instances   Exclusive       Shared       |\n"
            "|       Instance                       ID     Free/Total     SM       DEC   ENC   OFA  |\n"
            "|         ID                                                          CE    JPEG       |\n"
            "|======================================================================================|\n"
            "|   0      3       MIG 1c.2g.20gb       0      0/2           14        1     0     0   |\n"
            "|                                                                      2     0         |\n"
            "+--------------------------------------------------------------------------------------+\n"
            "|   0      3       MIG 2g.20gb          1*     0/1           28        1     0     0   |\n"
            "|                                                                      2     0         |\n"
            "+--------------------------------------------------------------------------------------+\n"
        )
        assert good("mig", "-i", "0", "-lgip").startswith(
            "+-------------------------------------------------------------------------------+\n"
            "| GPU instance profiles:                                                        |\n"
            "| GPU   Name               ID    Instances   Memory     P2P    SM    DEC   ENC  |\n"
            "|                                Free/Total   GiB              CE    JPEG  OFA  |\n"
            "|===============================================================================|\n"
            "|   0  MIG 1g.10gb         19     2/7        9.50       No     14     0     0   |\n"
            "|                                                               1     0     0   |\n"
            "+-------------------------------------------------------------------------------+\n"
        )
        assert good("mig", "-i", "0", "-lgipp").splitlines()[4:6] == [
            "GPU  0 Profile ID  9 Placements: {0,4}:4",
            "GPU  0 Profile ID  5 Placement : {0}:4",
        ]

    def test_list_of_devices(self, node: sim.SimNode, good: Run) -> None:
        good("mig", "-i", "1", "-cgi", "9,14", "-C")
        good("mig", "-i", "0", "-cgi", "14")
        good("mig", "-i", "0", "-cci", "0")
        first, second, third, fourth = node.gpus()
        assert good("-L").splitlines() == [
            f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {first.uuid})",
            f"  MIG 1c.2g.20gb  Device  0: (UUID: {_devices(first)[0]})",
            f"GPU 1: NVIDIA A100-SXM4-80GB (UUID: {second.uuid})",
            f"  MIG 3g.40gb     Device  0: (UUID: {_devices(second)[0]})",
            f"  MIG 2g.20gb     Device  1: (UUID: {_devices(second)[1]})",
            f"GPU 2: NVIDIA H100 80GB HBM3 (UUID: {third.uuid})",
            f"GPU 3: NVIDIA L4 (UUID: {fourth.uuid})",
        ]
        assert len(good("-L", "-i", second.uuid).splitlines()) == 3


def _devices(gpu: sim.Gpu) -> dict[int, str]:
    return {each.index: each.uuid for instance in gpu.gpu_instances for each in instance.compute_instances}


class TestSelection:
    @pytest.fixture
    def instances(self, good: Run) -> None:
        """2g at 0 (3), 3g at 4 (2) on two GPUs, each with all of its smallest compute instances."""
        good("mig", "-cgi", "14:0,9:4")
        good("mig", "-gi", "3", "-cci", "0,0")
        good("mig", "-gi", "2", "-cci", "0,0,0")

    @pytest.mark.usefixtures("instances")
    @pytest.mark.parametrize(
        ("selection", "expected"),
        [
            ((), "000 001 010 011 012 100 101 110 111 112"),
            (("-i", "1"), "100 101 110 111 112"),
            (("-gi", "3"), "000 001 100 101"),
            (("-i", "0", "-gi", "2"), "010 011 012"),
            (("-gi", "2,3", "-ci", "0,2"), "000 010 012 100 110 112"),
            (("-i", "1,0", "-ci", "1"), "101 111 001 011"),
            (("--id=0", "--gpu-instance-id=3", "--compute-instance-id=1"), "001"),
        ],
    )
    def test_listed_and_destroyed(
        self, node: sim.SimNode, good: Run, selection: tuple[str, ...], expected: str
    ) -> None:
        """Digits: GPU, 0 for GPU instance 3 and 1 for 2, compute instance."""

        def left() -> set[str]:
            return {
                f"{gpu.index}{int(instance.id == 2)}{compute.id}"
                for gpu in node.gpus()
                for instance in gpu.gpu_instances
                for compute in instance.compute_instances
            }

        before = left()
        if "-ci" not in selection and not any("compute" in word for word in selection):
            listed = smi_tables.compute_instances(good("mig", "-lci", *selection))
            assert [f"{each.gpu}{int(each.gpu_instance == 2)}{each.id}" for each in listed] == expected.split()
        destroyed = re.findall(
            r"compute instance ID +(\d+) from GPU +(\d+) GPU instance ID +(\d+)", good("mig", "-dci", *selection)
        )
        assert [f"{gpu}{int(parent == '2')}{number}" for number, gpu, parent in destroyed] == expected.split()
        assert left() == before - set(expected.split())

    @pytest.mark.parametrize(
        ("arguments", "made"),
        [
            (("-cgi", "19"), [["1g.10gb@6"], ["1g.10gb@6"]]),
            (("-i", "1", "-cgi", "19,19:0,MIG 1g.20gb:2"), [[], ["1g.10gb@0", "1g.10gb@6", "1g.20gb@2"]]),
            (("--create-gpu-instance=3g.40gb", "-i", "0"), [["3g.40gb@4"], []]),
            (("-i", "0,1", "--create-gpu-instance", "9,9"), [["3g.40gb@0", "3g.40gb@4"]] * 2),
        ],
    )
    def test_created(self, node: sim.SimNode, good: Run, arguments: tuple[str, ...], made: list[list[str]]) -> None:
        good("mig", *arguments)
        found = [sorted(f"{each.profile}@{each.start}" for each in gpu.gpu_instances) for gpu in node.gpus()[:2]]
        assert found == made

    def test_default_compute_instances(self, node: sim.SimNode, good: Run) -> None:
        good("mig", "-i", "0", "-cgi", "9,14")
        assert [len(each.compute_instances) for each in node.gpus()[0].gpu_instances] == [0, 0]
        good("mig", "-cci")
        assert [each.compute_instances[0].profile for each in node.gpus()[0].gpu_instances] == [
            each.profile for each in node.gpus()[0].gpu_instances
        ]

    def test_start_of_a_compute_instance(self, node: sim.SimNode, good: Run) -> None:
        good("mig", "-i", "0", "-cgi", "4g.40gb")
        good("mig", "-cci", "2c.4g.40gb:2,0:1")
        (instance,) = node.gpus()[0].gpu_instances
        assert [(each.profile, each.start) for each in instance.compute_instances] == [
            ("2c.4g.40gb", 2),
            ("1c.4g.40gb", 1),
        ]


def _refusal(single: str, command: str, reason: str) -> str:
    return f"{single}: {reason}\nFailed to {command}: {reason}\n"


FULL: Commands = [("mig", "-i", "0", "-cgi", "7g.80gb", "-C")]
WHOLE_WITHOUT_COMPUTE: Commands = [("mig", "-i", "0", "-cgi", "7g.80gb")]

# What was done before, what is tried, and the answer.
ERRORS: list[tuple[Commands, tuple[str, ...], int, str]] = [
    ([], ("mig", "-lgi"), NOT_FOUND, "No GPU instances found: Not Found\n"),
    ([], ("mig", "-lci"), NOT_FOUND, "No GPU instances found: Not Found\n"),
    ([], ("mig", "-lcip"), NOT_FOUND, "No GPU instances found: Not Found\n"),
    ([], ("mig", "-cci"), NOT_FOUND, "No GPU instances found: Not Found\n"),
    ([], ("mig", "-dci"), NOT_FOUND, "No GPU instances found: Not Found\n"),
    ([], ("mig", "-dgi"), NOT_FOUND, "No GPU instances found: Not Found\n"),
    (FULL, ("mig", "-dgi", "-gi", "5"), NOT_FOUND, "No GPU instances found: Not Found\n"),
    (WHOLE_WITHOUT_COMPUTE, ("mig", "-lci"), NOT_FOUND, "No compute instances found: Not Found\n"),
    (WHOLE_WITHOUT_COMPUTE, ("mig", "-dci"), NOT_FOUND, "No compute instances found: Not Found\n"),
    (FULL, ("mig", "-dci", "-ci", "3"), NOT_FOUND, "No compute instances found: Not Found\n"),
    ([], ("mig", "-i", "2", "-lgi"), NOT_FOUND, "No MIG-enabled devices found.\n"),
    ([], ("mig", "-i", "2", "-cgi", "9"), NOT_FOUND, "No MIG-enabled devices found.\n"),
    ([], ("mig", "-i", "3", "-dgi"), NOT_FOUND, "No MIG-enabled devices found.\n"),
    ([], ("mig", "-i", "3", "-lgip"), NOT_FOUND, "No MIG-supported devices found.\n"),
    ([], ("mig", "-i", "3", "-lgipp"), NOT_FOUND, "No MIG-supported devices found.\n"),
    ([], ("mig", "-i", "9", "-lgi"), NOT_FOUND, "No devices were found\n"),
    (
        FULL,
        ("mig", "-i", "0", "-cgi", "19"),
        INSUFFICIENT_RESOURCES,
        _refusal(
            "Unable to create a GPU instance on GPU  0 using profile 19",
            "create GPU instances",
            "Insufficient Resources",
        ),
    ),
    (
        [("mig", "-i", "0", "-cgi", "9:4")],
        ("mig", "-i", "0", "-cgi", "3g.40gb:4"),
        INSUFFICIENT_RESOURCES,
        _refusal(
            "Unable to create a GPU instance on GPU  0 using profile 3g.40gb",
            "create GPU instances",
            "Insufficient Resources",
        ),
    ),
    (
        [],
        ("mig", "-i", "0", "-cgi", "7g.40gb"),
        INVALID_ARGUMENT,
        _refusal(
            "Unable to create a GPU instance on GPU  0 using profile 7g.40gb",
            "create GPU instances",
            "Invalid Argument",
        ),
    ),
    (
        [],
        ("mig", "-i", "0", "-cgi", "9:1"),
        INVALID_ARGUMENT,
        _refusal(
            "Unable to create a GPU instance on GPU  0 using profile 9", "create GPU instances", "Invalid Argument"
        ),
    ),
    (
        FULL,
        ("mig", "-cci"),
        INSUFFICIENT_RESOURCES,
        _refusal(
            "Unable to create a compute instance on GPU  0 GPU instance ID  0 using profile 7g.80gb",
            "create compute instances",
            "Insufficient Resources",
        ),
    ),
    (
        WHOLE_WITHOUT_COMPUTE,
        ("mig", "-cci", "9"),
        INVALID_ARGUMENT,
        _refusal(
            "Unable to create a compute instance on GPU  0 GPU instance ID  0 using profile 9",
            "create compute instances",
            "Invalid Argument",
        ),
    ),
    (
        FULL,
        ("mig", "-dgi"),
        IN_USE,
        _refusal(
            "Unable to destroy GPU instance ID  0 from GPU  0", "destroy GPU instances", "In use by another client"
        ),
    ),
]


@pytest.mark.parametrize("case", ERRORS)
def test_errors(node: sim.SimNode, smi: Smi, good: Run, case: tuple[Commands, tuple[str, ...], int, str]) -> None:
    before, arguments, code, message = case
    for command in before:
        good(*command)
    there = node.gpus()
    result = smi(*arguments)
    assert (result.returncode, result.stdout) == (code, message)
    assert node.gpus() == there


@pytest.mark.parametrize(
    "arguments",
    [
        ("mig",),
        ("mig", "-lgi", "-lci"),
        ("mig", "-cgi"),
        ("mig", "-lgi", "surplus"),
        ("mig", "-nonsense"),
        ("-mig",),
        ("-mig", "2"),
        ("-mig", "on"),
        ("surplus",),
    ],
)
def test_invalid_arguments(node: sim.SimNode, smi: Smi, arguments: tuple[str, ...]) -> None:
    before = node.gpus()
    result = smi(*arguments)
    assert result.returncode == INVALID_ARGUMENT
    assert result.stdout + result.stderr
    assert node.gpus() == before


def test_what_was_made_before_an_error_stays(node: sim.SimNode, smi: Smi) -> None:
    """NVIDIA's own example: in this order the last one does not fit, since the driver has chosen the places."""
    result = smi("mig", "-i", "0", "-cgi", "19,19,14,9")
    assert result.returncode == INSUFFICIENT_RESOURCES
    assert len(result.stdout.splitlines()) == 5
    assert sorted(each.profile for each in node.gpus()[0].gpu_instances) == ["1g.10gb", "1g.10gb", "2g.20gb"]


def test_instance_in_use(node: sim.SimNode, smi: Smi, good: Run) -> None:
    good("mig", "-i", "0", "-cgi", "9", "-C")
    (device,) = _devices(node.gpus()[0]).values()
    node.start_process(device, 4711, 1 << 20)
    result = smi("mig", "-dci")
    assert result.returncode == IN_USE
    assert result.stdout == (
        "Unable to destroy compute instance ID  0 from GPU  0 GPU instance ID  2: In use by another client\n"
        "Failed to destroy compute instances: In use by another client\n"
    )


@pytest.mark.parametrize(
    ("function", "arguments", "failed"),
    [
        ("nvmlDeviceCreateGpuInstance", ("-i", "0", "-cgi", "9"), "create GPU instances"),
        ("nvmlGpuInstanceCreateComputeInstance", ("-cci",), "create compute instances"),
        ("nvmlComputeInstanceDestroy", ("-dci",), "destroy compute instances"),
        ("nvmlGpuInstanceDestroy", ("-i", "1", "-dgi"), "destroy GPU instances"),
        ("nvmlGpuInstanceGetInfo", ("-lgi",), "display GPU instances"),
        ("nvmlComputeInstanceGetInfo", ("-lci",), "display compute instances"),
        ("nvmlDeviceGetGpuInstanceRemainingCapacity", ("-lgip",), "display GPU instance profiles"),
        ("nvmlDeviceGetGpuInstancePossiblePlacements", ("-lgipp",), "display GPU instance possible placements"),
        ("nvmlGpuInstanceGetComputeInstanceRemainingCapacity", ("-lcip",), "display compute instance profiles"),
    ],
)
def test_faults_of_calls(node: sim.SimNode, function: str, arguments: tuple[str, ...], failed: str) -> None:
    _run(node, "mig", "-i", "0", "-cgi", "14", "-C")
    _run(node, "mig", "-i", "1", "-cgi", "14")
    node.inject(faults.CallFails(function, INSUFFICIENT_RESOURCES))
    result = _run(node, "mig", *arguments)
    assert result.returncode == INSUFFICIENT_RESOURCES
    assert result.stdout.splitlines()[-1] == f"Failed to {failed}: Insufficient Resources"


def test_oldest_driver_has_profiles_only_with_mig(tmp_path: Path) -> None:
    node = sim.create(tmp_path / "other", "A100-80GB,L4", driver="535")
    for command in ("-lgip", "-lgipp"):
        result = _run(node, "mig", command)
        assert (result.returncode, result.stdout) == (NOT_FOUND, "No MIG-enabled devices found.\n")
    _run(node, "-mig", "1")
    assert len(smi_tables.gpu_profiles(_run(node, "mig", "-lgip").stdout)) == 7
    assert _run(node, "mig", "-cgi", "19", "-C").returncode == 0


class TestMode:
    def test_on_and_off(self, node: sim.SimNode, good: Run) -> None:
        for argument, done in (("1", "Enabled"), ("0", "Disabled"), ("ENABLED", "Enabled"), ("disabled", "Disabled")):
            assert good("-mig", argument, "-i", "2") == f"{done} MIG Mode for GPU 00000000:29:00.0\nAll done.\n"
            assert good("--query-gpu=mig.mode.current", "--format=csv,noheader", "-i", "2") == f"{done}\n"
        assert [gpu.mig_mode and gpu.mig_mode.current for gpu in node.gpus()] == [True, True, False, None]

    def test_gpu_without_mig(self, good: Run) -> None:
        """As the real tool: a warning, and success."""
        assert good("-i", "3", "-mig", "1") == (
            "Unable to enable MIG Mode for GPU 00000000:30:00.0: Not Supported\n"
            "Treating as warning and moving on.\n"
            "All done.\n"
        )
        assert good("--query-gpu=mig.mode.current,mig.mode.pending", "--format=csv,noheader", "-i", "3") == (
            "[N/A], [N/A]\n"
        )

    def test_instances_keep_it_pending(self, good: Run) -> None:
        good("mig", "-i", "0", "-cgi", "9")
        assert good("-i", "0", "-mig", "0").splitlines()[0] == (
            "Warning: MIG mode is in pending disable state for GPU 00000000:1B:00.0:In use by another client"
        )
        assert good("--query-gpu=mig.mode.current,mig.mode.pending", "--format=csv,noheader", "-i", "0") == (
            "Enabled, Disabled\n"
        )

    def test_reset_is_missing(self, node: sim.SimNode, good: Run) -> None:
        node.inject(faults.CannotReset(node.gpus()[0].uuid))
        assert good("-i", "0", "-mig", "0") == (
            "Warning: MIG mode is in pending disable state for GPU 00000000:1B:00.0:GPU requires reset\n"
            "Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU 00000000:1B:00.0\n"
            "All done.\n"
        )

    def test_refused(self, node: sim.SimNode, smi: Smi) -> None:
        node.inject(faults.CallFails("nvmlDeviceSetMigMode", IN_USE))
        result = smi("-mig", "0")
        assert result.returncode == IN_USE
        assert result.stdout == (
            "Unable to disable MIG Mode for GPU 00000000:1B:00.0: In use by another client\n"
            "Terminating early due to previous errors.\n"
        )


class TestReset:
    def test_all(self, node: sim.SimNode, good: Run) -> None:
        good("mig", "-cgi", "9", "-C")
        lines = good("--gpu-reset").splitlines()
        assert lines == [
            *(f"GPU 00000000:{bus}:00.0 was successfully reset." for bus in ("1B", "22", "29", "30")),
            "All done.",
        ]
        assert all(gpu.gpu_instances == () for gpu in node.gpus())

    def test_pending_mode(self, node: sim.SimNode, good: Run) -> None:
        fault = faults.HeldOpen(node.gpus()[1].uuid)
        node.inject(fault)
        good("-mig", "0", "-i", "1")
        node.clear(fault)
        good("-r", "-i", "0000:22:00.0,00000000:1B:00.0")
        assert [gpu.mig_mode and gpu.mig_mode.current for gpu in node.gpus()][:2] == [True, False]

    def test_in_use(self, node: sim.SimNode, smi: Smi) -> None:
        node.start_process(node.gpus()[2].uuid, 4711, 1 << 20)
        node.inject(faults.HeldOpen(node.gpus()[3].uuid))
        result = smi("-r", "-i", "1,2,3")
        assert result.returncode == OTHER_ERROR
        assert result.stdout == (
            "GPU 00000000:22:00.0 was successfully reset.\n"
            "\n"
            "The following GPUs could not be reset:\n"
            "  GPU 00000000:29:00.0: In use by another client\n"
            "  GPU 00000000:30:00.0: In use by another client\n"
            "\n"
            "2 devices are currently being used by one or more other processes (e.g., Fabric Manager, CUDA "
            "application, graphics application such as an X server, or a monitoring application such as another "
            "instance of nvidia-smi). Please first kill all processes using these devices and all compute "
            "applications running in the system.\n"
        )

    def test_not_possible(self, node: sim.SimNode, smi: Smi) -> None:
        node.inject(faults.CannotReset(node.gpus()[0].uuid))
        result = smi("--gpu-reset", "-i", "0")
        assert (result.returncode, result.stdout) == (
            OTHER_ERROR,
            "\nThe following GPUs could not be reset:\n  GPU 00000000:1B:00.0: Not Supported\n",
        )


def test_lost_gpu(node: sim.SimNode, smi: Smi, good: Run) -> None:
    """It is in the way of who asks for all, and of nobody else."""
    node.inject(faults.GpuLost(node.gpus()[1].uuid))
    for arguments in (("-L",), ("mig", "-lgip"), ("mig", "-cgi", "9"), ("-r",), ("-mig", "0", "-i", "1")):
        result = smi(*arguments)
        assert result.returncode == GPU_LOST
        assert result.stdout == "Unable to determine the device handle for GPU1: GPU is lost\n"
    good("mig", "-i", "0", "-cgi", "9", "-C")
    good("-L", "-i", "0,2,3")


def test_overview_with_mig(good: Run) -> None:
    lines = [line.split() for line in good().splitlines()]
    assert lines[3][-3:] == ["N/A", "Enabled", "Default"]
    assert lines[5][-3:] == ["Default", "Disabled", "Default"]
    assert lines[6][-3:] == ["Default", "N/A", "Default"]


class TestUnprivileged:
    @pytest.fixture
    def as_nobody(self, node: sim.SimNode) -> Smi:
        """pytest's directories are private; into those of this node others may look."""
        for directory in node.directory.parents:
            if directory.owner() == "root" and str(directory) != "/":
                directory.chmod(directory.stat().st_mode | 0o055)
        return lambda *arguments: _run(node, *arguments, user=65534)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (("mig", "-lgi"), "Failed to display GPU instances: Insufficient Permissions\n"),
            (("mig", "-lci"), "Failed to display compute instances: Insufficient Permissions\n"),
            (("mig", "-dgi"), "Failed to destroy GPU instances: Insufficient Permissions\n"),
            (("mig", "-dci"), "Failed to destroy compute instances: Insufficient Permissions\n"),
            (("mig", "-cci"), "Failed to create compute instances: Insufficient Permissions\n"),
            (
                ("mig", "-i", "0", "-cgi", "9"),
                _refusal(
                    "Unable to create a GPU instance on GPU  0 using profile 9",
                    "create GPU instances",
                    "Insufficient Permissions",
                ),
            ),
            (
                ("-mig", "0"),
                (
                    "Unable to disable MIG Mode for GPU 00000000:1B:00.0: Insufficient Permissions\n"
                    "Terminating early due to previous errors.\n"
                ),
            ),
        ],
    )
    def test_refused(self, as_nobody: Smi, arguments: tuple[str, ...], message: str) -> None:
        result = as_nobody(*arguments)
        assert (result.returncode, result.stdout) == (NO_PERMISSION, message)

    def test_may_list_devices(self, as_nobody: Smi, good: Run) -> None:
        good("mig", "-i", "0", "-cgi", "9", "-C")
        result = as_nobody("-L")
        assert (result.returncode, result.stdout) == (0, good("-L"))
