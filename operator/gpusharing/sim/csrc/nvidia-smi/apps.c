/* --query-compute-apps=... --format=csv */
#include <unistd.h>

#include "csv.h"

typedef nvmlReturn_t list_processes(nvmlDevice_t device, unsigned int *count, nvmlProcessInfo_t *infos);

static nvmlReturn_t read_gpu_name(const struct csv_row *row, char *text)
{
	return nvmlDeviceGetName(row->device, text, TEXT_LENGTH);
}

static nvmlReturn_t read_gpu_uuid(const struct csv_row *row, char *text)
{
	return nvmlDeviceGetUUID(row->device, text, TEXT_LENGTH);
}

static nvmlReturn_t read_gpu_bus_id(const struct csv_row *row, char *text)
{
	nvmlPciInfo_t pci;

	snprintf(text, TEXT_LENGTH, "%s", bus_id(row->device, &pci));
	return NVML_SUCCESS;
}

static nvmlReturn_t read_pid(const struct csv_row *row, char *text)
{
	snprintf(text, TEXT_LENGTH, "%u", row->process->pid);
	return NVML_SUCCESS;
}

/* Of another PID namespace, or gone already: not found. */
static nvmlReturn_t read_process_name(const struct csv_row *row, char *text)
{
	char link[sizeof("/proc/4294967295/exe")];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/%u/exe", row->process->pid);
	length = readlink(link, text, TEXT_LENGTH - 1);
	if (length < 0)
		return NVML_ERROR_NOT_FOUND;
	text[length] = '\0';
	return NVML_SUCCESS;
}

static nvmlReturn_t read_used_memory(const struct csv_row *row, char *text)
{
	snprintf(text, TEXT_LENGTH, "%lu", row->process->usedGpuMemory / MIB);
	return NVML_SUCCESS;
}

static const struct csv_field FIELDS[] = {
	{"gpu_name", NULL, read_gpu_name},
	{"gpu_uuid", NULL, read_gpu_uuid},
	{"gpu_bus_id", NULL, read_gpu_bus_id},
	{"pid", NULL, read_pid},
	{"process_name", NULL, read_process_name},
	{"name", NULL, read_process_name},
	{"used_gpu_memory", "MiB", read_used_memory},
	{"used_memory", "MiB", read_used_memory},
	{0},
};

static nvmlReturn_t print_processes(nvmlDevice_t device, list_processes *list, const struct csv_query *query)
{
	nvmlProcessInfo_t infos[MAX_PROCESSES];
	unsigned int count = ARRAY_LENGTH(infos);
	nvmlReturn_t error = list(device, &count, infos);

	for (unsigned int i = 0; !error && i < count; i++)
		error = print_row(query, &(struct csv_row){device, &infos[i]});
	return error;
}

static nvmlReturn_t print_apps(nvmlDevice_t device, const void *query)
{
	nvmlReturn_t error = print_processes(device, nvmlDeviceGetComputeRunningProcesses_v3, query);

	return error ? error : print_processes(device, nvmlDeviceGetMPSComputeRunningProcesses_v3, query);
}

nvmlReturn_t query_compute_apps(const char *ids, const char *fields, const char *format)
{
	struct csv_query query;
	nvmlReturn_t error = parse_query(FIELDS, fields, format, &query);

	if (error)
		return error;
	print_header(&query);
	return for_gpus(ids, print_apps, &query);
}
