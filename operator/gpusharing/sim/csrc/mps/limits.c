#include "limits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

bool parse_percentage(const char *text, double *percentage)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value > 0 && value <= 100))
		return false;
	*percentage = value;
	return true;
}

bool parse_memory(const char *text, uint64_t *bytes)
{
	char *unit;
	unsigned long long value = strtoull(text, &unit, 10);

	if (unit == text || *text == '-' || value > UINT64_MAX >> 30)
		return false;
	if (strcasecmp(unit, "G") == 0 || strcasecmp(unit, "GB") == 0)
		*bytes = value << 30;
	else if (strcasecmp(unit, "M") == 0 || strcasecmp(unit, "MB") == 0)
		*bytes = value << 20;
	else
		return false;
	return true;
}

static void remove_device(struct memory_limits *limits, const char *device)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < limits->count; i++)
		if (strcmp(limits->limits[i].device, device) != 0)
			limits->limits[kept++] = limits->limits[i];
	limits->count = kept;
}

/* Appended, also if the device had one before: the order decides between its two names. */
bool set_memory_limit(struct memory_limits *limits, const char *device, const char *amount)
{
	struct memory_limit limit;

	if (strlen(device) >= sizeof(limit.device) || !parse_memory(amount, &limit.bytes))
		return false;
	strcpy(limit.device, device);
	remove_device(limits, device);
	if (limits->count == ARRAY_LENGTH(limits->limits))
		return false;
	limits->limits[limits->count++] = limit;
	return true;
}

bool set_memory_limits(struct memory_limits *limits, const char *list)
{
	char copy[4096], *position = copy, *entry;

	snprintf(copy, sizeof(copy), "%s", list);
	while ((entry = strsep(&position, ","))) {
		char *device = strsep(&entry, "=");

		if (!entry || !set_memory_limit(limits, device, entry))
			return false;
	}
	return true;
}

bool names_device(const char *name, unsigned int ordinal, const char *uuid)
{
	char number[16];

	snprintf(number, sizeof(number), "%u", ordinal);
	return strcmp(name, number) == 0 || strcmp(name, uuid) == 0;
}

uint64_t memory_limit(const struct memory_limits *limits, unsigned int ordinal, const char *uuid)
{
	uint64_t bytes = MPS_NO_LIMIT;

	for (unsigned int i = 0; i < limits->count; i++)
		if (names_device(limits->limits[i].device, ordinal, uuid))
			bytes = limits->limits[i].bytes;
	return bytes;
}

uint64_t memory_limit_of_name(const struct memory_limits *limits, const char *name)
{
	return memory_limit(limits, UINT32_MAX, name);
}
