#include "failure.h"

#include <stdarg.h>
#include <stdio.h>

bool fail(struct failure *failure, const char *remedy, const char *reason, ...)
{
	va_list values;

	va_start(values, reason);
	vsnprintf(failure->reason, sizeof(failure->reason), reason, values);
	va_end(values);
	failure->remedy = remedy;
	return false;
}
