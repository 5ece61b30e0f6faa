"""The fleet of a snapshot."""

from gpusharing.explaining.scene import Scene
from gpusharing.occupancy import notes, of_scene, sharing
from gpusharing.occupancy.fleet import Fleet
from gpusharing.occupancy.waiting import to_explain, waiting, waiting_pods
from gpusharing.snapshots.world import World


def of_file(world: World) -> Fleet:
    scene = Scene.of_file(world)
    sharings = sharing.lean().of_objects(world.node_sharings)
    pods = waiting_pods(world.pods, world.classes)
    explained = waiting(pods, to_explain(pods, len(sharings)), scene)
    return of_scene.fleet_of(scene, sharings, waiting=explained, notes=list(notes.notes(world)))
