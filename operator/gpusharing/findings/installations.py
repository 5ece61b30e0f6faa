"""GSH09xx: what `doctor` finds in a cluster, before and after the installation."""

from typing import Final

from gpusharing.findings.finding import Entry, Severity

NOT_CHECKED: Final = Entry(
    code="GSH0901",
    severity=Severity.INFO,
    title="Not checked",
    sentence="{what}: not checked, because {why}.",
    remedy="Ask an administrator for the right, or to run the command.",
)
TOO_OLD: Final = Entry(
    code="GSH0902",
    severity=Severity.ERROR,
    title="Kubernetes too old",
    sentence="{program} is {version}, and the oldest version that is supported is 1.{oldest}.",
    remedy="Upgrade it.",
)
TOO_NEW: Final = Entry(
    code="GSH0903",
    severity=Severity.WARNING,
    title="Kubernetes newer than this version",
    sentence="The API server is Kubernetes {version}, and the newest version whose selectors are known is 1.{newest}.",
    remedy="Upgrade gpu-sharing; until then selectors are read as 1.{newest} reads them.",
)
FAULT: Final = Entry(
    code="GSH0904",
    severity=Severity.WARNING,
    title="Known fault of Kubernetes",
    sentence="{program} {version} has {issue}: {effect}.",
    remedy="Upgrade to {fixed}, unless your vendor has repaired it.",
)
SERIOUS_FAULT: Final = Entry(
    code="GSH0905",
    severity=Severity.ERROR,
    title="Known fault of Kubernetes that gives GPUs away twice",
    sentence="{program} {version} has {issue}: {effect}.",
    remedy="Upgrade to {fixed}, unless your vendor has repaired it.",
)
API_MISSING: Final = Entry(
    code="GSH0906",
    severity=Severity.ERROR,
    title="API of DRA not served",
    sentence="The API server does not serve {resources} of resource.k8s.io/v1.",
    remedy="Remove what switches them off from --runtime-config of the API server.",
)
NO_TAINT_RULES: Final = Entry(
    code="GSH0907",
    severity=Severity.WARNING,
    title="DeviceTaintRules not served",
    sentence="The API server serves no DeviceTaintRules: pods whose claims exclude each other are not evicted.",
    remedy="Use Kubernetes 1.37; in 1.36 serve resource.k8s.io/v1beta2, with feature gate DRADeviceTaintRules.",
)
GATE_OFF: Final = Entry(
    code="GSH0908",
    severity=Severity.ERROR,
    title="Feature gate off",
    sentence="Feature gate {gate} is off in the API server: {effect}.",
    remedy="Remove {gate}=false from the feature gates of API server, scheduler, controller manager and kubelets.",
)
NO_GPU_NODES: Final = Entry(
    code="GSH0909",
    severity=Severity.WARNING,
    title="No node is known to have GPUs",
    sentence="No node has one of the labels by which agents are placed: {labels}.",
    remedy="Install Node Feature Discovery, or run `kubectl label node NODE nvidia.com/gpu.present=true`.",
)
NO_CDI: Final = Entry(
    code="GSH0910",
    severity=Severity.ERROR,
    title="Container runtime without CDI",
    sentence="{runtime} on {nodes} gives containers no CDI devices.",
    remedy="Upgrade it to containerd 2, or use CRI-O.",
)
CDI_MAY_BE_OFF: Final = Entry(
    code="GSH0911",
    severity=Severity.WARNING,
    title="CDI may be off",
    sentence="{runtime} on {nodes} gives containers CDI devices only with `enable_cdi = true` in its configuration.",
    remedy="See that it is set on these nodes, or upgrade to containerd 2.",
)
OTHER_DRIVER: Final = Entry(
    code="GSH0912",
    severity=Severity.ERROR,
    title="Another driver of the same name",
    sentence="Another DRA driver named {driver} publishes the GPUs of {nodes}, such as in ResourceSlice {example}.",
    remedy="Remove it from the nodes that our agents are to serve: docs/operating.md#with-nvidias-gpu-operator.",
)
DEVICE_PLUGIN: Final = Entry(
    code="GSH0913",
    severity=Severity.WARNING,
    title="A device plugin gives away the GPUs",
    sentence="A device plugin offers {resources} on {nodes}; agents publish nothing where one does.",
    remedy="Remove it from the nodes that our agents are to serve: docs/operating.md#with-nvidias-gpu-operator.",
)
MIG_MANAGER: Final = Entry(
    code="GSH0914",
    severity=Severity.WARNING,
    title="NVIDIA's MIG manager repartitions the GPUs",
    sentence="The label nvidia.com/mig.config of {nodes} has NVIDIA's MIG manager repartition the GPUs.",
    remedy="Remove the label: docs/operating.md#with-nvidias-gpu-operator.",
)
PLATFORM: Final = Entry(
    code="GSH0915",
    severity=Severity.INFO,
    title="Nodes that need an overlay",
    sentence="The GPUs of {nodes} are looked after by {platform}.",
    remedy="Install manifests/overlays/{overlay}: docs/operating.md#install.",
)
NO_PROMETHEUS: Final = Entry(
    code="GSH0916",
    severity=Severity.INFO,
    title="No Prometheus Operator",
    sentence="The API server serves no {kinds} of monitoring.coreos.com, so alerts cannot be installed.",
    remedy="If there is a Prometheus without it, let it read the port `http` of both programs: docs/metrics.md.",
)
NOT_MONITORED: Final = Entry(
    code="GSH0917",
    severity=Severity.INFO,
    title="Not monitored",
    sentence="The Prometheus Operator is there, and no PodMonitor in namespace {namespace} is for our programs.",
    remedy="Run `kubectl apply -k manifests/components/monitoring`.",
)
IS_INSTALLED: Final = Entry(
    code="GSH0918",
    severity=Severity.INFO,
    title="Installed already",
    sentence="Version {version} is installed in namespace {namespace}.",
    remedy="Run `gpusharing doctor` without --pre to check it.",
)
NOT_INSTALLED: Final = Entry(
    code="GSH0919",
    severity=Severity.ERROR,
    title="Not installed",
    sentence="There is no {missing}.",
    remedy="Install it again as docs/operating.md says; `gpusharing doctor --pre` checks the cluster before.",
)
CRD_DIFFERS: Final = Entry(
    code="GSH0920",
    severity=Severity.WARNING,
    title="Definition of another version",
    sentence="CustomResourceDefinition {name} is not the one of version {version}.",
    remedy="Apply the CRDs of that version: `kubectl apply -k crds`.",
)
CRD_NOT_SERVED: Final = Entry(
    code="GSH0921",
    severity=Severity.ERROR,
    title="Definition not in force",
    sentence="The API server does not serve {name}: {why}.",
    remedy="Run `kubectl describe crd {name}`.",
)
OTHER_VERSION: Final = Entry(
    code="GSH0922",
    severity=Severity.WARNING,
    title="Other version than this command",
    sentence="{what} is of version {found}, and this command of version {version}.",
    remedy="Use the command of the version that is installed: what it expects may differ.",
)
NO_OPERATOR: Final = Entry(
    code="GSH0923",
    severity=Severity.ERROR,
    title="Operator not running",
    sentence="None of {wanted} of the operator is available: policies have no effect.",
    remedy="Run `kubectl -n {namespace} describe pods -l app.kubernetes.io/name=gpusharing-operator`.",
)
FEWER_REPLICAS: Final = Entry(
    code="GSH0924",
    severity=Severity.WARNING,
    title="Operator with fewer replicas",
    sentence="{ready} of {wanted} of the operator are available.",
    remedy="Run `kubectl -n {namespace} describe pods -l app.kubernetes.io/name=gpusharing-operator`.",
)
NOBODY_LEADS: Final = Entry(
    code="GSH0925",
    severity=Severity.ERROR,
    title="Nobody leads",
    sentence="{why}, so policies have no effect.",
    remedy="Read the operator's log: `kubectl -n {namespace} logs -l app.kubernetes.io/name=gpusharing-operator`.",
)
RIGHT_MISSING: Final = Entry(
    code="GSH0926",
    severity=Severity.ERROR,
    title="Right missing",
    sentence="ServiceAccount {account} may not {rights}.",
    remedy="Apply the manifests of this version again; nobody else should change their roles.",
)
GUARD_CHANGED: Final = Entry(
    code="GSH0927",
    severity=Severity.ERROR,
    title="Guard changed",
    sentence="{kind} {name} is not as it was installed: it may hold nobody.",
    remedy="Apply the manifests of this version again.",
)
GUARD_WITHOUT_EFFECT: Final = Entry(
    code="GSH0928",
    severity=Severity.ERROR,
    title="Guard without effect",
    sentence="ValidatingAdmissionPolicy {name} let pass a dry run that it has to refuse.",
    remedy="Wait some seconds after an installation. If it stays so, apply the manifests of this version again.",
)
CLASS_DIFFERS: Final = Entry(
    code="GSH0929",
    severity=Severity.WARNING,
    title="Device class of somebody else",
    sentence="DeviceClass {name} selects other devices than the one of this version.",
    remedy="Apply deviceclasses.yaml of this version, unless you have changed the class on purpose.",
)
NO_AGENTS: Final = Entry(
    code="GSH0930",
    severity=Severity.ERROR,
    title="No node for agents",
    sentence="No node takes pods of DaemonSet {name}: {why}.",
    remedy="Label the nodes with GPUs, or install the overlay for them: docs/operating.md#install.",
)
AGENTS_AWAY: Final = Entry(
    code="GSH0931",
    severity=Severity.ERROR,
    title="Agents not running",
    sentence="The agents of {nodes} do not run or are not ready: {why}.",
    remedy="Run `kubectl -n {namespace} describe pods -l app.kubernetes.io/name=gpusharing-agent`, and see their logs.",
)
AGENTS_UNWELL: Final = Entry(
    code="GSH0932",
    severity=Severity.ERROR,
    title="Agents that report a problem",
    sentence="{nodes}: {reason}: {message}",
    remedy="Do what the message says; docs/operating.md#when-an-agent-cannot-do-its-work has all reasons.",
)
GPUS_UNWELL: Final = Entry(
    code="GSH0933",
    severity=Severity.WARNING,
    title="GPUs that are not healthy",
    sentence="{gpus}: {reason}: {message}",
    remedy="See docs/health.md for {reason}.",
)
SILENT: Final = Entry(
    code="GSH0934",
    severity=Severity.ERROR,
    title="Agents that have not reported",
    sentence="There is no NodeSharing with a status of {nodes}.",
    remedy="See the agent's log: `kubectl -n {namespace} logs -l app.kubernetes.io/name=gpusharing-agent --prefix`.",
)
NOTHING_PUBLISHED: Final = Entry(
    code="GSH0935",
    severity=Severity.ERROR,
    title="Nodes that publish nothing",
    sentence="There are no ResourceSlices of {nodes}, whose agents report GPUs.",
    remedy="Run `gpusharing explain node {first}`, and see the agent's log.",
)
SLICES_INCOMPLETE: Final = Entry(
    code="GSH0936",
    severity=Severity.WARNING,
    title="Slices missing",
    sentence="Slices of {pools} are missing, so Kubernetes does not use their devices.",
    remedy="Wait some seconds. If it stays so, see the log of the agent on that node.",
)
NOTHING_TO_PROBE: Final = Entry(
    code="GSH0937",
    severity=Severity.WARNING,
    title="Nothing to probe",
    sentence="No GPU is offered to everybody, so no pod was started.",
    remedy="Apply a policy without tenants: docs/policies.md.",
)
PROBE_REFUSED: Final = Entry(
    code="GSH0938",
    severity=Severity.ERROR,
    title="Probe refused",
    sentence="{what} in namespace {namespace} was refused: {message}",
    remedy="Use another namespace with -n, or do what the message says.",
)
PROBE_HANGS: Final = Entry(
    code="GSH0939",
    severity=Severity.ERROR,
    title="Probe hangs",
    sentence="The pod for mode {mode} did not end within {time}: {where}",
    remedy="See the findings below it.",
)
PROBE_FAILED: Final = Entry(
    code="GSH0940",
    severity=Severity.ERROR,
    title="Probe failed",
    sentence="The pod for mode {mode} got its GPU on node {node}, and failed: {why}",
    remedy="See that the image {image} has the program {program}.",
)
PROBE_HAD_NO_ROOM: Final = Entry(
    code="GSH0941",
    severity=Severity.WARNING,
    title="No room for a probe",
    sentence="The pod for mode {mode} found no free device within {time}, so the mode was not tried.",
    remedy="Try again when a GPU is free.",
)
PROBE_LEFT: Final = Entry(
    code="GSH0942",
    severity=Severity.WARNING,
    title="Probe not deleted",
    sentence="Pod {pod} could not be deleted, or its end was not seen: {why}.",
    remedy="Run `kubectl -n {namespace} delete pod {pod}`.",
)

ENTRIES: Final = (
    NOT_CHECKED,
    TOO_OLD,
    TOO_NEW,
    FAULT,
    SERIOUS_FAULT,
    API_MISSING,
    NO_TAINT_RULES,
    GATE_OFF,
    NO_GPU_NODES,
    NO_CDI,
    CDI_MAY_BE_OFF,
    OTHER_DRIVER,
    DEVICE_PLUGIN,
    MIG_MANAGER,
    PLATFORM,
    NO_PROMETHEUS,
    NOT_MONITORED,
    IS_INSTALLED,
    NOT_INSTALLED,
    CRD_DIFFERS,
    CRD_NOT_SERVED,
    OTHER_VERSION,
    NO_OPERATOR,
    FEWER_REPLICAS,
    NOBODY_LEADS,
    RIGHT_MISSING,
    GUARD_CHANGED,
    GUARD_WITHOUT_EFFECT,
    CLASS_DIFFERS,
    NO_AGENTS,
    AGENTS_AWAY,
    AGENTS_UNWELL,
    GPUS_UNWELL,
    SILENT,
    NOTHING_PUBLISHED,
    SLICES_INCOMPLETE,
    NOTHING_TO_PROBE,
    PROBE_REFUSED,
    PROBE_HANGS,
    PROBE_FAILED,
    PROBE_HAD_NO_ROOM,
    PROBE_LEFT,
)
