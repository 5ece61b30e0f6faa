"""Runs the steps of a case on a server, one after the other."""

import asyncio
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import aiohttp
import yaml

from conformance.masks import as_yaml, masked
from conformance.transcripts import Step

PATIENCE: Final = 60.0
_MERGE: Final = "application/merge-patch+json"


@dataclass
class Asker:
    """One of them runs one case, in a namespace of its own."""

    session: aiohttp.ClientSession
    """Says who we are."""
    url: str
    namespace: str
    kubeconfig: Path
    """With that namespace."""
    cache: Path
    programs: Path | None
    """The directory of kubectl; None where the case has no commands."""
    _answers: dict[str, Any] = field(default_factory=dict)

    async def make_namespace(self, *, with_controllers: bool) -> None:
        body = json.dumps({"metadata": {"name": self.namespace}}).encode()
        status, answered = await self._ask("POST", "/api/v1/namespaces", {"Content-Type": "application/json"}, body)
        assert status == 201, answered
        if with_controllers:
            # What they put into each namespace would come in between.
            await self._until(200, "GET", f"/api/v1/namespaces/{self.namespace}/configmaps/kube-root-ca.crt", {}, None)

    async def answer(self, step: Step) -> str:
        return await (self._run(step) if step.is_command else self._request(step))

    # -------------------------------------------------------------------------------------------------- commands

    async def _run(self, step: Step) -> str:
        assert self.programs is not None
        home = self.kubeconfig.parent
        script = "\n".join(self._filled(line) for line in (step.asked, *step.more))
        process = await asyncio.create_subprocess_exec(
            "bash", "-c", script,
            cwd=home,
            env={
                "PATH": f"{self.programs}:{os.environ['PATH']}",
                "KUBECONFIG": str(self.kubeconfig),
                "KUBECACHEDIR": str(self.cache),
                "HOME": str(home),
                "TMPDIR": str(home),
                "LC_ALL": "C.UTF-8",
                "GOGC": "off",
            },
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            async with asyncio.timeout(PATIENCE):
                output, _ = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
        return masked(output.decode()) + (f"[{process.returncode}]\n" if process.returncode else "")

    # -------------------------------------------------------------------------------------------------- requests

    async def _request(self, step: Step) -> str:
        asked, _, part = self._filled(step.asked).partition(" -> ")
        verb, *arguments, path = asked.split(" ")
        headers, body = self._headers_and_body(step.more, verb)
        if verb == "WATCH":
            (count,) = arguments
            return await self._watch(int(count), path, part)
        if verb == "UNTIL":
            wanted, verb = arguments
            status, answered = await self._until(int(wanted), verb, path, headers, body)
        else:
            status, answered = await self._ask(verb, path, headers, body)
        if step.name:
            self._answers[step.name] = answered
        return f"{status}\n" + _shown(answered, part)

    async def _ask(self, verb: str, path: str, headers: dict[str, str], body: bytes | None) -> tuple[int, Any]:
        headers = {"Accept": "application/json"} | headers
        async with self.session.request(verb, f"{self.url}{path}", headers=headers, data=body) as response:
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json and text else text

    async def _until(
        self, status: int, verb: str, path: str, headers: dict[str, str], body: bytes | None
    ) -> tuple[int, Any]:
        """What controllers do, and what has to reach all of a server, takes its time."""
        async with asyncio.timeout(PATIENCE):
            while True:
                answer = await self._ask(verb, path, headers, body)
                if answer[0] == status:
                    return answer
                await asyncio.sleep(0.1)

    async def _watch(self, count: int, path: str, part: str) -> str:
        """So many events; none after the last that is asked for is waited for."""
        events: list[Any] = []
        async with asyncio.timeout(PATIENCE), self.session.get(f"{self.url}{path}") as response:
            if response.status != 200:
                return f"{response.status}\n" + _shown(json.loads(await response.text()), part)
            while len(events) < count and (line := await response.content.readline()):
                events.append(json.loads(line))
        return "200\n" + _shown(events, part)

    def _headers_and_body(self, lines: tuple[str, ...], verb: str) -> tuple[dict[str, str], bytes | None]:
        headers: dict[str, str] = {}
        text: list[str] = []
        for line in lines:
            header = re.match(r"^([A-Z][a-z]+(?:-[A-Z][a-z]+)*): (.*)$", line)
            if header and not text:
                headers[header[1]] = header[2]
            else:
                text.append(line)
        if not text:
            return headers, None
        headers.setdefault("Content-Type", _MERGE if verb == "PATCH" else "application/json")
        filled = self._filled("\n".join(text))
        # What begins like this is sent as it is.
        if filled.startswith("!raw "):
            return headers, filled.removeprefix("!raw ").encode()
        return headers, json.dumps(yaml.safe_load(filled)).encode()

    def _filled(self, text: str) -> str:
        """`{namespace}`, and `{made.metadata.uid}` of the answer that a step has named `made`."""

        def found(match: re.Match[str]) -> str:
            if match[1] == "namespace":
                return self.namespace
            name, *path = match[1].split(".")
            return str(_part(self._answers[name], path))

        return re.sub(r"\{(namespace|[a-z]+(?:\.\w+)+)\}", found, text)


def _shown(answered: Any, part: str) -> str:
    """All, or what stands at these paths: in a line for each event, and for each item where a path says `items.*`."""
    if isinstance(answered, str):
        return masked(answered)
    if not part:
        return masked(as_yaml(answered))
    if isinstance(answered, dict) and "items.*." in part:
        part = part.replace("items.*.", "")
        # An error has none.
        answered = answered.get("items", answered)
    paths = [path.split(".") for path in part.split()]
    rows = answered if isinstance(answered, list) else [answered]
    return "".join(_row(row, paths) for row in rows)


def _row(value: Any, paths: list[list[str]]) -> str:
    parts = [_part(value, path) for path in paths]
    if len(parts) == 1 and isinstance(parts[0], dict | list):
        return masked(yaml.safe_dump(parts[0], width=120))
    return masked(" ".join(part if isinstance(part, str) else json.dumps(part, sort_keys=True) for part in parts))


def _part(value: Any, path: list[str]) -> Any:
    for key in path:
        if key == "causes" and isinstance(value, dict):
            # kube-apiserver walks the fields of a custom object in any order.
            value = sorted(value.get(key, ()), key=lambda cause: (cause["field"], cause["message"]))
            continue
        if isinstance(value, list):
            value = value[int(key)] if int(key) < len(value) else None
        elif isinstance(value, dict):
            value = value.get(key)
        else:
            return None
    return value
