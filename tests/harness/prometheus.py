"""A real Prometheus. It is built without its pages."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import aiohttp

from harness.loopback import free_ports, own_address
from harness.processes import Process
from harness.readiness import answers

EVERY: Final = "2s"
"""How often it scrapes and evaluates. A program on a busy machine has so long to answer."""


class QueryError(Exception):
    pass


@dataclass(frozen=True)
class Sample:
    labels: Mapping[str, str]
    value: float


class Prometheus:
    def __init__(self, programs: Path, directory: Path, *, scrape_configs: Any, rules: Any = None) -> None:
        """`rules` as a PrometheusRule has them in its spec. Their own intervals do not count."""
        self._address = own_address()
        (port,) = free_ports(self._address, 1)
        self.url = f"http://{self._address}:{port}"
        self._configure(directory, scrape_configs, rules or {"groups": []})
        self._process = Process(
            [
                programs / "prometheus",
                f"--config.file={directory / 'prometheus.json'}",
                f"--storage.tsdb.path={directory / 'data'}",
                f"--web.listen-address={self._address}:{port}",
            ],
            log=directory / "prometheus.log",
            ready=lambda: answers(f"{self.url}/-/ready"),
        )
        self._session: aiohttp.ClientSession

    def _configure(self, directory: Path, scrape_configs: Any, rules: Any) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        groups = [group | {"interval": EVERY} for group in rules["groups"]]
        # JSON is YAML.
        (directory / "rules.json").write_text(json.dumps({"groups": groups}))
        configuration = {
            "global": {"scrape_interval": EVERY, "scrape_timeout": EVERY, "evaluation_interval": EVERY},
            "rule_files": ["rules.json"],
            "scrape_configs": scrape_configs,
        }
        (directory / "prometheus.json").write_text(json.dumps(configuration))

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(self.url)
        try:
            await self._process.start()
        except BaseException:
            await self._session.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._session.close()
        # What it has gathered is of no value.
        await self._process.kill()

    async def query(self, expression: str, *, at: float | None = None) -> list[Sample]:
        """The values of a vector or a scalar now, or at a time in seconds."""
        asked = {"query": expression} | ({"time": str(at)} if at is not None else {})
        async with self._session.post("/api/v1/query", data=asked) as response:
            answer = await response.json()
        if answer["status"] != "success":
            raise QueryError(f"{answer['error']} in:\n{expression}")
        return list(_samples(answer["data"]))

    async def label_values(self, selector: str, label: str) -> list[str]:
        """As Grafana's `label_values(selector, label)` does it."""
        async with self._session.get(f"/api/v1/label/{label}/values", params={"match[]": selector}) as response:
            answer = await response.json()
        if answer["status"] != "success":
            raise QueryError(f"{answer['error']} in:\n{selector}")
        return list(answer["data"])


def _samples(data: Any) -> Iterator[Sample]:
    if data["resultType"] == "scalar":
        yield Sample({}, float(data["result"][1]))
        return
    for series in data["result"]:
        yield Sample(series["metric"], float(series["value"][1]))
