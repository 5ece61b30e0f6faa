#include <stdio.h>

#include "call.h"

#define NVIDIA_VENDOR 0x10deU

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci)
{
	SCOPED_STORE(store);
	struct gpu_state *gpu;
	nvmlReturn_t error = open_gpu(&store, device, &gpu);

	if (error)
		return error;
	if (!pci)
		return NVML_ERROR_INVALID_ARGUMENT;
	*pci = (nvmlPciInfo_t){
		.domain = gpu->pci_domain,
		.bus = gpu->pci_bus,
		.device = gpu->pci_device,
		.pciDeviceId = gpu->pci_device_id << 16 | NVIDIA_VENDOR,
		.pciSubSystemId = gpu->pci_subsystem_id << 16 | NVIDIA_VENDOR,
	};
	snprintf(pci->busId, sizeof(pci->busId), "%08X:%02X:%02X.0", pci->domain, pci->bus, pci->device);
	/* From before domains had 32 bits. */
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "%04X:%02X:%02X.0", pci->domain & 0xffff, pci->bus & 0xff,
		 pci->device & 0xff);
	return NVML_SUCCESS;
}
