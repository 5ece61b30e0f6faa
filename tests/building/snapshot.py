"""All that a store holds, as a world: for decisions without a decider that keeps up with it."""

from building import DRIVER
from building.from_nothing import World
from gpusharing.api.meta import key_of
from gpusharing.controller.watching.store import Store
from gpusharing.kube import kinds


def snapshot(store: Store) -> World:
    return World(
        driver=DRIVER,
        minor=37,
        policies={policy.metadata.name: policy for policy in store.all(kinds.SHARING_POLICIES)},
        nodes={node.metadata.name: node for node in store.all(kinds.NODES)},
        node_sharings={sharing.metadata.name: sharing for sharing in store.all(kinds.NODE_SHARINGS)},
        claims={key_of(claim): claim for claim in store.all(kinds.RESOURCE_CLAIMS)},
        classes={class_.metadata.name: class_ for class_ in store.all(kinds.DEVICE_CLASSES)},
        namespaces={namespace.metadata.name: namespace for namespace in store.all(kinds.NAMESPACES)},
        guards={guard.metadata.name: guard for guard in store.all(kinds.ADMISSION_POLICIES)},
        bindings={binding.metadata.name: binding for binding in store.all(kinds.ADMISSION_BINDINGS)},
        quotas={key_of(quota): quota for quota in store.all(kinds.RESOURCE_QUOTAS)},
        templates={key_of(template): template for template in store.all(kinds.RESOURCE_CLAIM_TEMPLATES)},
    )
