/* Entries of -cgi and -cci: profiles by id or name ("19", "1g.10gb", "MIG 1g.10gb"), perhaps with a start (":4"). */
#include <stdlib.h>
#include <string.h>

#include "mig.h"

static void parse_start(struct request *request)
{
	char *colon = strchr(request->profile, ':');

	request->has_start = colon != NULL;
	if (!colon)
		return;
	*colon = '\0';
	request->start = strtoul(colon + 1, NULL, 10);
}

bool next_request(const char **text, struct request *request)
{
	size_t length = strcspn(*text, ",");

	if (!**text)
		return false;
	snprintf(request->profile, sizeof(request->profile), "%.*s", (int)length, *text);
	parse_start(request);
	*text += length + ((*text)[length] == ',');
	return true;
}

bool is_requested(const struct request *request, unsigned int id, const char *name)
{
	const char *profile = request->profile;
	char *end;
	unsigned long number = strtoul(profile, &end, 10);

	if (end != profile && !*end)
		return number == id;
	if (strncasecmp(profile, "MIG ", strlen("MIG ")) == 0)
		profile += strlen("MIG ");
	return strcmp(profile, name) == 0;
}
