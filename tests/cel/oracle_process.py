"""Asks the scheduler's own CEL: `oracle/`, as a child process."""

import contextlib
import json
import subprocess
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self, TextIO, TypeAlias

from harness.processes import DIES_WITH_PARENT
from harness.toolchain import build_cel_oracles, build_next_cel_oracle

Device: TypeAlias = dict[str, Any]
"""As in a ResourceSlice, with its driver."""

Kubernetes: TypeAlias = int | Literal["next"]
"""A minor version, or the newest pre-release."""

Question: TypeAlias = tuple[str, Sequence[Device]]


@dataclass(frozen=True, slots=True)
class Verdict:
    outcome: str
    """match, no-match, compile-error, runtime-error; timeout, panic or crash if the oracle itself gives up."""
    error: str = ""
    max_cost: int | None = None
    actual_cost: int | None = None


class Oracle:
    """kube-scheduler of that version. Starts anew by itself after an expression that it did not survive."""

    def __init__(self, kubernetes: Kubernetes = 37, *, seconds_per_question: float = 5) -> None:
        if kubernetes == "next":
            program = build_next_cel_oracle() / "cel-oracle-next"
        else:
            program = build_cel_oracles() / f"cel-oracle-v{kubernetes}"
        self._command = [*DIES_WITH_PARENT, str(program), "-limit", f"{seconds_per_question}s"]
        self._child: subprocess.Popen[str] | None = None
        self._asking = threading.Thread()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._end()

    def evaluate(self, expression: str, devices: Sequence[Device], *, new: bool = False) -> list[Verdict]:
        """`new` compiles as the API server does when an object with the expression is created."""
        (answer,) = self._answers([{"expression": expression, "devices": devices, "new": new}])
        return _verdicts(answer)

    def evaluate_all(self, questions: Iterable[Question]) -> Iterator[list[Verdict]]:
        """In the order of the questions; the oracle works ahead while the caller looks at what it gets."""
        asked = [{"expression": expression, "devices": devices} for expression, devices in questions]
        return map(_verdicts, self._answers(asked))

    def values(self, questions: Iterable[Question]) -> Iterator[list[str | None]]:
        """The strings that expressions evaluate to, if they do; only 1.37 can say that."""
        asked = [{"expression": expression, "devices": devices, "values": True} for expression, devices in questions]
        return (answer.get("values") or [None] * len(answer["results"]) for answer in self._answers(asked))

    def overloads(self, expressions: Iterable[str]) -> Iterator[list[str]]:
        """Of each expression: cel-go's ids of the functions that it may call; none if it does not compile."""
        asked = [{"expression": expression, "devices": [], "overloads": True} for expression in expressions]
        return (answer.get("overloads", []) for answer in self._answers(asked))

    def all_overloads(self) -> list[tuple[str, str]]:
        """Each function and macro that selectors may use, and its overload."""
        return [(function, overload) for function, overload in map(str.split, self._told("-overloads").splitlines())]

    def version_for_new_objects(self) -> str:
        return self._told("-version").strip()

    def timings(self, expression: str, devices: Sequence[Device], repetitions: int) -> dict[str, dict[str, int]]:
        """Nanoseconds: `compile` and `match`, each with `median`, `p90`, `p99` and `mean`."""
        (answer,) = self._answers([{"expression": expression, "devices": devices, "repetitions": repetitions}])
        timings: dict[str, dict[str, int]] = answer["timings"]
        return timings

    def _told(self, option: str) -> str:
        return subprocess.run([*self._command, option], check=True, capture_output=True, text=True).stdout

    def _answers(self, questions: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        answered = 0
        try:
            while answered < len(questions):
                for line in self._exchange(questions[answered:]):
                    yield json.loads(line)
                    answered += 1
                if answered < len(questions) and self._end() != 0:
                    yield {"results": [{"outcome": "crash"} for _ in questions[answered]["devices"]]}
                    answered += 1
        finally:
            if answered < len(questions):
                self.close()  # what it would still say is of no use to the next who asks

    def _exchange(self, questions: Sequence[dict[str, Any]]) -> Iterator[str]:
        """The answers, fewer than questions if the oracle ends. Asks in a thread: either side may be the faster."""
        child = self._running()
        self._asking = threading.Thread(target=_ask, args=(child.stdin, questions))
        self._asking.start()
        for _ in questions:
            line = child.stdout.readline() if child.stdout else ""
            if not line:
                return
            yield line
        self._asking.join()

    def _running(self) -> subprocess.Popen[str]:
        if self._child is None:
            self._child = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
            )
        return self._child

    def _end(self) -> int:
        """How the child ended."""
        assert self._child is not None
        code = self._child.wait()
        if self._asking.is_alive():
            self._asking.join()
        with contextlib.suppress(BrokenPipeError), self._child:
            self._child = None
        return code


def _ask(oracle: TextIO, questions: Sequence[dict[str, Any]]) -> None:
    with contextlib.suppress(BrokenPipeError):
        oracle.writelines(json.dumps(question) + "\n" for question in questions)
        oracle.flush()


def _verdicts(answer: dict[str, Any]) -> list[Verdict]:
    return [
        Verdict(result["outcome"], result.get("error", ""), answer.get("maxCost"), result.get("actualCost"))
        for result in answer["results"]
    ]
