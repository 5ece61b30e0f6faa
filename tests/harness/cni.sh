#!/bin/busybox sh
# A CNI plugin that gives a pod an address on its own loopback interface. A pod must have one to become ready; pods of
# the tests talk to nobody, so that nothing is needed on the machine, and nothing of it is left behind.
set -eu
version='"cniVersion":"1.0.0"'
case $CNI_COMMAND in
ADD)
    # From the container's id, which is random hexadecimal.
    rest=${CNI_CONTAINERID#????}
    address=10.244.$((0x${CNI_CONTAINERID%"${CNI_CONTAINERID#??}"})).$((0x${CNI_CONTAINERID%"$rest"} & 255))
    busybox nsenter "--net=$CNI_NETNS" busybox ip address add "$address/32" dev lo
    printf '{%s,"interfaces":[{"name":"%s","sandbox":"%s"}],"ips":[{"address":"%s/32","interface":0}]}' \
        "$version" "$CNI_IFNAME" "$CNI_NETNS" "$address"
    ;;
VERSION)
    printf '{%s,"supportedVersions":["1.0.0"]}' "$version"
    ;;
esac
