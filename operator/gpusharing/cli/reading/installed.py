"""Where operator and agents run, and how they are told from others there."""

from typing import Final

from gpusharing.api import names
from gpusharing.cli.reading.client import Client, ReadError
from gpusharing.snapshots.world import Json

OPERATORS: Final = f"{names.PROGRAM_LABEL}={names.OPERATOR}"
AGENTS: Final = f"{names.PROGRAM_LABEL}={names.AGENT}"
"""Label selectors."""
_BINDING: Final = f"/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/{names.AGENT}"


def installed_in(client: Client) -> str:
    """Every tenant may give a pod the labels of an agent. Which account is the agents', only administrators say, in the
    binding of their rights. Where nobody says it, it is the namespace of the manifests."""
    try:
        binding: Json = client.get_json(_BINDING)
    except ReadError:
        return names.NAMESPACE
    accounts = [one for one in binding.get("subjects") or () if one.get("kind") == "ServiceAccount"]
    return next((str(one["namespace"]) for one in accounts if one.get("namespace")), names.NAMESPACE)
