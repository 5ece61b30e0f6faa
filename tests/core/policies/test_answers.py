"""GPUs that a selector cannot tell apart share its answer, and no others do."""

from collections.abc import Mapping, Sequence
from random import Random
from sys import getsizeof
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import DRIVER, MINOR, gpu_status
from cel.generator.cases import case
from cel.generator.devices import device as random_device
from gpusharing import cel
from gpusharing.core.policies.answers import Answer, Answers, GpuDevice

CHEAP = f"device.attributes['{DRIVER}'].architecture == 'Hopper'"


def costly(condition: str) -> str:
    return f"{list(range(50))}.all(x, x < 50 && {condition})"


HOPPER = costly(CHEAP)
LARGE = costly(f"device.capacity['{DRIVER}'].memory.isGreaterThan(quantity('40Gi'))")
NOT_THAT_ONE = costly(f"device.attributes['{DRIVER}'].uuid != 'GPU-3'")
COMPUTED = costly(f"device.attributes['{DRIVER}']['architec' + 'ture'] == 'Hopper'")


class Counted:
    """Counts its evaluations."""

    def __init__(self, expression: str) -> None:
        self._program = cel.compile(expression, MINOR)
        self.reads = self._program.reads
        self.max_cost = self._program.max_cost
        self.count = 0

    def match(self, device: cel.Device) -> bool:
        self.count += 1
        return self._program.match(device)


def gpu(number: int, *, architecture: str = "Hopper", memory: str = "80Gi", **more: Any) -> GpuDevice:
    attributes = {
        "uuid": {"string": f"GPU-{number}"},
        "resource.kubernetes.io/pciBusID": {"string": f"0000:{number:04x}:00.0"},
        "architecture": {"string": architecture},
    }
    return looking_like(attributes | more, memory)


def looking_like(attributes: Mapping[str, Any], memory: str = "80Gi") -> GpuDevice:
    return GpuDevice(DRIVER, gpu_status().model_copy(update={"attributes": attributes, "memory": memory}))


def answers(expressions: Sequence[str]) -> tuple[Answers, list[Counted]]:
    counted = [Counted(expression) for expression in expressions]
    return Answers(counted), counted  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("expressions", "evaluations"),
    [
        pytest.param([HOPPER], [1], id="one attribute"),
        pytest.param([HOPPER, LARGE], [1, 1], id="several selectors"),
        pytest.param([HOPPER, NOT_THAT_ONE], [1, 1_000], id="only the one that reads it is asked again"),
        pytest.param([COMPUTED], [1_000], id="not known what it reads"),
        pytest.param([costly("true")], [1], id="nothing"),
        pytest.param([CHEAP], [1_000], id="faster evaluated than looked up"),
    ],
)
def test_selectors_are_evaluated_once_for_all_that_look_the_same(
    expressions: list[str], evaluations: list[int]
) -> None:
    policy, counted = answers(expressions)
    for number in range(1_000):
        policy.answer(gpu(number))
    assert [each.count for each in counted] == evaluations


def test_answers_are_not_mixed_up() -> None:
    policy, _ = answers([HOPPER, LARGE])
    assert policy.answer(gpu(1)) == Answer(matches=True, failure=None)
    assert policy.answer(gpu(2, architecture="Ampere")) == Answer(matches=False, failure=None)
    assert policy.answer(gpu(3, memory="40Gi")) == Answer(matches=False, failure=None)
    # Of another type, of another domain, or both an attribute and a capacity.
    assert policy.answer(looking_like({"architecture": {"version": "1.0.0"}})) != Answer(matches=True, failure=None)
    assert policy.answer(looking_like({"x.y/architecture": {"string": "Hopper"}})).failure
    assert policy.answer(looking_like({f"{DRIVER}/architecture": {"string": "Hopper"}})).matches
    assert policy.answer(looking_like({"architecture": {"string": "Hopper"}, "memory": {"int": 1}})).matches
    # Of two for one name the last one counts.
    ours, others = ("architecture", {"string": "Hopper"}), (f"{DRIVER}/architecture", {"string": "Ampere"})
    assert policy.answer(looking_like(dict([others, ours]))).matches
    assert not policy.answer(looking_like(dict([ours, others]))).matches
    # A device that cannot be read is asked for itself, although what is read of it is the same.
    assert policy.answer(gpu(6, broken={"version": "x"})).failure
    assert policy.answer(gpu(7)) == Answer(matches=True, failure=None)


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 5)), min_size=1, max_size=6), st.integers(0, 2**16))
def test_whatever_is_asked_in_whatever_order_the_answer_is_the_same(asked: list[tuple[int, int]], seed: int) -> None:
    programs = []
    for number, _ in asked:
        try:
            programs.append(cel.compile(str(case(3, number).tree), MINOR))
        except cel.CompileError:
            continue
    together = Answers(programs)
    for _, device in asked * 2:
        made = random_device(Random(f"{seed}/{device}"), DRIVER)  # noqa: S311 (no secret)
        memory = made.get("capacity", {}).get("memory", {"value": "80Gi"})["value"]
        one = looking_like(made.get("attributes", {}), memory)
        assert together.answer(one) == Answers(programs).answer(one)


def test_what_is_remembered_is_bounded() -> None:
    long = f"device.attributes['{DRIVER}'].uuid.replace('G', '{'x' * 3_000}')"
    policy, _ = answers([costly(f"{{'a': 1}}[{long}] == 1")])
    for number in range(2_000):
        assert policy.answer(gpu(number)).failure
    known = policy._known
    assert len(known) == 512
    assert sum(getsizeof(key) + getsizeof(key[1]) + getsizeof(told) for key, told in known.items()) < 512 * 1_024
