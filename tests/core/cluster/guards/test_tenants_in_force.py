"""Which namespaces are tenants, of policies that are in force and of suspended ones."""

from collections.abc import Mapping
from typing import Any

import pytest

from building import MINOR, guards, policy
from gpusharing.api.meta import LabelSelector
from gpusharing.api.sharing.policy import SharingPolicy, UnreadablePolicy
from gpusharing.api.sharing.rollout import Rollout, RolloutMode
from gpusharing.api.sharing.tenants import Tenants
from gpusharing.core.cluster.guards.tenants_in_force import tenants_in_force
from gpusharing.core.cluster.guards.upkeep import Guards
from gpusharing.core.policies.policy import examine

NEW = LabelSelector(match_labels={"team": "new"})
OLD = {"p": '[["In", "team=old"]]'}
CUT = {"gpusharing-allocation": guards.without_variables(guards.knowing(OLD)["gpusharing-allocation"])}


def edited(**change: Any) -> SharingPolicy:
    return policy("p", tenants=Tenants(namespaces=NEW), **change)


@pytest.mark.parametrize(
    ("item", "installed", "tenant"),
    [
        pytest.param(edited(), guards.installed(), "new", id="a new policy"),
        pytest.param(edited(), guards.knowing(OLD), "new", id="an edit"),
        pytest.param(edited(), {}, "new", id="no guards"),
        pytest.param(edited(rollout=Rollout(paused=True)), guards.knowing(OLD), "old", id="an edit while it is paused"),
        pytest.param(edited(rollout=Rollout(mode=RolloutMode.PLAN)), guards.knowing(OLD), "old", id="a plan"),
        pytest.param(edited(accepted=False), guards.knowing(OLD), "old", id="not accepted"),
        pytest.param(
            UnreadablePolicy.of({"name": "p", "uid": "u", "resourceVersion": "1"}),
            guards.knowing(OLD),
            "old",
            id="not readable",
        ),
        pytest.param(edited(rollout=Rollout(paused=True)), guards.installed(), None, id="paused, never in force"),
        pytest.param(edited(rollout=Rollout(paused=True)), {}, None, id="paused, no guards"),
        pytest.param(edited(rollout=Rollout(paused=True)), CUT, None, id="paused, guards without variables"),
        pytest.param(edited(rollout=Rollout(paused=True)), guards.knowing({"q": OLD["p"]}), None, id="of another one"),
        pytest.param(edited(rollout=Rollout(paused=True)), guards.knowing({"p": "x"}), None, id="not written by us"),
    ],
)
def test_tenants_are_those_that_are_in_force(item: SharingPolicy, installed: Guards, tenant: str | None) -> None:
    [(name, tenants)] = tenants_in_force([examine(item, minor=MINOR)], installed).items()
    assert name == "p"
    labels: list[Mapping[str, str]] = [{"team": "new"}, {"team": "old"}, {}]
    allowed = [found.get("team") for found in labels if tenants is not None and tenants.matches(found)]
    assert allowed == ([] if tenant is None else [tenant])
    assert (tenants is None) is (tenant is None)
