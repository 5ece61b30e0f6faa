"""No finding of `doctor` is without a case that brings it about."""

import re
from pathlib import Path
from typing import Final

from diagnosing import test_facts, test_on_cluster
from gpusharing.findings.installations import ENTRIES

ON_NODE: Final = Path(__file__).parents[1] / "node" / "test_doctor.py"

BY_FACTS_ONLY: Final = {
    "GSH0903": "no such Kubernetes exists yet",
    "GSH0905": "tests run the newest Kubernetes, which has no such fault",
    "GSH0906": "the harness starts no API server that its scheduler cannot use",
}
"""What is not brought about on a real API server, and why."""


def test_each_finding_is_brought_about() -> None:
    on_node = set(re.findall(r"GSH\d{4}", ON_NODE.read_text()))
    real = test_on_cluster.CODES | on_node
    codes = {entry.code for entry in ENTRIES}
    assert codes - real == BY_FACTS_ONLY.keys()
    assert BY_FACTS_ONLY.keys() <= test_facts.CODES
