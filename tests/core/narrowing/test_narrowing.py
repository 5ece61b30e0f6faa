"""What each GPU publishes, step by step."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from building.boards import ALL, board
from core.narrowing.cases import EVERYTHING, HALVES, ONLY_PARTS, PARTS, SHARES, WHOLE_ONLY, offered
from gpusharing.api import names
from gpusharing.api.sharing.offers import MigOffer
from gpusharing.core.devices.offered import OfferedGpu
from gpusharing.core.devices.options import can_be_held_together, of_device
from gpusharing.core.publishing.entries import Entry, Standing
from gpusharing.core.publishing.menu import menu
from gpusharing.core.publishing.narrowing import (
    GpuPlan,
    GpuView,
    Holder,
    Publication,
    Timing,
    narrow,
    restarted,
    written,
)

WHOLE, SHARE, MPS = "gpu-0", "gpu-0-timeslicing", "gpu-0-mps"
FIRST, SECOND, BOTH = "gpu-0-mig-1g40gb-19-0", "gpu-0-mig-1g40gb-19-1", "gpu-0-mig-2g80gb-5-0"
MINUTE, HOUR = 60.0, 3600.0


@dataclass
class Node:
    """An agent's node without its agent: GPUs side by side, and what the API has of each."""

    gpus: list[OfferedGpu]
    menus: int = 1
    now: float = 1000.0
    holders: list[Holder] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    """Claims that are prepared, but have lost their allocation."""
    unreadable: bool = False
    allocated: set[str] = field(default_factory=set)
    approved: set[str] = field(default_factory=set)
    publications: dict[int, Publication | None] = field(default_factory=dict)
    writes: int = 0
    moved_to: str = "n1"
    configured: bool = True
    found: frozenset[str] = frozenset()
    found_in: str | None = None
    closed_names: tuple[str, ...] = ()

    def views(self) -> list[GpuView]:
        return [
            GpuView(
                gpu=gpu.gpu,
                group="g",
                menu=menu(gpu),
                policy="p",
                pool=self.moved_to,
                configured=self.configured,
                published=self.publications.get(gpu.gpu.slot),
                found=self.found,
                found_in=self.found_in,
                prepared=tuple(holder for holder in self.holders if of_slot(holder.device, gpu)),
                allocated=frozenset(device for device in self.allocated if of_slot(device, gpu)),
                close_approved=frozenset(device for device in self.approved if of_slot(device, gpu)),
                closed_names=self.closed_names,
            )
            for gpu in self.gpus
        ]

    def look(self) -> list[GpuPlan]:
        """A round of the agent: all that is wanted reaches the API."""
        plans = narrow(self.views(), now=self.now, menus=self.menus)
        if not self.unreadable:
            answers: dict[Holder, bool] = {}
            while asked := [holder for plan in plans for holder in plan.confirm]:
                answers |= {holder: holder.claim not in self.gone for holder in asked}
                plans = narrow(self.views(), now=self.now, menus=self.menus, answers=answers)
        for gpu, plan in zip(self.gpus, plans, strict=True):
            before = self.publications.get(gpu.gpu.slot)
            self.writes += shown(before) != shown(plan.publication)
            self.publications[gpu.gpu.slot] = written(plan.publication, plan.publication, now=self.now)
        return plans

    def wait(self, seconds: float) -> list[GpuPlan]:
        self.now += seconds
        return self.look()

    def prepare(self, *devices: str, admin: bool = False) -> None:
        for device in devices:
            self.holders.append(Holder(f"c{len(self.holders)}", device, admin=admin))
        self.look()

    def release(self) -> None:
        self.holders.clear()
        self.look()

    def published(self, slot: int = 0) -> str:
        return shown(self.publications[slot])


def of_slot(device: str, gpu: OfferedGpu) -> bool:
    return names.slot_of_device(device) == gpu.gpu.slot


def shown(publication: Publication | None) -> str:
    marks = {Standing.OPEN: "", Standing.CLOSING: " closing", Standing.DRAINING: " draining"}
    return (
        ", ".join(entry.device + marks[entry.standing] for entry in publication.entries) if publication else "nothing"
    )


def node(*gpus: OfferedGpu, menus: int = 1) -> Node:
    made = Node(list(gpus), menus=menus)
    made.look()
    return made


def beside(gpu: OfferedGpu, slot: int) -> OfferedGpu:
    return replace(gpu, gpu=replace(gpu.gpu, slot=slot))


def listed(*devices: str) -> str:
    return ", ".join(devices)


def test_taken_by_shares_a_gpu_ends_with_this_device_alone() -> None:
    gpu = node(SHARES)
    assert gpu.published() == listed(WHOLE, SHARE)
    gpu.prepare(SHARE)
    # A claim that leaves within the minute costs no write.
    gpu.wait(MINUTE - 1)
    assert (gpu.published(), gpu.writes) == (listed(WHOLE, SHARE), 1)
    gpu.wait(1)
    assert gpu.published() == listed(f"{WHOLE} closing", SHARE)
    gpu.wait(MINUTE - 1)
    assert gpu.published() == listed(f"{WHOLE} closing", SHARE)
    gpu.wait(1)
    assert (gpu.published(), gpu.writes) == (SHARE, 3)
    # Once more of the same is no news.
    gpu.prepare(SHARE)
    gpu.wait(HOUR)
    assert (gpu.published(), gpu.writes) == (SHARE, 3)
    # Released by one write, and at once.
    gpu.release()
    assert (gpu.published(), gpu.writes) == (listed(WHOLE, SHARE), 4)


@pytest.mark.parametrize(
    ("offered_gpu", "taken", "left"),
    [
        pytest.param(EVERYTHING, [WHOLE], listed(WHOLE), id="whole"),
        pytest.param(EVERYTHING, [SHARE], listed(SHARE), id="a share"),
        pytest.param(EVERYTHING, [MPS, MPS], listed(MPS), id="two MPS clients"),
        pytest.param(EVERYTHING, [BOTH], listed(BOTH), id="the largest MIG instance"),
        pytest.param(PARTS, [FIRST], listed(SECOND, FIRST), id="half of it: the other half can still be had"),
        pytest.param(PARTS, [FIRST, SECOND], listed(SECOND, FIRST), id="both halves"),
        pytest.param(PARTS, [BOTH], listed(BOTH), id="all of it as one MIG instance"),
        pytest.param(HALVES, [WHOLE], listed(WHOLE), id="whole beside halves"),
        pytest.param(ONLY_PARTS, [SECOND], listed(SECOND, FIRST), id="only MIG is offered"),
        pytest.param(WHOLE_ONLY, [WHOLE], listed(WHOLE), id="only whole is offered"),
    ],
)
def test_what_is_left_of_a_taken_gpu(offered_gpu: OfferedGpu, taken: list[str], left: str) -> None:
    gpu = node(offered_gpu)
    gpu.prepare(*taken)
    gpu.wait(MINUTE)
    gpu.wait(MINUTE)
    assert gpu.published() == left
    gpu.release()
    assert gpu.published() == listed(*(option.device for option in menu(offered_gpu)))


def test_what_a_part_that_left_makes_room_for_comes_back_at_once() -> None:
    gpu = node(PARTS)
    gpu.prepare(FIRST, SECOND)
    gpu.wait(MINUTE)
    gpu.wait(MINUTE)
    assert gpu.published() == listed(SECOND, FIRST)
    del gpu.holders[:]
    gpu.prepare(BOTH)
    assert gpu.published() == listed(SECOND, FIRST, BOTH)


@pytest.mark.parametrize("device", [WHOLE, SHARE])
def test_a_claim_that_has_lost_its_device_takes_nothing(device: str) -> None:
    gpu = node(SHARES)
    gpu.prepare(device)
    gpu.gone = {"c0"}
    gpu.wait(MINUTE)
    assert "closing" in gpu.published()
    gpu.wait(MINUTE)
    assert gpu.published() == listed(WHOLE, SHARE)


def test_another_claim_on_the_same_device_confirms_as_well() -> None:
    gpu = node(SHARES)
    gpu.prepare(SHARE, SHARE)
    gpu.gone = {"c0"}
    gpu.wait(MINUTE)
    gpu.wait(MINUTE)
    assert gpu.published() == SHARE


def test_while_the_api_does_not_answer_nothing_is_dropped() -> None:
    gpu = node(SHARES)
    gpu.prepare(SHARE)
    gpu.unreadable = True
    gpu.wait(MINUTE)
    [plan] = gpu.wait(HOUR)
    assert gpu.published() == listed(f"{WHOLE} closing", SHARE)
    assert [holder.claim for holder in plan.confirm] == ["c0"]
    gpu.unreadable = False
    gpu.look()
    assert gpu.published() == SHARE


def test_whoever_only_looks_takes_nothing() -> None:
    gpu = node(SHARES)
    gpu.prepare(WHOLE, admin=True)
    gpu.wait(HOUR)
    gpu.wait(HOUR)
    assert (gpu.published(), gpu.writes) == (listed(WHOLE, SHARE), 1)


def closed_by_approval(gpus: Node) -> None:
    gpus.wait(MINUTE)
    gpus.approved = {
        entry.device for view in gpus.views() for entry in (view.published or Publication(pool="")).entries
    }
    gpus.wait(HOUR)


def test_idle_gpus_close_with_approval_only() -> None:
    gpus = node(*(beside(SHARES, slot) for slot in range(3)))
    everything = [listed(f"gpu-{slot}", f"gpu-{slot}-timeslicing") for slot in range(3)]
    # Nobody knew what was published before.
    assert [gpus.published(slot) for slot in range(3)] == everything
    gpus.wait(MINUTE)
    assert [gpus.published(slot) for slot in range(3)] == [
        everything[0],
        "gpu-1, gpu-1-timeslicing closing",
        "gpu-2, gpu-2-timeslicing closing",
    ]
    gpus.wait(10 * HOUR)
    assert gpus.published(1) == "gpu-1, gpu-1-timeslicing closing"
    gpus.approved = {"gpu-1-timeslicing", "gpu-2-timeslicing"}
    gpus.allocated = {"gpu-2-timeslicing"}
    gpus.look()
    assert [gpus.published(slot) for slot in range(3)] == [
        everything[0],
        "gpu-1",
        "gpu-2, gpu-2-timeslicing",
    ]


def test_what_is_approved_goes_at_once_whoever_holds_the_gpu() -> None:
    gpus = node(SHARES, beside(SHARES, 1))
    gpus.wait(MINUTE)
    gpus.approved = {"gpu-1-timeslicing"}
    gpus.look()
    assert gpus.published(1) == "gpu-1"
    taken = node(SHARES)
    taken.prepare("gpu-0-timeslicing")
    taken.wait(MINUTE)
    assert taken.published() == "gpu-0 closing, gpu-0-timeslicing"
    taken.approved = {"gpu-0"}
    taken.look()
    assert taken.published() == "gpu-0-timeslicing"


def test_the_next_idle_gpu_gets_the_menu_when_one_is_taken() -> None:
    gpus = node(*(beside(SHARES, slot) for slot in range(3)))
    closed_by_approval(gpus)
    assert [gpus.published(slot) for slot in range(3)] == [listed(WHOLE, SHARE), "gpu-1", "gpu-2"]
    gpus.prepare(SHARE)
    assert [gpus.published(slot) for slot in range(3)] == [listed(WHOLE, SHARE), "gpu-1, gpu-1-timeslicing", "gpu-2"]
    # Taken whole and released, it is whole only at once.
    gpus.prepare("gpu-2")
    gpus.holders.pop()
    gpus.look()
    assert gpus.published(2) == "gpu-2"


def test_the_next_idle_gpu_gets_the_menu_when_one_is_allocated() -> None:
    """Its pod may wait for a volume, and its claim is then prepared late or never."""
    gpus = node(*(beside(EVERYTHING, slot) for slot in range(3)))
    closed_by_approval(gpus)
    everything = listed(*(option.device for option in menu(EVERYTHING)))
    assert [gpus.published(slot) for slot in range(3)] == [everything, "gpu-1", "gpu-2"]
    gpus.allocated = {SHARE}
    gpus.look()
    opened = everything.replace("gpu-0", "gpu-1")
    assert [gpus.published(slot) for slot in range(3)] == [everything, opened, "gpu-2"]
    # Another share comes to the first one, and MPS to the GPU that is idle.
    gpus.wait(MINUTE)
    open_ = [one for one in gpus.published().split(", ") if "closing" not in one]
    assert (open_, gpus.published(1)) == ([WHOLE, SHARE], opened)
    # Allocated all of them, the lowest has it as before.
    gpus.allocated |= {"gpu-1-mps", "gpu-2"}
    gpus.look()
    assert gpus.published() == everything


def test_whoever_releases_a_gpu_before_the_operator_knows_closes_nothing() -> None:
    gpus = node(*(beside(SHARES, slot) for slot in range(2)))
    closed_by_approval(gpus)
    gpus.prepare(SHARE)
    gpus.allocated = {SHARE}
    gpus.wait(MINUTE)
    before = [gpus.published(slot) for slot in range(2)]
    assert before == [listed("gpu-0 closing", SHARE), "gpu-1, gpu-1-timeslicing"]
    gpus.release()
    assert [gpus.published(slot) for slot in range(2)] == [listed(WHOLE, SHARE), "gpu-1, gpu-1-timeslicing"]


@pytest.mark.parametrize("menus", [0, 1, 2, 5])
def test_so_many_menus_for_each_kind_of_gpu(menus: int) -> None:
    gpus = node(*(beside(SHARES, slot) for slot in range(4)), menus=menus)
    closed_by_approval(gpus)
    carried = [slot for slot in range(4) if "timeslicing" in gpus.published(slot)]
    assert carried == list(range(min(menus, 4)))


def test_gpus_that_are_offered_differently_have_menus_of_their_own() -> None:
    views = [
        replace(view, group=str(view.gpu.slot // 2))
        for view in Node([beside(SHARES, slot) for slot in range(4)]).views()
    ]
    plans = narrow([replace(view, published=Publication(pool="n1", complete=True)) for view in views], now=0)
    assert [shown(plan.publication) for plan in plans] == [
        "gpu-0, gpu-0-timeslicing",
        "gpu-1",
        "gpu-2, gpu-2-timeslicing",
        "gpu-3",
    ]


def test_what_is_offered_in_addition_appears_at_once() -> None:
    gpu = node(WHOLE_ONLY)
    gpu.gpus = [EVERYTHING]
    gpu.look()
    assert gpu.published() == listed(*(option.device for option in menu(EVERYTHING)))


def test_what_is_not_offered_any_more_closes_at_once_and_stays_until_that_is_approved() -> None:
    gpu = node(SHARES)
    gpu.gpus = [WHOLE_ONLY]
    gpu.look()
    assert gpu.published() == listed(WHOLE, f"{SHARE} closing")
    gpu.wait(HOUR)
    assert gpu.published() == listed(WHOLE, f"{SHARE} closing")
    # It is offered again: open as before.
    gpu.gpus = [SHARES]
    gpu.look()
    assert gpu.published() == listed(WHOLE, SHARE)
    gpu.gpus = [WHOLE_ONLY]
    gpu.look()
    gpu.approved = {SHARE}
    gpu.look()
    assert gpu.published() == WHOLE


def test_in_use_it_drains() -> None:
    gpu = node(SHARES)
    gpu.prepare(SHARE)
    gpu.wait(MINUTE)
    gpu.wait(MINUTE)
    gpu.gpus = [WHOLE_ONLY]
    gpu.wait(HOUR)
    assert gpu.published() == f"{SHARE} draining"
    gpu.release()
    assert gpu.published() == listed(WHOLE, f"{SHARE} closing")


def test_allocated_and_not_yet_prepared_it_drains_as_well() -> None:
    gpu = node(SHARES)
    gpu.allocated = {SHARE}
    gpu.gpus = [WHOLE_ONLY]
    gpu.look()
    assert gpu.published() == listed(WHOLE, f"{SHARE} draining")


def test_devices_close_in_one_pool_before_they_appear_in_another() -> None:
    gpu = node(SHARES)
    gpu.moved_to = "n1/search"
    gpu.look()
    assert gpu.published() == listed(f"{WHOLE} closing", f"{SHARE} closing")
    gpu.approved = {WHOLE, SHARE}
    [plan] = gpu.wait(HOUR)
    assert (plan.publication.pool, gpu.published()) == ("n1", "")
    [plan] = gpu.look()
    assert (plan.publication.pool, gpu.published()) == ("n1/search", listed(WHOLE, SHARE))


def test_it_appears_in_another_pool_when_the_api_has_it_without_devices() -> None:
    gpu = node(SHARES)
    gpu.moved_to = "n1/search"
    gpu.look()
    gpu.approved = {WHOLE, SHARE}
    gpu.now += HOUR
    for _ in range(3):
        # On disk, and the API does not take it.
        [plan] = narrow(gpu.views(), now=gpu.now)
        gpu.publications[0] = plan.publication
        assert (plan.publication.pool, shown(plan.publication)) == ("n1", "")
    gpu.publications[0] = written(plan.publication, plan.publication, now=gpu.now)
    [plan] = narrow(gpu.views(), now=gpu.now)
    assert (plan.publication.pool, shown(plan.publication)) == ("n1/search", listed(WHOLE, SHARE))


def test_whoever_holds_it_keeps_it_in_its_pool() -> None:
    gpu = node(SHARES)
    gpu.prepare(SHARE)
    gpu.allocated = {SHARE}
    gpu.moved_to = "n1/search"
    gpu.look()
    assert gpu.published() == listed(f"{WHOLE} closing", f"{SHARE} draining")
    gpu.wait(MINUTE)
    assert gpu.published() == f"{SHARE} draining"
    gpu.approved = {WHOLE, SHARE}
    gpu.wait(HOUR)
    assert gpu.published() == f"{SHARE} draining"
    # Another one may have got it meanwhile.
    gpu.release()
    assert gpu.published() == f"{SHARE} draining"
    gpu.allocated = set()
    gpu.look()
    assert gpu.published() == ""
    [plan] = gpu.look()
    assert (plan.publication.pool, gpu.published()) == ("n1/search", listed(WHOLE, SHARE))


def test_it_can_go_back_on_its_way_to_another_pool() -> None:
    gpu = node(SHARES)
    gpu.moved_to, gpu.approved = "n1/search", {WHOLE, SHARE}
    gpu.look()
    gpu.moved_to = "n1"
    gpu.look()
    assert gpu.published() == listed(WHOLE, SHARE)
    gpu.moved_to = "n1/search"
    gpu.look()
    gpu.wait(HOUR)
    gpu.moved_to = "n1"
    [plan] = gpu.look()
    assert (plan.publication.pool, gpu.published()) == ("n1", listed(WHOLE, SHARE))


def test_where_nobody_knows_it_is_where_the_api_shows_it() -> None:
    gpu = Node([SHARES], found=frozenset({WHOLE}), found_in="n1/search")
    [plan] = gpu.look()
    assert (plan.publication.pool, gpu.published()) == ("n1/search", listed(f"{WHOLE} closing", f"{SHARE} closing"))


def test_without_the_operators_word_it_stays_where_it_is() -> None:
    gpu = Node([WHOLE_ONLY], found=frozenset({WHOLE}), found_in="n1/search", configured=False)
    [plan] = gpu.look()
    assert (plan.publication.pool, gpu.published()) == ("n1/search", WHOLE)


@pytest.mark.parametrize(
    ("found", "allocated", "published"),
    [
        pytest.param(frozenset(), frozenset(), ("n1", ""), id="a new node"),
        pytest.param(frozenset(), {WHOLE}, ("n1", f"{WHOLE} draining"), id="somebody has got it in spite of the taint"),
        pytest.param({WHOLE}, frozenset(), ("n1", f"{WHOLE} closing"), id="nobody knows who could get it before"),
    ],
)
def test_what_nobody_could_get_does_not_hold_up_a_new_node(
    found: frozenset[str], allocated: frozenset[str], published: tuple[str, str]
) -> None:
    gpu = Node([WHOLE_ONLY], found=frozenset(found), configured=False)
    gpu.look()
    assert gpu.published() == WHOLE
    gpu.configured, gpu.moved_to, gpu.allocated = True, "n1/search", set(allocated)
    [plan] = gpu.look()
    assert (plan.publication.pool, gpu.published()) == published


def test_a_gpu_on_its_way_to_another_pool_has_nobodys_menu() -> None:
    gpus = node(*(beside(SHARES, slot) for slot in range(2)))
    closed_by_approval(gpus)
    views = gpus.views()
    plans = narrow([replace(views[0], pool="n1/search"), views[1]], now=gpus.now)
    assert [shown(plan.publication) for plan in plans] == [
        "gpu-0 closing, gpu-0-timeslicing closing",
        "gpu-1, gpu-1-timeslicing",
    ]


@pytest.mark.parametrize(
    ("found", "prepared", "published"),
    [
        pytest.param([], [], listed(WHOLE, SHARE), id="nothing is known at all"),
        pytest.param([SHARE], [], listed(WHOLE, SHARE), id="the API shows that it was narrowed"),
        pytest.param([SHARE], [SHARE], listed(WHOLE, SHARE), id="and a claim is prepared"),
        pytest.param([MPS], [], listed(WHOLE, SHARE, f"{MPS} closing"), id="the API shows what is not offered now"),
        pytest.param([], [MPS], listed(WHOLE, SHARE, f"{MPS} draining"), id="and what is not offered is prepared"),
    ],
)
def test_where_nobody_knows_what_was_published_everything_is(
    found: list[str], prepared: list[str], published: str
) -> None:
    gpu = Node([SHARES], menus=0, found=frozenset(found))
    gpu.prepare(*prepared)
    assert gpu.published() == published


def test_nobody_knows_until_the_operator_has_spoken() -> None:
    gpu = Node([WHOLE_ONLY], menus=0, configured=False)
    gpu.look()
    assert gpu.published() == WHOLE
    # What it allows now may be allocated since long ago.
    gpu.configured, gpu.gpus = True, [SHARES]
    gpu.look()
    assert gpu.published() == listed(WHOLE, SHARE)


def test_closing_counts_from_when_the_api_has_it() -> None:
    gpu = node(SHARES)
    gpu.prepare(SHARE)
    gpu.now += MINUTE
    [plan] = narrow(gpu.views(), now=gpu.now)
    # On disk, and the API does not take it for a long time.
    gpu.publications[0] = plan.publication
    gpu.now += HOUR
    [plan] = narrow(gpu.views(), now=gpu.now)
    assert shown(plan.publication) == listed(f"{WHOLE} closing", SHARE)
    assert plan.confirm == ()
    gpu.publications[0] = written(plan.publication, plan.publication, now=gpu.now)
    gpu.wait(MINUTE)
    assert gpu.published() == SHARE


def test_what_was_written_before_it_opened_again_is_no_closing() -> None:
    gpu = node(SHARES)
    gpu.prepare(SHARE)
    gpu.wait(MINUTE)
    closing = gpu.publications[0]
    assert closing is not None
    gpu.release()
    opened = gpu.publications[0]
    assert opened is not None
    assert written(closing, opened, now=gpu.now) == opened


@pytest.mark.parametrize("back", [HOUR, 10 * HOUR])
def test_a_clock_that_goes_back_shortens_nothing(back: float) -> None:
    gpu = Node([SHARES], now=20 * HOUR)
    gpu.look()
    gpu.prepare(SHARE)
    gpu.wait(MINUTE)
    gpu.wait(-back)
    gpu.wait(MINUTE - 1)
    assert gpu.published() == listed(f"{WHOLE} closing", SHARE)


def test_after_a_reboot_all_waiting_begins_anew() -> None:
    gpu = node(SHARES)
    gpu.prepare(SHARE)
    gpu.wait(MINUTE)
    before = gpu.publications[0]
    assert before is not None
    gpu.publications[0] = restarted(before, now=5 * HOUR)
    gpu.now = 5 * HOUR + MINUTE - 1
    gpu.look()
    assert gpu.published() == listed(f"{WHOLE} closing", SHARE)
    gpu.wait(1)
    assert gpu.published() == SHARE


def test_it_says_when_to_look_again() -> None:
    gpu = node(SHARES)
    [plan] = gpu.look()
    assert plan.look_again == float("inf")
    gpu.prepare(SHARE)
    [plan] = gpu.look()
    assert plan.look_again == gpu.now + MINUTE
    gpu.wait(MINUTE)
    [plan] = gpu.look()
    assert plan.look_again == gpu.now + MINUTE


GPUS = [SHARES, PARTS, EVERYTHING, HALVES, ONLY_PARTS, WHOLE_ONLY, offered(time_slicing=True, mps=True)]
offered_gpus = st.sampled_from(GPUS)
events = st.sampled_from(
    ["wait", "long", "allocate", "prepare", "release", "lose", "offer", "approve", "refuse", "forget", "move"]
)


def happen(gpus: Node, event: str, data: st.DataObject) -> None:
    """Something, and then a round of the agent."""
    match event:
        case "wait":
            gpus.now += data.draw(st.sampled_from([1.0, MINUTE]))
        case "long":
            gpus.now += HOUR
        case "allocate":
            gpu = data.draw(st.sampled_from(gpus.gpus))
            gpus.allocated ^= {data.draw(st.sampled_from([option.device for option in menu(gpu)]))}
        case "prepare":
            # What Prepare lets in: it goes with what is prepared on the GPU.
            gpu = data.draw(st.sampled_from(gpus.gpus))
            held = {holder.device for holder in gpus.holders if of_slot(holder.device, gpu)}
            device = data.draw(st.sampled_from([option.device for option in menu(gpu)]))
            if can_be_held_together(gpu.gpu, [of_device(gpu.gpu, name) for name in {*held, device}]):
                gpus.holders.append(Holder(f"c{len(gpus.holders)}{gpus.now}", device))
        case "release" if gpus.holders:
            gpus.holders.remove(data.draw(st.sampled_from(gpus.holders)))
        case "lose" if gpus.holders:
            gpus.gone.add(data.draw(st.sampled_from(gpus.holders)).claim)
        case "offer":
            index = data.draw(st.integers(0, len(gpus.gpus) - 1))
            gpus.gpus[index] = beside(data.draw(offered_gpus), gpus.gpus[index].gpu.slot)
        case "approve":
            gpus.approved = {device for gpu in GPUS for slot in range(3) for device in names_of(beside(gpu, slot))}
        case "refuse":
            gpus.approved = set()
        case "forget":
            gpus.publications = {}
        case "move":
            gpus.moved_to = data.draw(st.sampled_from(["n1", "n1/a", "n1/b"]))
    gpus.look()


def names_of(gpu: OfferedGpu) -> Iterable[str]:
    return (option.device for option in menu(gpu))


@st.composite
def histories(draw: st.DrawFn) -> list[str]:
    return draw(st.lists(events, max_size=25))


@given(st.lists(offered_gpus, min_size=1, max_size=3), histories(), st.data())
def test_whatever_happened_what_is_published_is_not_written_again(
    gpus: list[OfferedGpu], history: list[str], data: st.DataObject
) -> None:
    """A round that changes nothing in the world changes nothing on disk or in the API."""
    some = node(*(beside(gpu, slot) for slot, gpu in enumerate(gpus)))
    for event in history:
        happen(some, event, data)
    # A claim that was found to have lost its device is asked about anew: that is a change of what is known.
    some.gone.clear()
    # It closes, is withdrawn if that is approved, has gone, and appears where it belongs.
    for _ in range(4):
        some.look()
    before = dict(some.publications)
    some.look()
    assert some.publications == before


@given(st.lists(offered_gpus, min_size=1, max_size=3), histories(), st.data())
def test_whatever_happened_a_release_only_adds(gpus: list[OfferedGpu], history: list[str], data: st.DataObject) -> None:
    some = node(*(beside(gpu, slot) for slot, gpu in enumerate(gpus)))
    for event in history:
        happen(some, event, data)
    before = {slot: publication.devices for slot, publication in some.publications.items() if publication}
    some.approved.clear()
    some.release()
    for slot, publication in some.publications.items():
        assert publication is not None
        assert before[slot] <= publication.devices


@given(st.lists(offered_gpus, min_size=1, max_size=3), histories(), st.data())
def test_whatever_happened_what_is_held_stays_published(
    gpus: list[OfferedGpu], history: list[str], data: st.DataObject
) -> None:
    some = node(*(beside(gpu, slot) for slot, gpu in enumerate(gpus)))
    for event in history:
        happen(some, event, data)
        published = {
            entry.device for publication in some.publications.values() if publication for entry in publication.entries
        }
        assert {holder.device for holder in some.holders if holder.claim not in some.gone} <= published


@given(st.lists(offered_gpus, min_size=1, max_size=3), histories(), st.data())
def test_the_record_survives_the_disk(gpus: list[OfferedGpu], history: list[str], data: st.DataObject) -> None:
    some = node(*(beside(gpu, slot) for slot, gpu in enumerate(gpus)))
    for event in history:
        happen(some, event, data)
    adapter = TypeAdapter(Publication)
    for publication in some.publications.values():
        assert publication is not None
        assert adapter.validate_json(adapter.dump_json(publication, by_alias=True)) == publication


def test_times_are_parameters() -> None:
    gpu = node(SHARES)
    gpu.prepare(SHARE)
    [plan] = narrow(gpu.views(), now=gpu.now, timing=Timing(patience=0))
    assert shown(plan.publication) == listed(f"{WHOLE} closing", SHARE)


def test_all_placements_of_a_real_gpu() -> None:
    h100 = OfferedGpu(
        gpu=board("H100-80GB"),
        offers=EVERYTHING.offers.model_copy(
            update={
                "mig": EVERYTHING.offers.mig
                and EVERYTHING.offers.mig.model_copy(update={"profiles": ("1g.10gb", "3g.40gb")})
            }
        ),
        policy=EVERYTHING.policy,
        configured=True,
    )
    gpu = node(h100)
    gpu.prepare("gpu-0-mig-1g10gb-19-6")
    gpu.wait(MINUTE)
    gpu.wait(MINUTE)
    left = {of_device(h100.gpu, entry.device).device for entry in (gpu.publications[0] or Publication(pool="")).entries}
    assert left == {f"gpu-0-mig-1g10gb-19-{start}" for start in range(7)} | {"gpu-0-mig-3g40gb-9-0"}


def test_devices_of_another_slot_are_ignored() -> None:
    """Records of slots were lost, and everything still speaks of the GPU by its old one."""
    [view] = Node([EVERYTHING]).views()
    [clean] = narrow([view], now=1000.0)
    foreign = frozenset({"gpu-1", "gpu-1-mig-1g40gb-19-0", "what"})
    published = Publication(pool="n1", entries=tuple(Entry(device=device, policy="p") for device in sorted(foreign)))
    named = replace(
        view,
        found=foreign,
        allocated=foreign,
        close_approved=foreign,
        prepared=tuple(Holder("c", device) for device in sorted(foreign)),
    )
    [plan] = narrow([named], now=1000.0)
    assert replace(plan, ignored=()) == clean
    assert plan.ignored == tuple(sorted(foreign))
    [plan] = narrow([replace(named, published=published)], now=1000.0)
    assert plan.ignored == tuple(sorted(foreign))
    assert plan.publication.devices == clean.publication.devices


WHOLE_1, SHARE_1, SHARE_2 = "gpu-0r1", "gpu-0r1-timeslicing", "gpu-0r2-timeslicing"


def test_what_was_withdrawn_lately_is_offered_under_another_name() -> None:
    gpu = node(WHOLE_ONLY)
    gpu.gpus, gpu.closed_names = [SHARES], (SHARE,)
    gpu.look()
    assert gpu.published() == listed(WHOLE, SHARE_1)
    # An hour later the guard has forgotten it: nothing has to be written because of that.
    gpu.closed_names = ()
    gpu.look()
    assert (gpu.published(), gpu.writes) == (listed(WHOLE, SHARE_1), 2)
    # The next time the first name is free again.
    gpu.closed_names = (SHARE_1,)
    gpu.look()
    assert gpu.published() == listed(WHOLE, SHARE, f"{SHARE_1} closing")


def test_a_gpu_that_comes_back_to_a_pool_has_other_names_there() -> None:
    gpu = node(SHARES)
    gpu.moved_to = "n1/p"
    gpu.look()
    gpu.approved = {WHOLE, SHARE}
    gpu.look()
    gpu.approved = set()
    gpu.look()
    gpu.moved_to, gpu.closed_names = "n1", ("0",)
    gpu.look()
    # In the pool that it leaves, nothing is offered any more, and names are no matter.
    assert gpu.published() == listed(f"{WHOLE} closing", f"{SHARE} closing")
    gpu.approved = {WHOLE, SHARE}
    gpu.look()
    gpu.approved = set()
    gpu.look()
    assert gpu.published() == listed(WHOLE_1, SHARE_1)


def test_what_is_offered_again_before_it_was_withdrawn_is_there_under_both_names() -> None:
    gpu = node(SHARES)
    gpu.gpus = [WHOLE_ONLY]
    gpu.look()
    assert gpu.published() == listed(WHOLE, f"{SHARE} closing")
    gpu.gpus, gpu.closed_names = [SHARES], (SHARE,)
    gpu.look()
    assert gpu.published() == listed(WHOLE, SHARE_1, f"{SHARE} closing")
    gpu.approved = {SHARE}
    gpu.look()
    assert gpu.published() == listed(WHOLE, SHARE_1)


def test_a_name_that_is_closed_is_not_waited_with() -> None:
    """The agent had published it again before it knew: nobody can get it, so nobody is disturbed."""
    gpu = node(SHARES)
    gpu.closed_names = (SHARE,)
    gpu.look()
    assert gpu.published() == listed(WHOLE, SHARE_1, f"{SHARE} closing")


def test_clients_come_to_those_who_hold_the_device_by_whichever_name() -> None:
    gpu = node(SHARES)
    gpu.closed_names = (SHARE,)
    gpu.look()
    gpu.closed_names = ()
    gpu.prepare(SHARE)
    gpu.wait(MINUTE)
    gpu.wait(MINUTE)
    assert gpu.published() == SHARE
    gpu = node(SHARES)
    gpu.closed_names = (SHARE,)
    gpu.look()
    gpu.prepare(SHARE_1)
    gpu.wait(MINUTE)
    gpu.wait(MINUTE)
    assert gpu.published() == SHARE_1


def test_an_agent_that_knows_nothing_any_more_goes_on_with_the_names_that_others_know() -> None:
    for known in ({"found": frozenset({WHOLE, SHARE_2})}, {"allocated": {SHARE_2}}):
        gpu = Node([SHARES], found_in="n1", closed_names=(SHARE, SHARE_1), **known)
        gpu.look()
        assert gpu.published() == listed(WHOLE, SHARE_2)


@pytest.mark.parametrize("model", ALL)
def test_no_slice_becomes_too_large_by_other_names(model: str) -> None:
    """What has no room comes when the former names have gone."""
    gpu = node(everything(model))
    count = len(gpu.published().split(", "))
    for revision in range(3):
        gpu.closed_names = tuple(f"0r{one}" if one else "0" for one in range(revision + 1))
        gpu.look()
        assert count < len(gpu.published().split(", ")) <= 64
    gpu.approved = {name.partition(" ")[0] for name in gpu.published().split(", ") if " closing" in name}
    gpu.look()
    gpu.approved = set()
    gpu.look()
    names_now = gpu.published().split(", ")
    assert len(names_now) == count
    assert not any(names.is_covered(name, gpu.closed_names) for name in names_now)


def everything(model: str) -> OfferedGpu:
    """All that a GPU of this model can be."""
    some = board(model, 0)
    profiles = tuple(profile.name for profile in some.mig.profiles) if some.mig else None
    offers = EVERYTHING.offers.model_copy(update={"mig": MigOffer(profiles=profiles) if profiles else None})
    return replace(EVERYTHING, gpu=some, offers=offers, mig_enabled=False)
