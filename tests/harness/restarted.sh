#!/bin/sh
# Runs a program as the kubelet runs a container: when it ends, it is started again, until this script is told to end.
ending=
program=
trap 'ending=yes; [ -z "$program" ] || kill -TERM "$program" 2>/dev/null' TERM
while [ -z "$ending" ]; do
    setpriv --pdeathsig KILL -- "$@" &
    program=$!
    # A signal ends the first wait, not the program.
    wait "$program"
    wait "$program"
    [ -n "$ending" ] || sleep 1
done
