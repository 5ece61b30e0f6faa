/*
 * Changes of several fields of a GPU, all or none: a process that is killed in between leaves the former state behind,
 * and whoever takes the lock next puts it back.
 */
#pragma once

#include "node_state.h"

void begin_change(struct node_state *state, unsigned int gpu);
void end_change(struct node_state *state);

void undo_unfinished_change(struct node_state *state);
