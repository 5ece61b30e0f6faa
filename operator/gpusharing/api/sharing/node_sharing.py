"""NodeSharing: operator and agent about the GPUs of one node."""

from typing import Any, Self

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import WholeMeta
from gpusharing.api.sharing.node_spec import NodeSharingSpec
from gpusharing.api.sharing.node_status import NodeSharingStatus


class NodeSharing(ApiModel):
    """How the GPUs of one node are shared: the operator writes the spec, the node's agent the status."""

    metadata: WholeMeta
    spec: NodeSharingSpec = NodeSharingSpec()
    """How each GPU of the node is to be shared, written by the operator."""
    status: NodeSharingStatus = NodeSharingStatus()
    """What the node has and does, written by its agent."""

    def made_of(self, spec: NodeSharingSpec, status: NodeSharingStatus) -> Self:
        """The same, of these objects where they are equal to its own: who knows them sees at a glance what is new."""
        known: dict[str, Any] = {}
        if self.spec == spec:
            known["spec"] = spec
        if self.status == status:
            known["status"] = status
        return self.model_copy(update=known)
