#!/bin/sh
# The first process of a node's namespaces; $1 is the file that says that they are ready.
set -eu

# What the node's programs write outside of the node's directory goes with the mount namespace: sockets of containerd's
# shims, the kubelet's device plugin socket, links to logs, CNI's cache.
mount -t tmpfs tmpfs /run
mkdir /run/var /run/var-work /run/sysctl
mount -t overlay overlay -o lowerdir=/var,upperdir=/run/var,workdir=/run/var-work /var

# The kubelet sets these for the whole machine; here it only believes so.
for setting in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
    kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    own=/run/sysctl/${setting##*/}
    cat "/proc/sys/$setting" >"$own"
    mount --bind "$own" "/proc/sys/$setting"
done

touch "$1"
sleep infinity &
wait # and so reap the orphans of the namespace
