#include "driver/placement.h"

#include "driver/change.h"
#include "driver/events.h"
#include "driver/files.h"
#include "driver/limits.h"

bool overlap(unsigned int start, unsigned int size, unsigned int other_start, unsigned int other_size)
{
	return start < other_start + other_size && other_start < start + size;
}

bool allows_start(const uint32_t *starts, unsigned int count, unsigned int start)
{
	for (unsigned int i = 0; i < count; i++)
		if (starts[i] == start)
			return true;
	return false;
}

void end_mig_change(struct node_state *state, unsigned int gpu)
{
	mark_files_stale(state, gpu);
	end_change(state);
	post_event(state, gpu, NONE, NONE, EVENT_MIG_CONFIGURATION, 0);
}
