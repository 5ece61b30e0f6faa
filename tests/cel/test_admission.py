"""What the real API server refuses when a DeviceClass is created, we refuse, and the other way round.

Gates matter here, unlike for the scheduler: lists as attributes are alpha in 1.37, and as long as DRAListTypeAttributes
is off, new objects may not walk over attributes nor ask what they include, although stored ones may.
"""

import json
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
import pytest_asyncio

from cel.oracle_process import Oracle
from gpusharing import cel
from gpusharing.kube import client_credentials
from gpusharing.kube.transport import open_session
from harness.controlplane import ControlPlane

pytestmark = pytest.mark.cluster

_LENGTH_LIMIT = 10 * 1024

FINE = (
    "true",
    'device.driver == "gpu.example.com"',
    'device.attributes["gpu.example.com"].model == "A100"',
    'device.attributes["gpu.example.com"]["model"].startsWith("A")',
    'device.attributes["gpu.example.com"].healthy',
    '!device.attributes["gpu.example.com"].healthy || device.allowMultipleAllocations',
    'device.attributes["gpu.example.com"].index in [0, 1, 2]',
    '"numa" in device.attributes["dra.net"] && device.attributes["dra.net"].numa == 1',
    'has(device.attributes["gpu.example.com"].model)',
    'device.attributes["gpu.example.com"].?index.orValue(-1) >= 0',
    'device.attributes[?"dra.net"].?numa.hasValue()',
    'device.attributes["gpu.example.com"].cuda.isGreaterThan(semver("8.0.0"))',
    'device.attributes["gpu.example.com"].cuda.compareTo(semver("v8", true)) >= 0',
    'device.attributes["gpu.example.com"].model.matches("^A[0-9]+")',
    'device.attributes["gpu.example.com"].`model` == "A100"',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("16Gi")) >= 0',
    'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("1Gi").add(5))',
    'cel.bind(gpu, device.attributes["gpu.example.com"], gpu.index == 1 && gpu.model != "T4")',
    'device.attributes.exists(domain, domain == "gpu.example.com")',
    'device.attributes["gpu.example.com"].exists(name, value, name == "model" && value == "A100")',
    'device.capacity.all(domain, device.capacity[domain].all(name, name != ""))',
    'ip(device.attributes["dra.net"].address) in [ip("10.0.0.1")]',
    'cidr("10.0.0.0/8").containsIP(device.attributes["dra.net"].address)',
    'url(device.attributes["dra.net"].endpoint).getHost() == "example.com"',
    '!format.dns1123Label().validate(device.attributes["gpu.example.com"].model).hasValue()',
    '"%s-%d".format([device.driver, 1]) == "a-1"',
    'timestamp("2024-01-01T00:00:00Z").getFullYear("Europe/Berlin") == 2024',
    'duration("1h") > duration("59m")',
    "[3, 1, 2].sort() == [1, 2, 3] && [1, 2].sum() == 3",
    "[[1], [2]].flatten().map(x, x * 2).exists(x, x == 4)",
    "[1, 2].transformMap(i, v, v * i) == {0: 0, 1: 2}",
    "sets.contains([1, 2, 3], [1, 2])",
    '"a,b".split(",")[1] == "b" && "abc".substring(1) == "bc"',
    'device.attributes["gpu.example.com"].profiles == ["a", "b"]',
    '"a" in device.attributes["gpu.example.com"].profiles',
    # A mistake that nobody finds before there is a device.
    'device.attributes["gpu.example.com"].memory >= "16Gi"',
    'device.attributes["gpu.example.com"].index + 1.5 == 3.0',
    'device.attributes["gpu.example.com"].model.nested == "a"',
    "1 / 0 == 1",
)
WRONG = (
    "",
    "device.",
    "device.driver = 'a'",
    "device.driver == 'a",
    "device.nope == 1",
    "devices.driver == 'a'",
    "device.driver == 1",
    "device.driver",
    "1",
    'device.attributes["a"].b == 1 && "x"',
    'device["driver"] == "a"',
    'device.capacity["a"].b >= "16Gi"',
    'device.capacity["a"].b == 5',
    'device.capacity["a"].b.isBigger(quantity("1"))',
    "device.attributes[1].b == 1",
    'device.attributes["a"].b.nope()',
    "nope(1) == 1",
    "math.greatest(1, 2) == 2",
    'base64.encode(b"a") == "YQ=="',
    '"abc".reverse() == "cba"',
    "authorizer.path('/').check('get').allowed()",
    "oldObject == null",
    "1 == 1.0",
    "[1, 'a'].size() == 2",
    "{'a': 1, 2: 3}.size() == 2",
    "'a'.matches('(')",
    "duration('1d') == duration('24h')",
    "timestamp('2024-13-01T00:00:00Z') == timestamp(0)",
    "int('x') == 1",
    "9223372036854775808 == 1",
    "cel.bind(1, 2, true)",
    "has(device)",
    "[1].all(x.y, true)",
    "if == 1",
    "'\\q' == 'q'",
    "(" * 300 + "true" + ")" * 300,
)
EXPENSIVE = (
    "lists.range(249998).all(x, true)",
    "lists.range(1000).all(x, lists.range(1000).all(y, x != y))",
    "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d, true))))",
    "device.attributes.all(a, device.attributes[a].all(b, device.attributes.all(c, device.capacity[c].all(d, true))))",
    "sets.intersects(lists.range(1000), lists.range(1001))",
    "lists.range(1000).map(x, lists.range(1000)).flatten().size() > 0",
    f'cel.bind(a, "{"x" * 2000}", cel.bind(b, a + a + a + a, b.contains(b + b)))',
)
NOT_QUITE_TOO_EXPENSIVE = (
    "lists.range(249997).all(x, true)",
    "device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, true)))",
    "sets.intersects(lists.range(900), lists.range(1000))",
    "true" + " " * (_LENGTH_LIMIT - 4),
)
TOO_LONG = ("true" + " " * (_LENGTH_LIMIT - 3),)
WITH_LISTS_AS_ATTRIBUTES = (
    'device.attributes["gpu.example.com"].profiles.exists(p, p == "a")',
    'device.attributes["gpu.example.com"].profiles.all(p, p != "")',
    'device.attributes["gpu.example.com"].profiles.map(p, p).size() > 0',
    'device.attributes["gpu.example.com"].profiles.includes("a")',
    "[1, 2].includes(2)",
)
HAND_PICKED = (*FINE, *WRONG, *EXPENSIVE, *NOT_QUITE_TOO_EXPENSIVE, *TOO_LONG)


def from_the_corpus() -> list[str]:
    cases = json.loads((Path(__file__).parent / "data" / "cel-authored.json").read_text())["cases"]
    return list(dict.fromkeys(case["expression"] for case in cases))[::12]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def server_with_lists() -> AsyncIterator[ControlPlane]:
    async with ControlPlane(feature_gates={"DRAListTypeAttributes": True}) as server:
        yield server


async def refused_by(server: ControlPlane, expressions: list[str]) -> Mapping[str, bool]:
    credentials = await client_credentials.load(server.kubeconfig)
    async with open_session(credentials) as session:
        refused = {}
        for expression in expressions:
            url = f"{credentials.server}/apis/resource.k8s.io/v1/deviceclasses?dryRun=All"
            async with session.post(url, json=device_class(expression)) as response:
                assert response.status in {201, 422}, f"{expression}: {await response.text()}"
                refused[expression] = response.status == 422
        return refused


def device_class(expression: str) -> dict[str, object]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "selected"},
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }


def refused_by_us(expressions: list[str]) -> Mapping[str, bool]:
    def refused(expression: str) -> bool:
        try:
            return cel.compile(expression, minor=37).max_cost > cel.COST_LIMIT
        except cel.CompileError:
            return True

    return {expression: refused(expression) for expression in expressions}


async def test_the_server_refuses_what_we_refuse(server_with_lists: ControlPlane) -> None:
    expressions = [*HAND_PICKED, *WITH_LISTS_AS_ATTRIBUTES, *from_the_corpus()]
    refused = await refused_by(server_with_lists, expressions)
    assert refused == refused_by_us(expressions)
    assert not any(refused[expression] for expression in (*FINE, *NOT_QUITE_TOO_EXPENSIVE))
    assert all(refused[expression] for expression in (*WRONG, *EXPENSIVE, *TOO_LONG))


async def test_by_default_the_server_also_refuses_what_is_only_for_lists(control_plane: ControlPlane) -> None:
    refused = await refused_by(control_plane, [*HAND_PICKED, *WITH_LISTS_AS_ATTRIBUTES])
    ours = refused_by_us([*HAND_PICKED, *WITH_LISTS_AS_ATTRIBUTES])
    assert {expression for expression in refused if refused[expression] != ours[expression]} == set(
        WITH_LISTS_AS_ATTRIBUTES
    )


async def test_the_oracle_knows_what_the_server_refuses_by_default(control_plane: ControlPlane) -> None:
    expressions = [*FINE, *WRONG, *EXPENSIVE, *NOT_QUITE_TOO_EXPENSIVE, *WITH_LISTS_AS_ATTRIBUTES, *from_the_corpus()]
    refused = await refused_by(control_plane, expressions)
    with Oracle(37) as oracle:

        def expected(expression: str) -> bool:
            (verdict,) = oracle.evaluate(expression, [{"driver": "gpu.example.com"}], new=True)
            return verdict.outcome == "compile-error" or (verdict.max_cost or 0) > cel.COST_LIMIT

        assert refused == {expression: expected(expression) for expression in expressions}
