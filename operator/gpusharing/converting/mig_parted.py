"""Files of mig-parted, as NVIDIA's MIG manager uses them, as SharingPolicies."""

import re
from collections.abc import Mapping
from typing import Any, Final

from gpusharing.converting import device_plugin
from gpusharing.converting.fields import Field
from gpusharing.converting.remarks import shown

NODE_LABEL: Final = "gpusharing.dev/mig-config"
"""Not NVIDIA's: it calls their MIG manager, and our agent leaves such nodes alone."""
THEIR_NODE_LABEL: Final = "nvidia.com/mig.config"
_VERSION: Final = "v1"
_PRIORITY: Final = 10
"""Above policies that share the same GPUs: instances come first, as for NVIDIA."""
_MOST_INSTANCES: Final = 16
_PROFILE: Final = re.compile(r"[1-9]g\.[1-9][0-9]{0,2}gb([+-][a-z]+(\.[a-z]+)?)?")
_FIELDS: Final = frozenset({"device-filter", "devices", "mig-enabled", "mig-devices"})
# Names as the driver gives them. What is missing here is not converted: a wrong name would select other GPUs.
_PRODUCTS: Final = {
    0x20B0: "NVIDIA A100-SXM4-40GB",
    0x20B2: "NVIDIA A100-SXM4-80GB",
    0x20B5: "NVIDIA A100 80GB PCIe",
    0x20B7: "NVIDIA A30",
    0x20F1: "NVIDIA A100-PCIE-40GB",
    0x2321: "NVIDIA H100 NVL",
    0x2330: "NVIDIA H100 80GB HBM3",
    0x2331: "NVIDIA H100 PCIe",
    0x2335: "NVIDIA H200",
    0x233B: "NVIDIA H200 NVL",
    0x2901: "NVIDIA B200",
    0x2BB5: "NVIDIA RTX PRO 6000 Blackwell Server Edition",
}
_NVIDIA: Final = 0x10DE


def is_config(field: Field) -> bool:
    return isinstance(field.value, dict) and "kind" not in field.value and "mig-configs" in field.value


def configs_of(file: Field) -> list[Field]:
    if file.text_at("version") != _VERSION:
        raise file.refusal(f"has version {shown(file.map.get('version'))}, not {_VERSION}")
    configs = list(file["mig-configs"].fields())
    if not configs:
        raise file["mig-configs"].refusal("has no config")
    return configs


def switches_mig_on(config: Field) -> bool:
    return any(entry["mig-enabled"].switch for entry in config.items())


def specs_of(config: Field) -> list[dict[str, Any]]:
    """Without the nodes. None for GPUs without MIG, which stay whole without a policy."""
    entries = config.items()
    if not entries:
        raise config.refusal("has no entries")
    # Where two entries are for the same GPU, mig-parted applies the later one last.
    found = [_spec(entry, priority=_PRIORITY + number) for number, entry in enumerate(entries)]
    return [spec for spec in found if spec]


def only_resource(spec: Mapping[str, Any]) -> str | None:
    """What the device plugin calls all instances of the layout. None: they are of several profiles."""
    layout = spec["offers"]["mig"]["layout"]
    return device_plugin.mig_resource(next(iter(layout))) if len(layout) == 1 else None


def _spec(entry: Field, *, priority: int) -> dict[str, Any] | None:
    if unknown := sorted(str(key) for key in entry.map.keys() - _FIELDS):
        raise entry.refusal(f"has the unknown field {shown(unknown[0])}")
    layout = entry.get("mig-devices")
    if not entry["mig-enabled"].switch:
        if layout and layout.map:
            raise layout.refusal("has instances, although mig-enabled is false")
        return None
    if layout is None or not layout.map:
        (layout or entry).warn(
            "MIG mode without instances has no counterpart: no policy is written",
            "offer mig.profiles, of which instances are created when claims ask for them",
        )
        return None
    offered = {"mig": {"layout": {_profile(count): _instances(count) for count in layout.fields()}}}
    gpus = _gpus(entry)
    return None if gpus is None else {"priority": priority, **({"gpus": gpus} if gpus else {}), "offers": offered}


def _profile(count: Field) -> str:
    if not _PROFILE.fullmatch(count.name):
        raise count.refusal(f"{shown(count.name)} is no MIG profile", "use names such as 1g.10gb")
    return count.name


def _instances(count: Field) -> int:
    if not 1 <= count.number <= _MOST_INSTANCES:
        raise count.refusal(f"is {shown(count.number)}, and must be from 1 to {_MOST_INSTANCES}")
    return count.number


def _gpus(entry: Field) -> dict[str, Any] | None:
    """None: nobody can say which."""
    selected: dict[str, Any] = {}
    if "device-filter" in entry:
        products = _products(entry["device-filter"])
        if not products:
            return None
        named = ", ".join(f'"{product}"' for product in products)
        attribute = 'device.attributes["gpu.nvidia.com"].productName'
        expression = f"{attribute} == {named}" if len(products) == 1 else f"{attribute} in [{named}]"
        selected["selectors"] = [{"cel": {"expression": expression}}]
    devices = entry["devices"]
    if devices.value != "all":
        indices = {index.number for index in devices.items()}
        if not indices:
            raise devices.refusal("names no GPU")
        selected["maxPerNode"] = len(indices)
        fact = f"GPUs are not selected by index: the policy takes any {len(indices)} of a node"
        devices.warn(fact, "set gpus.selectors if it matters which")
    return selected


def _products(filtered: Field) -> list[str]:
    ids = [filtered] if isinstance(filtered.value, str) else filtered.items()
    if not ids:
        raise filtered.refusal("names no device id")
    products: list[str] = []
    for id_ in ids:
        match = re.fullmatch(r"0x([0-9a-fA-F]{4})([0-9a-fA-F]{4})", id_.text)
        product = _PRODUCTS.get(int(match[1], 16)) if match and int(match[2], 16) == _NVIDIA else None
        if product is None:
            id_.warn(
                f"the product with PCI id {shown(id_.text)} is not known here, and its GPUs are not selected",
                "add its name to gpus.selectors; nvidia-smi -L prints it",
            )
        elif product not in products:
            products.append(product)
    return products
