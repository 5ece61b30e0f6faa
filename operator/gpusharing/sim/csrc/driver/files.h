/* The files below proc and dev that say which GPUs and MIG instances there are. */
#pragma once

#include "node_state.h"

/* To be called by what changes them, before the change is complete. */
void mark_files_stale(struct node_state *state, unsigned int gpu);

void write_stale_files(struct node_state *state, const char *directory);
