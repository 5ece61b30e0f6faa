"""A short run of faults on a real node; and violations that are planted there are found, as `make chaos` would."""

import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from agent.on_cluster import Admin
from chaos.churn import STRANGERS, Witness
from chaos.faults import FAULTS
from chaos.invariants import Invariant, Violation
from chaos.run import Run, chaos_cluster
from gpusharing.sim import ComputeMode
from harness.eventually import eventually

SEED: Final = 4
PATIENCE: Final = 4.0
# Each is over within seconds. `make chaos` has all.
SHORT_RUN: Final = (
    "agent killed",
    "MPS servers killed",
    "CDI specs removed",
    "state torn",
    "kubelet killed",
    "state lost",
    "power cut",
)

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.node,
    pytest.mark.timeout(900),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def run(toolchain: Path) -> AsyncIterator[Run]:
    async with chaos_cluster() as cluster, Admin(cluster) as admin:
        run = Run(cluster, admin, seed=SEED, patience=PATIENCE)
        await run.churn.prepare()
        yield run


async def _ends_its_program(run: Run, witness: Witness) -> None:
    run.scene.kill(witness)


async def _changes_its_compute_mode(run: Run, witness: Witness) -> None:
    assert witness.gpu
    run.scene.sim.set_compute_mode(witness.gpu, ComputeMode.PROHIBITED)


async def _gives_it_another_node(run: Run, witness: Witness) -> None:
    """In NVIDIA's CDI file, and lets its container start again."""
    etc, _ = run.scene.cluster.node.cdi_dirs
    (spec,) = etc.iterdir()
    mine = next(gpu.minor for gpu in run.scene.sim.gpus() if gpu.uuid == witness.gpu)
    spec.write_text(spec.read_text().replace(f'"/dev/nvidia{mine}"', f'"/dev/nvidia{mine - 1 if mine else 1}"'))
    run.scene.may_end(lambda other: other is witness)
    run.scene.kill(witness)


async def _says_that_a_stranger_has_it(run: Run, witness: Witness) -> None:
    record = next(path for path in (run.scene.state / "claims").iterdir() if witness.name in path.read_text())
    envelope = json.loads(record.read_bytes())
    envelope["content"]["namespace"] = STRANGERS
    record.with_name("planted.json").write_text(json.dumps(envelope))


Plant = Callable[[Run, Witness], Awaitable[None]]


@pytest.mark.parametrize(
    ("plant", "invariant"),
    [
        (_ends_its_program, Invariant.OWN_GPU),
        (_changes_its_compute_mode, Invariant.ONE_MODE),
        (_gives_it_another_node, Invariant.OWN_GPU),
        (_says_that_a_stranger_has_it, Invariant.DENIED),
    ],
)
async def test_a_planted_violation_is_found(run: Run, plant: Plant, invariant: Invariant) -> None:
    witness = await run.churn.begin("whole")

    async def works() -> None:
        run.judge(await run.look())
        assert witness.program

    await eventually(works)
    found: list[Violation] = []

    async def is_found() -> None:
        try:
            run.judge(await run.look())
        except Violation as violation:
            found.append(violation)
        assert found

    # Who might mend it at once is away.
    async with run.programs.down("agent"):
        await plant(run, witness)
        await eventually(is_found)
        assert found[0].invariant is invariant
        (run.scene.state / "claims" / "planted.json").unlink(missing_ok=True)
        run.scene.renew_cdi()
        for gpu in run.scene.sim.gpus():
            run.scene.sim.set_compute_mode(gpu.uuid, ComputeMode.DEFAULT)
    run.scene.may_end(lambda _: True)
    await run.churn.end(witness)
    await run.nothing_is_left()


async def test_a_planted_leftover_is_found(run: Run) -> None:
    _, cdi = run.scene.cluster.node.cdi_dirs
    planted = cdi / "gpusharing.dev-claim_planted.json"
    planted.write_text("{}")
    assert [str(planted)] == await run.left()
    planted.unlink()
    gpu = run.scene.sim.gpus()[0]
    run.scene.sim.set_compute_mode(gpu.uuid, ComputeMode.PROHIBITED)
    assert len(await run.left()) == 1
    run.scene.sim.set_compute_mode(gpu.uuid, gpu.compute_mode)
    assert await run.left() == []


async def test_a_short_run(run: Run) -> None:
    """Last: after a violation, the node is in no state for other tests."""
    await run.go((FAULTS[name], random.Random(f"{SEED}/{name}")) for name in SHORT_RUN)  # noqa: S311
