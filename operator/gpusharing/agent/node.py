"""The agent of one node: a level-triggered loop from the operator's word to what is published, set and reported."""

import asyncio
import math
import random
from collections import Counter
from typing import Final

import structlog

from gpusharing.agent.claim_status import ClaimStatusWriter
from gpusharing.agent.dra.health import HealthService
from gpusharing.agent.gpus import NodeGpus
from gpusharing.agent.hardware.errors import HardwareError
from gpusharing.agent.health import NodeHealth
from gpusharing.agent.health_events import HealthEvents
from gpusharing.agent.prepare import Preparer
from gpusharing.agent.publisher import Publisher, owner
from gpusharing.agent.records import Records
from gpusharing.agent.report import node_status
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.survey import Survey
from gpusharing.agent.verdicts import Verdicts
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.core.publishing.narrowing import Answers, GpuPlan, Holder
from gpusharing.kube.clock import now, seconds_since_boot
from gpusharing.kube.kinds import NODE_SHARINGS
from gpusharing.kube.reflector import Reflector
from gpusharing.kube.transport import Api, ApiError, UnreachableError
from gpusharing.kube.watches import Watches

log = structlog.get_logger(__name__)

# Many events of one cause (a kubelet that deletes its slices, say) are one round.
_COALESCE: Final = 0.02
# A node on which many pods start at once reports so often, not for each of them.
_REPORT_EVERY: Final = 0.25
_FIRST_BACKOFF: Final = 0.2
_LAST_BACKOFF: Final = 15.0


class NodeLoop:
    def __init__(
        self,
        *,
        node: str,
        driver: str,
        api: Api,
        records: Records,
        gpus: NodeGpus,
        settler: Settler,
        health: NodeHealth,
        health_events: HealthEvents,
        writer: ClaimStatusWriter,
        stream: HealthService,
        survey: Survey,
        changed: asyncio.Event,
        preparer: Preparer,
        verdicts: Verdicts,
        watches: Watches,
    ) -> None:
        self._node = node
        self._api = api
        self._records = records
        self._gpus = gpus
        self._settler = settler
        self._health = health
        self._health_events = health_events
        self._writer = writer
        self._stream = stream
        self._survey = survey
        self._preparer = preparer
        self._verdicts = verdicts
        self._changed = changed
        self._sharings: Reflector[NodeSharing] = Reflector(
            api, NODE_SHARINGS, watches=watches, on_change=self._heard, field_selector=f"metadata.name={node}"
        )
        self.rounds = Counter(succeeded=0, failed=0)
        self._reported = -math.inf
        self._alarm: asyncio.TimerHandle | None = None
        self._publisher = Publisher(
            api=api,
            node=node,
            driver=driver,
            records=records,
            gpus=gpus,
            health=health,
            watches=watches,
            on_change=changed.set,
        )

    @property
    def publisher(self) -> Publisher:
        return self._publisher

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._sharings.run_through_restores())
            tasks.create_task(self._publisher.slices.run_through_restores())
            await self._sharings.synced.wait()
            await self._publisher.slices.synced.wait()
            await self._loop()

    def _heard(self) -> None:
        """Prepare waits for verdicts, also while a round takes its time."""
        sharing = self._sharings.get(self._node)
        self._verdicts.told(sharing.spec.claims if sharing else ())
        self._changed.set()

    async def _loop(self) -> None:
        backoff = _FIRST_BACKOFF
        while True:
            self._changed.clear()
            try:
                await self._round()
                self.rounds["succeeded"] += 1
                backoff = _FIRST_BACKOFF
            except (ApiError, UnreachableError, HardwareError, OSError) as error:
                self.rounds["failed"] += 1
                log.warning("round failed", error=str(error), retry_in=backoff)
                asyncio.get_running_loop().call_later(backoff * random.uniform(0.5, 1.5), self._changed.set)  # noqa: S311
                backoff = min(2 * backoff, _LAST_BACKOFF)
            await self._changed.wait()
            await asyncio.sleep(_COALESCE)

    async def _round(self) -> None:
        sharing = await self._own_sharing()
        self._gpus.told(sharing.spec.gpus)
        if self._records.lost_claims:
            told = {claim.uid: claim.claim for claim in sharing.spec.claims}
            told |= {claim.uid: claim.claim for claim in sharing.status.claims}
            await self._preparer.readopt(told)
        # Asked without the gate, which a slow API server would keep from pods that start.
        answers = await self._answers(self._plan({}))
        async with self._preparer.gate:
            plans = self._plan(answers)
            self._gpus.put_in_force(plans)
            self._preparer.follow()
            await self._settler.settle_all({*self._gpus.uuids, *self._records.changed_gpus} - self._health.lost)
            if await self._settler.rest_all(set(self._gpus.uuids) - self._health.lost):
                # What is there now is offered in the next round.
                await self._survey.take()
                self._changed.set()
        self._stream.tell()
        self._look_again_at(min((self._health.changes_at, *(plan.look_again for plan in plans))))
        await self._publisher.publish()
        self._writer.follow(self._records.claims.values())
        await self._report(sharing)

    def _plan(self, answers: Answers) -> list[GpuPlan]:
        return self._gpus.plan(shown=self._publisher.shown(), now=seconds_since_boot(), answers=answers)

    async def _answers(self, plans: list[GpuPlan]) -> Answers:
        """Whether claims that exclude what is to be withdrawn still hold what they held. No answer is none."""
        answers: dict[Holder, bool] = {}
        while asked := {holder for plan in plans for holder in plan.confirm} - answers.keys():
            for holder in asked:
                try:
                    answers[holder] = await self._preparer.still_holds(holder)
                except (ApiError, UnreachableError) as error:
                    log.warning("claim cannot be read", claim_uid=holder.claim, error=str(error))
                    return answers
            plans = self._plan(answers)
        return answers

    def _look_again_at(self, moment: float) -> None:
        if self._alarm:
            self._alarm.cancel()
            self._alarm = None
        if moment < math.inf:
            delay = max(0, moment - seconds_since_boot())
            self._alarm = asyncio.get_running_loop().call_later(delay, self._changed.set)

    async def _own_sharing(self) -> NodeSharing:
        sharing = self._sharings.get(self._node)
        if sharing is not None:
            return sharing
        body = {"metadata": {"name": self._node, "ownerReferences": [await owner(self._api, self._node)]}, "spec": {}}
        async with self._sharings.believing(self._node):
            sharing = await self._api.create(NODE_SHARINGS, body)
        self._sharings.put(sharing)
        return sharing

    async def _report(self, sharing: NodeSharing) -> None:
        loop = asyncio.get_running_loop()
        wait = self._reported + _REPORT_EVERY - loop.time()
        if wait > 0:
            loop.call_later(wait, self._changed.set)
            return
        status = await node_status(
            sharing, gpus=self._gpus, records=self._records, settler=self._settler, health=self._health, now=now()
        )
        if status == sharing.status:
            return
        self._reported = loop.time()
        patch = {"status": status.to_json()}
        name = sharing.metadata.name
        async with self._sharings.believing(name):
            self._sharings.put(await self._api.merge_patch(NODE_SHARINGS, name, patch, subresource="status"))
        self._health_events.tell(sharing, status)
