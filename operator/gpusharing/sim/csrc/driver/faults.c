#include "driver/faults.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "driver/limits.h"

/* `V`, `_v2` and the like, or nothing. */
static bool is_version(const char *suffix)
{
	if (strcmp(suffix, "V") == 0 || !*suffix)
		return true;
	return strncmp(suffix, "_v", 2) == 0 && isdigit(suffix[2]) && !suffix[3];
}

static bool names(const char *pattern, const char *function)
{
	size_t length = strlen(pattern);

	return strcmp(pattern, "*") == 0 ||
	       (strncmp(pattern, function, length) == 0 && is_version(function + length));
}

static bool concerns(const struct fault_state *fault, const char *function, unsigned int gpu)
{
	return fault->id && (fault->gpu == NONE || fault->gpu == gpu) && names(fault->function, function);
}

/* Whether it is this one's turn, among the calls that the fault concerns. */
static bool is_due(struct fault_state *fault)
{
	if (fault->skip) {
		fault->skip--;
		return false;
	}
	if (fault->times && fault->times != NONE) {
		fault->times--;
		return true;
	}
	return fault->times;
}

struct fault_state *meet_fault(struct node_state *state, const char *function, unsigned int gpu, int has_hung)
{
	for (unsigned int slot = 0; slot < state->fault_slots; slot++) {
		struct fault_state *fault = &state->faults[slot];

		if (has_hung && fault->effect == FAULT_EFFECT_HANGS)
			continue;
		if (concerns(fault, function, gpu) && is_due(fault))
			return fault;
	}
	return NULL;
}
