"""What NVIDIA's driver takes as opaque parameters we take, and make the same of it."""

from collections import Counter
from pathlib import Path

import pytest

from nvidia_configs.comparison import MEANT, Difference, differences, our_answer, their_answers
from nvidia_configs.generator import GPUS, Configs


def test_random_configs(config_check: Path) -> None:
    configs = Configs(seed=1)
    texts = [configs.text() for _ in range(5_000)]
    taken = sum(answer.is_taken for answer in their_answers(texts, config_check))
    assert 1_000 < taken < 4_000, "too few of one kind show little"
    found = differences(texts, config_check)
    assert [str(one) for one in found if not one.reason] == []
    # Each reason is still true.
    assert Counter(one.reason for one in found).keys() >= MEANT.keys() - {_BY_CHANCE}


_BY_CHANCE = "which of two limits for one GPU counts is left to chance there"


@pytest.mark.parametrize("limits", ['{"0": "1Gi", "1": "2Gi"}', f'{{"{GPUS[1]}": "2Gi", "{GPUS[0]}": "1Gi"}}'])
def test_limits_of_single_gpus(config_check: Path, limits: str) -> None:
    text = (
        '{"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "MPS", '
        f'"mpsConfig": {{"defaultPerDevicePinnedMemoryLimit": {limits}}}}}}}'
    )
    (theirs,) = their_answers([text], config_check)
    assert theirs.memory == our_answer(text).memory == {GPUS[0]: "1024M", GPUS[1]: "2048M"}


def test_what_is_meant_to_differ_is_no_more_than_that() -> None:
    """Another mistake in such a config still counts."""
    text = '{"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", "sharing": {"strategy": "TimeSlicing"}}'
    wrong = our_answer(text.replace("TimeSlicing", "timeslicing"))
    assert Difference(text, wrong, our_answer(text)).reason is None
