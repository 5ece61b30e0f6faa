/* The driver's limits on the memory of control groups, from R615 on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node_state.h"

/* A cgroup and those above it, as far as there is room. */
#define CGROUP_LEVELS (sizeof(((struct process_state *)0)->cgroups) / sizeof(struct cgroup_state))

/* False if the path cannot be opened. */
bool cgroups_of_path(const char *path, struct cgroup_state cgroups[CGROUP_LEVELS]);

/* Of this process. Nothing but zeros if it is in no cgroup of version 2. */
void own_cgroups(struct cgroup_state cgroups[CGROUP_LEVELS]);

struct memory_limit_state *memory_limit_of_cgroup(struct node_state *state, unsigned int gpu,
						  const struct cgroup_state *cgroup);

/* What binds a process in these cgroups: the nearest one that is limited. NULL if none is. */
struct memory_limit_state *memory_limit_of(struct node_state *state, unsigned int gpu,
					   const struct cgroup_state cgroups[CGROUP_LEVELS]);

/* By the processes that this limit binds. */
uint64_t memory_used_under(struct node_state *state, const struct memory_limit_state *limit);
