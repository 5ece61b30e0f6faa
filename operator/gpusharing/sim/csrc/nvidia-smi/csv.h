/* What --query-... options have in common: a table of fields, and lines with those that were asked for. */
#pragma once

#include "smi.h"

#define MAX_COLUMNS 32

/* Of what a line is. Queries of GPUs have no process. */
struct csv_row {
	nvmlDevice_t device;
	const nvmlProcessInfo_t *process;
};

typedef nvmlReturn_t read_field(const struct csv_row *row, char *text);

/* A field that can be asked for; a field with a unit says so in the header and, unless unwanted, after each value. */
struct csv_field {
	const char *name;
	const char *unit;
	read_field *read;
};

struct csv_query {
	const struct csv_field *columns[MAX_COLUMNS];
	size_t width;
	bool header;
	bool units;
};

/* `known` ends with a field without a name. What is wrong has been said. */
nvmlReturn_t parse_query(const struct csv_field *known, const char *fields, const char *format,
			 struct csv_query *query);
void print_header(const struct csv_query *query);
nvmlReturn_t print_row(const struct csv_query *query, const struct csv_row *row);
