#include "driver/lifecycle.h"

#include <string.h>

#include "driver/change.h"
#include "driver/events.h"
#include "driver/files.h"
#include "driver/limits.h"
#include "driver/mig.h"
#include "driver/processes.h"

/* From here on handles of before are stale and instances are gone: parts of a change that the caller has begun. */
static void start_anew(struct node_state *state, unsigned int index)
{
	struct gpu_state *gpu = &state->gpus[index];

	gpu->generation++;
	forget_all_instances(gpu);
	mark_files_stale(state, index);
}

static void swap_minor_with_next(struct node_state *state, unsigned int index)
{
	unsigned int next = (index + 1) % state->gpu_count;
	uint32_t minor = state->gpus[index].minor;

	state->gpus[index].minor = state->gpus[next].minor;
	state->gpus[next].minor = minor;
	state->gpus[index].swaps_minor = 0;
	mark_files_stale(state, index);
	mark_files_stale(state, next);
}

static void activate_mig_mode(struct node_state *state, unsigned int index, unsigned int mode)
{
	struct gpu_state *gpu = &state->gpus[index];

	begin_change(state, index);
	gpu->mig_mode_current = gpu->mig_mode_pending = mode;
	start_anew(state, index);
	end_change(state);
	if (gpu->swaps_minor)
		swap_minor_with_next(state, index);
	post_event(state, index, NONE, NONE, EVENT_MIG_CONFIGURATION, 0);
}

static bool is_in_use(struct node_state *state, unsigned int index)
{
	struct gpu_state *gpu = &state->gpus[index];

	reap_processes(state, index);
	return has_processes(gpu, NONE, NONE) || has_gpu_instances(gpu) || (gpu->mig_mode_needs_reset && gpu->held_open);
}

nvmlReturn_t set_mig_mode(struct node_state *state, unsigned int index, unsigned int mode, nvmlReturn_t *activation)
{
	struct gpu_state *gpu = &state->gpus[index];

	*activation = NVML_SUCCESS;
	gpu->mig_mode_pending = mode;
	if (gpu->mig_mode_current == mode || gpu->mig_mode_stuck)
		return NVML_SUCCESS;
	if (is_in_use(state, index))
		*activation = NVML_ERROR_IN_USE;
	else if (gpu->mig_mode_needs_reset && gpu->cannot_reset)
		*activation = NVML_ERROR_RESET_REQUIRED;
	else
		activate_mig_mode(state, index, mode);
	return NVML_SUCCESS;
}

static void recover(struct gpu_state *gpu)
{
	if (gpu->row_remap_pending)
		gpu->remapped_rows_uncorrectable++;
	gpu->row_remap_pending = 0;
	gpu->recovery_action = 0;
}

nvmlReturn_t reset_gpu(struct node_state *state, unsigned int index)
{
	struct gpu_state *gpu = &state->gpus[index];

	if (gpu->lost)
		return NVML_ERROR_GPU_IS_LOST;
	if (gpu->cannot_reset)
		return NVML_ERROR_NOT_SUPPORTED;
	reap_processes(state, index);
	if (has_processes(gpu, NONE, NONE) || gpu->held_open)
		return NVML_ERROR_IN_USE;
	begin_change(state, index);
	gpu->mig_mode_current = gpu->mig_mode_pending;
	recover(gpu);
	start_anew(state, index);
	end_change(state);
	return NVML_SUCCESS;
}

static void load_driver_for(struct node_state *state, unsigned int index)
{
	struct gpu_state *gpu = &state->gpus[index];

	begin_change(state, index);
	if (!gpu->mig_mode_persists)
		gpu->mig_mode_pending = 0;
	gpu->mig_mode_current = gpu->mig_mode_pending;
	gpu->compute_mode = COMPUTE_MODE_DEFAULT;
	gpu->timeslice = TIMESLICE_DEFAULT;
	gpu->minor = index;
	memset(gpu->processes, 0, sizeof(gpu->processes));
	recover(gpu);
	start_anew(state, index);
	end_change(state);
}

void reload_driver(struct node_state *state)
{
	memset(state->memory_limits, 0, sizeof(state->memory_limits));
	for (unsigned int gpu = 0; gpu < state->gpu_count; gpu++)
		load_driver_for(state, gpu);
}
