#ifndef FAILURE_H
#define FAILURE_H

#include <stdbool.h>

/* What is in the way of a wall and what to do about it, in words for the events of a pod. */
struct failure {
	char reason[1024];
	const char *remedy;
};

/* Always false, so that whoever fails can return it. */
__attribute__((format(printf, 3, 4)))
bool fail(struct failure *failure, const char *remedy, const char *reason, ...);

#endif
