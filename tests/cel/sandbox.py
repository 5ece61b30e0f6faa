"""Evaluates expressions one by one, each in a process of its own that may not use much: `python -m cel.sandbox`.

One JSON text a line on stdin; on stdout how each child ended, and the processor time that it took.
"""

import gc
import json
import os
import resource
import sys
from pathlib import Path
from typing import Any, Final

from gpusharing import cel

MEMORY: Final = 64 * 2**20
"""On top of what Python and the parser take."""
SECONDS: Final = 5
"""Far more than allowed: this ends a hang. What is slow is measured."""

OUTCOMES: Final = ("match", "no-match", "compile-error", "runtime-error")

DEVICES: Final[list[dict[str, Any]]] = [
    {
        "driver": "gpu.nvidia.com",
        "attributes": {
            "productName": {"string": "NVIDIA H100 80GB HBM3"},
            "index": {"int": 2**63 - 1},
            "driverVersion": {"version": "580.173.2-rc.1+build"},
            "migCapable": {"bool": True},
            "long": {"string": "x" * 64},
            "profiles": {"strings": [f"{number}g.10gb" for number in range(48)]},
            "resource.kubernetes.io/numaNode": {"int": 0},
        },
        "capacity": {"memory": {"value": "81559Mi"}, "big": {"value": "9999999999999999999999G"}},
    },
    {"driver": "dra.net"},
]


def outcome(expression: str) -> str:
    """On the first device; the others must not break anything either."""
    try:
        program = cel.compile(expression, 37)
    except cel.CompileError as error:
        error.explained()
        return "compile-error"
    first, *_ = [_answer(program, device) for device in DEVICES]
    return first


def _answer(program: cel.Program, device: dict[str, Any]) -> str:
    bound = cel.Device(device["driver"], device.get("attributes", {}), device.get("capacity", {}))
    try:
        return "match" if program.match(bound) else "no-match"
    except cel.EvaluationError:
        return "runtime-error"


def in_a_child(expression: str) -> dict[str, Any]:
    """`outcome` is one of OUTCOMES, or what else became of the child."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY,) * 2)
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        try:
            answer = outcome(expression)
        except BaseException as error:  # noqa: BLE001 (whatever it is, it is what the test looks for)
            answer = f"{type(error).__name__}: {error}"[:500]
        os.write(writing, answer.encode(errors="replace"))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        answer = answers.read().decode()
    _, status, usage = os.wait4(child, 0)
    return {"outcome": answer or f"ended with status {status}", "seconds": usage.ru_utime + usage.ru_stime}


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> None:
    # What is made once in a process is not the expression's doing.
    outcome("device.driver.matches('x')")
    # Nor is what is here already anything for the collectors of the children: a look would copy it.
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        print(json.dumps(in_a_child(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
