/* Errors in the memory of a GPU. */
#include "nvml/call.h"

nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!current || !pending)
		return NVML_ERROR_INVALID_ARGUMENT;
	*current = *pending = call.gpu->ecc_mode;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable, unsigned int *uncorrectable,
				       unsigned int *pending, unsigned int *failed)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	if (error)
		return error;
	if (!correctable || !uncorrectable || !pending || !failed)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (!call.gpu->row_remapping_supported || call.gpu->mig_mode_current)
		return NVML_ERROR_NOT_SUPPORTED;
	*correctable = call.gpu->remapped_rows_correctable;
	*uncorrectable = call.gpu->remapped_rows_uncorrectable;
	*pending = call.gpu->row_remap_pending;
	*failed = call.gpu->row_remap_failed;
	return NVML_SUCCESS;
}
