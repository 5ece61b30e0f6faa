"""Whether a policy can be acted on at all. What the CRD's schema can refuse never gets here."""

from gpusharing.api.sharing import SharingPolicy


def objection(policy: SharingPolicy) -> tuple[str, str] | None:
    """(reason, message) of the first thing that stands against the policy; None if it is accepted."""
    if policy.spec.gpus.selectors:
        return (
            "SelectorsNotSupported",
            (
                "spec.gpus.selectors: selecting GPUs by CEL is not supported yet: remove it, or use spec.nodes and "
                "spec.gpus.maxPerNode; GPUs that this policy shares already stay as they are"
            ),
        )
    return None
