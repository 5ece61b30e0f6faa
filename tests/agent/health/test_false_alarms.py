"""What an administrator says is a false alarm, is forgotten: that one and no other."""

import pytest

from gpusharing.agent.health.false_alarms import FaultName, named_faults

TEN = "2026-01-31T10:00:00Z"


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (f"gpu-0@{TEN}", [FaultName(0, TEN)]),
        (f" gpu-0@{TEN} ,gpu-12@{TEN},", [FaultName(0, TEN), FaultName(12, TEN)]),
        (f"gpu-0@{TEN},nonsense,gpu-1@{TEN}", [FaultName(0, TEN), FaultName(1, TEN)]),
        ("", []),
        ("true", []),
        ("all", []),
        ("gpu-0", []),
        ("gpu-0@", []),
        (f"gpu-99999999999999999999@{TEN}", []),
        (f"gpu-0@{TEN}@{TEN}", []),
        (f"gpu-0@{'2' * 400}", []),
    ],
)
def test_what_an_annotation_names(annotation: str, expected: list[FaultName]) -> None:
    assert list(named_faults(annotation)) == expected
