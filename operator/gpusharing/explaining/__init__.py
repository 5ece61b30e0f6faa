"""Why a pod, a claim, a GPU, a node or a policy is as it is. Pure: from a World to findings."""
