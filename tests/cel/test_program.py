"""A compiled expression: its answers, its errors and what it may cost."""

import pytest

from gpusharing import cel

MEMORY = 'device.attributes["d"].memory == 1'
ADVICE = 'no such key: memory; it is a capacity: device.capacity["d"].memory'


def error(program: cel.Program, device: cel.Device) -> str:
    with pytest.raises(cel.EvaluationError) as failed:
        program.match(device)
    answer, _ = program.measure(device)
    assert isinstance(answer, cel.EvaluationError)
    return failed.value.message


@pytest.mark.parametrize(
    ("expression", "capacity", "expected"),
    [
        pytest.param(MEMORY, {"memory": {"value": "1Gi"}}, ADVICE, id="of the same domain"),
        pytest.param(MEMORY, {"other/memory": {"value": "1Gi"}}, "no such key: memory", id="of another domain"),
        pytest.param(MEMORY, {"cores": {"value": "1"}}, "no such key: memory", id="of another name"),
        pytest.param(
            'device.attributes[device.driver].memory == "80Gi"',
            {"memory": {"value": "1Gi"}},
            "no such key: memory; it is a capacity: "
            'device.capacity[device.driver].memory.compareTo(quantity("80Gi")) == 0',
            id="of a domain that is not known before",
        ),
        pytest.param('{"a": 1}["memory"] == 1', {"memory": {"value": "1Gi"}}, "no such key: memory", id="of a map"),
    ],
)
def test_who_asks_the_attributes_for_a_capacity_is_told_so_if_there_is_one(
    expression: str, capacity: dict[str, dict[str, str]], expected: str
) -> None:
    message = error(cel.compile(expression, 37), cel.Device("d", {}, capacity))
    assert message.startswith(expected)
    assert ("; it is a capacity" in message) == ("; it is a capacity" in expected)


def test_a_device_that_cannot_be_read_has_no_answer_to_anything() -> None:
    device = cel.Device("d", {"v": {"version": "x"}}, {})
    assert error(cel.compile("true", 37), device).startswith("attribute v: parse semantic version")


def test_a_bool_in_an_optional_value_is_an_answer() -> None:
    device = cel.Device("d", {"yes": {"bool": True}, "text": {"string": "true"}}, {})
    assert cel.compile('device.attributes["d"].yes', 37).match(device) is True
    assert error(cel.compile('device.attributes["d"].text', 37), device) == (
        "CEL result could not be converted to bool: str"
    )


def test_lists_are_not_there_before_they_were_invented() -> None:
    device = cel.Device("d", {"all": {"strings": ["a"]}}, {})
    exists = 'has(device.attributes["d"].all)'
    assert [cel.compile(exists, minor).match(device) for minor in (35, 36, 37)] == [False, True, True]


def test_what_it_costs_is_what_it_was_estimated_at_most() -> None:
    program = cel.compile('device.attributes["d"].a == "x"', 37)
    answer, cost = program.measure(cel.Device("d", {"a": {"string": "x"}}, {}))
    assert answer is True
    assert 0 < cost <= program.max_cost < 10
