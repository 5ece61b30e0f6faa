from datetime import UTC, datetime


def now() -> str:
    """As Kubernetes writes times."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
