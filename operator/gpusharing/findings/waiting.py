"""GSH02xx: why a pod or a claim waits. An Error: it will not run before somebody changes something."""

from typing import Final

from gpusharing.findings.finding import Entry, Severity

NO_SLICES: Final = Entry(
    code="GSH0201",
    severity=Severity.ERROR,
    title="No node publishes devices",
    sentence="Request {request} needs a device of class {class_}, and no node publishes any device.",
    remedy="{remedy}",
)
AGENT_NOT_RUNNING: Final = Entry(
    code="GSH0202",
    severity=Severity.WARNING,
    title="Agent not running",
    sentence="The agent does not run on {nodes}: {why}.",
    remedy="{remedy}",
)
NOTHING_MATCHES: Final = Entry(
    code="GSH0203",
    severity=Severity.ERROR,
    title="No device matches",
    sentence="None of {count} matches {whose} of request {request}: {expression}",
    remedy="Change {whose}, or add nodes that have such devices. Compare with `kubectl get resourceslices -o yaml`.",
)
TOO_LARGE: Final = Entry(
    code="GSH0204",
    severity=Severity.ERROR,
    title="No device gives so much",
    sentence="Request {request} asks for {asks}, and no device that matches gives more than {most}.",
    remedy="Ask for {most} or less{where}.",
)
IN_USE: Final = Entry(
    code="GSH0205",
    severity=Severity.WARNING,
    title="All devices in use",
    sentence="Request {request} needs {needed} of {count}, and {number} in use: {holders}.",
    remedy="Wait until one is released, or delete a pod that does not need it any more.",
)
SHARES_TAKEN: Final = Entry(
    code="GSH0206",
    severity=Severity.WARNING,
    title="Too little left",
    sentence="Request {request} asks for {asks}, and no device has {left}: {holders}.",
    remedy="{remedy}",
)
OTHER_MODE: Final = Entry(
    code="GSH0207",
    severity=Severity.WARNING,
    title="GPUs in use in another mode",
    sentence="Request {request}: {count} cannot be allocated because the GPUs are in use in another mode: {holders}.",
    remedy="Wait until they are released, or request the mode in which they are in use.",
)
FRAGMENTED: Final = Entry(
    code="GSH0208",
    severity=Severity.WARNING,
    title="MIG instances are fragmented",
    sentence="{place} has {free} memory slices free, but not where a {profile} can start: {holders}.",
    remedy="Delete one of these pods and let it start again, or request a smaller profile.",
)
UNKNOWN_CAPACITY: Final = Entry(
    code="GSH0209",
    severity=Severity.ERROR,
    title="Unknown capacity",
    sentence="Request {request} asks for capacity {capacity}, which the devices do not have; they have {known}.",
    remedy="Use one of these names, as they are written in the ResourceSlice: Kubernetes compares them literally.",
)
SELECTOR_FAILS: Final = Entry(
    code="GSH0210",
    severity=Severity.ERROR,
    title="Selector fails",
    sentence="The selector of {whose} fails on device {device}, so Kubernetes does not schedule the pod: {problem}",
    remedy="{remedy}",
)
CAPACITY_AS_ATTRIBUTE: Final = Entry(
    code="GSH0211",
    severity=Severity.ERROR,
    title="A capacity is read as an attribute",
    sentence="The selector of {whose} reads attribute {name}, which is a capacity: it fails on every device.",
    remedy="Write `{instead}`.",
)
COMPARED_AS_TEXT: Final = Entry(
    code="GSH0212",
    severity=Severity.ERROR,
    title="An amount is compared as text",
    sentence='The selector of {whose} compares with the text "{amount}", by letters: "9Gi" is more than "16Gi" there.',
    remedy='Compare capacities: `device.capacity["{driver}"].memory.compareTo(quantity("{amount}")) >= 0`.',
)
NO_CLASS: Final = Entry(
    code="GSH0213",
    severity=Severity.ERROR,
    title="Device class missing",
    sentence="Request {request} needs device class {class_}, which does not exist{why}.",
    remedy="{remedy}",
)
MODE_NOT_OFFERED: Final = Entry(
    code="GSH0214",
    severity=Severity.ERROR,
    title="The policy does not offer the mode",
    sentence="Class {class_} is for {mode} on GPUs of SharingPolicy {policy}, which does not offer {mode}.",
    remedy="Use a class of a mode that the policy offers ({offered}), or add {field} to its spec.offers.",
)
NOT_A_TENANT: Final = Entry(
    code="GSH0215",
    severity=Severity.ERROR,
    title="Namespace is not a tenant",
    sentence="Namespace {namespace} is no tenant of SharingPolicy {policy} ({tenants}), which reserves the devices.",
    remedy="Use another class, or let the owner of the policy add the namespace to its tenants.",
)
CLOSING: Final = Entry(
    code="GSH0216",
    severity=Severity.WARNING,
    title="Devices are closing",
    sentence="Request {request}: {count} closing: their mode is no longer offered, or the GPU is in use in another.",
    remedy="Use a mode that is offered, or wait: devices that close come back when the GPU is idle and offers them.",
)
TAINTED: Final = Entry(
    code="GSH0217",
    severity=Severity.ERROR,
    title="Devices are tainted",
    sentence="Request {request}: {count} tainted with {taints}, which the request does not tolerate.",
    remedy="{remedy}",
)
POOL_INCOMPLETE: Final = Entry(
    code="GSH0218",
    severity=Severity.WARNING,
    title="Pool is being updated",
    sentence="Slices of {pools} are missing, so Kubernetes does not use {these}.",
    remedy="Wait some seconds. If it stays so, see the log of the driver on that node.",
)
POOL_INVALID: Final = Entry(
    code="GSH0219",
    severity=Severity.ERROR,
    title="Pool is invalid",
    sentence="Kubernetes does not use pool {pool}: {problem}.",
    remedy="Correct the driver that publishes it.",
)
NOT_TOGETHER: Final = Entry(
    code="GSH0220",
    severity=Severity.WARNING,
    title="Not enough devices together",
    sentence="Each request has a device for itself, but no node has all of them together{constraint}.",
    remedy="Ask for fewer devices, remove the constraint, or wait until more are free on one node.",
)
ALLOCATED_ELSEWHERE: Final = Entry(
    code="GSH0221",
    severity=Severity.WARNING,
    title="A claim is allocated on another node",
    sentence="Claim {claim} has its devices on {nodes}, and the pod cannot run there.",
    remedy="Delete the other pods of the claim, or let this pod run on that node.",
)
CLAIM_FULL: Final = Entry(
    code="GSH0222",
    severity=Severity.WARNING,
    title="Too many pods share the claim",
    sentence="Claim {claim} is reserved for 256 pods, which is the most that Kubernetes allows.",
    remedy="Use another claim for more pods.",
)
NO_CLAIM: Final = Entry(
    code="GSH0223",
    severity=Severity.ERROR,
    title="Claim missing",
    sentence="The pod needs a claim ({entry}), and {problem}.",
    remedy="{remedy}",
)
NO_TEMPLATE: Final = Entry(
    code="GSH0224",
    severity=Severity.ERROR,
    title="Claim template missing",
    sentence="The pod needs ResourceClaimTemplate {template}, which does not exist in namespace {namespace}.",
    remedy="Create it, with apiVersion resource.k8s.io/v1: this API server serves {served}.",
)
POD_GROUP: Final = Entry(
    code="GSH0225",
    severity=Severity.WARNING,
    title="PodGroup is waiting",
    sentence="The pod is in PodGroup {group}, of which no pod starts before all can: {problem}.",
    remedy="Create the missing pods of the group, or make room for all of them.",
)
GATED: Final = Entry(
    code="GSH0226",
    severity=Severity.WARNING,
    title="Scheduling gates",
    sentence="The scheduler does not look at the pod yet: it has {gates}.",
    remedy="See the controller that removes the gate; with Kueue: `kubectl get workloads`.",
)
NODES_EXCLUDED: Final = Entry(
    code="GSH0227",
    severity=Severity.ERROR,
    title="The pod may not run where devices are",
    sentence="It would fit on {nodes}, but {why}.",
    remedy="{remedy}",
)
OTHER_REASON: Final = Entry(
    code="GSH0228",
    severity=Severity.WARNING,
    title="Not because of devices",
    sentence="Devices are free on {nodes}, but the scheduler says: {reasons}.",
    remedy="Make room for the pod on a node that has devices, or lower what it requests.",
)
FITS: Final = Entry(
    code="GSH0229",
    severity=Severity.INFO,
    title="It fits now",
    sentence="Devices are free on {nodes}{devices}.",
    remedy="Wait for the scheduler: it tries again when something changes, at the latest after five minutes.",
)
DIFFERS: Final = Entry(
    code="GSH0230",
    severity=Severity.WARNING,
    title="The scheduler says something else",
    sentence="The scheduler says: {message}",
    remedy="If this is newer than the last change of the cluster, report it with `gpusharing snapshot`.",
)
NOT_PROVIDED: Final = Entry(
    code="GSH0231",
    severity=Severity.ERROR,
    title="Nobody provides the extended resource",
    sentence="The pod asks for {resource}, which neither a device class nor a device plugin provides.",
    remedy="Set spec.extendedResourceName of a DeviceClass, or classes.extendedResources of a SharingPolicy.",
)
GAVE_UP: Final = Entry(
    code="GSH0232",
    severity=Severity.WARNING,
    title="Too many combinations",
    sentence="The requests have too many combinations to try on {nodes}; the scheduler may run out of time, too.",
    remedy="Use fewer constraints, or fewer devices in one claim.",
)
REFUSED: Final = Entry(
    code="GSH0233",
    severity=Severity.ERROR,
    title="Kubernetes refuses the claim",
    sentence="Kubernetes does not schedule the pod{where}: {problem}.",
    remedy="Correct the claim.",
)
NO_POD: Final = Entry(
    code="GSH0234",
    severity=Severity.WARNING,
    title="No pod uses the claim",
    sentence="Kubernetes allocates a claim when a pod needs it, and no pod uses this one.",
    remedy="Create a pod with `resourceClaims: [{{name: gpu, resourceClaimName: {name}}}]`.",
)
TOO_FEW: Final = Entry(
    code="GSH0235",
    severity=Severity.ERROR,
    title="Too few devices on a node",
    sentence="Request {request} needs {needed}, and no node has more than {most} that match.",
    remedy="Ask for {most} or less, or use several pods.",
)
NOT_AVAILABLE: Final = Entry(
    code="GSH0236",
    severity=Severity.WARNING,
    title="Devices are not available now",
    sentence="Request {request}: {count} tainted with {taints} by the agent or the operator.",
    remedy="{remedy}",
)

EXCLUDED: Final = Entry(
    code="GSH0237",
    severity=Severity.WARNING,
    title="Devices exclude each other",
    sentence="Request {request}: {count} cannot be allocated together with devices that are in use: {holders}.",
    remedy="Wait until they are released, or request another device.",
)
NOT_BOUND: Final = Entry(
    code="GSH0238",
    severity=Severity.INFO,
    title="The driver prepares the devices",
    sentence="Claim {claim} has {device}, of which driver {driver} has not reported yet: {conditions}.",
    remedy="Wait for the driver. If it takes minutes, see the driver's log.",
)
RESERVED: Final = Entry(
    code="GSH0239",
    severity=Severity.ERROR,
    title="GPUs are reserved",
    sentence="{gpus} reserved for tenants of {policies}.",
    remedy="{remedy}",
)
NOT_PUBLISHED: Final = Entry(
    code="GSH0240",
    severity=Severity.ERROR,
    title="No GPU for a policy's class",
    sentence="Class {class_} is for {mode} on GPUs of SharingPolicy {policy}, {why}.",
    remedy="Run `gpusharing explain policy {policy}`: it has the cause.",
)
ADMIN_WAITS: Final = Entry(
    code="GSH0241",
    severity=Severity.WARNING,
    title="Admin access has to wait",
    sentence="Request {request}: {count} in use, and Kubernetes gives no admin access to a GPU in use before its other "
    "modes are withdrawn: {holders}.",
    remedy="Wait about two minutes: then the agent has withdrawn them.",
)

ENTRIES: Final = (
    NO_SLICES,
    AGENT_NOT_RUNNING,
    NOTHING_MATCHES,
    TOO_LARGE,
    IN_USE,
    SHARES_TAKEN,
    OTHER_MODE,
    FRAGMENTED,
    UNKNOWN_CAPACITY,
    SELECTOR_FAILS,
    CAPACITY_AS_ATTRIBUTE,
    COMPARED_AS_TEXT,
    NO_CLASS,
    MODE_NOT_OFFERED,
    NOT_A_TENANT,
    CLOSING,
    TAINTED,
    POOL_INCOMPLETE,
    POOL_INVALID,
    NOT_TOGETHER,
    ALLOCATED_ELSEWHERE,
    CLAIM_FULL,
    NO_CLAIM,
    NO_TEMPLATE,
    POD_GROUP,
    GATED,
    NODES_EXCLUDED,
    OTHER_REASON,
    FITS,
    DIFFERS,
    NOT_PROVIDED,
    GAVE_UP,
    REFUSED,
    NO_POD,
    TOO_FEW,
    NOT_AVAILABLE,
    EXCLUDED,
    NOT_BOUND,
    RESERVED,
    NOT_PUBLISHED,
    ADMIN_WAITS,
)
