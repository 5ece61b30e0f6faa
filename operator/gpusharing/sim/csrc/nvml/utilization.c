#include <time.h>

#include "driver/limits.h"
#include "driver/processes.h"
#include "nvml/call.h"

/* Between two looks of the driver at what runs, in microseconds. */
#define PERIOD 166667

#define ALL_OF_IT 100
/* What drivers say of processes that have ended, and that they still list. */
#define GARBAGE 2147483632

static uint64_t last_look(void)
{
	struct timespec now;
	uint64_t microseconds;

	clock_gettime(CLOCK_REALTIME, &now);
	microseconds = now.tv_sec * 1000000ULL + now.tv_nsec / 1000;
	return microseconds - microseconds % PERIOD;
}

/* The GPU works for one after the other: together they get no more than all of it. */
static unsigned int demand(const struct gpu_state *gpu)
{
	unsigned int total = 0;

	for (unsigned int slot = 0; slot < ARRAY_LENGTH(gpu->processes); slot++)
		if (gpu->processes[slot].pid)
			total += gpu->processes[slot].sm_utilization;
	return total < ALL_OF_IT ? ALL_OF_IT : total;
}

static const struct process_state *server_of(const struct gpu_state *gpu, const struct process_state *process)
{
	if (process->kind == PROCESS_KIND_MPS_CLIENT)
		for (unsigned int slot = 0; slot < ARRAY_LENGTH(gpu->processes); slot++)
			if (gpu->processes[slot].pid && gpu->processes[slot].kind == PROCESS_KIND_COMPUTE)
				return &gpu->processes[slot];
	return process;
}

/* How many there are; only the first `room` are written. */
static unsigned int fill_samples(const struct call *call, nvmlProcessUtilizationSample_t *samples, unsigned int room)
{
	bool odd = call->state->quirks & QUIRK_ODD_SAMPLES;
	unsigned int count = 0, total = demand(call->gpu);
	uint64_t stamp = last_look();

	for (unsigned int slot = 0; slot < ARRAY_LENGTH(call->gpu->processes); slot++) {
		const struct process_state *process = &call->gpu->processes[slot];

		/* One that does not compute has none. */
		if (!process->pid || !process->sm_utilization)
			continue;
		if (count < room)
			samples[count] = (nvmlProcessUtilizationSample_t){
				.pid = process_pid(call->state, odd ? server_of(call->gpu, process) : process),
				.timeStamp = stamp,
				.smUtil = process->sm_utilization * ALL_OF_IT / total,
			};
		count++;
		if (odd && count < room)
			samples[count] = (nvmlProcessUtilizationSample_t){
				.pid = process_pid(call->state, process), .timeStamp = stamp, .smUtil = GARBAGE};
		count += odd;
	}
	return count;
}

nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
					     unsigned int *count, unsigned long long last_seen)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_device(&call, device);
	unsigned int room;

	if (error)
		return error;
	if (!count)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (call.gpu->mig_mode_current)
		return NVML_ERROR_NOT_SUPPORTED;
	reap_processes(call.state, call.device.gpu);
	room = samples ? *count : 0;
	*count = last_look() > last_seen ? fill_samples(&call, samples, room) : 0;
	if (!*count)
		return NVML_ERROR_NOT_FOUND;
	return *count > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}
