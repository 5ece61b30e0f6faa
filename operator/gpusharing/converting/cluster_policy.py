"""The GPU operator's ClusterPolicy: what it says of sharing is in ConfigMaps, which it names."""

from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from gpusharing.converting import device_plugin
from gpusharing.converting.fields import Field
from gpusharing.converting.moving import take
from gpusharing.converting.remarks import shown

TYPE: Final = ("nvidia.com/v1", "ClusterPolicy")
_SHARES_GPUS: Final = ("devicePlugin", "migManager")


class Settings(NamedTuple):
    """What the GPU operator is told, and ConfigMaps do not say."""

    defaults: Mapping[str, str] = {}
    """By ConfigMap, which of its configs nodes without a label have; empty if they have none."""
    is_mixed: bool = False
    """Whether pods ask for MIG instances by their profiles."""

    def together_with(self, other: "Settings") -> "Settings":
        """Of two operators, each with ConfigMaps of its own."""
        return Settings({**self.defaults, **other.defaults}, self.is_mixed or other.is_mixed)


def settings_of(policy: Field) -> Settings:
    configs = [policy.get("spec", part, "config") for part in _SHARES_GPUS]
    defaults = {
        config["name"].text: config.text_at("default") for config in configs if config and config.text_at("name")
    }
    return Settings(defaults, is_mixed=policy.text_at("spec", "mig", "strategy") == device_plugin.MIXED)


def without_sharing(policy: Field, converted: Collection[str]) -> bool:
    """Takes out what SharingPolicies say now; `converted` are the names of ConfigMaps. Whether there was anything."""
    changed = False
    if strategy := policy.get("spec", "mig", "strategy"):
        device_plugin.explain_mig_strategy(strategy, has_resources=strategy.text == device_plugin.MIXED)
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
