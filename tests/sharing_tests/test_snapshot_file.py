"""A test on a file of `gpusharing snapshot`: what runs there runs, and a change disturbs it."""

import contextlib
from pathlib import Path

import pytest

from gpusharing.cli.main import main
from gpusharing.cli.test import Files
from gpusharing.planning.deciding import Edit
from gpusharing.sharing_tests import new_cluster, pods
from gpusharing.sharing_tests.cluster import SettledCluster
from gpusharing.sharing_tests.form import Expectation, Outcome, Pods
from gpusharing.sharing_tests.observing import observe
from gpusharing.sharing_tests.reading import manifests, read_tests
from gpusharing.snapshots import file
from gpusharing.validating.validation import Source

CLUSTER = """
apiVersion: gpusharing.dev/v1alpha1
kind: SharingTest
metadata: {name: cluster}
nodes: [{gpus: "L4:2"}]
policies:
- apiVersion: gpusharing.dev/v1alpha1
  kind: SharingPolicy
  metadata: {name: halves}
  spec: {offers: {timeSlicing: {maxClients: 2}}}
"""
TEST = """
apiVersion: gpusharing.dev/v1alpha1
kind: SharingTest
metadata: {name: on-a-snapshot}
snapshot: snapshots/cluster.json
pods:
- {class: halves-timeslicing, expect: {outcome: Fits, mode: TimeSlicing, policy: halves}}
- {class: halves-timeslicing, expect: {outcome: Waits, because: train}}
changes:
- policies:
  - apiVersion: gpusharing.dev/v1alpha1
    kind: SharingPolicy
    metadata: {name: halves}
    spec: {offers: {exclusive: {}}, rollout: {disruption: Evict}}
  disturbed: 4
  pods: [{class: halves-exclusive, count: 2, expect: {outcome: Fits, mode: Exclusive}}]
"""


def test_what_runs_in_a_snapshot_counts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (loaded,) = read_tests(Source("cluster", CLUSTER.encode()))
    cluster = SettledCluster(new_cluster.world(loaded), full_menus=1, is_new=True)
    policies = [one.value for one in manifests(loaded.test.policies, ("policies",), loaded, Files())]
    cluster.apply(Edit(policies=policies, namespaces=[new_cluster.namespace("default", {})]))
    entry = Pods.model_validate(
        {"class": "halves-timeslicing", "name": "train", "count": 3, "expect": Expectation(outcome=Outcome.FITS)}
    )
    for new in pods.of_class(entry, ()):
        assert observe(new, cluster, rather_on=None).outcome is Outcome.FITS
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "snapshots/cluster.json").write_text(file.dumps(cluster.world))
    (tmp_path / "t.yaml").write_text(TEST)
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as ended:
        main(["test", "t.yaml"])
    assert (ended.value.code, capsys.readouterr().out) == (
        0,
        "✓ on-a-snapshot t.yaml (4 checks)\n1 test, 4 checks: all as expected\n",
    )
