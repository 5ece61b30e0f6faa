#include "driver/processes.h"

#include "driver/limits.h"
#include "nvml/call.h"

/* Places into which a list is written; the first version of the structure has no instances. */
struct infos {
	nvmlProcessInfo_v1_t *first;
	nvmlProcessInfo_t *newer;
};

static bool is_listed(const struct call *call, const struct process_state *process, enum process_kind kind)
{
	if (!process->pid || process->kind != kind)
		return false;
	return !call->compute_instance || (process->gpu_instance == call->device.gpu_instance &&
					   process->compute_instance == call->device.compute_instance);
}

static unsigned int count_processes(const struct call *call, enum process_kind kind)
{
	unsigned int count = 0;

	for (unsigned int slot = 0; slot < ARRAY_LENGTH(call->gpu->processes); slot++)
		count += is_listed(call, &call->gpu->processes[slot], kind);
	return count;
}

static void fill_info(const struct call *call, const struct process_state *process, struct infos *infos)
{
	uint32_t pid = process_pid(call->state, process);

	if (infos->first)
		*infos->first++ = (nvmlProcessInfo_v1_t){.pid = pid, .usedGpuMemory = process->memory};
	else
		*infos->newer++ = (nvmlProcessInfo_t){
			.pid = pid,
			.usedGpuMemory = process->memory,
			.gpuInstanceId = process->gpu_instance,
			.computeInstanceId = process->compute_instance,
		};
}

static void fill_infos(const struct call *call, enum process_kind kind, struct infos infos)
{
	for (unsigned int slot = 0; slot < ARRAY_LENGTH(call->gpu->processes); slot++)
		if (is_listed(call, &call->gpu->processes[slot], kind))
			fill_info(call, &call->gpu->processes[slot], &infos);
}

/* Callers ask twice: with room for none to learn the number, then with enough room. */
static nvmlReturn_t list_processes(struct call *call, nvmlDevice_t device, enum process_kind kind, unsigned int *count,
				   struct infos infos)
{
	nvmlReturn_t error = begin_on_device(call, device);
	unsigned int room;

	if (error)
		return error;
	if (!count || (*count && !infos.first && !infos.newer))
		return NVML_ERROR_INVALID_ARGUMENT;
	/* With MIG, who runs in which instance is for root only, unless one asks for a single one. */
	if (call->gpu->mig_mode_current && !call->compute_instance && !is_privileged())
		return NVML_ERROR_NO_PERMISSION;
	reap_processes(call->state, call->device.gpu);
	room = *count;
	*count = count_processes(call, kind);
	if (*count > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	fill_infos(call, kind, infos);
	return NVML_SUCCESS;
}

/* For one list its three versions, of which the later two are the same. */
#define PROCESS_LIST(function, kind)                                                                       \
	nvmlReturn_t function##_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)         \
	{                                                                                                  \
		SCOPED_CALL(call);                                                                         \
                                                                                                           \
		return list_processes(&call, device, kind, count, (struct infos){.newer = infos});         \
	}                                                                                                  \
                                                                                                           \
	nvmlReturn_t function##_v2(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)         \
		__attribute__((alias(#function "_v3")));                                                   \
                                                                                                           \
	nvmlReturn_t function(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_v1_t *infos)           \
	{                                                                                                  \
		SCOPED_CALL(call);                                                                         \
                                                                                                           \
		return list_processes(&call, device, kind, count, (struct infos){.first = infos});         \
	}

PROCESS_LIST(nvmlDeviceGetComputeRunningProcesses, PROCESS_KIND_COMPUTE)
PROCESS_LIST(nvmlDeviceGetGraphicsRunningProcesses, PROCESS_KIND_GRAPHICS)
PROCESS_LIST(nvmlDeviceGetMPSComputeRunningProcesses, PROCESS_KIND_MPS_CLIENT)
