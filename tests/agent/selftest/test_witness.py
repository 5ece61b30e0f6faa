"""What a CUDA program got under a limit: holds the limit, or not?"""

import pytest

from gpusharing.agent.selftest.report import Outcome, Section
from gpusharing.agent.selftest.witness import judge_instance, judge_memory, judge_threads
from gpusharing.nvidia.cuda import CudaUse

OUT_OF_MEMORY = "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2)"
OTHER = "cuMemAlloc_v2: CUDA_ERROR_UNKNOWN (999)"


def use(*, multiprocessors: int = 132, total: int = 81008, taken: int = 100, refusal: str | None = None) -> CudaUse:
    return CudaUse(multiprocessors=multiprocessors, total_mib=total, free_mib=total, taken_mib=taken, refusal=refusal)


@pytest.mark.parametrize(
    ("taken", "refusal", "outcome"),
    [
        (1500, OUT_OF_MEMORY, Outcome.OK),
        # What CUDA needs for itself counts, too.
        (1050, OUT_OF_MEMORY, Outcome.OK),
        (1550, OUT_OF_MEMORY, Outcome.FAILED),
        (3000, None, Outcome.FAILED),
        (0, OUT_OF_MEMORY, Outcome.FAILED),
        (1000, OTHER, Outcome.FAILED),
        (1500, None, Outcome.FAILED),
    ],
)
def test_memory(taken: int, refusal: str | None, outcome: Outcome) -> None:
    section = Section("")
    judge_memory(section, "limit", use(taken=taken, refusal=refusal), 1500)
    (check,) = section.checks
    assert check.outcome is outcome
    assert f"took {taken} MiB, the limit is 1500 MiB" in check.detail


@pytest.mark.parametrize(
    ("seen", "outcome"), [(66, Outcome.OK), (68, Outcome.OK), (132, Outcome.FAILED), (133, Outcome.FAILED)]
)
def test_threads(seen: int, outcome: Outcome) -> None:
    section = Section("")
    judge_threads(section, "limit", use(multiprocessors=seen), use(), 50)
    assert [check.outcome for check in section.checks] == [outcome]


@pytest.mark.parametrize(
    ("total", "outcome"), [(9728, Outcome.OK), (9984, Outcome.OK), (9985, Outcome.FAILED), (81008, Outcome.FAILED)]
)
def test_instance(total: int, outcome: Outcome) -> None:
    section = Section("")
    judge_instance(section, "instance", use(total=total), 9984)
    assert [check.outcome for check in section.checks] == [outcome]
