"""docs/images/concepts-objects.svg: which program writes which object, and who reads it."""

from typing import Final

from pictures.svg import Arrow, Box, Picture, Words

_PEOPLE_Y: Final = 22
_API_Y: Final = 128
_NODE_Y: Final = 292
_HEIGHT: Final = 50


def _program(x: float, y: float, width: float, *words: str) -> Box:
    return Box(x=x, y=y, width=width, height=_HEIGHT, kind="program", words=words)


def _object(x: float, width: float, name: str) -> Box:
    return Box(x=x, y=_API_Y + 32, width=width, height=_HEIGHT, kind="object", words=(name,))


def _arrow(*points: tuple[float, float]) -> Arrow:
    return Arrow(points)


PICTURE: Final = Picture(
    title="Who talks to whom",
    description=(
        "A platform team applies a SharingPolicy. The operator reads it and writes a NodeSharing for each node. The "
        "agent of the node reads the NodeSharing, sets the GPUs, and publishes their devices in ResourceSlices. A user "
        "creates a pod with a ResourceClaim. The scheduler reads the ResourceSlices, allocates a device for the claim "
        "and places the pod. The kubelet of the node asks the agent to prepare the claim, and the containers get their "
        "devices and limits."
    ),
    width=860,
    height=470,
    parts=[
        Box(x=16, y=_API_Y, width=828, height=98, kind="area"),
        Words(366, _API_Y + 20, "Kubernetes API", "faint small", "middle"),
        Box(x=16, y=_NODE_Y, width=828, height=162, kind="area"),
        Words(28, _NODE_Y + 20, "each node with GPUs", "faint small"),
        # People and programs of the cluster.
        _program(28, _PEOPLE_Y, 130, "platform team"),
        _program(196, _PEOPLE_Y, 130, "operator"),
        _program(532, _PEOPLE_Y, 130, "scheduler"),
        _program(700, _PEOPLE_Y, 130, "user"),
        _object(28, 130, "SharingPolicy"),
        _object(196, 130, "NodeSharing"),
        _object(364, 130, "ResourceSlice"),
        _object(532, 130, "ResourceClaim"),
        _object(700, 130, "Pod"),
        # Programs of a node.
        _program(280, _NODE_Y + 24, 130, "agent"),
        _program(616, _NODE_Y + 24, 130, "kubelet"),
        Box(x=280, y=_NODE_Y + 108, width=130, height=40, kind="object", words=("GPUs",)),
        Box(x=616, y=_NODE_Y + 108, width=130, height=40, kind="object", words=("containers",)),
        # Who writes and reads what.
        _arrow((93, 72), (93, 159)),
        Words(99, 98, "applies"),
        _arrow((150, 160), (214, 74)),
        Words(190, 118, "reads"),
        _arrow((285, 72), (285, 159)),
        Words(292, 98, "decides for"),
        Words(292, 114, "each node"),
        _arrow((270, 210), (318, 315)),
        Words(232, 276, "reads"),
        _arrow((372, 316), (424, 211)),
        Words(412, 262, "publishes"),
        Words(412, 278, "devices"),
        _arrow((462, 160), (548, 74)),
        Words(462, 118, "reads"),
        _arrow((597, 72), (597, 159)),
        Words(604, 98, "allocates"),
        Words(604, 114, "a device"),
        _arrow((765, 72), (765, 159)),
        Words(771, 98, "creates"),
        _arrow((662, 60), (700, 160)),
        Words(696, 118, "places"),
        _arrow((740, 210), (706, 315)),
        Words(732, 276, "starts"),
        _arrow((616, 341), (411, 341)),
        Words(513, 334, "prepare the claim", "small", "middle"),
        _arrow((345, 366), (345, 399)),
        Words(352, 388, "sets"),
        _arrow((410, 420), (615, 420)),
        Words(513, 413, "devices and limits", "small", "middle"),
    ],
)
