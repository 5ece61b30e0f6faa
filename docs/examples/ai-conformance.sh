#!/bin/sh
# Shows which items of the Kubernetes AI conformance checklist hold for the GPUs of a cluster (docs/ai-conformance.md).
# It needs kubectl, two idle GPUs that a policy offers to every namespace whole and by time-slicing, and an image with a shell:
#   IMAGE=localhost/shell:1 sh docs/examples/ai-conformance.sh
# It exits with 1 if one of them does not hold.
set -eu
IMAGE=${IMAGE:-localhost/shell:1}
NAMESPACE=ai-conformance-$$
failed=0

k() { kubectl --namespace "$NAMESPACE" "$@"; }

check() { # ITEM SENTENCE COMMAND...
  item=$1 sentence=$2
  shift 2
  if "$@" >/dev/null 2>&1; then echo "ok      $item: $sentence"; else echo "NOT OK  $item: $sentence"; failed=1; fi
}

start() { # POD [CLASS [CEL EXPRESSION]]
  claims='' uses=''
  if [ $# -gt 1 ]; then
    k apply --filename - >/dev/null <<EOF
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: $1}
spec:
  devices:
    requests:
    - name: gpu
      exactly:
        deviceClassName: $2
        selectors: [{cel: {expression: "${3:-true}"}}]
EOF
    claims="resourceClaims: [{name: gpu, resourceClaimName: $1}]" uses='claims: [{name: gpu}]'
  fi
  k apply --filename - >/dev/null <<EOF
apiVersion: v1
kind: Pod
metadata: {name: $1}
spec:
  terminationGracePeriodSeconds: 0
  $claims
  containers:
  - {name: main, image: "$IMAGE", command: [sleep, "1000000"], resources: {$uses}}
EOF
}

ready() { k wait --for=condition=Ready pods --all --timeout=120s >/dev/null; }

inside() { k exec "$1" -- sh -c "$2"; }                                             # POD COMMAND
gpus_of() { inside "$1" 'ls /dev' | grep -E '^nvidia[0-9]+$' || true; }             # POD
sees_one() { [ "$(gpus_of "$1" | wc -l)" -eq 1 ]; }                                 # POD
sees_none() { inside "$1" 'ls /dev/null' && [ -z "$(gpus_of "$1")" ]; }             # POD
differ() { sees_one "$1" && sees_one "$2" && [ "$(gpus_of "$1")" != "$(gpus_of "$2")" ]; }   # POD POD
same() { sees_one "$1" && [ "$(gpus_of "$1")" = "$(gpus_of "$2")" ]; }              # POD POD
versions() { kubectl get resourceslices --output yaml | grep -A1 driverVersion: | grep -q version:; }
metrics() { # NAME: some agent has series of it
  for agent in $(kubectl get pods --namespace gpusharing-system --selector app.kubernetes.io/name=gpusharing-agent --output name); do
    kubectl get --raw "/api/v1/namespaces/gpusharing-system/${agent%/*}s/${agent#*/}:8080/proxy/metrics" | grep -q "^$1{" && return
  done
  return 1
}

kubectl create namespace "$NAMESPACE" >/dev/null
trap 'kubectl delete namespace "$NAMESPACE" --wait=false >/dev/null' EXIT
kubectl wait --for=create serviceaccount/default --namespace "$NAMESPACE" >/dev/null

start without
start first gpu.nvidia.com
start second gpu.nvidia.com
ready
check secure_accelerator_access 'a pod without a claim sees no GPU' sees_none without
check secure_accelerator_access 'a pod with a claim sees one GPU' sees_one first
check secure_accelerator_access 'two pods with claims see different GPUs' differ first second
k delete pods,resourceclaims first second --now >/dev/null

start sharer timeslicing.gpu.nvidia.com
ready
uuid=$(inside sharer env | sed -n 's/.*=\(GPU-.*\)/\1/p' | head -n 1)
start neighbour timeslicing.gpu.nvidia.com "device.attributes['gpu.nvidia.com'].uuid == '$uuid'"
ready
check gpu_sharing 'two pods with a claim each share one GPU' same sharer neighbour
check driver_runtime_management "the driver's version is an attribute of each device" versions
check accelerator_metrics 'memory of each GPU' metrics gpusharing_gpu_memory_bytes
check accelerator_metrics 'memory that each claim uses' metrics gpusharing_claim_memory_used_bytes
exit $failed
