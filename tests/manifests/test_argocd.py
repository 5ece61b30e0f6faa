"""Argo CD's health of a SharingPolicy, in the Lua that Argo CD runs."""

from collections.abc import Mapping
from typing import Any, Final

import pytest
import yaml
from lupa.lua51 import LuaRuntime

from gpusharing.core.reasons import ProgressingReason, ReadyReason
from harness.gpu_cluster import MANIFESTS

CONFIG: Final = yaml.safe_load((MANIFESTS.parent / "argocd" / "argocd-cm.yaml").read_text())
[(KEY, SCRIPT)] = CONFIG["data"].items()

_NOT_THERE: Final = ("string", "math", "io", "os", "debug", "coroutine", "package", "require", "dofile", "loadfile")
"""What Argo CD does not open to such scripts, or not whole."""


def health(object_: Mapping[str, Any]) -> tuple[str, str]:
    lua = LuaRuntime(register_eval=False)
    variables = lua.globals()
    for name in _NOT_THERE:
        variables[name] = None
    variables["python"] = None
    variables["obj"] = lua.table_from(object_, recursive=True)
    found = lua.execute(SCRIPT)
    return found["status"], found["message"]


def sharing_policy(*conditions: tuple[str, str, str], generation: int = 3, observed: int | None = 3) -> dict[str, Any]:
    status: dict[str, Any] = {
        "conditions": [
            {"type": type_, "status": status, "reason": reason, "message": f"{type_} says {reason}"}
            for type_, status, reason in conditions
        ]
    }
    if observed is not None:
        status["observedGeneration"] = observed
    return {"metadata": {"name": "p", "generation": generation}, "spec": {}, "status": status}


ACCEPTED: Final = ("Accepted", "True", "Accepted")
READY: Final = ("Ready", "True", "Ready")
WAITING: Final = ("Ready", "False", "WaitingForNodes")
COMPLETE: Final = ("Progressing", "False", "Complete")
SOUND: Final = ("Degraded", "False", "NotDegraded")
NO_CONFLICT: Final = ("Conflicted", "False", "NoConflict")
GOOD: Final = (ACCEPTED, READY, COMPLETE, NO_CONFLICT, SOUND)
NOT_YET: Final = "the operator has not looked at this generation yet"


@pytest.mark.parametrize(
    ("object_", "expected"),
    [
        pytest.param(sharing_policy(*GOOD), ("Healthy", "Ready says Ready"), id="good"),
        pytest.param(
            sharing_policy(ACCEPTED, READY, SOUND), ("Healthy", "Ready says Ready"), id="good, of an older operator"
        ),
        pytest.param(
            sharing_policy(ACCEPTED, READY, COMPLETE, ("Conflicted", "True", "LostGpus"), SOUND),
            ("Healthy", "Ready says Ready"),
            id="others won some",
        ),
        pytest.param({"metadata": {"generation": 1}, "spec": {}}, ("Progressing", NOT_YET), id="nobody has looked"),
        pytest.param(sharing_policy(observed=None), ("Progressing", NOT_YET), id="an empty status"),
        pytest.param(sharing_policy(*GOOD, generation=4), ("Progressing", NOT_YET), id="another spec since"),
        pytest.param(sharing_policy(), ("Progressing", ""), id="no conditions"),
        pytest.param(
            sharing_policy(("Accepted", "False", "InvalidSelector"), ("Ready", "False", "NotAccepted"), SOUND),
            ("Degraded", "Accepted says InvalidSelector"),
            id="not accepted",
        ),
        pytest.param(
            sharing_policy(ACCEPTED, READY, COMPLETE, ("Degraded", "True", "MemoryTooSmall")),
            ("Degraded", "Degraded says MemoryTooSmall"),
            id="degraded, but in force",
        ),
        pytest.param(
            sharing_policy(ACCEPTED, ("Ready", "False", "LostAllGpus"), COMPLETE, SOUND),
            ("Degraded", "Ready says LostAllGpus"),
            id="others won all",
        ),
        pytest.param(
            sharing_policy(
                ACCEPTED, ("Ready", "False", "WaitingForNodes"), ("Progressing", "True", "RollingOut"), SOUND
            ),
            ("Progressing", "Progressing says RollingOut"),
            id="rolling out",
        ),
        pytest.param(
            sharing_policy(ACCEPTED, READY, ("Progressing", "True", "Waiting"), SOUND),
            ("Progressing", "Progressing says Waiting"),
            id="waits for GPUs that are in use",
        ),
        pytest.param(
            sharing_policy(ACCEPTED, WAITING, ("Progressing", "False", "Stopped"), SOUND),
            ("Degraded", "Progressing says Stopped"),
            id="a node failed",
        ),
        *(
            pytest.param(
                sharing_policy(ACCEPTED, ready, ("Progressing", "False", reason), SOUND),
                ("Suspended", f"Progressing says {reason}"),
                id=f"{reason}, {ready[1]}",
            )
            for reason in ("Paused", "Plan")
            for ready in (READY, WAITING)
        ),
    ],
)
def test_health(object_: dict[str, Any], expected: tuple[str, str]) -> None:
    assert health(object_) == expected


def test_every_reason_to_be_ready_or_not_has_a_meaning() -> None:
    meant = dict.fromkeys(ReadyReason, "Progressing") | {
        ReadyReason.READY: "Healthy",
        ReadyReason.LOST_ALL_GPUS: "Degraded",
        # Said by other conditions as well, which are asked first.
        ReadyReason.NOT_ACCEPTED: "Degraded",
        ReadyReason.PAUSED: "Suspended",
        ReadyReason.PLAN: "Suspended",
    }
    beside = {
        ReadyReason.NOT_ACCEPTED: ("Accepted", "False", "InvalidSelector"),
        ReadyReason.PAUSED: ("Progressing", "False", ProgressingReason.PAUSED),
        ReadyReason.PLAN: ("Progressing", "False", ProgressingReason.PLAN),
    }
    for reason in ReadyReason:
        ready = ("Ready", "True" if reason is ReadyReason.READY else "False", reason)
        assert (
            health(sharing_policy(ACCEPTED, ready, COMPLETE, SOUND, beside.get(reason, ACCEPTED)))[0] == meant[reason]
        )


def test_every_reason_to_progress_or_not_has_a_meaning() -> None:
    meant = {
        ProgressingReason.COMPLETE: "Healthy",
        ProgressingReason.WAITING: "Progressing",
        ProgressingReason.ROLLING_OUT: "Progressing",
        ProgressingReason.PAUSED: "Suspended",
        ProgressingReason.PLAN: "Suspended",
        ProgressingReason.STOPPED: "Degraded",
    }
    for reason in ProgressingReason:
        progresses = "True" if meant[reason] == "Progressing" else "False"
        policy = sharing_policy(ACCEPTED, READY, ("Progressing", progresses, reason), SOUND)
        assert health(policy)[0] == meant[reason]


def test_it_is_said_of_the_kind() -> None:
    assert KEY == "resource.customizations.health.gpusharing.dev_SharingPolicy"
