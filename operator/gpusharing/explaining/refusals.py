"""What stops the scheduler before it looks at nodes, or on whichever node: something is wrong with the claim itself."""

import re
from typing import Final

from gpusharing.core.allocate.allocation import Stop
from gpusharing.core.allocate.requests import Wanted
from gpusharing.core.allocate.selecting import Origin, SelectorError
from gpusharing.explaining import classes
from gpusharing.explaining.scene import Scene
from gpusharing.findings import waiting
from gpusharing.findings.finding import Finding, Reference

_NO_CLASS: Final = re.compile(r"device class (\S+) does not exist")
_MISSING: Final = re.compile(r"no such key: (\w+)")
_INSTEAD: Final = "; it is a capacity: "
_COMPARED: Final = re.compile(
    r"""attributes\[["']([^"']+)["']\]\.\w+\s*(?:>=|<=|>|<)\s*["'](\d+(?:\.\d+)?[KMGTPE]i?)["']"""
)


def refusal(stop: Stop, about: Reference, scene: Scene) -> Finding:
    if stop.selector is not None:
        return _of_selector(stop.selector, stop, about)
    if missing := _NO_CLASS.fullmatch(stop.message):
        return classes.missing(missing[1], stop.request, about, scene)
    if "reserved for as many pods" in stop.message:
        return waiting.CLAIM_FULL.found(about, claim=stop.claim)
    where = f"claim {stop.claim}, request {stop.request}" if stop.request else f"claim {stop.claim}"
    return waiting.REFUSED.found(about, where=f" because of {where}", problem=stop.message)


def _of_selector(error: SelectorError, stop: Stop, about: Reference) -> Finding:
    whose = f"request {stop.request}" if error.origin is Origin.REQUEST else f"the class of request {stop.request}"
    problem, _, instead = error.message.partition(_INSTEAD)
    missing = _MISSING.search(problem)
    if missing and instead:
        return waiting.CAPACITY_AS_ATTRIBUTE.found(about, whose=whose, name=missing[1], instead=instead)
    device = "/".join(error.device) if error.device else "of any kind"
    if missing:
        remedy = (
            f"Use the optional form, which needs a default: `.?{missing[1]}.orValue(...)` instead of `.{missing[1]}`."
        )
    else:
        remedy = f"Correct the expression: {error.expression}"
    return waiting.SELECTOR_FAILS.found(about, whose=whose, device=device, problem=problem, remedy=remedy)


def compared_as_text(wanted: Wanted, about: Reference) -> Finding | None:
    """An amount in an attribute that is text is compared letter by letter: nothing fails, and the answer is wrong."""
    for expression in wanted.selectors:
        if found := _COMPARED.search(expression):
            driver, amount = found.groups()
            whose = f"request {wanted.name}"
            return waiting.COMPARED_AS_TEXT.found(about, whose=whose, driver=driver, amount=amount)
    return None
