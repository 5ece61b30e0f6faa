/* The overview without arguments. For people: its columns are ours, the real tool's many more. */
#include "smi.h"

typedef nvmlReturn_t list_processes(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos);

static const char *timeslice_of(nvmlDevice_t device)
{
	unsigned int timeslice;

	return gpusharingSimGetTimeslice(device, &timeslice) ? "N/A" : timeslice_name(timeslice);
}

/* With MIG a GPU has none. */
static const char *compute_mode_of(nvmlDevice_t device)
{
	unsigned int mode;

	return nvmlDeviceGetComputeMode(device, &mode) ? "N/A" : compute_mode_name(mode);
}

static const char *mig_mode_of(nvmlDevice_t device)
{
	unsigned int current, pending;

	if (nvmlDeviceGetMigMode(device, &current, &pending))
		return "N/A";
	return current ? "Enabled" : "Disabled";
}

static nvmlReturn_t print_gpu(nvmlDevice_t device, const void *unused)
{
	char name[TEXT_LENGTH];
	nvmlMemory_t memory;
	nvmlPciInfo_t pci;
	nvmlReturn_t error = nvmlDeviceGetName(device, name, sizeof(name));

	(void)unused;
	if (!error)
		error = nvmlDeviceGetMemoryInfo(device, &memory);
	if (error)
		return error;
	printf("%3u  %-24s  %-16s  %6luMiB / %6luMiB  %-17s  %-8s  %s\n", gpu_index(device), name,
	       bus_id(device, &pci), memory.used / MIB, memory.total / MIB, compute_mode_of(device),
	       mig_mode_of(device), timeslice_of(device));
	return NVML_SUCCESS;
}

static void print_processes_of_kind(nvmlDevice_t device, list_processes *list, const char *type)
{
	nvmlProcessInfo_t infos[MAX_PROCESSES];
	unsigned int count = ARRAY_LENGTH(infos);

	if (list(device, &count, infos))
		return;
	for (unsigned int i = 0; i < count; i++)
		printf("%3u  %10u  %-4s  %6luMiB\n", gpu_index(device), infos[i].pid, type, infos[i].usedGpuMemory / MIB);
}

static nvmlReturn_t print_processes(nvmlDevice_t device, const void *unused)
{
	(void)unused;
	print_processes_of_kind(device, nvmlDeviceGetComputeRunningProcesses_v3, "C");
	print_processes_of_kind(device, nvmlDeviceGetMPSComputeRunningProcesses_v3, "M+C");
	print_processes_of_kind(device, nvmlDeviceGetGraphicsRunningProcesses_v3, "G");
	return NVML_SUCCESS;
}

nvmlReturn_t show_table(void)
{
	char driver[TEXT_LENGTH];
	int cuda;
	nvmlReturn_t error = nvmlSystemGetDriverVersion(driver, sizeof(driver));

	if (!error)
		error = nvmlSystemGetCudaDriverVersion_v2(&cuda);
	if (error)
		return error;
	printf("NVIDIA-SMI (simulated)  Driver Version: %s  CUDA Version: %d.%d\n\n", driver, cuda / 1000,
	       cuda % 1000 / 10);
	printf("GPU  %-24s  %-16s  %21s  %-17s  %-8s  %s\n", "Name", "Bus-Id", "Memory-Usage", "Compute M.", "MIG M.",
	       "Timeslice");
	error = for_gpus(NULL, print_gpu, NULL);
	if (error)
		return error;
	printf("\nProcesses:\nGPU         PID  Type  GPU Memory\n");
	return for_gpus(NULL, print_processes, NULL);
}
