"""Why no node has the devices: from the reasons of an allocation to findings.

A request is hopeless if no node has enough devices that would do, even if all were free. Then what excludes them is an
error, and otherwise it is said what has to become free.
"""

from collections.abc import Collection
from typing import Final

from gpusharing.api.names import GROUP
from gpusharing.core.allocate.reasons import Reasons, Step
from gpusharing.explaining import failed_steps, refusals, wording
from gpusharing.explaining.asking import Answer
from gpusharing.explaining.lack import Lack
from gpusharing.findings import waiting
from gpusharing.findings.finding import Finding

_TEMPORARY: Final = frozenset({Step.CLOSING, Step.IN_USE, Step.CAPACITY_TAKEN, Step.COUNTERS})
"""By which a device falls out until others release something."""
_IN_WORDS: Final = {
    Step.CLASS_SELECTOR: "not of the class",
    Step.REQUEST_SELECTOR: "not selected by the request",
    Step.RESERVED: "reserved by their policy",
    Step.CLOSING: "closing",
    Step.TAINT: "tainted",
    Step.UNKNOWN_CAPACITY: "without this capacity",
    Step.CAPACITY: "too small",
    Step.IN_USE: "in use",
    Step.CAPACITY_TAKEN: "too little left",
    Step.COUNTERS: "excluded by other devices",
    Step.CONSTRAINT: "without the attribute of the constraint",
    Step.GUARD: "reserved for other namespaces",
}


def findings(lack: Lack) -> list[Finding]:
    """The most helpful first."""
    found: list[Finding] = []
    by_request: dict[tuple[object, str], list[Reasons]] = {}
    for one in lack.answer.reasons(lack.nodes):
        by_request.setdefault((one.claim, one.request.partition("/")[0]), []).append(one)
    for alternatives in by_request.values():
        hopeful = [one for one in alternatives if _most_on_a_node(one, lack) >= max(one.needed, 1)]
        for one in hopeful or alternatives:
            found += _of_request(one, lack, is_hopeless=not hopeful)
    return found or ([failed_steps.not_together(lack)] if has_devices(lack.answer, lack.nodes) else [])


def has_devices(answer: Answer, nodes: Collection[str]) -> bool:
    return any(one.looked_at for one in answer.reasons(nodes))


def matches_nothing(lack: Lack) -> bool:
    """Whether some request matches no published device at all."""
    return any(one.looked_at and one.looked_at == one.unmatched for one in lack.answer.reasons(lack.nodes))


def steps(lack: Lack) -> list[tuple[str, ...]]:
    """Rows: request, devices, what became of them."""
    rows: list[tuple[str, ...]] = []
    for one in lack.answer.reasons(lack.nodes):
        parts = [f"{one.fell_out[step]} {_IN_WORDS[step]}" for step in Step if one.fell_out[step]]
        parts += [f"{one.left} would do"] if one.left else []
        rows.append((one.request, str(one.looked_at), ", ".join(parts)))
    return rows


def _of_request(one: Reasons, lack: Lack, *, is_hopeless: bool) -> list[Finding]:
    if any(alone.is_enough for _, alone in lack.on_each_node(one)):
        return []  # it competes with other requests, or with what a constraint makes of them together
    most = _most_on_a_node(one, lack)
    if is_hopeless and most:
        needed = wording.devices(one.needed)
        return [waiting.TOO_FEW.found(lack.about, request=one.request, needed=needed, most=most)]
    wanted = lack.wanted(one)
    found: list[Finding] = []
    for step in reversed(Step):
        if one.fell_out[step] and (is_hopeless or step in _TEMPORARY or step is Step.TAINT):
            found += failed_steps.SAID_OF[step](one, wanted, lack)
    if text := refusals.compared_as_text(wanted, lack.about):
        found.insert(0, text)
    # That others do not match is of interest only if none does; then it is said once, of class or request.
    matching = [finding for finding in found if finding.entry is not waiting.NOTHING_MATCHES]
    return matching or found[:1]


def _most_on_a_node(like: Reasons, lack: Lack) -> int:
    """Devices of one node that would do for it if all were free."""
    return max((_possible(one) for _, one in lack.on_each_node(like)), default=0)


def _possible(one: Reasons) -> int:
    by_ours = sum(count for key, count in one.taints.items() if key.startswith(f"{GROUP}/"))
    return one.left + by_ours + sum(one.fell_out[step] for step in _TEMPORARY)
