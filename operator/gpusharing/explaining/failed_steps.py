"""What is said of the step at which devices fall out: one function each."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

from gpusharing.api import names
from gpusharing.api.names import GROUP
from gpusharing.core.allocate.reasons import Reasons, Step
from gpusharing.core.allocate.requests import Claim, Request, Wanted, expressions
from gpusharing.core.allocate.selecting import Selection
from gpusharing.explaining import classes, fragments, wording
from gpusharing.explaining.lack import Lack
from gpusharing.findings import waiting
from gpusharing.findings.finding import Finding


def not_together(lack: Lack) -> Finding:
    attributes = sorted({one.attribute for claim in lack.claims for one in claim.constraints})
    constraint = f" with the same {attributes[0]}" if attributes else ""
    return waiting.NOT_TOGETHER.found(lack.about, constraint=constraint)


def _nothing_matches(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    if finding := classes.not_offered(wanted.device_class, lack.about, lack.scene):
        return [finding]
    if one.fell_out[Step.REQUEST_SELECTOR]:
        whose, expression = "the selector", " && ".join(wanted.selectors)
        count = one.fell_out[Step.REQUEST_SELECTOR]
    else:
        of_class = lack.scene.classes[wanted.device_class].spec.selectors
        expression = " && ".join(one["cel"]["expression"] for one in of_class)
        if finding := classes.not_published(wanted.device_class, lack.about, lack.scene):
            return [finding]
        whose, count = f"class {wanted.device_class}", one.looked_at
    return [
        waiting.NOTHING_MATCHES.found(
            lack.about, count=wording.devices(count), whose=whose, request=one.request, expression=expression
        )
    ]


def _excluded_as_reserved(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    del wanted
    are_all = one.looked_at == one.unmatched
    return [classes.reserved(one.reserved, one.request, lack.about, lack.scene, are_all=are_all)]


def _closing(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    if finding := classes.not_offered(wanted.device_class, lack.about, lack.scene):
        return [finding]
    count = wording.are(one.fell_out[Step.CLOSING])
    return [waiting.CLOSING.found(lack.about, request=one.request, count=count)]


_REMEDIES: Final = {
    names.UNCONFIGURED_TAINT: "Wait for the operator: it has not configured these GPUs yet.",
    names.UNHEALTHY_TAINT: "See the conditions: `gpusharing explain node NAME`.",
    names.AGENT_STOPPED_TAINT: "Start the agent of the node again.",
    names.HELD_TAINT: "See what uses the GPU outside of Kubernetes: `gpusharing explain node NAME`.",
    names.CONFLICT_TAINT: "Wait: the operator evicts a pod of these devices.",
}


def _tainted(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    del wanted
    # Foreign ones first: nothing becomes better by itself there.
    keys = sorted(one.taints, key=lambda key: (key.startswith(f"{GROUP}/"), -one.taints[key]))
    remedy = _REMEDIES.get(keys[0], "Remove the taint, or add a toleration to the request.")
    count = wording.are(one.fell_out[Step.TAINT])
    taints = wording.some(keys)
    entry = waiting.NOT_AVAILABLE if keys[0].startswith(f"{GROUP}/") else waiting.TAINTED
    return [entry.found(lack.about, request=one.request, count=count, taints=taints, remedy=remedy)]


def _unknown_capacity(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    known: set[str] = set()
    cluster = lack.asking.cluster
    of_class = cluster.classes[wanted.device_class].spec.selectors
    selection = Selection(wanted, expressions(of_class, of="class"), cluster.selectors)
    for group in lack.asking.groups:
        for device in cluster.inventory.node(group.representative).devices:
            if selection.answer(device).matches:
                known.update(device.room.values)
    unknown = next((name for name in wanted.capacity if name not in known), next(iter(wanted.capacity), ""))
    names_ = ", ".join(sorted(known)) or "none"
    return [waiting.UNKNOWN_CAPACITY.found(lack.about, request=one.request, capacity=unknown, known=names_)]


def _too_large(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    found = []
    for name, asked in wanted.capacity.items():
        most = one.most.get(name)
        if most is None or most >= asked:
            continue
        where = _where_less_fits(lack, wanted, name, most)
        found.append(
            waiting.TOO_LARGE.found(
                lack.about,
                request=one.request,
                asks=wording.of_capacity(asked, name),
                asked=wording.amount(asked),
                capacity=name,
                most=wording.amount(most),
                where=f": fits on {where} now" if where else "",
            )
        )
    return found


def _in_use(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    if wanted.admin and _held_by_ours(one, lack):
        are = wording.are(one.fell_out[Step.IN_USE])
        return [waiting.ADMIN_WAITS.found(lack.about, request=one.request, count=are, holders=lack.holders(one))]
    count = one.fell_out[Step.IN_USE] + one.left
    in_use = one.fell_out[Step.IN_USE]
    return [
        waiting.IN_USE.found(
            lack.about,
            request=one.request,
            needed=max(one.needed, 1),
            count=wording.devices(count),
            number=f"{in_use} {'is' if in_use == 1 else 'are'}" if one.left else ("it is" if count == 1 else "all are"),
            holders=lack.holders(one),
        )
    ]


def _shares_taken(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    name = next((name for name in one.most if name in wanted.capacity), next(iter(one.most), ""))
    most = one.most.get(name, 0)
    asked = wanted.capacity.get(name)
    where = _where_less_fits(lack, wanted, name, most) if asked and most > 0 else ""
    less = f"Ask for {wording.amount(most)} or less: fits on {where} now." if where else ""
    return [
        waiting.SHARES_TAKEN.found(
            lack.about,
            request=one.request,
            asks=_amount_asked(name, asked, most),
            left=_amount_left(name, most),
            asked=wording.amount(asked) if asked else "",
            capacity=name,
            most=wording.amount(most),
            holders=lack.holders(one),
            remedy=less or "Wait until one is released, or delete a pod that does not need it any more.",
        )
    ]


def _amount_asked(name: str, asked: int | None, most: int) -> str:
    if asked:
        return wording.of_capacity(asked, name)
    # Who asks for no amount gets the default, which is one share.
    return wording.of_capacity(wording.ONE, name) if name == wording.SHARES and not most else f"the default of {name}"


def _amount_left(name: str, most: int) -> str:
    if most:
        return f"more than {wording.amount(most)} left"
    return "one left" if name == wording.SHARES else "any left"


def _other_mode(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    count = wording.devices(one.fell_out[Step.COUNTERS])
    if not _held_by_ours(one, lack):
        return [waiting.EXCLUDED.found(lack.about, request=one.request, count=count, holders=lack.holders(one))]
    found = [waiting.OTHER_MODE.found(lack.about, request=one.request, count=count, holders=lack.holders(one))]
    if fragmented := fragments.finding(one, wanted, lack.asking, lack.about, lack.scene.now):
        return [fragmented]
    return found


def _held_by_ours(one: Reasons, lack: Lack) -> bool:
    """Only our devices exclude each other by modes."""
    known = [lack.asking.holders[key] for key in one.holders if key in lack.asking.holders]
    return not known or any(result.driver == lack.scene.driver for claim in known for result in claim.results)


def _without_attribute(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    del one, wanted
    return [not_together(lack)]


def _reserved(one: Reasons, wanted: Wanted, lack: Lack) -> list[Finding]:
    del one, wanted
    namespace = lack.claims[0].namespace
    policies = {policy for _, found in lack.answer.answered for policy in found.denied_by} or set(lack.asking.denied)
    return [classes.not_a_tenant(policy, namespace, lack.about, lack.scene) for policy in sorted(policies)[:1]]


SAID_OF: Final[Mapping[Step, Callable[[Reasons, Wanted, Lack], list[Finding]]]] = {
    Step.CLASS_SELECTOR: _nothing_matches,
    Step.REQUEST_SELECTOR: _nothing_matches,
    Step.RESERVED: _excluded_as_reserved,
    Step.CLOSING: _closing,
    Step.TAINT: _tainted,
    Step.UNKNOWN_CAPACITY: _unknown_capacity,
    Step.CAPACITY: _too_large,
    Step.IN_USE: _in_use,
    Step.CAPACITY_TAKEN: _shares_taken,
    Step.COUNTERS: _other_mode,
    Step.CONSTRAINT: _without_attribute,
    Step.GUARD: _reserved,
}


def _where_less_fits(lack: Lack, wanted: Wanted, name: str, most: int) -> str:
    """A place where the pod would fit with less of one capacity: node/device."""
    claims = [_with_amount(claim, wanted, name, most) for claim in lack.claims]
    answer = lack.asking.ask(claims, with_reasons=False)
    for node, found in answer.fitting(lack.nodes):
        for chosen in found.chosen or ():
            for one in chosen:
                if one.wanted.name == wanted.name:
                    return f"{node}/{one.device.id[2]}"
    return ""


def _with_amount(claim: Claim, wanted: Wanted, name: str, most: int) -> Claim:
    requests = tuple(
        Request(
            name=request.name,
            is_list=request.is_list,
            alternatives=tuple(
                replace(one, capacity={**one.capacity, name: most}) if one is wanted else one
                for one in request.alternatives
            ),
        )
        for request in claim.requests
    )
    return replace(claim, requests=requests)
