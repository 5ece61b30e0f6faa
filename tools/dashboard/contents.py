"""The rows of the dashboard: which claim is on which GPU, what is promised, used and waited for, and is all well?"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from dashboard.panels import Panel, Query, bars, faults, lines, now, number, over_time, part, rows

_EACH_GPU: Final = 50
"""So many bars."""

CLUSTER: Final = 'cluster=~"$cluster"'
_NODE: Final = f'{CLUSTER},node=~"$node"'
_POLICY: Final = f'{CLUSTER},policy=~"$policy"'
_TENANT: Final = f'{_POLICY},namespace=~"$namespace"'

_GPUS: Final = f'gpusharing_gpu_info{{{_NODE},policy=~"$policy"}}'


def _of_gpus(metric: str) -> str:
    """Of those that were chosen: by policy, too."""
    return f"({metric}{{{_NODE}}} and on (cluster, node, gpu_uuid) {_GPUS})"


def _of_claims(metric: str) -> str:
    """Likewise, with labels that only one metric has."""
    return (
        f'({metric}{{{_NODE},namespace=~"$namespace"}} * on (cluster, claim_uid, device) group_left (policy, sharing)'
        f" gpusharing_claim_device_info{{{_TENANT}}})"
    )


_PROMISED: Final = _of_claims("gpusharing_claim_share_ratio")
_USED: Final = _of_claims("gpusharing_claim_sm_utilization_ratio")
_PART_OF_MEMORY_USED: Final = (
    f"{_of_claims('gpusharing_claim_memory_used_bytes')}"
    f" / on (cluster, node, gpu_uuid) group_left () gpusharing_gpu_memory_bytes{{{_NODE}}}"
)


class Row(NamedTuple):
    title: str
    panels: Sequence[Panel]


def _of_all_gpus(what: str) -> str:
    """0 where there is none, and nothing where there are no GPUs."""
    return f"(sum({what}) or vector(0)) / count({_GPUS})"


def _of_each_gpu(what: str) -> Query:
    every = f"sum by (cluster, node, gpu_uuid) ({what} or {_GPUS} * 0)"
    named = f"{every} * on (cluster, node, gpu_uuid) group_left (slot) {_GPUS}"
    return now(f"topk({_EACH_GPU}, {named})", "{{node}} gpu-{{slot}}")


_FLEET: Final = Row(
    "Fleet",
    [
        number("GPUs", f"count({_GPUS})", "GPUs that agents report."),
        part("Promised", _of_all_gpus(_PROMISED), "What part of the GPUs claims were promised."),
        part("Used", _of_all_gpus(_USED), "How busy claims keep the GPUs, on average; of MIG nobody knows it."),
        part(
            "Memory promised",
            f"sum({_of_gpus('gpusharing_gpu_memory_promised_bytes')}) / sum({_of_gpus('gpusharing_gpu_memory_bytes')})",
            "What part of the GPUs' memory claims were promised.",
        ),
        number(
            "Claims on GPUs", f"count(group by (claim_uid) ({_PROMISED})) or vector(0)", "Claims that hold devices."
        ),
        number(
            "Waiting claims",
            f"sum(gpusharing_pending_claims{{{_TENANT}}}) or vector(0)",
            "Claims that wait for a device.",
        ),
        lines(
            "Promised and used GPUs",
            [
                over_time(f"count({_GPUS})", "GPUs"),
                over_time(f"sum({_PROMISED}) or vector(0)", "promised"),
                over_time(f"sum({_USED}) or vector(0)", "used"),
            ],
            "A claim that was promised a quarter of a GPU counts as 0.25.",
        ),
        lines(
            "Waiting claims by reason",
            [over_time(f"sum by (reason) (gpusharing_pending_claims{{{_TENANT}}})", "{{reason}}")],
            "`kubectl gpusharing explain` says of one pod why it waits.",
            stacked=True,
        ),
    ],
)

_EACH: Final = Row(
    "GPUs",
    [
        bars(
            "Promised, by GPU",
            [_of_each_gpu(_PROMISED)],
            f"The {_EACH_GPU} GPUs of which most is promised.",
            width=8,
        ),
        bars(
            "Used, by GPU",
            [_of_each_gpu(_USED)],
            f"The {_EACH_GPU} GPUs that claims keep busiest; of MIG nobody knows it.",
            width=8,
        ),
        bars(
            "Memory used, by GPU",
            [_of_each_gpu(_PART_OF_MEMORY_USED)],
            f"The {_EACH_GPU} GPUs of which claims use most memory.",
            width=8,
        ),
        bars(
            "Shares",
            [now(f"sum by (sharing, state) ({_of_gpus('gpusharing_gpu_shares')})", "{{sharing}} {{state}}")],
            "Shares that claims hold, and free ones; of MIG memory slices. A free GPU counts in each of its modes.",
            unit="short",
            width=8,
        ),
        rows(
            "Claims and their GPUs",
            _PROMISED,
            ("node", "gpu_uuid", "device", "sharing", "policy", "namespace", "claim"),
            "promised",
            "Each device of each claim.",
            unit="percentunit",
            width=16,
        ),
    ],
)

_NAMESPACES: Final = Row(
    "Namespaces",
    [
        lines(
            "Promised GPUs by namespace",
            [over_time(f"sum by (namespace) ({_PROMISED})", "{{namespace}}")],
            "The sum is never more than there are GPUs.",
            stacked=True,
        ),
        lines(
            "Used GPUs by namespace",
            [over_time(f"sum by (namespace) ({_USED})", "{{namespace}}")],
            "By the time that processes keep multiprocessors busy.",
            stacked=True,
        ),
        bars(
            "Quota used",
            [
                now(
                    f"sum by (namespace, policy, sharing) (gpusharing_quota_used{{{_TENANT}}})"
                    f" / sum by (namespace, policy, sharing) (gpusharing_quota_hard{{{_TENANT}}})",
                    "{{namespace}} {{policy}} {{sharing}}",
                )
            ],
            "Of namespaces whose policy has spec.tenants.quota.",
            width=8,
        ),
        bars(
            "GPU-hours",
            [
                now(
                    f"sum by (namespace) (sum_over_time(namespace_node:gpusharing_promised_gpus:sum"
                    f'{{{_NODE},namespace=~"$namespace"}}[$__range])) / 60',
                    "{{namespace}}",
                )
            ],
            "In the time range above, by what was promised. It needs the recording rules.",
            unit="short",
            width=8,
        ),
        rows(
            "Idle holders",
            f"{_PROMISED} and on (cluster, claim_uid, device)"
            f" max_over_time(gpusharing_claim_sm_utilization_ratio{{{_NODE}}}[1h]) < 0.05",
            ("namespace", "claim", "node", "device"),
            "promised",
            "Claims whose processes used less than 5 % of the GPU at any time of the last hour.",
            unit="percentunit",
            width=8,
        ),
    ],
)

_POLICIES: Final = Row(
    "Policies",
    [
        rows(
            "Conditions",
            f"gpusharing_policy_condition{{{_POLICY}}} == 1",
            ("policy", "type", "status", "reason"),
            "value",
            "`kubectl describe sharingpolicy` has the messages.",
        ),
        lines(
            "GPUs and clients by policy",
            [
                over_time(f'gpusharing_policy_gpus{{{_POLICY},state="won"}}', "{{policy}}: GPUs"),
                over_time(f"sum by (policy) (gpusharing_policy_clients{{{_POLICY}}})", "{{policy}}: clients"),
            ],
            "GPUs that a policy has won, and devices on them that claims have.",
        ),
        lines(
            "Rollout",
            [over_time(f"sum by (policy, state) (gpusharing_rollout_nodes{{{_POLICY}}}) > 0", "{{policy}} {{state}}")],
            "Nodes of a policy on which it is in force (Ready), and others by the reason why it is not yet.",
            stacked=True,
        ),
        lines(
            "Evictions",
            [
                over_time(
                    f"sum by (policy) (increase(gpusharing_evictions_total{{{_POLICY}}}[$__rate_interval]))",
                    "{{policy}}",
                )
            ],
            "Claims that had to leave their devices.",
        ),
    ],
)

_AGENTS: Final = Row(
    "Agents and operator",
    [
        faults(
            "Agents down",
            f'count(up{{{_NODE},job="gpusharing-agent"}} == 0) or vector(0)',
            "Agents that do not answer Prometheus.",
        ),
        number("Leaders", f"sum(gpusharing_leading{{{CLUSTER}}})", "Operator replicas that lead: one."),
        faults("Drivers that hang", f"sum(gpusharing_agent_driver_hung{{{_NODE}}})", "No claim can be prepared there."),
        faults(
            "GPUs with failed settings",
            f"sum(gpusharing_agent_gpus_with_failed_settings{{{_NODE}}})",
            "The conditions of NodeSharings have the cause.",
        ),
        faults(
            "Writes that fail",
            f"sum(gpusharing_writes_failing{{{CLUSTER}}})",
            "Objects that the operator cannot write.",
        ),
        number("Age of changes", f"max(gpusharing_loop_lag_seconds{{{CLUSTER}}})", "Not decided on yet.", unit="s"),
        lines(
            "Time to prepare a claim",
            [
                over_time(
                    "histogram_quantile(0.95, sum by (le, sharing) (rate("
                    f"gpusharing_agent_prepare_duration_seconds_bucket{{{_NODE}}}[$__rate_interval])))",
                    "{{sharing}}",
                )
            ],
            "95 of 100 claims take less.",
            unit="s",
        ),
        lines(
            "Claims that were not prepared",
            [
                over_time(
                    "sum by (node, reason) (increase("
                    f"gpusharing_agent_prepare_failures_total{{{_NODE}}}[$__rate_interval])) > 0",
                    "{{node}} {{reason}}",
                )
            ],
            "The kubelet tries again.",
        ),
    ],
)

ALL: Final = (_FLEET, _EACH, _NAMESPACES, _POLICIES, _AGENTS)
