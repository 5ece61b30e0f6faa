"""Node objects that pods can be bound to although no kubelet stands behind them."""

from typing import Any

_ALLOCATABLE = {"cpu": "1000", "memory": "1000Gi", "pods": "10000"}


def ready_node(name: str) -> dict[str, Any]:
    status = {
        "allocatable": _ALLOCATABLE,
        "capacity": _ALLOCATABLE,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Pretended"}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


UNTAINTED = {"spec": {"taints": None}}
"""The merge patch that such a Node needs: the API server takes every new one to be not ready."""
