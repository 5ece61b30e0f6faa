"""What is wrong with a GPU, what is done about it, and what ends it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from building import boards
from gpusharing.api.names import MigPlace
from gpusharing.api.sharing.gpu_status import Reason
from gpusharing.core.publishing import gpu_health
from gpusharing.core.publishing.gpu_health import (
    Ailment,
    Effect,
    Fault,
    Finding,
    History,
    Look,
    Presence,
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
            history = gpu_health.remember(history, step)
        else:
            history, look = gpu_health.after_inspection(history, step), step
    return history, look


def wrong(*steps: Fault | Look, trouble: Trouble | None = None) -> list[tuple[Reason, Effect]]:
    history, look = after(*steps)
    news = [step for step in steps if isinstance(step, Fault) and not step.is_remembered]
    found = gpu_health.findings(history, look, news=news, trouble=trouble)
    return [(finding.reason, finding.effect) for finding in found]


def xid(number: int) -> Fault:
    return fault_of_xid(number, driver_load=1)


OF_PROGRAMS = (8, 11, 13, 31, 41, 43, 45, 68, 69, 109)
MINOR = (63, 92, 94, 154)
FATAL = (48, 61, 62, 64, 74, 79, 95, 119, 120, 140, 9999)
REASONS = {
    **dict.fromkeys(OF_PROGRAMS, Reason.PROGRAM_XID),
    **dict.fromkeys(MINOR, Reason.MINOR_XID),
    **dict.fromkeys(FATAL, Reason.FATAL_XID),
}


@pytest.mark.parametrize(("number", "reason"), REASONS.items())
def test_without_a_word_of_the_driver_the_tables_decide(number: int, reason: Reason) -> None:
    assert wrong(xid(number)) == [(reason, HELD if reason is Reason.FATAL_XID else NOTHING)]


@pytest.mark.parametrize("number", REASONS)
def test_the_driver_decides_how_bad_an_xid_is(number: int) -> None:
    assert fault_of_xid(number, needs_recovery=True).reason is Reason.FATAL_XID
    reason = Reason.PROGRAM_XID if number in OF_PROGRAMS else Reason.MINOR_XID
    assert fault_of_xid(number, needs_recovery=False).reason is reason


@pytest.mark.parametrize("number", REASONS)
@pytest.mark.parametrize("needs_recovery", [None, False, True])
def test_the_administrator_decides_before_the_driver(number: int, needs_recovery: bool | None) -> None:
    ignored = fault_of_xid(number, needs_recovery=needs_recovery, ignored={number})
    assert not ignored.is_remembered
    assert wrong(ignored) == [(ignored.reason, NOTHING)]
    others = fault_of_xid(number, needs_recovery=needs_recovery, ignored={number + 1})
    assert others == fault_of_xid(number, needs_recovery=needs_recovery)


def test_the_end_of_an_error_that_no_inspection_saw_is_noticed() -> None:
    """The driver asked for a reset when it reported the error, and the GPU was reset before anybody looked."""
    fault = replace(fault_of_xid(48, needs_recovery=True, driver_load=1), reported_at="10:00")
    history = gpu_health.remember(History(), fault, needs_recovery=True)
    assert history.faults == (fault,)
    assert gpu_health.after_inspection(history, RESET_WANTED).faults == (fault,)
    assert gpu_health.after_inspection(history, WELL) == History()


def test_a_fault_has_the_time_of_its_first_report_and_can_be_forgotten_by_people() -> None:
    first = replace(xid(48), reported_at="10:00")
    history = gpu_health.remember(History(), first)
    assert gpu_health.remember(history, replace(xid(48), reported_at="10:05")) is history
    other = replace(xid(62), reported_at="10:05")
    history = gpu_health.remember(history, other)
    assert "XID 48 at 10:00: memory" in gpu_health.findings(history, WELL)[0].message
    assert gpu_health.forget(history, [first]).faults == (other,)


H100 = boards.board("H100-80GB").mig
"""A GPU of eight memory slices."""
ONE_G_AT_1, THREE_G_AT_4 = MigPlace(19, 1), MigPlace(9, 4)


@pytest.mark.parametrize(
    ("device", "is_concerned"),
    [
        ("gpu-0-mig-1g10gb-19-1", True),
        ("gpu-0-mig-1g10gb-19-0", False),
        ("gpu-0-mig-1g10gb-19-2", False),
        ("gpu-0-mig-2g20gb-14-0", True),
        ("gpu-0-mig-3g40gb-9-0", True),
        ("gpu-0-mig-3g40gb-9-4", False),
        ("gpu-0-mig-7g80gb-0-0", True),
        ("gpu-0", True),
        ("gpu-0-timeslicing", True),
        ("gpu-0-mps", True),
        # Nobody knows how large that is.
        ("gpu-0-mig-9g-999-6", True),
    ],
)
def test_a_fault_of_a_mig_instance_concerns_what_has_memory_in_common_with_it(device: str, is_concerned: bool) -> None:
    fault = fault_of_xid(48, gpu_instance=3, place=ONE_G_AT_1)
    found = gpu_health.findings(gpu_health.remember(History(), fault), Look())
    assert [finding.concerns(device, H100) for finding in found] == [is_concerned]
    assert gpu_health.reason_to_withhold(found, device, H100) == (Reason.FATAL_XID if is_concerned else None)
    # Where nobody knows what the GPU can be divided into, it is about everything.
    assert found[0].concerns(device, None)


def test_the_reason_of_a_device_is_the_heaviest_that_concerns_it() -> None:
    history = gpu_health.remember(History(), fault_of_xid(48, place=THREE_G_AT_4))
    found = gpu_health.findings(history, RESET_WANTED)
    neighbour, failed = "gpu-0-mig-3g40gb-9-0", "gpu-0-mig-3g40gb-9-4"
    assert gpu_health.reason_to_withhold(found, failed, H100) is Reason.FATAL_XID
    assert gpu_health.reason_to_withhold(found, neighbour, H100) is Reason.RECOVERY_NEEDED
    assert gpu_health.reason_to_withhold([], failed, H100) is None


places = st.sampled_from(
    [MigPlace(profile.id, start) for profile in (H100.profiles if H100 else ()) for start in profile.starts]
)


@given(places, places)
def test_what_cannot_overlap_can_be_allocated_together(one: MigPlace, other: MigPlace) -> None:
    assert H100
    assert H100.overlap(one, other) == H100.overlap(other, one)
    taken = [set(range(place.start, place.start + H100.profile(place.profile_id).size)) for place in (one, other)]  # type: ignore[union-attr]
    assert H100.overlap(one, other) == bool(taken[0] & taken[1])


RELOADED = Look(driver_load=2)
LOST = Look(presence=Presence.LOST, driver_load=1)
SILENT = Look(presence=Presence.NOT_RESPONDING, problem="no name", driver_load=1)
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
    "silent": ([SILENT], [(Reason.NOT_RESPONDING, HELD)]),
    "silent for a while": ([SILENT, WELL], []),
    "a driver that hung has reset nothing": ([xid(48), DOWN, WELL], [(Reason.FATAL_XID, HELD)]),
    "a driver that hangs": ([DOWN], [(Reason.DRIVER_DOWN, HELD)]),
    "a driver that hung": ([DOWN, WELL], []),
    "a GPU that is lost while the driver hangs": ([LOST, DOWN, xid(119), WELL], []),
    "the driver wants a reset": ([xid(119), RESET_WANTED], [(Reason.FATAL_XID, HELD), (Reason.RECOVERY_NEEDED, HELD)]),
    "and got it": ([xid(119), RESET_WANTED, WELL], []),
    "nobody knows whether it got it": ([xid(119), RESET_WANTED, UNSURE], [(Reason.FATAL_XID, HELD)]),
    "it got it, which one sees later": ([xid(119), RESET_WANTED, UNSURE, WELL], []),
    "a driver that never wanted it says nothing of it": ([WELL, xid(119), WELL], [(Reason.FATAL_XID, HELD)]),
    "a reboot is wanted": ([Look(ailments=(Ailment.REBOOT_NEEDED,))], [(Reason.RECOVERY_NEEDED, HELD)]),
    "a reset after a drain is wanted": ([Look(ailments=(Ailment.DRAIN_NEEDED,))], [(Reason.RECOVERY_NEEDED, HELD)]),
    "the IMEX domain is to be recovered": (
        [Look(ailments=(Ailment.IMEX_RECOVERY_NEEDED,))],
        [(Reason.IMEX_RECOVERY_NEEDED, NOTHING)],
    ),
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
    [(Reason.SETTING_NOT_APPLIED, NOTHING), (Reason.MPS_DOWN, HELD), (Reason.INSTANCE_MISSING, HELD)],
)
def test_what_is_wrong_between_gpu_and_claims(reason: Reason, effect: Effect) -> None:
    trouble = Trouble(reason=reason, message="why", parts=("MIG-1",))
    assert wrong(trouble=trouble) == [(reason, effect)]
    (found,) = gpu_health.findings(History(), WELL, trouble=trouble)
    assert found == Finding(reason=reason, message="why", parts=("MIG-1",))


def test_messages_name_the_error_and_say_what_to_do() -> None:
    history, look = after(fault_of_xid(95, gpu_instance=3, driver_load=1), RESET_WANTED)
    texts = [finding.message for finding in gpu_health.findings(history, look, news=[xid(31)])]
    assert texts[0].startswith("XID 95 in GPU instance 3: memory could not be corrected")
    assert texts[0].endswith("or reboot the node")
    assert "the driver says that it has to be reset: reset it while nothing uses it" in texts[1]
    assert (
        texts[2] == "XID 31: a program used memory that is not its own; the GPU works: check the programs that use it"
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
        assert gpu_health.remember(history, fault) is history
    assert gpu_health.after_inspection(gpu_health.after_inspection(history, look), look) == gpu_health.after_inspection(
        history, look
    )
    # Whatever has happened.
    for reset in ([LOST, WELL], [RESET_WANTED, WELL], [WELL, RELOADED, WELL]):
        assert gpu_health.findings(*after(*steps, *reset)) == ()
