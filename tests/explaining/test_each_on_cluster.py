"""Each finding of a cluster is brought about on a real API server, or stands here with the reason why it is not."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from explaining import test_on_cluster
from gpusharing.findings.table import AREAS
from planning import test_on_cluster as test_plans_on_cluster

HERE: Final = Path(__file__).parent
AREAS_OF_CLUSTERS: Final = frozenset({1, 2, 3, 4, 5, 7})
"""Manifests (6) are compared with the API server in tests/validating; conversion (8) reads files only."""

EXCEPTIONS: Final[Mapping[str, str]] = {
    "GSH0232": "20 devices of 9 groups, of which 10 are to differ, do not use up the tries; lowered in test_states.py",
}


def brought_about() -> set[str]:
    others = [
        HERE.parent / one
        for one in ("explaining/test_on_scheduler.py", "node/test_explain.py", "top/test_on_cluster.py")
    ]
    named = {code for path in others for code in re.findall(r'"(GSH\d{4})"', path.read_text())}
    of_plans = {case.finding.code for case in test_plans_on_cluster.CASES.values() if case.finding}
    return named | of_plans | test_on_cluster.CASES.keys()


def test_each_finding_is_brought_about_or_excepted() -> None:
    codes = {entry.code for area in AREAS if area.number in AREAS_OF_CLUSTERS for entry in area.entries}
    assert sorted(codes - brought_about() - EXCEPTIONS.keys()) == []
    assert sorted(EXCEPTIONS.keys() - (codes - brought_about())) == [], "not needed any more"
