/* What GPU instances and compute instances have in common: they lie somewhere. */
#pragma once

#include <stdbool.h>

#include "node_state.h"

bool overlap(unsigned int start, unsigned int size, unsigned int other_start, unsigned int other_size);
bool allows_start(const uint32_t *starts, unsigned int count, unsigned int start);

/* Ends a change of instances, with what follows from it. */
void end_mig_change(struct node_state *state, unsigned int gpu);
