"""What a CUDA program gets under a limit, judged: whether the driver obeys, and does not only say so."""

from gpusharing.agent.selftest.report import Outcome, Section
from gpusharing.nvidia.cuda import CudaUse

_OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


def describe(use: CudaUse) -> str:
    ended = f"refused more: {use.refusal}" if use.refusal else "was refused nothing"
    return (
        f"{use.multiprocessors} multiprocessors, {use.free_mib} of {use.total_mib} MiB free; "
        f"took {use.taken_mib} MiB, and {ended}"
    )


def judge_memory(section: Section, what: str, use: CudaUse, limit_mib: int) -> None:
    taken = f"a CUDA program took {use.taken_mib} MiB, the limit is {limit_mib} MiB"
    if use.taken_mib > limit_mib:
        section.note(Outcome.FAILED, what, f"{taken}: the driver does not apply it")
    elif not use.taken_mib or _OUT_OF_MEMORY not in (use.refusal or ""):
        section.note(Outcome.FAILED, what, f"{taken}, but it was refused by {use.refusal or 'nobody'}")
    else:
        section.note(Outcome.OK, what, taken)


def judge_threads(section: Section, what: str, use: CudaUse, whole: CudaUse, percent: int) -> None:
    seen = (
        f"a CUDA program sees {use.multiprocessors} of {whole.multiprocessors} multiprocessors, the limit is {percent}%"
    )
    if use.multiprocessors < whole.multiprocessors:
        section.note(Outcome.OK, what, seen)
    else:
        section.note(Outcome.FAILED, what, f"{seen}: the driver does not apply it")


def judge_instance(section: Section, what: str, use: CudaUse, memory_mib: int) -> None:
    seen = f"a CUDA program sees {use.total_mib} MiB, the instance has {memory_mib} MiB"
    if use.total_mib <= memory_mib:
        section.note(Outcome.OK, what, seen)
    else:
        section.note(Outcome.FAILED, what, f"{seen}: it sees more than the instance")
