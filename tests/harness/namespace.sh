#!/bin/sh
# The first process of a node's namespaces; $1 is the node's directory, $2 is not empty if pods run our programs there.
set -eu
node=$1

# As on any node, but among its programs alone: what one mounts, the others see.
mount --make-rshared /

# What the node's programs write outside of the node's directory goes with the mount namespace: sockets of containerd's
# shims, the kubelet's device plugin socket, links to logs, CNI's cache.
mount -t tmpfs tmpfs /run
mkdir /run/sysctl
for directory in etc var; do
    mkdir "/run/$directory" "/run/$directory-work"
    mount -t overlay overlay -o "lowerdir=/$directory,upperdir=/run/$directory,workdir=/run/$directory-work" "/$directory"
done

# Where manifests look for what is in the node's directory, and outlives a power cut. Only for them: while a directory is
# mounted elsewhere as well, containerd does not notice that it was removed. So /run/cdi is one like any other.
at() {
    mkdir -p "$2"
    mount --bind "$node/$1" "$2"
}
if [ -n "$2" ]; then
    at kubelet /var/lib/kubelet
    at cdi/etc /etc/cdi
    mkdir /run/cdi
    at state /var/lib/gpusharing
    at simulated /var/lib/gpusharing-simulated
fi

# The kubelet sets these for the whole machine; here it only believes so.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    own=/run/sysctl/${setting##*/}
    cat "/proc/sys/$setting" >"$own"
    mount --bind "$own" "/proc/sys/$setting"
done

touch "$node/namespace-is-ready"
sleep infinity &
wait # and so reap the orphans of the namespace
