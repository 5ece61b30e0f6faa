"""Programs by version of Kubernetes, remembered."""

import pytest

from gpusharing import cel
from gpusharing.cel.declarations import OLDEST_MINOR

ORVALUE = 'device.attributes["d"].a.orValue("x") == "x"'
DEVICE = cel.Device("d", {"a": {"string": "x"}}, {})


def test_a_kubernetes_from_the_future_is_read_as_the_newest_that_is_known() -> None:
    for minor in (cel.NEWEST_MINOR, cel.NEWEST_MINOR + 1, 99):
        program = cel.compile("[1].includes(1)", minor)
        assert program.minor == cel.NEWEST_MINOR
        assert program is cel.compile("[1].includes(1)", cel.NEWEST_MINOR)


def test_a_kubernetes_that_is_too_old_is_no_question_of_the_expression() -> None:
    cel.compile("true", OLDEST_MINOR)
    with pytest.raises(ValueError, match=f"1.{OLDEST_MINOR} is the oldest"):
        cel.compile("true", OLDEST_MINOR - 1)


def test_versions_are_remembered_apart() -> None:
    assert cel.compile(ORVALUE, 36).match(DEVICE)
    with pytest.raises(cel.EvaluationError):
        cel.compile(ORVALUE, 37).match(DEVICE)


def test_who_asks_for_a_refusal_again_gets_one_of_his_own() -> None:
    refusals = []
    for _ in range(2):
        with pytest.raises(cel.CompileError) as refused:
            cel.compile("nonsense", 37)
        refusals.append(refused.value)
    first, second = refusals
    assert first is not second
    assert (str(first), first.expression, first.offset) == (str(second), second.expression, second.offset)
