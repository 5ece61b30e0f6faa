"""Which GPUs of a node a policy wants, and how often its selectors are evaluated for that."""

import gc
import weakref
from collections.abc import Mapping, Sequence

import pytest

from building import DRIVER, MINOR, gpu_status, policy
from gpusharing import cel
from gpusharing.api.sharing.gpu_status import GpuStatus
from gpusharing.core.policies.policy import ExaminedPolicy, examine
from gpusharing.core.policies.selection import Selection, Selector

NUMBERS = list(range(50))
HOPPER = f"{NUMBERS}.all(x, x < 50 && device.attributes['{DRIVER}'].architecture == 'Hopper')"
NODES = [f"n{number}" for number in range(50)]


@pytest.fixture
def evaluations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The expressions that are evaluated from now on."""
    evaluated: list[str] = []
    match = cel.Program.match

    def counted(program: cel.Program, device: cel.Device) -> bool:
        evaluated.append(program.expression)
        return match(program, device)

    monkeypatch.setattr(cel.Program, "match", counted)
    return evaluated


def on(node: str, *, gpus: int = 8, memory: str = "81559Mi") -> list[GpuStatus]:
    return [gpu_status(slot, node=node).model_copy(update={"memory": memory}) for slot in range(gpus)]


def examined(*selectors: str) -> ExaminedPolicy:
    return examine(policy("one", selectors=selectors), minor=MINOR)


def select(
    asked: ExaminedPolicy, gpus: Sequence[GpuStatus], selector: Selector | None = None
) -> Mapping[str, Selection]:
    return (selector or Selector(DRIVER)).selections([asked], labels={}, gpus=gpus)


def test_gpus_of_all_nodes_share_an_answer(evaluations: list[str]) -> None:
    asked = examined(HOPPER)
    for node in NODES:
        assert len(select(asked, on(node))["one"].wanted) == 8
    assert evaluations == [HOPPER]


def test_a_selector_that_reads_the_uuid_is_asked_for_each_gpu_once(evaluations: list[str]) -> None:
    second = f"device.attributes['{DRIVER}'].uuid == 'GPU-n7-1'"
    asked, selectors = examined(second), {node: Selector(DRIVER) for node in NODES}
    for _ in range(2):
        wanted = {node: select(asked, on(node), selectors[node])["one"].wanted for node in NODES}
    assert {node: uuids for node, uuids in wanted.items() if uuids} == {"n7": ("GPU-n7-1",)}
    assert len(evaluations) == 8 * len(NODES)


def test_an_edited_policy_and_a_changed_gpu_are_asked_about_anew(evaluations: list[str]) -> None:
    large = f"{NUMBERS}.all(x, device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('60Gi')))"
    selector = Selector(DRIVER)
    assert select(examined(large), on("n1"), selector)["one"].wanted
    assert select(examined(large, HOPPER), on("n1"), selector)["one"].wanted
    assert not select(examined(large), on("n1", memory="40Gi"), selector)["one"].wanted
    assert evaluations == [large, large, HOPPER, large]


def test_a_failure_is_told_for_each_gpu_that_has_it() -> None:
    selection = select(examined(f"device.attributes['{DRIVER}'].nothing == 1"), on("n1", gpus=2))["one"]
    assert selection == Selection(wanted=(), failed=dict.fromkeys(("GPU-n1-0", "GPU-n1-1"), "no such key: nothing"))


def test_a_policy_that_has_gone_is_forgotten() -> None:
    selector = Selector(DRIVER)
    gone = examined(HOPPER)
    assert select(gone, on("n1"), selector)["one"].wanted
    remembered = weakref.ref(gone)
    del gone
    selector.selections([], labels={}, gpus=on("n1"))
    gc.collect()
    assert remembered() is None
