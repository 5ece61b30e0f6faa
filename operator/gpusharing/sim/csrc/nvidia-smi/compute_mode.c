#include <string.h>

#include "smi.h"

/* For each mode its number and names: on the command line, in the answer to a change, and in listings. */
static const struct mode {
	unsigned int value;
	const char *number;
	const char *argument;
	const char *listed;
} MODES[] = {
	{0, "0", "DEFAULT", "Default"},
	{2, "2", "PROHIBITED", "Prohibited"},
	{3, "3", "EXCLUSIVE_PROCESS", "Exclusive_Process"},
};

static const struct mode *parse_mode(const char *text)
{
	for (size_t i = 0; i < ARRAY_LENGTH(MODES); i++)
		if (strcmp(text, MODES[i].number) == 0 || strcasecmp(text, MODES[i].argument) == 0)
			return &MODES[i];
	return NULL;
}

const char *compute_mode_name(unsigned int mode)
{
	for (size_t i = 0; i < ARRAY_LENGTH(MODES); i++)
		if (MODES[i].value == mode)
			return MODES[i].listed;
	return "Unknown";
}

static nvmlReturn_t change(nvmlDevice_t device, const void *argument)
{
	const struct mode *mode = argument;
	nvmlPciInfo_t pci;
	unsigned int current;
	nvmlReturn_t error = nvmlDeviceGetComputeMode(device, &current);

	if (!error && current == mode->value) {
		printf("Compute mode is already set to %s for GPU %s.\n", mode->argument, bus_id(device, &pci));
		return NVML_SUCCESS;
	}
	if (!error)
		error = nvmlDeviceSetComputeMode(device, mode->value);
	if (error)
		printf("Unable to set the compute mode for GPU %s: %s\nTerminating early due to previous errors.\n",
		       bus_id(device, &pci), nvmlErrorString(error));
	else
		printf("Set compute mode to %s for GPU %s.\n", mode->argument, bus_id(device, &pci));
	return error;
}

nvmlReturn_t set_compute_mode(const char *ids, const char *text)
{
	const struct mode *mode = parse_mode(text);
	nvmlReturn_t error;

	if (!mode) {
		printf("Invalid compute mode \"%s\": it is DEFAULT (0), PROHIBITED (2) or EXCLUSIVE_PROCESS (3).\n", text);
		return NVML_ERROR_INVALID_ARGUMENT;
	}
	error = for_gpus(ids, change, mode);
	if (!error)
		printf("All done.\n");
	return error;
}
