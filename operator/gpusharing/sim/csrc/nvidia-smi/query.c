/* --query-gpu=... --format=csv */
#include <stdlib.h>
#include <string.h>

#include "smi.h"

#define MAX_COLUMNS 32

typedef nvmlReturn_t read_field(nvmlDevice_t device, char *text);

/* A field that can be asked for; a field with a unit says so in the header and, unless unwanted, after each value. */
struct field {
	const char *name;
	const char *unit;
	read_field *read;
};

struct query {
	const struct field *columns[MAX_COLUMNS];
	size_t width;
	int header;
	int units;
};

static nvmlReturn_t read_index(nvmlDevice_t device, char *text)
{
	snprintf(text, TEXT_LENGTH, "%u", gpu_index(device));
	return NVML_SUCCESS;
}

static nvmlReturn_t read_uuid(nvmlDevice_t device, char *text)
{
	return nvmlDeviceGetUUID(device, text, TEXT_LENGTH);
}

static nvmlReturn_t read_name(nvmlDevice_t device, char *text)
{
	return nvmlDeviceGetName(device, text, TEXT_LENGTH);
}

static nvmlReturn_t read_memory(nvmlDevice_t device, char *text)
{
	nvmlMemory_t memory;
	nvmlReturn_t error = nvmlDeviceGetMemoryInfo(device, &memory);

	if (!error)
		snprintf(text, TEXT_LENGTH, "%lu", memory.total / MIB);
	return error;
}

static nvmlReturn_t read_compute_mode(nvmlDevice_t device, char *text)
{
	unsigned int mode;
	nvmlReturn_t error = nvmlDeviceGetComputeMode(device, &mode);

	if (!error)
		snprintf(text, TEXT_LENGTH, "%s", compute_mode_name(mode));
	return error;
}

static nvmlReturn_t read_bus_id(nvmlDevice_t device, char *text)
{
	nvmlPciInfo_t pci;

	snprintf(text, TEXT_LENGTH, "%s", bus_id(device, &pci));
	return NVML_SUCCESS;
}

static nvmlReturn_t read_driver_version(nvmlDevice_t device, char *text)
{
	(void)device;
	return nvmlSystemGetDriverVersion(text, TEXT_LENGTH);
}

static const struct field FIELDS[] = {
	{"index", NULL, read_index},
	{"uuid", NULL, read_uuid},
	{"name", NULL, read_name},
	{"memory.total", "MiB", read_memory},
	{"compute_mode", NULL, read_compute_mode},
	{"pci.bus_id", NULL, read_bus_id},
	{"driver_version", NULL, read_driver_version},
};

static const struct field *find_field(const char *name)
{
	for (size_t i = 0; i < ARRAY_LENGTH(FIELDS); i++)
		if (strcmp(FIELDS[i].name, name) == 0)
			return &FIELDS[i];
	return NULL;
}

static nvmlReturn_t parse_fields(char *fields, struct query *query)
{
	for (char *name = strtok(fields, ", "); name; name = strtok(NULL, ", ")) {
		const struct field *field = find_field(name);

		if (!field || query->width == MAX_COLUMNS) {
			printf("Field \"%s\" is not a valid field to query.\n", name);
			return NVML_ERROR_INVALID_ARGUMENT;
		}
		query->columns[query->width++] = field;
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t parse_format(char *format, struct query *query)
{
	int csv = 0;

	for (char *word = strtok(format, ", "); word; word = strtok(NULL, ", ")) {
		if (strcmp(word, "csv") == 0)
			csv = 1;
		else if (strcmp(word, "noheader") == 0)
			query->header = 0;
		else if (strcmp(word, "nounits") == 0)
			query->units = 0;
		else
			return NVML_ERROR_INVALID_ARGUMENT;
	}
	return csv ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static void print_header(const struct query *query)
{
	for (size_t i = 0; i < query->width; i++) {
		const struct field *field = query->columns[i];

		printf("%s%s", i ? ", " : "", field->name);
		if (field->unit)
			printf(" [%s]", field->unit);
	}
	printf("\n");
}

static nvmlReturn_t print_row(nvmlDevice_t device, const void *argument)
{
	const struct query *query = argument;

	for (size_t i = 0; i < query->width; i++) {
		const struct field *field = query->columns[i];
		char text[TEXT_LENGTH];
		nvmlReturn_t error = field->read(device, text);

		if (error)
			return error;
		printf("%s%s", i ? ", " : "", text);
		if (field->unit && query->units)
			printf(" %s", field->unit);
	}
	printf("\n");
	return NVML_SUCCESS;
}

nvmlReturn_t query_gpus(const char *id, const char *fields, const char *format)
{
	struct query query = {.header = 1, .units = 1};
	char *fields_copy = strdup(fields), *format_copy = strdup(format ? format : "");
	nvmlReturn_t error = parse_fields(fields_copy, &query);

	if (!error && parse_format(format_copy, &query)) {
		printf("\"--format=\" must be csv, with noheader and nounits if wanted.\n");
		error = NVML_ERROR_INVALID_ARGUMENT;
	}
	free(fields_copy);
	free(format_copy);
	if (error)
		return error;
	if (query.header)
		print_header(&query);
	return for_gpus(id, print_row, &query);
}
