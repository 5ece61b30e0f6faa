"""Whose logs are read."""

from collections.abc import Mapping
from typing import Any

from gpusharing.bundling.programs import MOST_UNWELL, SOME_OTHERS, Choice, Program, State, choose


def pod(name: str, node: str, *, program: str = "agent", ready: bool = True, ended: bool = False) -> Mapping[str, Any]:
    status = {"name": program, "ready": ready, "lastState": {"terminated": {"exitCode": 1}} if ended else {}}
    return {
        "metadata": {
            "name": name,
            "namespace": "gpusharing-system",
            "labels": {"app.kubernetes.io/name": f"gpusharing-{program}"},
        },
        "spec": {
            "nodeName": node,
            "containers": [
                {"name": "beside"},
                {"name": program, "ports": [{"name": "http", "containerPort": 9000}]},
            ],
        },
        "status": {"containerStatuses": [{"name": "beside", "ready": True}, status]},
    }


def sharing(node: str, status: str) -> Mapping[str, Any]:
    return {"metadata": {"name": node}, "status": {"conditions": [{"type": "Ready", "status": status}]}}


def agents(choice: Choice) -> list[str]:
    return [one.node for one in choice.chosen if one.is_agent]


def test_all_operators_and_the_worst_agents_first() -> None:
    well = [pod(f"a{number:02d}", f"n{number:02d}") for number in range(30)]
    unwell = [
        pod("b0", "restarted", ended=True),
        pod("b1", "reports"),
        pod("b2", "fails", ready=False, ended=True),
    ]
    operators = [pod("o0", "n00", program="operator"), pod("o1", "n01", program="operator")]
    found = choose([*well, *unwell, *operators], [sharing("reports", "False"), sharing("n00", "True")])
    assert [one.pod for one in found.chosen if not one.is_agent] == ["o0", "o1"]
    assert agents(found) == ["fails", "reports", "restarted", "n00", "n10", "n20"]
    assert [one.state for one in found.chosen if one.is_unwell] == [
        State.NOT_READY,
        State.REPORTS_PROBLEM,
        State.RESTARTED,
    ]
    assert (found.agents, found.unwell) == (33, 3)
    assert [one.node for one in found.chosen if one.has_previous] == ["fails", "restarted"]


def test_a_fleet_that_is_unwell_is_bounded() -> None:
    found = choose([pod(f"a{number}", f"n{number}", ready=False) for number in range(1000)], [])
    assert (len(agents(found)), found.unwell) == (MOST_UNWELL, 1000)
    assert len(agents(choose([pod(f"a{number}", f"n{number}") for number in range(1000)], []))) == SOME_OTHERS


def test_nodes_that_are_named_and_no_others() -> None:
    found = choose([pod("a", "n1"), pod("b", "n2", ready=False), pod("c", "n3")], [], nodes=["n1", "n9"])
    assert agents(found) == ["n1"]
    assert found.unknown == ["n9"]


def test_a_program_is_found_beside_others() -> None:
    (found,) = choose([pod("a", "n1")], []).chosen
    assert found == Program(
        pod="a",
        namespace="gpusharing-system",
        node="n1",
        container="agent",
        port=9000,
        is_agent=True,
        state=State.WELL,
        has_previous=False,
    )


def test_pods_of_others_and_pods_that_did_not_start() -> None:
    foreign = pod("x", "n1", program="else")
    (new,) = choose([foreign, {**pod("a", ""), "status": {}}], []).chosen
    assert (new.state, new.node) == (State.NOT_READY, "")
