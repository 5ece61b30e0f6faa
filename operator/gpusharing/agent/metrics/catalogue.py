"""All that an agent tells Prometheus. docs/metrics.md has the same for readers; a test holds the two together."""

from typing import Final

from gpusharing.agent.metrics.exposition import Metric

_PREFIX: Final = "gpusharing_agent_"

PREPARES: Final = Metric(f"{_PREFIX}prepares_total", "counter", "Claims that the kubelet asked to prepare")
PREPARE_FAILURES: Final = Metric(
    f"{_PREFIX}prepare_failures_total", "counter", "Claims that were not prepared, by what was in the way", ("reason",)
)
PREPARE_DURATION: Final = Metric(
    f"{_PREFIX}prepare_duration_seconds",
    "histogram",
    "Time to prepare a claim, of those that were prepared, by how its devices are shared",
    ("sharing",),
)
UNPREPARES: Final = Metric(f"{_PREFIX}unprepares_total", "counter", "Claims that the kubelet asked to unprepare")
UNPREPARE_FAILURES: Final = Metric(
    f"{_PREFIX}unprepare_failures_total",
    "counter",
    "Claims that were not unprepared, by what was in the way",
    ("reason",),
)
UNPREPARE_DURATION: Final = Metric(
    f"{_PREFIX}unprepare_duration_seconds",
    "histogram",
    "Time to unprepare a claim that was prepared, by how its devices were shared",
    ("sharing",),
)

PREPARED_CLAIMS: Final = Metric(f"{_PREFIX}prepared_claims", "gauge", "Claims that are prepared")
CLIENTS: Final = Metric(
    f"{_PREFIX}clients", "gauge", "Devices that prepared claims hold, by how they are shared", ("sharing",)
)
GPUS: Final = Metric(f"{_PREFIX}gpus", "gauge", "GPUs that work as far as the agent knows")
DISOBEYING_GPUS: Final = Metric(
    f"{_PREFIX}disobeying_gpus", "gauge", "GPUs that are not as their claims and the policy want them"
)
MPS_DAEMONS: Final = Metric(f"{_PREFIX}mps_daemons", "gauge", "MPS control daemons that run for claims")
MEMORY_USED: Final = Metric(
    f"{_PREFIX}claim_memory_used_bytes",
    "gauge",
    "GPU memory that the containers of a claim have taken, where memory walls stand around them",
    ("namespace", "claim", "gpu"),
)
MEMORY_LIMIT: Final = Metric(
    f"{_PREFIX}claim_memory_limit_bytes",
    "gauge",
    "GPU memory to which the containers of a claim are held",
    ("namespace", "claim", "gpu"),
)

OPERATION_DURATION: Final = Metric(
    f"{_PREFIX}hardware_operation_duration_seconds",
    "histogram",
    "Time of an operation on the GPUs, with its wait for the driver, however it ended",
    ("operation",),
)
OPERATION_FAILURES: Final = Metric(
    f"{_PREFIX}hardware_operation_failures_total",
    "counter",
    "Operations on the GPUs that failed or were given up",
    ("operation",),
)
DRIVER_HUNG: Final = Metric(f"{_PREFIX}driver_hung", "gauge", "1 while the GPU driver has not answered within its time")

DRIFT_REPAIRED: Final = Metric(
    f"{_PREFIX}drift_repaired_total",
    "counter",
    "What the agent had set on GPUs, others have changed, and the agent has put right",
    ("what",),
)
RECOVERED_GPUS: Final = Metric(
    f"{_PREFIX}recovered_gpus",
    "gauge",
    "GPUs that the journal said an earlier agent had changed when this one started, by how bringing them to where they "
    "belong ended then",
    ("result",),
)
QUARANTINED_FILES: Final = Metric(
    f"{_PREFIX}quarantined_state_files",
    "gauge",
    "Files of the state directory that this agent could not trust at its start and put aside",
)

REGISTERED: Final = Metric(f"{_PREFIX}kubelet_registered", "gauge", "1 once the kubelet has taken the driver in")
SLICE_WRITES: Final = Metric(
    f"{_PREFIX}resource_slice_writes_total", "counter", "ResourceSlices written to the API server", ("verb",)
)
UNREADABLE_OBJECTS: Final = Metric(
    f"{_PREFIX}unreadable_objects_total", "counter", "Times that an object came that cannot be read", ("kind",)
)
ROUNDS: Final = Metric(
    f"{_PREFIX}rounds_total",
    "counter",
    "Rounds from the operator's word to what is set, published and reported",
    ("result",),
)
WATCH_BROKEN: Final = Metric(
    "gpusharing_watch_broken_seconds", "gauge", "For how long a kind could not be watched; 0 while it is", ("kind",)
)

ALL: Final = (
    PREPARES,
    PREPARE_FAILURES,
    PREPARE_DURATION,
    UNPREPARES,
    UNPREPARE_FAILURES,
    UNPREPARE_DURATION,
    PREPARED_CLAIMS,
    CLIENTS,
    GPUS,
    DISOBEYING_GPUS,
    MPS_DAEMONS,
    MEMORY_USED,
    MEMORY_LIMIT,
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
    WATCH_BROKEN,
)
