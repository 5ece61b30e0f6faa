"""The agent of one node: a level-triggered loop from the operator's word to what is published, set and reported."""

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

import structlog

from gpusharing.agent.claims.recovery import ClaimRecovery
from gpusharing.agent.claims.status import ClaimStatusWriter
from gpusharing.agent.claims.verdicts import Verdicts
from gpusharing.agent.health.events import HealthEvents
from gpusharing.agent.health.false_alarms import FalseAlarms
from gpusharing.agent.health.node_health import NodeHealth
from gpusharing.agent.inspection.survey import Survey
from gpusharing.agent.kubelet.health_stream import HealthService
from gpusharing.agent.problems import Problem
from gpusharing.agent.publishing.instance_uuids import InstanceUuids
from gpusharing.agent.publishing.node_gpus import NodeGpus
from gpusharing.agent.publishing.other_drivers import OtherDrivers
from gpusharing.agent.publishing.publisher import Publisher, owner
from gpusharing.agent.publishing.report import Described, describe_node, with_conditions
from gpusharing.agent.settling.settler import Settler
from gpusharing.agent.start import Start
from gpusharing.agent.state.records import Records
from gpusharing.agent.steps import Steps
from gpusharing.api.sharing.node_sharing import NodeSharing
from gpusharing.api.sharing.node_spec import NodeSharingSpec
from gpusharing.core.publishing.narrowing import Answers, GpuPlan, Holder
from gpusharing.kube.clock import now, seconds_since_boot
from gpusharing.kube.kinds import NODE_SHARINGS
from gpusharing.kube.reflector import Reflector
from gpusharing.kube.transport import Api, ApiError, UnreachableError
from gpusharing.kube.watches import Watches

log = structlog.get_logger(__name__)

# In seconds. So long nothing has to happen before a round begins.
_COALESCE: Final = 0.02
# It begins then, whatever happens.
_WAITS_FOR_CALLS: Final = 0.25
# A node on which many pods start at once reports so often, not for each of them. One with many claims has more to say
# each time: reports take so much of the agent's time, and wait no longer than the last of these.
_REPORT_EVERY: Final = 0.25
_REPORTING: Final = 0.05
_REPORT_AT_LEAST_EVERY: Final = 2.0
_REPORT_PROBLEMS_EVERY: Final = 5.0
# What takes longer goes on while the round does.
_SETTLED_WITHIN: Final = 1.0


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
        steps: Steps,
        problems: Callable[[], Sequence[Problem]],
        is_registered: Callable[[], bool],
        calls: Callable[[], int],
        survey: Survey,
        changed: asyncio.Event,
        start: Start,
        recovery: ClaimRecovery,
        verdicts: Verdicts,
        watches: Watches,
        others: OtherDrivers,
    ) -> None:
        """`problems`: what keeps the agent from its work. `is_registered`: whether the kubelet knows the driver.
        `calls`: grows with each call of the kubelet that begins or ends."""
        self._node = node
        self._api = api
        self._records = records
        self._gpus = gpus
        self._settler = settler
        self._health = health
        self._health_events = health_events
        self._false_alarms = FalseAlarms(health, health_events, uuid_at=gpus.uuid_at)
        self._writer = writer
        self._stream = stream
        self._steps = steps
        self._problems = problems
        self._calls = calls
        self._survey = survey
        self._start = start
        self._recovery = recovery
        self._verdicts = verdicts
        self._changed = changed
        self._sharings: Reflector[NodeSharing] = Reflector(
            api, NODE_SHARINGS, watches=watches, on_change=self._take_in_sharing, field_selector=f"metadata.name={node}"
        )
        self.rounds = Counter(succeeded=0, failed=0)
        self._spec: NodeSharingSpec | None = None
        self._observed_generation: int | None = None
        """Of the last spec that was put in force."""
        self._reported = -math.inf
        self._report_took = 0.0
        """Of the processor."""
        self._report_at = math.inf
        self._alarm: asyncio.TimerHandle | None = None
        self._publisher = Publisher(
            api=api,
            node=node,
            driver=driver,
            records=records,
            gpus=gpus,
            health=health,
            uuids=InstanceUuids(records, health, patience=gpus.patience),
            steps=steps,
            watches=watches,
            others=others,
            is_registered=is_registered,
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

    def _take_in_sharing(self) -> None:
        """Prepare waits for verdicts, also while a round takes its time."""
        sharing = self._sharings.get(self._node)
        self._verdicts.told(sharing.spec.claims if sharing else ())
        if sharing and sharing.spec != self._spec:
            self._spec = sharing.spec
            # What failed for the last spec may work for this one.
            self._steps.retry_now()
        self._changed.set()

    async def _loop(self) -> None:
        while True:
            self._changed.clear()
            look_again = await self._steps.run("round", self._round)
            self._wake_at(min(math.inf if look_again is None else look_again, self._steps.retry_at))
            self.rounds["failed" if self._steps.have_failed else "succeeded"] += 1
            await self._changed.wait()
            await self._let_pods_start()

    async def _let_pods_start(self) -> None:
        """A round and a call of the kubelet at the same time would be slow both, and many events of one cause (a
        kubelet that deletes its slices, say) are one round."""
        latest = seconds_since_boot() + _WAITS_FOR_CALLS
        while True:
            before = self._calls()
            await asyncio.sleep(_COALESCE)
            if self._calls() == before or seconds_since_boot() >= latest:
                return

    async def _round(self) -> float:
        """From the operator's word to what is set, published and reported. Whatever fails, all else is done. Returns
        when there is more to do."""
        run = self._steps.run
        plans: Mapping[str, GpuPlan] = {}
        is_recorded = is_in_force = False
        sharing = await run("read NodeSharing", self._own_sharing)
        if sharing and self._start.gpus_known.is_set():
            await run("learn from the API", partial(self._learn, sharing))
        if not self._recovery.has_learned:
            # What the state directory may have lost is not known yet: nothing is decided without it.
            if sharing and self._problems():
                await self._report_in_time(sharing)
            return self._report_at
        if sharing:
            with self._steps.step("record decisions"):
                self._gpus.told(sharing.spec.gpus)
                is_recorded = True
            with self._steps.step("clear false alarms"):
                self._false_alarms.clear(sharing)
            await run("recover claims", partial(self._recovery.reconcile, sharing))
        # Before anything is changed, because a slow API server takes its time.
        confirmed = await run("confirm claims", self._confirmed_plans)
        # Without an await between the plan and what the records say: claims are prepared at the same time.
        with self._steps.step("decide what to publish"):
            plans = self._plan({}) if confirmed is None else confirmed
            is_in_force = await self._gpus.put_in_force(plans) and plans.keys() == set(self._gpus.uuids)
        await run("write records", self._gpus.remember)
        with self._steps.step("follow policies"):
            await self._recovery.follow()
        await run("set GPUs", self._settle)
        if sharing and self._records.lost_claims:
            # Where the state was lost, what GPUs offer is known only now.
            await run("recover claims", partial(self._recovery.readopt, sharing))
        await run("finish claims", self._recovery.finish)
        self._stream.tell()
        await self._publisher.publish()
        with self._steps.step("announce claims"):
            self._writer.follow(self._records.all_claims.values())
        if sharing:
            if is_recorded and is_in_force:
                self._observed_generation = sharing.metadata.generation
            await self._report_in_time(sharing)
        look_again = (plan.look_again for plan in plans.values())
        return min(self._health.changes_at, self._report_at, self._publisher.look_again, *look_again)

    def _plan(self, answers: Answers) -> Mapping[str, GpuPlan]:
        shown = self._publisher.shown()
        return self._steps.without_failing(
            "decide what to publish",
            self._gpus.uuids,
            lambda uuids: self._gpus.plan(uuids, shown=shown, now=seconds_since_boot(), answers=answers),
            kind="gpu",
        )

    async def _confirmed_plans(self) -> Mapping[str, GpuPlan]:
        """With what the API says of claims that exclude what is to be withdrawn: whether they still hold what they
        held. No answer is none. Nothing is awaited after the last plan."""
        answers: dict[Holder, bool] = {}
        while True:
            plans = self._plan(answers)
            asked = {holder for plan in plans.values() for holder in plan.confirm} - answers.keys()
            if not asked:
                return plans
            for holder in asked:
                try:
                    answers[holder] = await self._recovery.still_holds(holder)
                except (ApiError, UnreachableError) as error:
                    log.warning("claim cannot be read", claim_uid=holder.claim, error=str(error))
                    return self._plan(answers)

    async def _learn(self, sharing: NodeSharing) -> None:
        if not self._recovery.has_learned:
            slices = self._publisher.slices.objects
            await self._recovery.learn(sharing, slices, take_survey=self._survey.take)

    async def _settle(self) -> None:
        due = {*self._gpus.uuids, *self._records.changed_gpus} - self._health.lost
        if await self._settler.settle_due(due, within=_SETTLED_WITHIN):
            # What is there now is offered in the next round.
            await self._survey.take()
            self._changed.set()

    def _wake_at(self, moment: float) -> None:
        """One handle for whatever there is to wait for: many would add up while rounds fail."""
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

    async def _report_in_time(self, sharing: NodeSharing) -> None:
        self._report_at = math.inf
        earliest = self._reported + min(max(_REPORT_EVERY, self._report_took / _REPORTING), _REPORT_AT_LEAST_EVERY)
        if seconds_since_boot() < earliest:
            self._report_at = earliest
        else:
            began = time.thread_time()
            await self._steps.run("report", partial(self._report, sharing))
            self._report_took = time.thread_time() - began

    async def _describe(self, sharing: NodeSharing, moment: str) -> Described:
        return describe_node(
            sharing,
            observed_generation=self._observed_generation or sharing.status.observed_generation,
            gpus=self._gpus,
            records=self._records,
            settler=self._settler,
            health=self._health,
            now=moment,
        )

    async def _report(self, sharing: NodeSharing) -> None:
        self._health_events.about = sharing.metadata
        problems = self._problems()
        if problems:
            # Nobody tells when they are over.
            self._report_at = seconds_since_boot() + _REPORT_PROBLEMS_EVERY
        moment = now()
        # What is wrong with the agent is told also when the rest cannot be.
        described = None
        if self._recovery.has_learned:
            described = await self._steps.run("describe node", partial(self._describe, sharing, moment))
        status = with_conditions(sharing, described or Described(sharing.status), problems, self._records, now=moment)
        if status == sharing.status:
            return
        self._reported = seconds_since_boot()
        patch = {"status": status.to_json()}
        name = sharing.metadata.name
        async with self._sharings.believing(name):
            self._sharings.put(await self._api.merge_patch(NODE_SHARINGS, name, patch, subresource="status"))
        self._health_events.report_changes(sharing, status)
