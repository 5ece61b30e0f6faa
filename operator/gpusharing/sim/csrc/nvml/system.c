#include "nvml/call.h"

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin(&call);

	return error ? error : return_text(call.state->driver.version, version, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin(&call);

	return error ? error : return_text(call.state->driver.nvml_version, version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin(&call);

	if (error)
		return error;
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = call.state->driver.cuda_version;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) __attribute__((alias("nvmlSystemGetCudaDriverVersion_v2")));
