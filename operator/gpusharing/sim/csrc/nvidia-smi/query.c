/* --query-gpu=... --format=csv */
#include "csv.h"

static nvmlReturn_t read_count(const struct csv_row *row, char *text)
{
	unsigned int count;
	nvmlReturn_t error = nvmlDeviceGetCount_v2(&count);

	(void)row;
	if (!error)
		snprintf(text, TEXT_LENGTH, "%u", count);
	return error;
}

static nvmlReturn_t read_index(const struct csv_row *row, char *text)
{
	snprintf(text, TEXT_LENGTH, "%u", gpu_index(row->device));
	return NVML_SUCCESS;
}

static nvmlReturn_t read_uuid(const struct csv_row *row, char *text)
{
	return nvmlDeviceGetUUID(row->device, text, TEXT_LENGTH);
}

static nvmlReturn_t read_name(const struct csv_row *row, char *text)
{
	return nvmlDeviceGetName(row->device, text, TEXT_LENGTH);
}

static nvmlReturn_t read_serial(const struct csv_row *row, char *text)
{
	return nvmlDeviceGetSerial(row->device, text, TEXT_LENGTH);
}

static nvmlReturn_t read_compute_capability(const struct csv_row *row, char *text)
{
	int major, minor;
	nvmlReturn_t error = nvmlDeviceGetCudaComputeCapability(row->device, &major, &minor);

	if (!error)
		snprintf(text, TEXT_LENGTH, "%d.%d", major, minor);
	return error;
}

static nvmlReturn_t measure_memory(const struct csv_row *row, nvmlMemory_v2_t *memory)
{
	memory->version = NVML_STRUCT_VERSION(nvmlMemory_v2_t, 2);
	return nvmlDeviceGetMemoryInfo_v2(row->device, memory);
}

#define MEMORY_FIELD(amount)                                                          \
	static nvmlReturn_t read_memory_##amount(const struct csv_row *row, char *text) \
	{                                                                             \
		nvmlMemory_v2_t memory;                                               \
		nvmlReturn_t error = measure_memory(row, &memory);                    \
                                                                                      \
		if (!error)                                                           \
			snprintf(text, TEXT_LENGTH, "%lu", memory.amount / MIB);      \
		return error;                                                         \
	}

MEMORY_FIELD(total)
MEMORY_FIELD(reserved)
MEMORY_FIELD(used)
MEMORY_FIELD(free)

static nvmlReturn_t read_compute_mode(const struct csv_row *row, char *text)
{
	unsigned int mode;
	nvmlReturn_t error = nvmlDeviceGetComputeMode(row->device, &mode);

	if (!error)
		snprintf(text, TEXT_LENGTH, "%s", compute_mode_name(mode));
	return error;
}

static nvmlReturn_t write_switch(nvmlReturn_t error, unsigned int state, char *text)
{
	if (!error)
		snprintf(text, TEXT_LENGTH, "%s", state ? "Enabled" : "Disabled");
	return error;
}

static nvmlReturn_t read_persistence_mode(const struct csv_row *row, char *text)
{
	unsigned int mode = 0;
	nvmlReturn_t error = nvmlDeviceGetPersistenceMode(row->device, &mode);

	return write_switch(error, mode, text);
}

static nvmlReturn_t read_current_mig_mode(const struct csv_row *row, char *text)
{
	unsigned int current = 0, pending;
	nvmlReturn_t error = nvmlDeviceGetMigMode(row->device, &current, &pending);

	return write_switch(error, current, text);
}

static nvmlReturn_t read_pending_mig_mode(const struct csv_row *row, char *text)
{
	unsigned int current, pending = 0;
	nvmlReturn_t error = nvmlDeviceGetMigMode(row->device, &current, &pending);

	return write_switch(error, pending, text);
}

struct rows {
	unsigned int correctable, uncorrectable, pending, failed;
};

static nvmlReturn_t count_rows(const struct csv_row *row, struct rows *rows)
{
	return nvmlDeviceGetRemappedRows(row->device, &rows->correctable, &rows->uncorrectable, &rows->pending,
					 &rows->failed);
}

static nvmlReturn_t read_uncorrectable_rows(const struct csv_row *row, char *text)
{
	struct rows rows;
	nvmlReturn_t error = count_rows(row, &rows);

	if (!error)
		snprintf(text, TEXT_LENGTH, "%u", rows.uncorrectable);
	return error;
}

static nvmlReturn_t read_pending_rows(const struct csv_row *row, char *text)
{
	struct rows rows;
	nvmlReturn_t error = count_rows(row, &rows);

	if (!error)
		snprintf(text, TEXT_LENGTH, "%s", rows.pending ? "Yes" : "No");
	return error;
}

static nvmlReturn_t read_failed_rows(const struct csv_row *row, char *text)
{
	struct rows rows;
	nvmlReturn_t error = count_rows(row, &rows);

	if (!error)
		snprintf(text, TEXT_LENGTH, "%s", rows.failed ? "Yes" : "No");
	return error;
}

static nvmlReturn_t read_bus_id(const struct csv_row *row, char *text)
{
	nvmlPciInfo_t pci;

	snprintf(text, TEXT_LENGTH, "%s", bus_id(row->device, &pci));
	return NVML_SUCCESS;
}

static nvmlReturn_t read_driver_version(const struct csv_row *row, char *text)
{
	(void)row;
	return nvmlSystemGetDriverVersion(text, TEXT_LENGTH);
}

static const struct csv_field FIELDS[] = {
	{"count", NULL, read_count},
	{"index", NULL, read_index},
	{"uuid", NULL, read_uuid},
	{"gpu_uuid", NULL, read_uuid},
	{"name", NULL, read_name},
	{"gpu_name", NULL, read_name},
	{"serial", NULL, read_serial},
	{"gpu_serial", NULL, read_serial},
	{"compute_cap", NULL, read_compute_capability},
	{"memory.total", "MiB", read_memory_total},
	{"memory.reserved", "MiB", read_memory_reserved},
	{"memory.used", "MiB", read_memory_used},
	{"memory.free", "MiB", read_memory_free},
	{"compute_mode", NULL, read_compute_mode},
	{"persistence_mode", NULL, read_persistence_mode},
	{"mig.mode.current", NULL, read_current_mig_mode},
	{"mig.mode.pending", NULL, read_pending_mig_mode},
	{"remapped_rows.uncorrectable", NULL, read_uncorrectable_rows},
	{"remapped_rows.pending", NULL, read_pending_rows},
	{"remapped_rows.failure", NULL, read_failed_rows},
	{"pci.bus_id", NULL, read_bus_id},
	{"gpu_bus_id", NULL, read_bus_id},
	{"driver_version", NULL, read_driver_version},
	{0},
};

static nvmlReturn_t print_gpu(nvmlDevice_t device, const void *query)
{
	return print_row(query, &(struct csv_row){.device = device});
}

nvmlReturn_t query_gpus(const char *ids, const char *fields, const char *format)
{
	struct csv_query query;
	struct gpus gpus;
	nvmlReturn_t error = parse_query(FIELDS, fields, format, &query);

	if (!error)
		error = select_gpus(ids, &gpus);
	if (error)
		return error;
	print_header(&query);
	for (unsigned int i = 0; !error && i < gpus.count; i++)
		error = print_gpu(gpus.devices[i], &query);
	return error;
}
