#include "processes.h"

#include "call.h"

#define SLOTS(gpu) (sizeof((gpu)->processes) / sizeof((gpu)->processes[0]))

/* What NVML says for a process that runs on no MIG instance. */
#define NO_INSTANCE 0xffffffffU

uint64_t memory_of_processes(const struct gpu_state *gpu)
{
	uint64_t memory = 0;

	for (unsigned int slot = 0; slot < SLOTS(gpu); slot++)
		if (gpu->processes[slot].pid)
			memory += gpu->processes[slot].memory;
	return memory;
}

static bool is_listed(const struct process_state *process, enum process_kind kind)
{
	return process->pid && process->kind == kind;
}

static unsigned int count_processes(const struct gpu_state *gpu, enum process_kind kind)
{
	unsigned int count = 0;

	for (unsigned int slot = 0; slot < SLOTS(gpu); slot++)
		count += is_listed(&gpu->processes[slot], kind);
	return count;
}

static void fill_infos(const struct gpu_state *gpu, enum process_kind kind, nvmlProcessInfo_t *info)
{
	for (unsigned int slot = 0; slot < SLOTS(gpu); slot++) {
		const struct process_state *process = &gpu->processes[slot];

		if (is_listed(process, kind))
			*info++ = (nvmlProcessInfo_t){
				.pid = process->pid,
				.usedGpuMemory = process->memory,
				.gpuInstanceId = NO_INSTANCE,
				.computeInstanceId = NO_INSTANCE,
			};
	}
}

/* Callers ask twice: with room for none to learn the number, then with enough room. */
static nvmlReturn_t list_processes(nvmlDevice_t device, enum process_kind kind, unsigned int *count,
				   nvmlProcessInfo_t *infos)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);
	unsigned int room;

	if (error)
		return error;
	if (!count || (*count && !infos))
		return NVML_ERROR_INVALID_ARGUMENT;
	room = *count;
	*count = count_processes(gpu, kind);
	if (*count > room)
		return NVML_ERROR_INSUFFICIENT_SIZE;
	fill_infos(gpu, kind, infos);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos)
{
	return list_processes(device, PROCESS_KIND_COMPUTE, count, infos);
}

nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
						      nvmlProcessInfo_t *infos)
{
	return list_processes(device, PROCESS_KIND_GRAPHICS, count, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
							nvmlProcessInfo_t *infos)
{
	return list_processes(device, PROCESS_KIND_MPS_CLIENT, count, infos);
}
