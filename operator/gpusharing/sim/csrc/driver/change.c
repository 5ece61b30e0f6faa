#include "driver/change.h"

#include <stdatomic.h>

/* The order of stores is what the next one finds; other processes see them only after a lock, so this is enough. */
static void keep_order(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

void begin_change(struct node_state *state, unsigned int gpu)
{
	state->before = state->gpus[gpu];
	keep_order();
	state->changing = gpu + 1;
	keep_order();
}

void end_change(struct node_state *state)
{
	keep_order();
	state->changing = 0;
	keep_order();
}

void undo_unfinished_change(struct node_state *state)
{
	if (!state->changing)
		return;
	state->gpus[state->changing - 1] = state->before;
	end_change(state);
}
