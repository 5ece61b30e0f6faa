/* --gpu-reset */
#include "smi.h"

#define OTHER_ERROR 255

/* A reset that did not succeed. */
struct failure {
	nvmlPciInfo_t pci;
	nvmlReturn_t error;
};

static void explain_use(unsigned int count)
{
	printf("\n%u %s currently being used by one or more other processes (e.g., Fabric Manager, CUDA application, "
	       "graphics application such as an X server, or a monitoring application such as another instance of "
	       "nvidia-smi). Please first kill all processes using %s and all compute applications running in the "
	       "system.\n",
	       count, count == 1 ? "device is" : "devices are", count == 1 ? "this device" : "these devices");
}

static nvmlReturn_t explain_failures(const struct failure *failures, unsigned int count)
{
	unsigned int in_use = 0;

	printf("\nThe following GPUs could not be reset:\n");
	for (unsigned int i = 0; i < count; i++) {
		printf("  GPU %s: %s\n", failures[i].pci.busId, nvmlErrorString(failures[i].error));
		in_use += failures[i].error == NVML_ERROR_IN_USE;
	}
	if (in_use)
		explain_use(in_use);
	return OTHER_ERROR;
}

nvmlReturn_t reset_gpus(const char *ids)
{
	struct gpus gpus;
	struct failure failures[MAX_GPUS];
	unsigned int failed = 0;
	nvmlReturn_t error = select_gpus(ids, &gpus);

	if (error)
		return error;
	for (unsigned int i = 0; i < gpus.count; i++) {
		struct failure *failure = &failures[failed];
		const char *gpu = bus_id(gpus.devices[i], &failure->pci);

		failure->error = gpusharingSimResetGpu(gpus.devices[i]);
		if (failure->error)
			failed++;
		else
			printf("GPU %s was successfully reset.\n", gpu);
	}
	if (failed)
		return explain_failures(failures, failed);
	printf("All done.\n");
	return NVML_SUCCESS;
}
