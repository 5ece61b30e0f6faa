#!/bin/sh
# Of the image's build: a C compiler of BUILDARCH for TARGETARCH, unless the base has it, and the name of the machine.
set -eu

build=$1
case $2 in
    amd64) machine=x86_64 packages="gcc-x86-64-linux-gnu libc6-dev-amd64-cross" ;;
    arm64) machine=aarch64 packages="gcc-aarch64-linux-gnu libc6-dev-arm64-cross" ;;
    *) echo "TARGETARCH is \"$2\": the image is made for amd64 and arm64" >&2 && exit 1 ;;
esac
echo "$machine" > machine
if ! command -v "$machine-linux-gnu-gcc"; then
    [ "$build" != "$2" ] || packages="gcc libc6-dev"
    apt-get update
    # The names of several packages.
    # shellcheck disable=SC2086
    apt-get install --yes --no-install-recommends $packages
fi
