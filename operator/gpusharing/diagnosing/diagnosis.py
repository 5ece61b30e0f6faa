"""All checks, in the order in which people read them."""

from collections.abc import Iterator

from gpusharing.diagnosing.agents import check_agents
from gpusharing.diagnosing.check import Check, Section, of_cluster
from gpusharing.diagnosing.facts import ClusterFacts, InstallationFacts
from gpusharing.diagnosing.guards import check_guards
from gpusharing.diagnosing.kubernetes import check_kubernetes
from gpusharing.diagnosing.monitoring import check_monitoring, check_prometheus
from gpusharing.diagnosing.nodes import check_nodes
from gpusharing.diagnosing.operator import check_operator, version_of
from gpusharing.findings import installations


def before_installation(facts: ClusterFacts) -> Iterator[Check]:
    yield from check_kubernetes(facts)
    yield from check_nodes(facts)
    yield check_prometheus(facts)
    yield _installed_already(facts)


def of_installation(facts: ClusterFacts, installed: InstallationFacts) -> Iterator[Check]:
    yield from check_kubernetes(facts)
    if is_absent(facts, installed):
        missing = [of_cluster(installations.NOT_INSTALLED, missing="gpu-sharing in this cluster")]
        yield Check(Section.OPERATOR, "installed", "", missing)
        return
    yield from check_operator(facts, installed)
    yield from check_guards(installed)
    yield from check_agents(facts, installed)
    yield check_monitoring(facts, installed.namespace)


def is_absent(facts: ClusterFacts, installed: InstallationFacts) -> bool:
    """Nothing of it is there, as far as it may be read."""
    looked_for = (facts.operators, installed.daemon_sets, installed.definitions)
    return not any(one.objects or one.unread for one in looked_for)


def _installed_already(facts: ClusterFacts) -> Check:
    found = [
        of_cluster(
            installations.IS_INSTALLED,
            version=version_of(one) or "unknown",
            namespace=one["metadata"].get("namespace", ""),
        )
        for one in facts.operators.objects
    ]
    return Check(Section.OPERATOR, "installed", "It is not installed yet.", found)
