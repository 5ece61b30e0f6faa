"""Claims come, are prepared, and go: steps of scheduler and kubelet."""

from agent.histories import verdicts
from agent.histories.containers import Container
from agent.histories.control_plane import View
from agent.histories.wishes import KINDS, Kind
from agent.histories.world import Claim, Violation, World
from gpusharing.agent.claims.reading import PrepareError
from gpusharing.api.dra import AllocationResult
from gpusharing.core.publishing.narrowing import Timing
from gpusharing.sim.errors import SimError

# A scheduler that is later than that, the agent does not count with.
_LATEST = Timing().taken - 1


class Kubelet(World):
    async def comes(self, kind: int, choice: int, late: int) -> None:
        self._new_claim(kind, choice, late)

    async def comes_and_starts(self, kind: int, choice: int) -> None:
        if claim := self._new_claim(kind, choice, 0):
            await self._prepare(claim, start=True)

    async def prepares(self, number: int, start: int) -> None:
        if claim := self.claim(number):
            await self._prepare(claim, start=start % 3 > 0)

    async def unprepares(self, number: int) -> None:
        if claim := self.claim(number):
            await self.unprepare(claim)

    async def ends(self, number: int) -> None:
        """The pod, and its claim with it."""
        if (claim := self.claim(number)) and await self.unprepare(claim):
            self.server.claims.pop(claim.uid, None)
            del self.claims[claim.uid]

    async def is_deleted_by_force(self, number: int) -> None:
        """The claim goes at once; the kubelet hears of it later."""
        if claim := self.claim(number):
            self.server.claims.pop(claim.uid, None)
            if not claim.asked:
                del self.claims[claim.uid]

    async def is_allocated_anew(self, number: int, choice: int) -> None:
        """Under the same uid, while the kubelet has not given it back."""
        claim = self.claim(number)
        if claim and claim.uid in self.server.claims:
            claim.end_container()
            claim.acked = False
            self.server.put_claim(claim.uid, (), ())
            claim.results = self._allocated(claim.kind, choice, 0)
            self.server.put_claim(claim.uid, claim.results, claim.kind.configs)

    async def stranger_is_unprepared(self) -> None:
        if await self.up():
            assert self.agent
            calm = self.is_calm
            if await self.attempt(self.agent.unprepare("stranger")) and calm:
                raise Violation("what nobody knows cannot be given back")

    async def unprepare(self, claim: Claim) -> bool:
        """Whether it was given back. Before that its containers have ended."""
        claim.end_container()
        if not await self.up():
            return False
        assert self.agent
        claim.acked = False
        calm = self.is_calm
        error = await self.attempt(self.agent.unprepare(claim.uid))
        if error is None:
            claim.asked = claim.forgotten = False
            return True
        if calm:
            raise Violation(f"{claim.uid} cannot be given back: {error}")
        return False

    async def _prepare(self, claim: Claim, *, start: bool) -> None:
        if not await self.up():
            return
        assert self.agent
        claim.asked = True
        if claim.forgotten:
            # The agent has ended what it could not know of any more, and begins anew.
            claim.end_container()
        expected = verdicts.expected(self, claim)
        self.note(f"  {claim.uid} ({claim.kind.name}: {', '.join(one.device for one in claim.results)})")
        error = await self.attempt(self.agent.prepare(claim.uid))
        if isinstance(error, PrepareError):
            expected.refused(str(error))
        elif error is None:
            expected.prepared()
            claim.acked = True
            claim.forgotten = False
            if start:
                self._start(claim)

    def _start(self, claim: Claim) -> None:
        claim.end_container()
        try:
            claim.container = Container(self.bed, claim.uid, claim.results, real=self.real_clients)
        except (SimError, KeyError) as error:
            # Others have taken from it what it was given.
            gpus = [self.gpus[self.uuid_of(one.device)] for one in claim.held]
            if not self.lasting and not any(gpu.spoiled or gpu.changed for gpu in gpus):
                raise Violation(f"a container of {claim.uid} cannot begin: {error}") from error

    def _new_claim(self, kind: int, choice: int, late: int) -> Claim | None:
        wanted = KINDS[kind % len(KINDS)]
        results = self._allocated(wanted, choice, late)
        if not results:
            return None
        uid = f"claim-{self.made}"
        self.claims[uid] = Claim(uid, wanted, results)
        self.server.put_claim(uid, results, wanted.configs)
        self.note(f"  {uid} ({wanted.name}): {', '.join(one.device for one in results)}")
        return self.claims[uid]

    def _allocated(self, kind: Kind, choice: int, late: int) -> tuple[AllocationResult, ...]:
        views = self._recent_views()
        if not views:
            return ()
        self.made += 1
        late %= len(views)
        self.seen_late = self.seen_late or late > 0
        view = views[-1 - late]
        results: list[AllocationResult] = []
        for number, wish in enumerate(kind.wishes):
            choices = view.choices(wish, [*self.server.results(), *(one for one in results if not one.admin_access)])
            if not choices:
                return ()
            chosen = choices[choice % len(choices)]
            share = f"share-{self.made}-{number}" if chosen.consumed_capacity else None
            results.append(named(chosen, request=f"r{number}", share=share))
        if not self.seen_late:
            verdicts.require_one_way(self, results)
        return tuple(results)

    def _recent_views(self) -> list[View]:
        """What the API has had within the time that a scheduler may be late, the last of it last."""
        ends = [*(began for began, _ in self.views[1:]), float("inf")]
        pairs = zip(ends, self.views, strict=False)
        return [view for end, (_, view) in pairs if end > self.clock.now - _LATEST]


def named(result: AllocationResult, *, request: str, share: str | None) -> AllocationResult:
    return AllocationResult(
        request=request,
        driver=result.driver,
        pool=result.pool,
        device=result.device,
        admin_access=result.admin_access,
        share_id=share,
        consumed_capacity=result.consumed_capacity,
    )
