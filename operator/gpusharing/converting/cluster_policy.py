"""The GPU operator's ClusterPolicy: what it says of sharing is in ConfigMaps, which it names."""

from collections.abc import Collection
from typing import Final

from gpusharing.converting import device_plugin
from gpusharing.converting.fields import Field
from gpusharing.converting.moving import take
from gpusharing.converting.remarks import shown

TYPE: Final = ("nvidia.com/v1", "ClusterPolicy")
_SHARES_GPUS: Final = ("devicePlugin", "migManager")


def defaults_of(policy: Field) -> dict[str, str]:
    """By ConfigMap, which of its configs nodes without a label have. Empty: they have none."""
    configs = [policy.get("spec", part, "config") for part in _SHARES_GPUS]
    return {config["name"].text: config.text_at("default") for config in configs if config and config.text_at("name")}


def without_sharing(policy: Field, converted: Collection[str]) -> bool:
    """Takes out what SharingPolicies say now; `converted` are the names of ConfigMaps. Whether there was anything."""
    changed = False
    if strategy := policy.get("spec", "mig", "strategy"):
        device_plugin.explain_mig_strategy(strategy)
    for part in _SHARES_GPUS:
        config = policy.get("spec", part, "config")
        if config is None or not config.text_at("name"):
            continue
        if config["name"].text not in converted:
            config["name"].warn(
                f"ConfigMap {shown(config['name'].text)} is in none of the files, or was not converted",
                "convert its file together with this",
            )
            continue
        settings = policy["spec"][part]
        take(settings.map, "config")
        settings.map["enabled"] = False
        settings.inform(
            "is disabled, because SharingPolicies share the GPUs",
            "if some nodes keep it, enable it and follow docs/operating.md, With NVIDIA's GPU operator",
        )
        changed = True
    return changed
