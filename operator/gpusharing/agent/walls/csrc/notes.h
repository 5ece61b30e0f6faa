#ifndef NOTES_H
#define NOTES_H

#include <stdbool.h>

#include "container.h"
#include "failure.h"
#include "wall.h"

/* What the agent reads: for each container that has been let in a file with its cgroup, named by its id. All of this is
 * done by one process at a time, until that ends. */
bool lock_notes(struct wall *wall, struct failure *failure);

/* Notes of containers that are gone are removed. */
bool is_alone(const struct wall *wall, const struct container *container, struct failure *failure);

bool note_container(const struct wall *wall, const struct container *container, struct failure *failure);
void forget_container(const struct wall *wall, const struct container *container);

/* Why the last container that was let in has no wall; none if it has one. */
void note_failure(const struct wall *wall, const char *text);
void forget_failure(const struct wall *wall);

#endif
