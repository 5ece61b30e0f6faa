#include "nvml/call.h"

/* No fault is meant for it: nvidia-smi asks only how it is to write. */
nvmlReturn_t gpusharingSimGetQuirks(unsigned int *quirks)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_search(&call);

	if (!error)
		*quirks = call.state->quirks;
	return error;
}
