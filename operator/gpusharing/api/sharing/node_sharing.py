"""NodeSharing: the contract between operator and agent about the GPUs of one node."""

from typing import Any, Self

from gpusharing.api.base import ApiModel
from gpusharing.api.meta import WholeMeta
from gpusharing.api.sharing.node_spec import NodeSharingSpec
from gpusharing.api.sharing.node_status import NodeSharingStatus


class NodeSharing(ApiModel):
    """Describes how the GPUs of one node are shared. It has the name of the node. The operator writes the spec, and the
    agent of the node writes the status. Read it to see which policy won a GPU, and what each claim got."""

    metadata: WholeMeta
    spec: NodeSharingSpec = NodeSharingSpec()
    """How each GPU of the node is to be shared. Written by the operator; do not edit."""
    status: NodeSharingStatus = NodeSharingStatus()
    """The GPUs of the node and their state. Written by the agent."""

    def made_of(self, spec: NodeSharingSpec, status: NodeSharingStatus) -> Self:
        """The same object, with the given spec and status in place of equal ones: identity then shows what is new."""
        known: dict[str, Any] = {}
        if self.spec == spec:
            known["spec"] = spec
        if self.status == status:
            known["status"] = status
        return self.model_copy(update=known)
