"""What is asked of a tenant, in CEL: what must hold for a policy `p`, and what is said where it does not.

They are put together here because several guards ask for the same. `p` is an entry of `literals.of_policy`.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gpusharing.api import names, nvidia


class Check(NamedTuple):
    holds: str
    says: str
    """An expression, too."""


def is_tenant(labels: str) -> str:
    """Whether a namespace with these labels is one of its tenants."""
    has = f"(e.key in {labels} && {labels}[e.key] in e.values)"
    return f"""\
(!has(p.matchLabels) || p.matchLabels.all(k, k in {labels} && {labels}[k] == p.matchLabels[k])) &&
(!has(p.matchExpressions) || p.matchExpressions.all(e,
  e.operator == 'In' ? {has} :
  e.operator == 'NotIn' ? !{has} :
  e.operator == 'Exists' ? e.key in {labels} : !(e.key in {labels})))"""


IS_RESTRICTED: Final = (
    "(has(p.matchLabels) && size(p.matchLabels) > 0 || has(p.matchExpressions) && size(p.matchExpressions) > 0)"
)


def of_tenants(what: str) -> Check:
    says = (
        "'namespace ' + namespaceObject.metadata.name + ' is not one of its tenants (spec.tenants.namespaces); ' + "
        f"{what} + ' is for them'"
    )
    return Check(is_tenant("variables.labels"), says)


def no_admin_access(requests: str) -> Check:
    """Of a GPU that others hold, that is: they would not be alone."""
    return Check(
        f"!{IS_RESTRICTED} || {requests}.all(r, !has(r.adminAccess) || !r.adminAccess)",
        "'adminAccess is not for tenants'",
    )


def _given(value: str) -> str:
    return f"has({value}) && {value} != null"


def _at_most(amount: str, limit: str) -> str:
    """Of quantities. One below zero would make room for others."""
    read = f"quantity(string({amount}))"
    return f"({read}.compareTo(quantity(string({limit}))) <= 0 && !{read}.isLessThan(quantity('0')))"


_INTERVAL: Final = (
    f"({_given('s.timeSlicingConfig')} && {_given('s.timeSlicingConfig.interval')} ? "
    "s.timeSlicingConfig.interval : 'Default')"
)
_THREADS: Final = "m.defaultActiveThreadPercentage"
_MEMORY: Final = "m.defaultPinnedDeviceMemoryLimit"
_MEMORY_EACH: Final = "m.defaultPerDevicePinnedMemoryLimit"

# The variables that the checks below read.
SETTINGS: Final = {
    "sharing": f"variables.configs.filter(c, {_given('c.sharing')}).map(c, c.sharing)",
    "mps": f"variables.sharing.filter(s, {_given('s.mpsConfig')}).map(s, s.mpsConfig)",
}

SETTINGS_CHECKS: Final[Sequence[Check]] = (
    Check(
        f"""\
variables.configs.all(c, c.?apiVersion.orValue('') == '{nvidia.API_VERSION}' &&
  c.?kind.orValue('') in ['GpuConfig', 'MigDeviceConfig'] && c.all(k, k in ['apiVersion', 'kind', 'sharing']))""",
        f"'a config for {names.DEFAULT_DRIVER} must be a GpuConfig or MigDeviceConfig of {nvidia.API_VERSION} with"
        " nothing but sharing'",
    ),
    Check(
        f"""\
variables.sharing.all(s, {_given("s.strategy")} &&
  (!has(s.timeSlicingConfig) || s.strategy == 'TimeSlicing') && (!has(s.mpsConfig) || s.strategy == 'MPS') &&
  s.all(k, k in ['strategy', 'timeSlicingConfig', 'mpsConfig']))""",
        "'sharing must have a strategy, and beside it nothing but the config of that strategy'",
    ),
    Check(
        "!has(p.gpuConfig) || variables.sharing.all(s, s.?strategy.orValue('') in p.gpuConfig)",
        "size(p.gpuConfig) == 0 ? 'a claim may not set sharing' : 'sharing.strategy may be ' + p.gpuConfig.join(', ')",
    ),
    Check(
        f"""\
!has(p.intervals) ||
variables.sharing.all(s, s.?strategy.orValue('') != 'TimeSlicing' || {_INTERVAL} in p.intervals)""",
        "size(p.intervals) == 0 ? 'a claim may not set an interval' : "
        "'timeSlicingConfig.interval may be ' + p.intervals.join(', ') + ' (absent, it is Default)'",
    ),
    Check(
        f"!has(p.maxThreads) ||\nvariables.mps.all(m, !({_given(_THREADS)}) || {_at_most(_THREADS, 'p.maxThreads')})",
        "'mpsConfig.defaultActiveThreadPercentage may be at most ' + string(p.maxThreads)",
    ),
    Check(
        f"""\
!has(p.maxMemory) || variables.mps.all(m,
  (!({_given(_MEMORY)}) || {_at_most(_MEMORY, "p.maxMemory")}) &&
  (!({_given(_MEMORY_EACH)}) || {_MEMORY_EACH}.all(k, {_at_most(_MEMORY_EACH + "[k]", "p.maxMemory")})))""",
        "'limits of memory in mpsConfig may be at most ' + p.maxMemory",
    ),
)

_LIMITS: Final = {"shares": "maxShares", "memory": "maxMemory", "threads": "maxThreads"}
_UNITS: Final = {"shares": "", "memory": "", "threads": " percent"}

# Of a whole GPU, an amount is only what it must have at least.
ASKING: Final = {
    "asking": "variables.mine.filter(r, "
    "(r.deviceClassName.endsWith('-timeslicing') || r.deviceClassName.endsWith('-mps')) && "
    f"{_given('r.capacity')} && {_given('r.capacity.requests')})"
}


def requested(asking: str) -> Sequence[Check]:
    """By request, as far as it says something."""

    def check(capacity: str, limit: str) -> Check:
        amount = f"r.capacity.requests.{capacity}"
        within = f"{asking}.all(r, !has({amount}) || {_at_most(amount, f'p.{limit}')})"
        return _amounts(capacity, within, "a request")

    return [check(capacity, limit) for capacity, limit in _LIMITS.items()]


def allocated(results: str) -> Sequence[Check]:
    """By device: several requests of a claim may have got the same one."""

    def check(capacity: str, limit: str) -> Check:
        consuming = f"{results}.filter(r, has(r.consumedCapacity) && has(r.consumedCapacity.{capacity}))"
        total = (
            f"{consuming}.filter(other, other.device == r.device && other.pool == r.pool)"
            f".map(other, quantity(string(other.consumedCapacity.{capacity})).asApproximateFloat()).sum()"
        )
        most = f"quantity(string(p.{limit})).asApproximateFloat()"
        return _amounts(capacity, f"{consuming}.all(r, {total} <= {most})", "a claim")

    return [check(capacity, limit) for capacity, limit in _LIMITS.items()]


def _amounts(capacity: str, within: str, who: str) -> Check:
    limit = _LIMITS[capacity]
    says = f"'{who} may have at most ' + string(p.{limit}) + '{_UNITS[capacity]} of the {capacity} of a shared GPU'"
    return Check(f"!has(p.{limit}) || {within}", says)
