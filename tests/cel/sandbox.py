"""Evaluates expressions in processes that may not use much: `python -m cel.sandbox TOGETHER`.

One JSON text a line on stdin, and so many of them in each process; on stdout how each ended, and the processor time
that it took.
"""

import gc
import json
import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, zip_longest
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


def in_children(expressions: Iterable[str], together: int) -> Iterator[dict[str, Any]]:
    """What ends otherwise than it should among others is tried again alone: it answers for itself only."""
    remaining = iter(expressions)
    while some := list(islice(remaining, together)):
        for expression, result in zip_longest(some, _in_a_child(some)):
            is_fine = len(some) == 1 or (result and result["outcome"] in OUTCOMES)
            yield result if is_fine else _in_a_child([expression])[0]


def _in_a_child(expressions: Sequence[str]) -> list[dict[str, Any]]:
    """How each ended; where the child ended before, what became of it is the last."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        resource.setrlimit(resource.RLIMIT_AS, (_address_space() + MEMORY,) * 2)
        try:
            for expression in expressions:
                os.write(writing, f"{json.dumps(_measured(expression))}\n".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answers:
        results: list[dict[str, Any]] = [json.loads(line) for line in answers]
    _, status, usage = os.wait4(child, 0)
    if len(results) < len(expressions):
        results.append({"outcome": f"ended with status {status}", "seconds": usage.ru_utime + usage.ru_stime})
    return results


def _measured(expression: str) -> dict[str, Any]:
    began = time.process_time()
    resource.setrlimit(resource.RLIMIT_CPU, (int(began) + SECONDS, resource.RLIM_INFINITY))
    try:
        answer = outcome(expression)
    except BaseException as error:  # noqa: BLE001 (whatever it is, it is what the test looks for)
        answer = f"{type(error).__name__}: {error}"[:500]
    return {"outcome": answer, "seconds": time.process_time() - began}


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main() -> None:
    # What is made once in a process is not the expression's doing.
    outcome("device.driver.matches('x')")
    # Nor is what is here already anything for the collectors of the children: a look would copy it.
    gc.collect()
    gc.freeze()
    for result in in_children(map(json.loads, sys.stdin), together=int(sys.argv[1])):
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
