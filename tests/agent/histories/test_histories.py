"""Claims come and go, things go wrong, agents are killed: what must hold, holds in every random history.

`make histories N=2000 SEED=7` lives through more of them.
"""

import datetime as dt
from typing import Any, Final
from unittest import mock

import pytest

from agent.histories.histories import Step, lives, report, search
from agent.histories.wishes import KINDS
from gpusharing.agent.claims import conflicts
from gpusharing.agent.claims.files import ClaimFiles
from gpusharing.agent.containers import cdi
from gpusharing.agent.containers.cdi import CdiDirectory
from gpusharing.agent.settling.mig import Mig
from gpusharing.agent.settling.mps import Mps
from gpusharing.agent.settling.settings import Settings
from gpusharing.agent.state.models import GpuJournal
from gpusharing.agent.state.records import Records
from gpusharing.core.publishing.narrowing import GpuView

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_histories_that_are_always_the_same() -> None:
    assert (found := search(120, seed=1)) is None, found


def test_histories_of_today() -> None:
    seed = dt.datetime.now(dt.UTC).date().toordinal()
    assert (found := search(30, seed)) is None, found


def kind(name: str) -> int:
    return next(number for number, kind in enumerate(KINDS) if kind.name == name)


BEGIN: Final = [Step("agent_looks", ()), Step("operator_speaks", (0,))]
# Small steps to what was wrong once.
FOUND: Final = {
    "compute mode of a GPU that was looked at while it was cut": [
        Step("comes_and_starts", (kind("1g"), 0)),
        Step("agent_rescans", ()),
        Step("ends", (0,)),
        Step("comes_and_starts", (kind("MPS"), 0)),
    ],
    "overlapping instances": [
        Step("comes_and_starts", (kind("2g"), 0)),
        Step("is_deleted_by_force", (0,)),
        *(Step("comes_and_starts", (kind("1g"), place)) for place in range(7)),
    ],
    "a policy allows MPS clients less than one has": [
        Step("comes_and_starts", (kind("large MPS"), 0)),
        Step("operator_speaks", (2,)),
        Step("comes_and_starts", (kind("MPS"), 0)),
    ],
    "a policy allows MPS clients less than one was allocated": [
        Step("comes_and_starts", (kind("large MPS"), 0)),
        Step("operator_speaks", (2,)),
        Step("unprepares", (0,)),
        Step("prepares", (0, 0)),
    ],
    "a GPU that was lost while the agent was away": [
        Step("comes_and_starts", (kind("two whole"), 0)),
        Step("gpu_is_lost", (0,)),
        Step("agent_is_killed", ()),
        Step("unprepares", (0,)),
    ],
    "an interval that could not be restored": [
        Step("comes_and_starts", (kind("share"), 1)),
        Step("next_fails", (0,)),
        Step("ends", (0,)),
        Step("comes_and_starts", (kind("whole, MPS"), 1)),
        Step("agent_looks", ()),
    ],
    "what failed while claims of before the boot were recovered": [
        Step("comes_and_starts", (kind("whole"), 0)),
        Step("comes_and_starts", (kind("whole, MPS"), 0)),
        Step("node_reboots", ()),
        Step("state_is_lost", ()),
        Step("mps_does_not_start", ()),
        Step("agent_looks", ()),
        Step("all_heals", ()),
        Step("agent_looks", ()),
    ],
    "slots of GPUs that were seen, and whose records were lost": [
        Step("file_is_damaged", (2, 3)),
        Step("file_is_damaged", (0, 0)),
        *(Step("comes_and_starts", (kind("whole"), 0)) for _ in range(3)),
    ],
    "a full disk when the state is recovered": [
        Step("comes_and_starts", (kind("whole"), 0)),
        Step("state_is_lost", ()),
        Step("disk_is_full", ()),
        Step("agent_looks", ()),
        Step("all_heals", ()),
        Step("agent_looks", ()),
    ],
    "a claim's file that could not be written, and was": [
        Step("next_fails", (1,)),
        Step("comes_and_starts", (kind("whole"), 0)),
    ],
    "a claim that ended before the lost state was recovered, and nobody but the killed agent knew": [
        *(Step("comes_and_starts", (kind("whole"), 0)) for _ in range(2)),
        Step("state_is_lost", ()),
        Step("unprepares", (0,)),
        Step("agent_is_killed", ()),
        Step("agent_rescans", ()),
    ],
    "a setting that is restored by the round after the one that recovers the other claims": [
        Step("operator_restricts", (1, 1)),
        Step("comes_and_starts", (kind("whole"), 0)),
        Step("comes_and_starts", (kind("whole, MPS"), 0)),
        Step("state_is_lost", ()),
        Step("unprepares", (1,)),
        Step("agent_rescans", ()),
    ],
}


@pytest.mark.parametrize("what", FOUND)
def test_what_was_wrong_once(what: str) -> None:
    with lives() as alive:
        history = [*BEGIN, *FOUND[what]]
        outcome = alive.live(history)
        assert outcome.error is None, report(0, 0, history, outcome)


async def nothing(*_: Any) -> None:
    pass


def in_memory_only(records: Records, uuid: str, journal: GpuJournal) -> None:
    records._journals[uuid] = journal


end_mps = Mps.end


async def end_all(mps: Mps, uuid: str) -> None:
    wanted = mps._wanted

    def by_some(claims: Any = None) -> Any:
        return wanted(claims) if claims else {}

    with mock.patch.object(mps, "_wanted", by_some):
        await end_mps(mps, uuid)


NAIVE: Final[dict[str, tuple[Any, str, Any]]] = {
    "does not look who holds a GPU": (conflicts, "refuse_held", lambda *_: None),
    "leaves settings as they are": (Settings, "_restore", nothing),
    "leaves instances as they are": (Mig, "shrink", nothing),
    "leaves MPS daemons running": (Mps, "end", nothing),
    "ends MPS daemons under their clients": (Mps, "end", end_all),
    "keeps its journal to itself": (Records, "put_journal", in_memory_only),
    "takes a GPU to another pool at once": (GpuView, "is_moving", property(lambda _: False)),
    "leaves CDI specs": (CdiDirectory, "delete", lambda *_: None),
    "does not look where NVIDIA's CDI specs lead": (cdi, "_others", lambda *_: []),
    "takes CDI specs without a record for leftovers": (ClaimFiles, "claims_of", lambda *_: set()),
    "believes claims of before the boot": (Records, "claims", property(lambda records: records.all_claims)),
}


# Where a history that finds it out is not among the first, some before it. If they change, others that follow find it.
SHORTLY_BEFORE: Final = {
    "does not look who holds a GPU": 215,
    "takes a GPU to another pool at once": 55,
    "does not look where NVIDIA's CDI specs lead": 275,
    "takes CDI specs without a record for leftovers": 20,
    "believes claims of before the boot": 35,
}


@pytest.mark.parametrize("fault", NAIVE)
def test_an_agent_with_a_fault_is_found_out(fault: str) -> None:
    of, method, naive = NAIVE[fault]
    with mock.patch.object(of, method, naive):
        first = SHORTLY_BEFORE.get(fault, 0)
        assert search(200, seed=2, first=first, shorten=False) is not None
