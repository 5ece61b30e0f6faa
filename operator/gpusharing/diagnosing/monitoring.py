"""Does anybody watch it?"""

from typing import Final

from gpusharing.diagnosing.check import Check, Section, not_checked, of_cluster
from gpusharing.diagnosing.facts import ClusterFacts
from gpusharing.findings import installations

API: Final = "monitoring.coreos.com/v1"
_KINDS: Final = {"podmonitors": "PodMonitors", "prometheusrules": "PrometheusRules"}
_OURS: Final = "gpusharing-agent"


def check_prometheus(facts: ClusterFacts) -> Check:
    missing = _missing(facts)
    found = [of_cluster(installations.NO_PROMETHEUS, kinds=" and ".join(missing))] if missing else []
    return Check(Section.MONITORING, "prometheus", "The Prometheus Operator is there.", found)


def check_monitoring(facts: ClusterFacts, namespace: str) -> Check:
    if _missing(facts):
        return check_prometheus(facts)
    if facts.pod_monitors.unread:
        return not_checked(Section.MONITORING, "monitored", "PodMonitors", facts.pod_monitors.unread)
    is_monitored = any(_OURS in str((one.get("spec") or {}).get("selector")) for one in facts.pod_monitors.objects)
    found = [] if is_monitored else [of_cluster(installations.NOT_MONITORED, namespace=namespace)]
    return Check(
        Section.MONITORING, "monitored", "A PodMonitor has Prometheus read the metrics of both programs.", found
    )


def _missing(facts: ClusterFacts) -> list[str]:
    served = facts.served.get(API, frozenset())
    return [kind for plural, kind in _KINDS.items() if plural not in served]
