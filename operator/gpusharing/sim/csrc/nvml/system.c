#include "call.h"

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length)
{
	SCOPED_STORE(store);
	nvmlReturn_t error = open_node(&store);

	return error ? error : return_text(store.state->driver_version, version, length);
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length)
{
	SCOPED_STORE(store);
	nvmlReturn_t error = open_node(&store);

	return error ? error : return_text(store.state->nvml_version, version, length);
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version)
{
	SCOPED_STORE(store);
	nvmlReturn_t error = open_node(&store);

	if (error)
		return error;
	if (!version)
		return NVML_ERROR_INVALID_ARGUMENT;
	*version = store.state->cuda_driver_version;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version) __attribute__((alias("nvmlSystemGetCudaDriverVersion_v2")));
