/*
 * The driver for Python, which takes the lock of the state itself and says with each call which node it means: there is
 * no second version of the rules in Python.
 */
#include "driver/change.h"
#include "driver/events.h"
#include "driver/files.h"
#include "driver/lifecycle.h"
#include "driver/location.h"
#include "driver/mig.h"
#include "driver/processes.h"

#define EXPORT __attribute__((visibility("default")))

bool own_file(char path[PATH_MAX])
{
	(void)path;
	return false;
}

/* After taking the lock: what others have left undone when they were killed, and processes that have died. */
EXPORT void sim_repair(struct node_state *state, const char *directory, int processes)
{
	undo_unfinished_change(state);
	write_stale_files(state, directory);
	for (unsigned int gpu = 0; gpu < state->gpu_count; gpu++)
		reap_processes_of(state, gpu, processes);
}

/* Before giving the lock back. */
EXPORT void sim_write_files(struct node_state *state, const char *directory)
{
	write_stale_files(state, directory);
}

EXPORT void sim_begin_change(struct node_state *state, unsigned int gpu)
{
	begin_change(state, gpu);
}

EXPORT void sim_end_change(struct node_state *state)
{
	end_change(state);
}

EXPORT uint32_t sim_process_pid(const struct node_state *state, unsigned int gpu, unsigned int slot, int processes)
{
	return process_pid_of(state, &state->gpus[gpu].processes[slot], processes);
}

EXPORT nvmlReturn_t sim_create_gpu_instance(struct node_state *state, unsigned int gpu, unsigned int profile,
					    unsigned int start, unsigned int *id)
{
	return create_gpu_instance(state, gpu, profile, start, id);
}

EXPORT void sim_post_event(struct node_state *state, unsigned int gpu, unsigned int gpu_instance,
			   unsigned int compute_instance, uint64_t type, uint64_t data)
{
	post_event(state, gpu, gpu_instance, compute_instance, type, data);
}

EXPORT nvmlReturn_t sim_reset_gpu(struct node_state *state, unsigned int gpu)
{
	return reset_gpu(state, gpu);
}

EXPORT void sim_reload_driver(struct node_state *state)
{
	reload_driver(state);
}
