"""Selectors beside the scheduler's own evaluation of them: the same expressions, the same devices, in the same run."""

import gc
import random
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any, Final

from bench.figures import Figure, absolute, p50
from cel.oracle_process import Oracle
from gpusharing import cel

MINOR: Final = 37
_DEVICES: Final = 1000

_NVIDIA: Final = 'device.attributes["gpu.nvidia.com"]'
_MEMORY: Final = 'device.capacity["gpu.nvidia.com"].memory'

SELECTORS: Final = {
    "S1, regular expression and quantity": f'{_NVIDIA}.productName.matches("^NVIDIA (A100|H100)") && '
    f'{_MEMORY}.compareTo(quantity("40Gi")) >= 0',
    "S2, strings and in": f'device.driver == "gpu.nvidia.com" && {_NVIDIA}.architecture in ["Ampere", "Hopper"] && '
    f'{_NVIDIA}.brand == "Nvidia"',
    "S3, in, quantity and semver": f'{_NVIDIA}.architecture in ["Hopper", "Blackwell"] && '
    f'{_MEMORY}.isGreaterThan(quantity("16Gi")) && {_NVIDIA}.driverVersion.compareTo(semver("550.0.0")) >= 0',
    "S4, has, or, startsWith": f'has({_NVIDIA}.nvlink) && {_NVIDIA}.nvlink || '
    f'{_NVIDIA}.productName.startsWith("NVIDIA H") || {_NVIDIA}.index < 4',
    "S5, exists": f'["A100", "H100", "H200"].exists(model, {_NVIDIA}.productName.contains(model))',
    "NVIDIA, class of GPUs": f'device.driver == "gpu.nvidia.com" && {_NVIDIA}.type == "gpu"',
    "NVIDIA, a MIG profile": f'{_NVIDIA}.type == "mig" && {_NVIDIA}.profile == "1g.10gb"',
    "NVIDIA, product by pattern": f'{_NVIDIA}.productName.lowerAscii().matches("^.*a100.*$")',
    "NVIDIA, an index": f"{_NVIDIA}.index == 0",
    "NVIDIA, architecture and memory": f'{_NVIDIA}.architecture == "Hopper" && '
    f'{_MEMORY}.compareTo(quantity("80Gi")) < 0',
    "Intel, class": 'device.driver == "gpu.intel.com"',
    "Intel, model and memory": 'device.driver == "gpu.intel.com" && '
    'device.attributes["gpu.intel.com"].model == "Flex 170" && '
    'device.capacity["gpu.intel.com"].memory.compareTo(quantity("16Gi")) >= 0',
    "Google, RDMA interfaces": 'device.driver == "dra.net" && device.attributes["dra.net"].rdma == true && '
    'device.attributes["dra.net"].ifName.startsWith("gpu")',
    "Google, not virtual": 'device.driver == "dra.net" && !device.attributes["dra.net"].virtual && '
    'device.attributes["dra.net"].mtu > 1500',
    "Kubernetes, one PCIe root": 'device.attributes["resource.kubernetes.io"].pcieRoot == "pci0000:00"',
}  # fmt: skip


def devices(count: int = _DEVICES, seed: int = 1) -> list[dict[str, Any]]:
    """All different, with as many attributes as NVIDIA's driver publishes."""
    chance = random.Random(seed)  # noqa: S311 (the same ones in every run)
    products = [
        ("NVIDIA A100-SXM4-80GB", "Ampere", "80Gi"), ("NVIDIA H100 80GB HBM3", "Hopper", "81559Mi"),
        ("NVIDIA L4", "Ada Lovelace", "23034Mi"), ("NVIDIA H200", "Hopper", "143771Mi"),
    ]  # fmt: skip
    made = []
    for number in range(count):
        product, architecture, memory = chance.choice(products)
        made.append(
            {
                "driver": "gpu.nvidia.com",
                "attributes": {
                    "type": {"string": chance.choice(["gpu", "gpu", "mig"])},
                    "uuid": {"string": f"GPU-{chance.getrandbits(128):032x}"},
                    "profile": {"string": "1g.10gb"},
                    "productName": {"string": product},
                    "brand": {"string": "Nvidia"},
                    "architecture": {"string": architecture},
                    "index": {"int": number % 8},
                    "minor": {"int": number % 8},
                    "cudaComputeCapability": {"version": "9.0.0"},
                    "driverVersion": {"version": chance.choice(["535.230.2", "580.173.2"])},
                    "cudaDriverVersion": {"version": "13.0.0"},
                    "resource.kubernetes.io/pciBusID": {"string": f"0000:{number % 256:02x}:00.0"},
                    "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{number % 4:02x}"},
                    "resource.kubernetes.io/numaNode": {"int": number % 2},
                },
                "capacity": {"memory": {"value": memory}},
            }
        )
    return made


def bind(made: Sequence[dict[str, Any]]) -> list[cel.Device]:
    return [cel.Device(device["driver"], device["attributes"], device["capacity"]) for device in made]


def matching() -> list[Figure]:
    made = devices()
    bound = bind(made)
    figures = []
    with Oracle(MINOR) as oracle:
        for name, expression in SELECTORS.items():
            program = cel.compile(expression, MINOR)
            theirs = oracle.timings(expression, made, 20)["match"]["median"] / 1e9
            ours = _median_per_call(lambda: _match_all(program, bound), calls=len(bound))  # noqa: B023 (used at once)
            value = f"{ours * 1e6:.2f} us, {ours / theirs:.2f}"
            reached = ours <= 2e-6 and ours < theirs
            figures.append(Figure(f"match, {name}", value, f"cel-go ({theirs * 1e6:.2f} us)", "<= 2 us, < 1", reached))
    return figures


def compiling() -> list[Figure]:
    seconds = []
    for number, expression in enumerate(SELECTORS.values()):
        cel.compile(expression, MINOR)
        # Another text of the same kind each time: what was compiled before is remembered.
        texts = iter([f"{expression} || device.driver == '{number}-{round_}'" for round_ in range(20)])
        seconds.append(_median_per_call(lambda: cel.compile(next(texts), MINOR), calls=1, rounds=20))  # noqa: B023
    return [absolute("compile, warm, median of the selectors", p50(seconds) * 1000, "ms", at_most=1)]


def importing() -> list[Figure]:
    program = (
        "import time; began = time.perf_counter(); import gpusharing.cel; took = time.perf_counter() - began; "
        "import sys; assert 'lark' not in sys.modules; print(took)"
    )
    times = [float(subprocess.check_output([sys.executable, "-c", program])) for _ in range(5)]
    return [absolute("import of gpusharing.cel, median of 5", p50(times) * 1000, "ms", at_most=250)]


def memory() -> list[Figure]:
    made = devices()
    # What is loaded once in a process is no program's.
    for expression in SELECTORS.values():
        cel.compile(f"{expression} || device.driver == 'warm'", MINOR)
    texts = [f"{expression} || device.driver == 'm'" for expression in SELECTORS.values()]
    kept: list[object] = []
    tracemalloc.start()
    try:
        program = _kept_per_item(lambda: kept.extend(cel.compile(text, MINOR) for text in texts), len(texts))
        device = _kept_per_item(lambda: kept.extend(bind(made)), len(made))
    finally:
        tracemalloc.stop()
    return [
        absolute("memory of a program, mean", program, "KiB", at_most=4),
        absolute("memory of a bound device, mean", device, "KiB", at_most=2),
    ]


def a_fleet() -> list[Figure]:
    bound = bind(devices(10_000, seed=2))
    programs = [cel.compile(expression, MINOR) for expression in [*SELECTORS.values(), *list(SELECTORS.values())[:5]]]
    began = time.perf_counter()
    for program in programs:
        _match_all(program, bound)
    return [absolute("10,000 devices x 20 selectors", time.perf_counter() - began, "s", at_most=0.5)]


def measure() -> list[Figure]:
    return [*matching(), *compiling(), *importing(), *memory(), *a_fleet()]


def _match_all(program: cel.Program, bound: Sequence[cel.Device]) -> None:
    match = program.match
    for device in bound:
        try:  # noqa: SIM105 (what is measured is not contextlib)
            match(device)
        except cel.EvaluationError:
            pass


def _median_per_call(work: Callable[[], object], *, calls: int, rounds: int = 9) -> float:
    seconds = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        seconds.append((time.perf_counter() - began) / calls)
    return p50(seconds)


def _kept_per_item(work: Callable[[], object], items: int) -> float:
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    work()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    return (after - before) / items / 1024
