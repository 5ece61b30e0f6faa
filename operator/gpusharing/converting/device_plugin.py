"""Configs of NVIDIA's device plugin: GPUs that are shared by time-slicing or MPS, as SharingPolicies."""

from typing import Any, Final

from gpusharing.converting.fields import Field
from gpusharing.converting.policies import Registry
from gpusharing.converting.remarks import shown

NODE_LABEL: Final = "nvidia.com/device-plugin.config"
_VERSION: Final = "v1"
_FIELDS: Final = frozenset({"version", "flags", "resources", "sharing", "imex"})
_DOMAIN: Final = "nvidia.com/"
_GPU: Final = f"{_DOMAIN}gpu"
MIXED: Final = "mixed"
_SHARED_GPU: Final = f"{_GPU}.shared"
# Of offers.timeSlicing.maxClients and offers.mps.maxClients.
_MOST_CLIENTS: Final = {"timeSlicing": 256, "mps": 60}


def is_config(field: Field) -> bool:
    """Also of one that shares nothing."""
    if not isinstance(field.value, dict) or "kind" in field.value or not field.value.keys() <= _FIELDS:
        return False
    return field.value.get("version", _VERSION) == _VERSION and not field.value.keys().isdisjoint({"sharing", "flags"})


def spec_of(config: Field, *, policy: str, registry: Registry) -> dict[str, Any] | None:
    """Without the nodes. None: GPUs are not shared, and stay whole without a policy."""
    _explain_the_rest(config)
    for mode in ("mps", "timeSlicing"):
        shared = config.get("sharing", mode)
        gpu = _shared_gpu(shared) if shared else None
        if shared and gpu:
            # As the plugin does: without MPS it looks at time-slicing.
            if mode == "mps" and config.get("sharing", "timeSlicing"):
                config["sharing"]["timeSlicing"].warn("the device plugin ignores it next to mps", "remove it")
            return _spec(shared, gpu, mode, policy, registry)
    return None


def _explain_the_rest(config: Field) -> None:
    flags = config.get("flags")
    for flag in flags.fields() if flags else ():
        if flag.name == "migStrategy":
            explain_mig_strategy(flag)
        else:
            flag.inform("is a setting of the device plugin's own", "it is not needed without the device plugin")
    for name in ("resources", "imex"):
        if name in config:
            config[name].warn("has no counterpart", "remove it" if name == "resources" else "use a ComputeDomain")


def explain_mig_strategy(strategy: Field, *, has_resources: bool = False) -> None:
    """`has_resources`: whether policies have extended resources for instances, as far as that is possible."""
    if strategy.text == "none":
        return
    resource = mig_resource("PROFILE") if strategy.text == MIXED else _GPU
    what = "instances of layouts with one profile only" if has_resources else "no MIG instance"
    strategy.warn(
        f"pods that ask for {resource} get {what}",
        "ask for class mig.nvidia.com and the profile, or set classes.extendedResources.mig of the policy",
    )


def mig_resource(profile: str) -> str:
    """What pods ask for with the strategy mixed."""
    return f"{_DOMAIN}mig-{profile.replace('+', '.')}"


def _shared_gpu(shared: Field) -> Field | None:
    """The entry for whole GPUs, if it makes several of one."""
    resources = shared.items("resources")
    if not resources:
        raise shared.refusal("has no resources")
    found: Field | None = None
    for resource in resources:
        name = resource["name"].text
        name = name if name.startswith(_DOMAIN) else f"{_DOMAIN}{name}"
        if resource["replicas"].number < 1:
            raise resource["replicas"].refusal(f"is {shown(resource['replicas'].number)}, and must be at least 1")
        for ignored in ("devices", "rename"):
            if ignored in resource and resource[ignored].value != "all":
                resource[ignored].warn("the device plugin ignores it, and shares every GPU", "use gpus of the policy")
        if name != _GPU:
            resource["name"].warn(
                f"{shown(name)} has no counterpart: only whole GPUs are shared", "offer a smaller MIG profile"
            )
        elif found:
            raise resource.refusal(f"is the second one for {_GPU}", "remove one")
        elif resource["replicas"].number == 1:
            resource["replicas"].inform("with 1 replica a GPU is not shared")
        else:
            found = resource
    return found


def _spec(shared: Field, gpu: Field, mode: str, policy: str, registry: Registry) -> dict[str, Any]:
    clients = _clients(gpu["replicas"], mode)
    # Without the field, the plugin refuses such requests for MPS only.
    fails = shared.get("failRequestsGreaterThanOne")
    only_one = fails.switch if fails else mode == "mps"
    renamed = shared.get("renameByDefault")
    is_renamed = renamed is not None and renamed.switch
    offer: dict[str, Any] = {"maxClients": clients}
    if mode == "mps":
        offer |= _mps_amounts(gpu["replicas"], clients)
        if not is_renamed:
            gpu["name"].warn(
                f"pods that ask for {_GPU} get no MPS share",
                f"let them ask for class {policy}-mps, or set classes.extendedResources.mps of the policy",
            )
    elif not is_renamed:
        # Class gpu.nvidia.com, which has the extended resource nvidia.com/gpu, then selects shares.
        offer["transparent"] = True
    spec: dict[str, Any] = {"offers": {mode: offer}}
    if only_one:
        spec["tenants"] = {"allow": {"maxShares": 1}}
        (fails or shared).inform("becomes maxShares: 1, which is for each GPU: a claim may have shares of several GPUs")
    if is_renamed and renamed and registry.take_resource(_SHARED_GPU, policy, renamed):
        spec["classes"] = {"extendedResources": {mode: _SHARED_GPU}}
    return spec


def _clients(replicas: Field, mode: str) -> int:
    most = _MOST_CLIENTS[mode]
    if replicas.number > most:
        fact = f"is {shown(replicas.number)}, and a policy offers at most {most} shares of a GPU: {most} are offered"
        replicas.warn(fact, "check that they are enough")
    return min(replicas.number, most)


def _mps_amounts(replicas: Field, clients: int) -> dict[str, Any]:
    percent = 100 // clients
    if 100 % clients:
        replicas.inform(f"a part is {100 / clients:.1f} % of the GPU, and becomes {percent} %")
    return {"memory": {"default": f"{percent}%"}, "threads": {"default": percent}}
