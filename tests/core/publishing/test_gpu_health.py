"""What is wrong with a GPU, what is done about it, and what ends it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusharing.core.publishing import gpu_health
from gpusharing.core.publishing.gpu_health import (
    Ailment,
    Effect,
    Fault,
    Finding,
    History,
    Look,
    Presence,
    Reason,
    Trouble,
    fault_of_xid,
)

NOTHING, HELD = Effect.NONE, Effect.NO_SCHEDULE
WELL = Look(driver_load=1)


def after(*steps: Fault | Look) -> tuple[History, Look]:
    """What is remembered after these reports and looks, and the last look."""
    history, look = History(), WELL
    for step in steps:
        if isinstance(step, Fault):
            history = gpu_health.reported(history, step)
        else:
            history, look = gpu_health.looked(history, step), step
    return history, look


def wrong(*steps: Fault | Look, trouble: Trouble | None = None) -> list[tuple[Reason, Effect]]:
    history, look = after(*steps)
    news = [step for step in steps if isinstance(step, Fault) and not step.is_remembered]
    found = gpu_health.findings(history, look, news=news, trouble=trouble)
    return [(finding.reason, finding.effect) for finding in found]


def xid(number: int) -> Fault:
    return fault_of_xid(number, driver_load=1)


@pytest.mark.parametrize("number", [13, 31, 43, 45, 68, 109])
def test_what_programs_do_wrong_is_only_told(number: int) -> None:
    assert wrong(xid(number)) == [(Reason.PROGRAM_XID, NOTHING)]


@pytest.mark.parametrize("number", [63, 92, 94])
def test_what_needs_nothing_at_once_is_only_told(number: int) -> None:
    assert wrong(xid(number)) == [(Reason.MINOR_XID, NOTHING)]


@pytest.mark.parametrize("number", [48, 61, 62, 64, 74, 79, 95, 119, 120, 140, 9999])
def test_all_other_errors_keep_people_away(number: int) -> None:
    assert wrong(xid(number)) == [(Reason.FATAL_XID, HELD)]


RELOADED = Look(driver_load=2)
LOST = Look(presence=Presence.LOST, driver_load=1)
SILENT = Look(presence=Presence.SILENT, problem="no name", driver_load=1)
DOWN = Look(presence=Presence.DRIVER_DOWN, problem="the driver hangs")
RESET_WANTED = Look(ailments=(Ailment.RESET_NEEDED,), driver_load=1)
UNSURE = Look(complete=False, driver_load=1)

CASES: dict[str, tuple[list[Fault | Look], list[tuple[Reason, Effect]]]] = {
    "nothing": ([], []),
    "an error stays although the GPU answers": ([xid(48), WELL, WELL], [(Reason.FATAL_XID, HELD)]),
    "until the driver was loaded anew": ([xid(48), WELL, RELOADED], []),
    "an error after that is another one": ([xid(48), RELOADED, replace(xid(48), driver_load=2)], [
        (Reason.FATAL_XID, HELD)]),
    "until it was lost and is back": ([xid(79), LOST, WELL], []),
    "lost, and not back": ([xid(79), LOST, LOST], [(Reason.LOST, HELD), (Reason.FATAL_XID, HELD)]),
    "lost for no known reason, and back": ([LOST, WELL], []),
    "one that was silent has not been reset": ([xid(48), SILENT, WELL], [(Reason.FATAL_XID, HELD)]),
    "silent": ([SILENT], [(Reason.SILENT, HELD)]),
    "silent for a while": ([SILENT, WELL], []),
    "a driver that hung has reset nothing": ([xid(48), DOWN, WELL], [(Reason.FATAL_XID, HELD)]),
    "a driver that hangs": ([DOWN], [(Reason.DRIVER_DOWN, HELD)]),
    "a driver that hung": ([DOWN, WELL], []),
    "a GPU that is lost while the driver hangs": ([LOST, DOWN, xid(119), WELL], []),
    "the driver wants a reset": ([xid(119), RESET_WANTED], [(Reason.RECOVERY_NEEDED, HELD), (Reason.FATAL_XID, HELD)]),
    "and got it": ([xid(119), RESET_WANTED, WELL], []),
    "nobody knows whether it got it": ([xid(119), RESET_WANTED, UNSURE], [(Reason.FATAL_XID, HELD)]),
    "it got it, which one sees later": ([xid(119), RESET_WANTED, UNSURE, WELL], []),
    "a driver that never wanted it says nothing of it": ([WELL, xid(119), WELL], [(Reason.FATAL_XID, HELD)]),
    "a reboot is wanted": ([Look(ailments=(Ailment.REBOOT_NEEDED,))], [(Reason.RECOVERY_NEEDED, HELD)]),
    "a reset after a drain is wanted": ([Look(ailments=(Ailment.DRAIN_NEEDED,))], [(Reason.RECOVERY_NEEDED, HELD)]),
    "memory waits for a reset": ([Look(ailments=(Ailment.ROW_REMAP_PENDING,))], [(Reason.ROW_REMAP_PENDING, NOTHING)]),
    "memory cannot be mended": (
        [Look(ailments=(Ailment.ROW_REMAP_PENDING, Ailment.ROW_REMAP_FAILED))],
        [(Reason.ROW_REMAP_FAILED, HELD), (Reason.ROW_REMAP_PENDING, NOTHING)],
    ),
    "memory could not be corrected": (
        [Fault(reason=Reason.MEMORY_ERROR, driver_load=1)],
        [(Reason.MEMORY_ERROR, HELD)],
    ),
    "unavailable, and then reset": ([Fault(reason=Reason.UNAVAILABLE, driver_load=1), RESET_WANTED, WELL], []),
    "not watched": ([Fault(reason=Reason.UNMONITORED, driver_load=1)], [(Reason.UNMONITORED, NOTHING)]),
}  # fmt: skip


@pytest.mark.parametrize(("steps", "expected"), CASES.values(), ids=CASES)
def test_what_is_done_and_what_ends_it(steps: list[Fault | Look], expected: list[tuple[Reason, Effect]]) -> None:
    assert wrong(*steps) == expected


@pytest.mark.parametrize(
    ("reason", "effect"),
    [(Reason.DISOBEYS, NOTHING), (Reason.MPS_DOWN, HELD), (Reason.INSTANCE_GONE, HELD)],
)
def test_what_is_wrong_between_gpu_and_claims(reason: Reason, effect: Effect) -> None:
    trouble = Trouble(reason=reason, message="why", parts=("MIG-1",))
    assert wrong(trouble=trouble) == [(reason, effect)]
    (found,) = gpu_health.findings(History(), WELL, trouble=trouble)
    assert found == Finding(reason=reason, message="why", parts=("MIG-1",))


def test_messages_name_the_error_and_say_what_to_do() -> None:
    history, look = after(fault_of_xid(95, gpu_instance=3, driver_load=1), RESET_WANTED)
    texts = [finding.message for finding in gpu_health.findings(history, look, news=[xid(31)])]
    assert "the driver says that it has to be reset: reset it while nothing uses it" in texts[0]
    assert texts[1].startswith("XID 95 in GPU instance 3: memory could not be corrected")
    assert texts[1].endswith("or reboot the node")
    assert (
        texts[2] == "XID 31: a program used memory that is not its own; the GPU works on: see the programs that use it"
    )


faults = st.builds(fault_of_xid, st.sampled_from([31, 48, 79, 119]), driver_load=st.sampled_from([None, 1, 2]))
looks = st.builds(
    Look,
    presence=st.sampled_from(Presence),
    ailments=st.lists(st.sampled_from(Ailment), max_size=2, unique=True).map(tuple),
    complete=st.booleans(),
    driver_load=st.sampled_from([None, 1, 2]),
)


@given(st.lists(faults | looks, max_size=12))
def test_nothing_is_written_twice_and_a_reset_is_always_enough(steps: list[Fault | Look]) -> None:
    history, look = after(*steps)
    for fault in history.faults:
        assert gpu_health.reported(history, fault) is history
    assert gpu_health.looked(gpu_health.looked(history, look), look) == gpu_health.looked(history, look)
    # Whatever has happened.
    for reset in ([LOST, WELL], [RESET_WANTED, WELL], [WELL, RELOADED, WELL]):
        assert gpu_health.findings(*after(*steps, *reset)) == ()
