#ifndef NVIDIA_HOOK_H
#define NVIDIA_HOOK_H

#include <stdbool.h>

#include "container.h"
#include "failure.h"
#include "wall.h"

/* Lets NVIDIA's hook limit the container's cgroup. */
bool limit_by_nvidia_hook(const struct wall *wall, const struct container *container, struct failure *failure);

#endif
