#include <stdio.h>
#include <string.h>

#include "nvml/call.h"

#define NVIDIA_VENDOR 0x10deU

/* Former versions of the structure are its beginning: the first one has no subsystem, the second no long bus id. */
#define SIZE_V1 offsetof(nvmlPciInfo_t, pciSubSystemId)
#define SIZE_V2 offsetof(nvmlPciInfo_t, busId)

static nvmlPciInfo_t describe(const struct gpu_state *gpu)
{
	nvmlPciInfo_t pci = {
		.domain = gpu->pci_domain,
		.bus = gpu->pci_bus,
		.device = gpu->pci_device,
		.pciDeviceId = gpu->pci_device_id << 16 | NVIDIA_VENDOR,
		.pciSubSystemId = gpu->pci_subsystem_id << 16 | NVIDIA_VENDOR,
	};

	snprintf(pci.busId, sizeof(pci.busId), "%08X:%02X:%02X.0", pci.domain, pci.bus, pci.device);
	/* From before domains had 32 bits. */
	snprintf(pci.busIdLegacy, sizeof(pci.busIdLegacy), "%04X:%02X:%02X.0", pci.domain & 0xffff, pci.bus & 0xff,
		 pci.device & 0xff);
	return pci;
}

static nvmlReturn_t return_info(const struct call *call, nvmlPciInfo_t *pci, size_t size)
{
	nvmlPciInfo_t whole;

	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	whole = describe(call->gpu);
	memcpy(pci, &whole, size);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	return error ? error : return_info(&call, pci, sizeof(*pci));
}

nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	return error ? error : return_info(&call, pci, SIZE_V2);
}

nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	SCOPED_CALL(call);
	nvmlReturn_t error = begin_on_gpu(&call, device);

	return error ? error : return_info(&call, pci, SIZE_V1);
}
