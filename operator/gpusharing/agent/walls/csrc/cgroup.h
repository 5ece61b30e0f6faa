#ifndef CGROUP_H
#define CGROUP_H

#include <stdbool.h>

#include "container.h"
#include "failure.h"

bool find_cgroup(struct container *container, struct failure *failure);

/* Whether it is there and a process is in it or below it. */
bool cgroup_is_live(const char *cgroup);

#endif
