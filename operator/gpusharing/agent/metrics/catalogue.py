"""All that an agent tells Prometheus. docs/metrics.md has the same for readers; a test holds the two together."""

from typing import Final

from gpusharing.agent.metrics.exposition import Metric

_PREFIX: Final = "gpusharing_agent_"

_OF_GPU: Final = ("node", "gpu_uuid")
_OF_CLAIM_DEVICE: Final = (*_OF_GPU, "device", "namespace", "claim", "claim_uid")

CLAIM_DEVICE_INFO: Final = Metric(
    "gpusharing_claim_device_info",
    "gauge",
    "1 for each device that a prepared claim has",
    (*_OF_CLAIM_DEVICE, "pool", "policy", "sharing", "profile", "mig_uuid"),
)
CLAIM_SHARE_RATIO: Final = Metric(
    "gpusharing_claim_share_ratio", "gauge", "Part of the GPU that the claim was promised", _OF_CLAIM_DEVICE
)
CLAIM_MEMORY_PROMISED: Final = Metric(
    "gpusharing_claim_memory_promised_bytes",
    "gauge",
    "GPU memory that the claim was promised; 0 where the policy does not divide it and the claim did not ask for any",
    _OF_CLAIM_DEVICE,
)
GPU_INFO: Final = Metric(
    "gpusharing_gpu_info",
    "gauge",
    "1 for each GPU of the node",
    (*_OF_GPU, "slot", "product", "policy", "offers"),
)
GPU_SHARES: Final = Metric(
    "gpusharing_gpu_shares", "gauge", "Shares of a GPU that are taken or free, by mode", (*_OF_GPU, "sharing", "state")
)
GPU_MEMORY: Final = Metric("gpusharing_gpu_memory_bytes", "gauge", "Memory of a GPU that programs can use", _OF_GPU)
GPU_MEMORY_PROMISED: Final = Metric(
    "gpusharing_gpu_memory_promised_bytes", "gauge", "Memory of a GPU that its claims were promised", _OF_GPU
)

ATTRIBUTION: Final = (
    CLAIM_DEVICE_INFO,
    CLAIM_SHARE_RATIO,
    CLAIM_MEMORY_PROMISED,
    GPU_INFO,
    GPU_SHARES,
    GPU_MEMORY,
    GPU_MEMORY_PROMISED,
)

CLAIM_MEMORY_USED: Final = Metric(
    "gpusharing_claim_memory_used_bytes", "gauge", "GPU memory that the containers of the claim use", _OF_CLAIM_DEVICE
)
CLAIM_MEMORY_LIMIT: Final = Metric(
    "gpusharing_claim_memory_limit_bytes",
    "gauge",
    "GPU memory that the driver lets the containers of the claim use, where a memory wall stands",
    _OF_CLAIM_DEVICE,
)
CLAIM_SM_UTILIZATION: Final = Metric(
    "gpusharing_claim_sm_utilization_ratio",
    "gauge",
    "Part of the last seconds in which the GPU worked for the containers of the claim",
    _OF_CLAIM_DEVICE,
)

USE: Final = (CLAIM_MEMORY_USED, CLAIM_MEMORY_LIMIT, CLAIM_SM_UTILIZATION)

PREPARES: Final = Metric(f"{_PREFIX}prepares_total", "counter", "Claims that the kubelet asked to prepare")
PREPARE_FAILURES: Final = Metric(
    f"{_PREFIX}prepare_failures_total", "counter", "Claims that were not prepared, by the cause", ("reason",)
)
PREPARE_DURATION: Final = Metric(
    f"{_PREFIX}prepare_duration_seconds",
    "histogram",
    "Time to prepare a claim, of those that were prepared, by the mode of its devices",
    ("sharing",),
)
UNPREPARES: Final = Metric(f"{_PREFIX}unprepares_total", "counter", "Claims that the kubelet asked to unprepare")
UNPREPARE_FAILURES: Final = Metric(
    f"{_PREFIX}unprepare_failures_total",
    "counter",
    "Claims that were not unprepared, by the cause",
    ("reason",),
)
UNPREPARE_DURATION: Final = Metric(
    f"{_PREFIX}unprepare_duration_seconds",
    "histogram",
    "Time to unprepare a claim that was prepared, by the mode of its devices",
    ("sharing",),
)

PREPARED_CLAIMS: Final = Metric(f"{_PREFIX}prepared_claims", "gauge", "Claims that are prepared")
CLIENTS: Final = Metric(f"{_PREFIX}clients", "gauge", "Devices of prepared claims, by mode", ("sharing",))
GPUS: Final = Metric(f"{_PREFIX}gpus", "gauge", "GPUs without a known fault")
GPUS_WITH_FAILED_SETTINGS: Final = Metric(
    f"{_PREFIX}gpus_with_failed_settings",
    "gauge",
    "GPUs on which a setting of a claim or of the policy could not be applied",
)
MPS_DAEMONS: Final = Metric(f"{_PREFIX}mps_daemons", "gauge", "MPS control daemons that run for claims")
OPERATION_DURATION: Final = Metric(
    f"{_PREFIX}hardware_operation_duration_seconds",
    "histogram",
    "Time of an operation on the GPUs, with its wait for the driver, whether it succeeded or failed",
    ("operation",),
)
OPERATION_FAILURES: Final = Metric(
    f"{_PREFIX}hardware_operation_failures_total",
    "counter",
    "Operations on the GPUs that failed or were abandoned",
    ("operation",),
)
DRIVER_HUNG: Final = Metric(f"{_PREFIX}driver_hung", "gauge", "1 while the GPU driver has not answered within its time")

DRIFT_REPAIRED: Final = Metric(
    f"{_PREFIX}drift_repaired_total",
    "counter",
    "Settings and files of the agent that another program changed or removed, and that the agent restored",
    ("what",),
)
RECOVERED_GPUS: Final = Metric(
    f"{_PREFIX}recovered_gpus",
    "gauge",
    "GPUs with settings of an earlier agent that this agent found at its start, by the result of their recovery",
    ("result",),
)
QUARANTINED_FILES: Final = Metric(
    f"{_PREFIX}quarantined_state_files",
    "gauge",
    "Damaged files of the state directory that this agent moved aside at its start",
)

REGISTERED: Final = Metric(f"{_PREFIX}kubelet_registered", "gauge", "1 once the kubelet has registered the driver")
SLICE_WRITES: Final = Metric(
    f"{_PREFIX}resource_slice_writes_total", "counter", "ResourceSlices written to the API server", ("verb",)
)
UNREADABLE_OBJECTS: Final = Metric(
    f"{_PREFIX}unreadable_objects_total", "counter", "Objects received that cannot be read", ("kind",)
)
ROUNDS: Final = Metric(
    f"{_PREFIX}rounds_total",
    "counter",
    "Rounds of the agent: settings, ResourceSlices and status brought up to date",
    ("result",),
)
INTERNAL_ERRORS: Final = Metric(
    f"{_PREFIX}internal_errors_total",
    "counter",
    "Errors that the agent did not foresee, by the step that failed: bugs, with a traceback in the log",
    ("step",),
)
WATCH_BROKEN: Final = Metric(
    "gpusharing_watch_broken_seconds", "gauge", "For how long a kind could not be watched; 0 while it is", ("kind",)
)

ALL: Final = (
    *ATTRIBUTION,
    *USE,
    PREPARES,
    PREPARE_FAILURES,
    PREPARE_DURATION,
    UNPREPARES,
    UNPREPARE_FAILURES,
    UNPREPARE_DURATION,
    PREPARED_CLAIMS,
    CLIENTS,
    GPUS,
    GPUS_WITH_FAILED_SETTINGS,
    MPS_DAEMONS,
    OPERATION_DURATION,
    OPERATION_FAILURES,
    DRIVER_HUNG,
    DRIFT_REPAIRED,
    RECOVERED_GPUS,
    QUARANTINED_FILES,
    REGISTERED,
    SLICE_WRITES,
    UNREADABLE_OBJECTS,
    ROUNDS,
    INTERNAL_ERRORS,
    WATCH_BROKEN,
)
