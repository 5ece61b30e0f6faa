#include <getopt.h>
#include <string.h>

#include "smi.h"

static const char *const TIMESLICES[] = {"Default", "Short", "Medium", "Long"};

static const struct option OPTIONS[] = {
	{"id", required_argument, NULL, 'i'},
	{"list", no_argument, NULL, 'l'},
	{"set-timeslice", required_argument, NULL, 't'},
	{0},
};

const char *timeslice_name(unsigned int timeslice)
{
	return timeslice < ARRAY_LENGTH(TIMESLICES) ? TIMESLICES[timeslice] : "Unknown";
}

static int parse_timeslice(const char *text, unsigned int *timeslice)
{
	for (*timeslice = 0; *timeslice < ARRAY_LENGTH(TIMESLICES); ++*timeslice)
		if (strcasecmp(text, TIMESLICES[*timeslice]) == 0 ||
		    (text[0] == (char)('0' + *timeslice) && !text[1]))
			return 1;
	return 0;
}

static nvmlReturn_t change(nvmlDevice_t device, const void *argument)
{
	const unsigned int *timeslice = argument;
	nvmlReturn_t error = gpusharingSimSetTimeslice(device, *timeslice);

	if (error)
		printf("Failed to set timeslice policy with value %s for GPU %u : %s\n", timeslice_name(*timeslice),
		       gpu_index(device), nvmlErrorString(error));
	else
		printf("Set timeslice policy with value %s for GPU %u.\n", timeslice_name(*timeslice),
		       gpu_index(device));
	return error;
}

static nvmlReturn_t set_timeslice(const char *ids, const char *text)
{
	unsigned int timeslice;
	nvmlReturn_t error;

	if (!parse_timeslice(text, &timeslice)) {
		printf("Invalid timeslice \"%s\": it is 0=DEFAULT, 1=SHORT, 2=MEDIUM or 3=LONG.\n", text);
		return NVML_ERROR_INVALID_ARGUMENT;
	}
	error = for_gpus(ids, change, &timeslice);
	if (error && error != NVML_ERROR_NOT_FOUND)
		printf("Failed to set timeslice for requested devices : %s\n", nvmlErrorString(error));
	return error;
}

static nvmlReturn_t list(nvmlDevice_t device, const void *unused)
{
	nvmlPciInfo_t pci;
	unsigned int timeslice;
	nvmlReturn_t error = gpusharingSimGetTimeslice(device, &timeslice);

	(void)unused;
	if (error)
		printf("Failed to get timeslice policy for GPU %u : %s\n", gpu_index(device), nvmlErrorString(error));
	else if (has_quirk(QUIRK_TIMESLICE_UNREADABLE))
		printf("Compute policies of GPU %u: %#x\n", gpu_index(device), 0x10 + timeslice);
	else
		printf("GPU %s\n    Timeslice: %s\n", bus_id(device, &pci), timeslice_name(timeslice));
	return error;
}

nvmlReturn_t compute_policy(int argc, char **argv)
{
	const char *ids = NULL, *timeslice = NULL;
	int option;
	bool wants_list = false;

	while ((option = getopt_long(argc, argv, "i:l", OPTIONS, NULL)) != -1) {
		switch (option) {
		case 'i': ids = optarg; break;
		case 'l': wants_list = true; break;
		case 't': timeslice = optarg; break;
		default: return NVML_ERROR_INVALID_ARGUMENT;
		}
	}
	if (timeslice)
		return set_timeslice(ids, timeslice);
	if (wants_list)
		return for_gpus(ids, list, NULL);
	printf("nvidia-smi compute-policy needs -l or --set-timeslice.\n");
	return NVML_ERROR_INVALID_ARGUMENT;
}
