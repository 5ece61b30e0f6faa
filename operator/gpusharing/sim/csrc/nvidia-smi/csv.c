#include "csv.h"

#include <stdlib.h>
#include <string.h>

static const struct csv_field *find_field(const struct csv_field *known, const char *name)
{
	for (; known->name; known++)
		if (strcmp(known->name, name) == 0)
			return known;
	return NULL;
}

static nvmlReturn_t parse_fields(const struct csv_field *known, char *fields, struct csv_query *query)
{
	for (char *name = strtok(fields, ", "); name; name = strtok(NULL, ", ")) {
		const struct csv_field *field = find_field(known, name);

		if (!field || query->width == MAX_COLUMNS) {
			printf("Field \"%s\" is not a valid field to query.\n", name);
			return NVML_ERROR_INVALID_ARGUMENT;
		}
		query->columns[query->width++] = field;
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t parse_format(char *format, struct csv_query *query)
{
	bool csv = false;

	for (char *word = strtok(format, ", "); word; word = strtok(NULL, ", ")) {
		if (strcmp(word, "csv") == 0)
			csv = true;
		else if (strcmp(word, "noheader") == 0)
			query->header = false;
		else if (strcmp(word, "nounits") == 0)
			query->units = false;
		else
			return NVML_ERROR_INVALID_ARGUMENT;
	}
	return csv ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t parse_query(const struct csv_field *known, const char *fields, const char *format,
			 struct csv_query *query)
{
	char *fields_copy = strdup(fields), *format_copy = strdup(format ? format : "");
	nvmlReturn_t error;

	*query = (struct csv_query){.header = true, .units = true};
	error = parse_fields(known, fields_copy, query);
	if (!error && parse_format(format_copy, query)) {
		printf("\"--format=\" must be csv, with noheader and nounits if wanted.\n");
		error = NVML_ERROR_INVALID_ARGUMENT;
	}
	free(fields_copy);
	free(format_copy);
	return error;
}

void print_header(const struct csv_query *query)
{
	if (!query->header)
		return;
	for (size_t i = 0; i < query->width; i++) {
		const struct csv_field *field = query->columns[i];

		printf("%s%s", i ? ", " : "", field->name);
		if (field->unit)
			printf(" [%s]", field->unit);
	}
	printf("\n");
}

/* What cannot be known stands in the line; scripts go by "[N/A]". */
static void print_value(const struct csv_query *query, const struct csv_field *field, const struct csv_row *row)
{
	char text[TEXT_LENGTH];
	nvmlReturn_t error = field->read(row, text);

	if (error == NVML_ERROR_NOT_SUPPORTED)
		printf("[N/A]");
	else if (error)
		printf("[%s]", nvmlErrorString(error));
	else
		printf("%s%s%s", text, field->unit && query->units ? " " : "",
		       field->unit && query->units ? field->unit : "");
}

nvmlReturn_t print_row(const struct csv_query *query, const struct csv_row *row)
{
	for (size_t i = 0; i < query->width; i++) {
		printf("%s", i ? ", " : "");
		print_value(query, query->columns[i], row);
	}
	printf("\n");
	return NVML_SUCCESS;
}
