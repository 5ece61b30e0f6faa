/* -mig 0|1 */
#include <string.h>
#include <strings.h>

#include "smi.h"

static const struct mode {
	unsigned int value;
	const char *number;
	const char *argument;
	const char *verb;
	const char *done;
} MODES[] = {
	{0, "0", "DISABLED", "disable", "Disabled"},
	{1, "1", "ENABLED", "enable", "Enabled"},
};

static const struct mode *parse_mode(const char *text)
{
	for (size_t i = 0; i < ARRAY_LENGTH(MODES); i++)
		if (strcmp(text, MODES[i].number) == 0 || strcasecmp(text, MODES[i].argument) == 0)
			return &MODES[i];
	return NULL;
}

static void explain_pending(const struct mode *mode, const char *gpu, nvmlReturn_t activation)
{
	printf("Warning: MIG mode is in pending %s state for GPU %s:%s\n", mode->verb, gpu,
	       nvmlErrorString(activation));
	if (activation == NVML_ERROR_IN_USE)
		printf("%s is currently being used by one or more other processes (e.g. CUDA application or a "
		       "monitoring application such as another instance of nvidia-smi). Please first kill all "
		       "processes using the device and retry the command or reboot the system to make MIG mode "
		       "effective.\n",
		       gpu);
	else
		printf("Reboot the system or try nvidia-smi --gpu-reset to make MIG mode effective on GPU %s\n", gpu);
}

static nvmlReturn_t explain_failure(const struct mode *mode, const char *gpu, nvmlReturn_t error)
{
	printf("Unable to %s MIG Mode for GPU %s: %s\n", mode->verb, gpu, nvmlErrorString(error));
	if (error == NVML_ERROR_NOT_SUPPORTED) {
		printf("Treating as warning and moving on.\n");
		return NVML_SUCCESS;
	}
	printf("Terminating early due to previous errors.\n");
	return error;
}

/* As in the real tool, only a refused call is a failure: a mode that waits is not, nor a GPU that cannot do MIG. */
static nvmlReturn_t change(nvmlDevice_t device, const void *argument)
{
	const struct mode *mode = argument;
	nvmlPciInfo_t pci;
	/* Before: a change may make the handle stale. */
	const char *gpu = bus_id(device, &pci);
	nvmlReturn_t activation;
	nvmlReturn_t error = nvmlDeviceSetMigMode(device, mode->value, &activation);

	if (error)
		return explain_failure(mode, gpu, error);
	if (activation)
		explain_pending(mode, gpu, activation);
	else
		printf("%s MIG Mode for GPU %s\n", mode->done, gpu);
	return NVML_SUCCESS;
}

nvmlReturn_t set_mig_mode(const char *ids, const char *text)
{
	const struct mode *mode = parse_mode(text);
	nvmlReturn_t error;

	if (!mode) {
		printf("Invalid MIG mode \"%s\": it is 0=DISABLED or 1=ENABLED.\n", text);
		return NVML_ERROR_INVALID_ARGUMENT;
	}
	error = for_gpus(ids, change, mode);
	if (!error)
		printf("All done.\n");
	return error;
}
