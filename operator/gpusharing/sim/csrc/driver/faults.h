/* What is wrong with calls, on purpose. */
#pragma once

#include "node_state.h"

/*
 * The fault that this call meets, and counts against it; NULL if all is well. `gpu` is NONE for a call on no GPU.
 * Those that let a call hang are left out for one that already did.
 */
struct fault_state *meet_fault(struct node_state *state, const char *function, unsigned int gpu, int has_hung);
