"""ConfigMaps of NVIDIA's device plugin and MIG manager, and the files in them, as SharingPolicies."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from gpusharing.converting import device_plugin, mig_parted
from gpusharing.converting.cluster_policy import Settings
from gpusharing.converting.fields import Field
from gpusharing.converting.policies import Registry, Written, nodes_labelled, nodes_without, policy
from gpusharing.converting.remarks import shown

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_FILE_NAME: Final = re.compile(r".*\.(ya?ml|json|conf|cfg)")


class _Config(NamedTuple):
    """Of the device plugin."""

    name: str
    """That nodes are labelled with. Empty: it is for all nodes."""
    field: Field
    comments: str


def of_config_map(config_map: Field, registry: Registry, settings: Settings) -> list[Written] | None:
    """None: it is a ConfigMap of somebody else."""
    data = config_map.get("data")
    entries = list(data.fields()) if data and isinstance(data.value, dict) else []
    # Only these are read: the rest may be anything.
    texts = [
        entry
        for entry in entries
        if isinstance(entry.value, str) and re.search("sharing|flags|mig-configs", entry.value)
    ]
    read = [(entry, entry.embedded()) for entry in texts]
    plugin = [(entry, field) for entry, field in read if device_plugin.is_config(field)]
    mig = [(entry, field) for entry, field in read if mig_parted.is_config(field)]
    if not any("sharing" in field for _, field in plugin) and not mig:
        return None
    name = config_map["metadata"]["name"].text
    default = settings.defaults.get(name)
    known = {entry.name for entry, _ in (*plugin, *mig)}
    for entry in entries:
        if entry.name not in known:
            raise entry.refusal("belongs to another program", "move it to a ConfigMap of its own")
    configs = [_Config(_config_name(entry), field, _comments(field.source.text)) for entry, field in plugin]
    written = list(_of_plugin(name, configs, registry, default))
    for _, field in mig:
        written += _of_mig_parted(field, registry, default, is_mixed=settings.is_mixed)
    return written


def of_file(file: Field, registry: Registry, settings: Settings) -> list[Written] | None:
    """As the two programs read it themselves. None: it is something else."""
    name = _stem(file.source.file)
    if mig_parted.is_config(file):
        return list(_of_mig_parted(file, registry, None, is_mixed=settings.is_mixed))
    if device_plugin.is_config(file) and "sharing" in file:
        return list(_of_plugin(name, [_Config("", file, _comments(file.source.text))], registry, None))
    return None


def _of_plugin(name: str, configs: list[_Config], registry: Registry, default: str | None) -> Iterator[Written]:
    """`default`: the config of nodes without a label; empty: they have none; None: nobody says."""
    named = [config.name for config in configs if config.name]
    for config in configs:
        policy_name = registry.name(name, config.name)
        spec = device_plugin.spec_of(config.field, policy=policy_name, registry=registry)
        if spec is None:
            config.field.inform("shares no GPU: no policy is written, because GPUs without one are whole")
            continue
        others = [other for other in named if other != config.name]
        if not config.name:
            nodes = {}
        elif config.name == default or (default is None and (len(configs) == 1 or config.name == "default")):
            nodes = nodes_without(device_plugin.NODE_LABEL, others)
        else:
            nodes = nodes_labelled(device_plugin.NODE_LABEL, config.name)
        if default is None and config.name and not nodes:
            config.field.warn(
                "only the ClusterPolicy says which nodes have this config, and it is in none of the files: the policy "
                "selects every node",
                f"convert both together, or set spec.nodes to matchLabels {device_plugin.NODE_LABEL}: {config.name}",
            )
        yield policy(policy_name, spec | ({"nodes": nodes} if nodes else {}), config.comments)


def _of_mig_parted(file: Field, registry: Registry, default: str | None, *, is_mixed: bool) -> Iterator[Written]:
    configs = mig_parted.configs_of(file)
    lines = file.source.text.splitlines()
    for config in configs:
        _label_value(config)
        specs = mig_parted.specs_of(config)
        if not specs:
            if not mig_parted.switches_mig_on(config):
                config.inform("creates no MIG instance: no policy is written, because GPUs without one are whole")
            continue
        if config.name == default:
            nodes = nodes_without(mig_parted.NODE_LABEL, [other.name for other in configs if other.name != default])
        else:
            nodes = nodes_labelled(mig_parted.NODE_LABEL, config.name)
            config.inform(
                f"nodes are selected by the label {mig_parted.NODE_LABEL}={config.name}: "
                f"{mig_parted.THEIR_NODE_LABEL} calls NVIDIA's MIG manager",
                f"run `kubectl label nodes -l {mig_parted.THEIR_NODE_LABEL}={config.name} "
                f"{mig_parted.NODE_LABEL}={config.name} {mig_parted.THEIR_NODE_LABEL}-`",
            )
        comments = _comments_above(lines, config.line - file.source.first_line)
        for number, spec in enumerate(specs, 1):
            written = registry.name(config.name, str(number) if len(specs) > 1 else "")
            resource = mig_parted.only_resource(spec) if is_mixed else None
            if resource and registry.take_resource(resource, written, config):
                spec["classes"] = {"extendedResources": {"mig": resource}}
            yield policy(written, spec | ({"nodes": nodes} if nodes else {}), comments if number == 1 else "")


def _stem(path: str) -> str:
    return path.replace("\\", "/").rpartition("/")[2].partition(".")[0]


def _config_name(config: Field) -> str:
    """A key that is the name of a file is no value of a label."""
    return "" if _FILE_NAME.fullmatch(config.name) else _label_value(config)


def _label_value(config: Field) -> str:
    if not _LABEL_VALUE.fullmatch(config.name):
        raise config.refusal(f"{shown(config.name)} is no value of a label, by which nodes choose a config")
    return config.name


def _comments(text: str) -> str:
    return "".join(f"{line.strip()}\n" for line in text.splitlines() if line.strip().startswith("#"))


def _comments_above(lines: list[str], number: int) -> str:
    found: list[str] = []
    while number > 0 and lines[number - 1].strip().startswith("#"):
        number -= 1
        found.insert(0, lines[number].strip())
    return "".join(f"{line}\n" for line in found)
