"""The story, as an ordinary user sees it in a pipe, and what is left when it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Final

import pytest

from demo.running import HAS_NAMESPACES, demo, directory_of, eventually, nothing_is_left
from gpusharing.cli import exits

STORY: Final = r"""
The API server, the operator and the agents of three nodes start\.

Three GPU nodes join the cluster\.
  Their agents found 6 GPUs \(2 x H100-80GB, 2 x A100-80GB, 2 x L4\)\.
  There is no policy yet, so each GPU is offered whole, to one claim\.

7 notebooks ask for a GPU each\.
  6 run, and use 12 of \d+ GiB\. One waits\. `gpusharing explain` says why:
  \| GSH0205 All devices in use

The notebooks end, and one policy offers the GPUs in four modes\.
  \| offers:
  \|   exclusive: {}
  \|   timeSlicing: {maxClients: 4, interval: Short}
  \|   mps:
  \|     maxClients: 8
  \|     memory: {default: 8Gi, min: 1Gi}
  \|     threads: {default: 25}
  \|   mig:
  \|     profiles: \[1g\.10gb\]
  It is in force after [\d.]+ m?s: 32 devices in place of 6, for up to 48 clients\.
  Only the H100s have MIG as well: L4s do not know it, and A100s would have to be reset for it\.

The same 7 notebooks ask for a share, by time-slicing\.
  All run, on 2 GPUs in place of 7\.
  The driver's time slices are Short, as the policy says\.

Inference servers ask for 16 GiB each, by MPS: their kernels run at the same time\.
  3 run on one GPU, with one MPS daemon that limits the memory of each\.

One more server has a claim for 16 GiB, and takes 30\.
  \| CUDA error 2: CUDA_ERROR_OUT_OF_MEMORY
  It alone fails\. The other 3 run on\.

Training jobs ask for MIG instances of 1g\.10gb\.
  The agent turned on MIG mode and cut 3 instances\. The jobs run after [\d.]+ m?s\.
  Each has its own memory and its own compute units: nobody disturbs it\.

The training jobs end\.
  After [\d.]+ m?s the instances are gone, and the GPU is offered in all modes again\.

A second policy reserves the H100s for the team serving\.
  It is in force after [\d.]+ m?s\. Team lab asks for one:
  \| SharingPolicy for-serving: namespace lab is not one of its tenants .*
  The same claim of team serving gets an H100\.

The L4 of notebook-1 falls off the bus\.
  After [\d.]+ m?s the status of its 4 pods says so:
  \| XID 79 at .*: it has fallen off the bus; .*
  A new notebook gets the other L4\.

Nobody should get a time-slice any more\. What would that do\?
  `gpusharing plan` says, before anything is changed:
  \| 4 of 6 GPUs on 2 of 3 nodes change; this concerns 8 claims in use\.
  \|   2 GPUs: all-modes: whole, timeSlicing x4, mps x8 → all-modes: whole, mps x8
  \|     evicts the pods of 8 claims .* and 5 more\)
  \|     ada/gpu-0, ada/gpu-1
  \|   2 GPUs: all-modes: .*, mig 1g\.10gb → all-modes: whole, mps x8, mig 1g\.10gb
  \|     nobody is disturbed
  \|     ampere/gpu-0, ampere/gpu-1

Everything goes back: pods and policies are deleted, and the node with the lost GPU is rebooted\.
  The 6 GPUs are as they were found: no instance, no daemon, no setting is left\.
"""


@pytest.mark.skipif(not HAS_NAMESPACES, reason="without user namespaces, the story has no MPS")
def test_each_line_of_the_story_and_nothing_is_left(tmp_path: Path) -> None:
    recording = tmp_path / "demo.svg"
    with demo("--fast", "--keep", "--record", str(recording), ordinary=True) as running:
        running.until(r"Next: docs/quickstart\.md")
        assert "In a browser of this machine: http" in running.text
        told = "\n".join(running.lines).partition("The cluster stays")[0]
        for line, pattern in zip(told.splitlines(), STORY.strip().splitlines(), strict=False):
            assert re.fullmatch(pattern, line), (line, pattern)
        assert told.strip().count("\n") == STORY.strip().count("\n")
        _cluster_can_be_used(running.text)
        programs = running.programs()
        directory = directory_of(programs)
        assert sum("gpusharing.demo.device_files agent" in one for one in programs.values()) == 3, programs
        assert sum("gpusharing operator" in one for one in programs.values()) == 1, programs
        running.interrupt()
        assert running.ended() == exits.INTERRUPTED, running.text
        assert "Traceback" not in running.text
        nothing_is_left({*programs}, directory)
    svg = recording.read_text()
    assert len(svg.encode()) < 300_000
    assert ET.fromstring(svg).tag.endswith("svg")  # noqa: S314 (our own)
    assert "notebook-1" in svg


def _cluster_can_be_used(text: str) -> None:
    kubeconfig = re.search(r"export KUBECONFIG=(\S+)", text)
    assert kubeconfig
    command = [sys.executable, "-m", "gpusharing", "top", "--kubeconfig", kubeconfig[1]]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    assert "GSH0103" not in shown, "the use of GPUs is measured"
    found = json.loads(subprocess.run([*command, "-o", "json"], check=True, capture_output=True, text=True).stdout)
    assert sorted(one["name"] for one in found["nodes"]) == ["ada", "ampere", "hopper"]


def test_a_killed_demo_leaves_nothing() -> None:
    with demo("--fast") as running:
        running.until("Inference servers")
        # With all of its programs, of which MPS daemons outlive their agents.
        eventually(lambda: any("mps" in one for one in running.programs().values()), running.programs)
        programs = running.programs()
        directory = directory_of(programs)
        running.process.kill()
        running.ended()
        nothing_is_left({*programs}, directory)


def test_a_program_that_ends_is_named() -> None:
    with demo("--fast") as running:
        running.until("Three GPU nodes join")
        programs = running.programs()
        [operator] = [pid for pid, command in programs.items() if "gpusharing operator" in command]
        os.kill(operator, signal.SIGKILL)
        assert running.ended() == exits.FAILED
        assert re.match(r"error: The operator has ended \(.*\)\. Start the demo again; ", running.lines[-1])
        nothing_is_left({*programs}, directory_of(programs))


def test_a_fact_that_does_not_come_true_is_told() -> None:
    with demo("--fast", "--patience", "1.5") as running:
        running.until("Three GPU nodes join")
        programs = running.programs()
        for pid, command in programs.items():
            if " agent " in command:
                os.kill(pid, signal.SIGSTOP)
        assert running.ended() == exits.FAILED
        # On a busy machine they may have come as far as the pods.
        assert re.match(r"error: .+: .+ did not come true in 1\.5 s.*\. .+", running.lines[-1])
        nothing_is_left({*programs}, directory_of(programs))
