"""An API server of Kubernetes in one Python process, for the demo and for fast tests. It is no cluster: no RBAC, no
controllers, nothing on disk, and only the kinds that sharing GPUs needs.

    async with EmbeddedApiServer(directory) as server:
        server.url, server.kubeconfig
"""

from gpusharing.demo.apiserver.server import EmbeddedApiServer

__all__ = ["EmbeddedApiServer"]
