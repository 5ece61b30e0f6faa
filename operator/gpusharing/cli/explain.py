"""`gpusharing explain`: why a pod, a claim, a GPU, a node or a policy is as it is."""

import argparse
import gc
from typing import TYPE_CHECKING, Any, Final

from gpusharing.cli import exits, options
from gpusharing.cli.exits import CommandError
from gpusharing.cli.output import Screen, as_json, as_yaml
from gpusharing.cli.reading.client import Client
from gpusharing.cli.reading.kubeconfig import access
from gpusharing.cli.reading.questions import Question
from gpusharing.cli.reading.together import find, get
from gpusharing.snapshots.world import CLAIMS, NODE_SHARINGS, NODES, PODS, POLICIES, Json, Resource, World

if TYPE_CHECKING:
    from gpusharing.explaining.explanation import Explanation

    Explained = tuple[Json, Explanation]
    """The object, with its annotations."""

_NOTHING: Final[Json] = {"metadata": {}}
_KINDS: Final = {
    **dict.fromkeys(("pod", "pods", "po"), "pod"),
    **dict.fromkeys(("claim", "claims", "resourceclaim", "resourceclaims"), "claim"),
    **dict.fromkeys(("gpu", "gpus"), "gpu"),
    **dict.fromkeys(("node", "nodes", "no", "nodesharing", "nodesharings", "gns"), "node"),
    **dict.fromkeys(("policy", "policies", "sharingpolicy", "sharingpolicies", "gsp"), "policy"),
}
_EXAMPLES: Final = (
    ("Why is this pod waiting, and what would help?", "gpusharing explain pod train-7 -n ml"),
    ("What does a claim have, and who else is on its GPU?", "gpusharing explain claim train-7-gpu -n ml"),
    ("Who uses a GPU? By its place, or by its UUID", "gpusharing explain gpu node-1/gpu-0"),
    ("Is the policy in force everywhere?", "gpusharing explain policy thirds"),
    (
        "In a script: 0 it runs, 3 it waits, 4 it will not run before somebody changes something",
        "gpusharing explain pod/train-7 -o json",
    ),
)


def register(subparsers: Any) -> None:
    parser = options.add_command(
        subparsers,
        "explain",
        summary="explain why a pod, claim, GPU, node or policy is as it is",
        examples=_EXAMPLES,
    )
    kind = parser.add_argument(
        "kind", metavar="KIND", help="pod, claim, gpu, node or policy; KIND/NAME is possible, too"
    )
    # It has no `choices`, because they would refuse KIND/NAME.
    kind.completer = lambda **_: sorted(set(_KINDS.values()))  # type: ignore[attr-defined]
    parser.add_argument("name", metavar="NAME", nargs="?", help="name of the object; of a GPU: NODE/gpu-N, or its UUID")
    options.add_namespace(parser)
    options.add_cluster(parser)
    options.add_snapshot(parser)
    options.add_output(parser)
    options.add_ignore(parser)
    parser.set_defaults(run=exits.reporting(run))


def run(args: argparse.Namespace) -> int:
    # A command lives for a second: to look for garbage among all objects of a cluster would take half of it.
    gc.disable()
    try:
        return _explain(args)
    finally:
        gc.enable()


def _explain(args: argparse.Namespace) -> int:
    kind, name = _what(args)
    found, explanation = _of_file(args, kind, name) if args.snapshot else _of_cluster(args, kind, name)
    annotations = found["metadata"].get("annotations") or {}
    _print(explanation.without(args.ignore, annotations), args)
    return _exit(explanation)


def _what(args: argparse.Namespace) -> tuple[str, str]:
    kind, name = args.kind, args.name
    if name is None:
        kind, slash, name = kind.partition("/")
        if not slash:
            raise CommandError(f"which {kind}? gpusharing explain {kind} NAME")
    if kind.lower() not in _KINDS:
        raise CommandError(f"{kind} cannot be explained: use pod, claim, gpu, node or policy")
    return _KINDS[kind.lower()], name


# ---------------------------------------------------------------------------------------------------------- a cluster


def _of_cluster(args: argparse.Namespace, kind: str, name: str) -> "Explained":
    found = access(args.kubeconfig, args.context)
    namespace = args.namespace or found.namespace
    with Client(found) as client:
        match kind:
            case "pod":
                return _pod(client, get(client, PODS, name, namespace))
            case "claim":
                return _claim(client, get(client, CLAIMS, name, namespace))
            case "gpu":
                return _gpu(client, name, namespace)
            case "node":
                return _node(client, get(client, NODES, name), namespace)
        return _policy(client, get(client, POLICIES, name))


def _pod(client: Client, pod: Json) -> "Explained":
    question = Question(client)
    if pod["spec"].get("nodeName"):
        question.running_pod(pod)
    else:
        question.waiting_pod(pod)
    scene = question.scene()
    from gpusharing.explaining import pods  # noqa: PLC0415 (loaded while the API server works)

    return pod, pods.explain(pod, scene)


def _claim(client: Client, claim: Json) -> "Explained":
    question = Question(client)
    if (claim.get("status") or {}).get("allocation") is None:
        question.waiting_claim(claim)
    else:
        question.names(claim["metadata"]["namespace"])
    scene = question.scene(claims=[claim])
    from gpusharing.explaining import claims  # noqa: PLC0415

    return claim, claims.explain(claim, scene)


def _gpu(client: Client, name: str, namespace: str) -> "Explained":
    question = Question(client)
    question.names(namespace)
    node, slash, _ = name.partition("/")
    if slash:
        sharing = find(client, NODE_SHARINGS, node)
        scene = question.scene(node_sharings=[sharing] if sharing else [])
    else:
        question.node_sharings()
        scene = question.scene()
    return _explain_gpu(name, scene)


def _node(client: Client, node: Json, namespace: str) -> "Explained":
    question = Question(client)
    question.names(namespace)
    return _explain_node(node, question.scene())


def _policy(client: Client, policy: Json) -> "Explained":
    question = Question(client)
    question.classes()
    # On some GPUs MIG needs a reset.
    if ((policy.get("spec") or {}).get("offers") or {}).get("mig"):
        question.node_sharings()
    return _explain_policy(policy["metadata"]["name"], question.scene(policies=[policy]))


# ------------------------------------------------------------------------------------------------------------- a file


def _of_file(args: argparse.Namespace, kind: str, name: str) -> "Explained":
    from gpusharing.cli.snapshot_file import read_snapshot  # noqa: PLC0415
    from gpusharing.explaining import claims, pods  # noqa: PLC0415
    from gpusharing.explaining.scene import Scene  # noqa: PLC0415

    world = read_snapshot(args.snapshot)
    scene = Scene.of_file(world)
    namespace = args.namespace or "default"
    match kind:
        case "pod":
            pod = _in(world, PODS, name, namespace)
            return pod, pods.explain(pod, scene)
        case "claim":
            claim = _in(world, CLAIMS, name, namespace)
            return claim, claims.explain(claim, scene)
        case "gpu":
            return _explain_gpu(name, scene)
        case "node":
            return _explain_node(_in(world, NODES, name), scene)
    return _explain_policy(name, scene)


def _in(world: World, resource: Resource, name: str, namespace: str = "") -> Json:
    found = world.get(resource, name, namespace)
    if found is None:
        where = f" in namespace {namespace}" if namespace else ""
        raise CommandError(f"the snapshot has no {resource.kind} {name}{where}")
    return found


# ----------------------------------------------------------------------------------------------------------- for both


def _explain_gpu(name: str, scene: Any) -> "Explained":
    from gpusharing.explaining import gpus  # noqa: PLC0415

    found = gpus.find(name, list(scene.node_sharings.values()))
    if not found:
        raise CommandError(f"there is no GPU {name}: give NODE/gpu-N, or the UUID of a GPU with an agent")
    return _NOTHING, gpus.explain_gpu(*found[0], scene)


def _explain_node(node: Json, scene: Any) -> "Explained":
    from gpusharing.explaining import gpus  # noqa: PLC0415

    name = node["metadata"]["name"]
    conditions = {one["type"]: one["status"] for one in (node.get("status") or {}).get("conditions") or ()}
    is_ready = conditions.get("Ready", "True") == "True"
    return node, gpus.explain_node(name, scene.node_sharing(name), scene, is_ready=is_ready)


def _explain_policy(name: str, scene: Any) -> "Explained":
    from gpusharing.explaining import policies  # noqa: PLC0415

    if name not in scene.policies:
        raise CommandError(f"there is no SharingPolicy {name} that this version can read")
    return _in(scene.world, POLICIES, name), policies.explain(scene.policies[name], scene)


def _print(explanation: "Explanation", args: argparse.Namespace) -> None:
    from gpusharing.cli.explanation_screen import shown  # noqa: PLC0415

    match args.output:
        case options.JSON:
            print(as_json(explanation.to_json()))
        case options.YAML:
            print(as_yaml(explanation.to_json()))
        case _:
            print(shown(explanation, Screen.of()))


def _exit(explanation: "Explanation") -> int:
    from gpusharing.explaining.explanation import State  # noqa: PLC0415

    return {State.RUNS: exits.OK, State.WAITS: exits.WAITS, State.NEVER: exits.NEVER}[explanation.state]
