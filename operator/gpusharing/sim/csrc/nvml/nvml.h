/*
 * The part of NVML's binary interface that the simulated library offers: numbers and layouts as the binding nvidia-ml-py
 * has them, names of our own where the binding's do not matter.
 */
#pragma once

#include <stdint.h>

#include "driver/result.h"

/* Never dereferenced: see handles.h. */
typedef struct nvml_device *nvmlDevice_t;
typedef struct nvml_gpu_instance *nvmlGpuInstance_t;
typedef struct nvml_compute_instance *nvmlComputeInstance_t;
typedef struct nvml_event_set *nvmlEventSet_t;

/* The first word of a versioned structure: its size and its version. */
#define NVML_STRUCT_VERSION(type, version) ((uint32_t)(sizeof(type) | (version) << 24))

typedef struct {
	uint64_t total;
	uint64_t free;
	uint64_t used;
} nvmlMemory_t;

typedef struct {
	uint32_t version;
	uint64_t total;
	uint64_t reserved;
	uint64_t free;
	uint64_t used;
} nvmlMemory_v2_t;

typedef struct {
	char busIdLegacy[16];
	uint32_t domain;
	uint32_t bus;
	uint32_t device;
	uint32_t pciDeviceId;
	uint32_t pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

typedef struct {
	uint32_t pid;
	uint64_t usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
	uint32_t pid;
	uint64_t usedGpuMemory;
	uint32_t gpuInstanceId;
	uint32_t computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
	uint32_t pid;
	unsigned long long timeStamp;
	uint32_t smUtil;
	uint32_t memUtil;
	uint32_t encUtil;
	uint32_t decUtil;
} nvmlProcessUtilizationSample_t;

typedef struct {
	uint32_t version;
	uint32_t value;
} nvmlDeviceAddressingMode_t;

typedef struct {
	uint32_t start;
	uint32_t size;
} nvmlGpuInstancePlacement_t;

typedef nvmlGpuInstancePlacement_t nvmlComputeInstancePlacement_t;

typedef struct {
	uint32_t id;
	uint32_t isP2pSupported;
	uint32_t sliceCount;
	uint32_t instanceCount;
	uint32_t multiprocessorCount;
	uint32_t copyEngineCount;
	uint32_t decoderCount;
	uint32_t encoderCount;
	uint32_t jpegCount;
	uint32_t ofaCount;
	uint64_t memorySizeMB;
} nvmlGpuInstanceProfileInfo_t;

typedef struct {
	uint32_t version;
	uint32_t id;
	uint32_t isP2pSupported;
	uint32_t sliceCount;
	uint32_t instanceCount;
	uint32_t multiprocessorCount;
	uint32_t copyEngineCount;
	uint32_t decoderCount;
	uint32_t encoderCount;
	uint32_t jpegCount;
	uint32_t ofaCount;
	uint64_t memorySizeMB;
	char name[96];
} nvmlGpuInstanceProfileInfo_v2_t;

typedef struct {
	uint32_t version;
	uint32_t id;
	uint32_t sliceCount;
	uint32_t instanceCount;
	uint32_t multiprocessorCount;
	uint32_t copyEngineCount;
	uint32_t decoderCount;
	uint32_t encoderCount;
	uint32_t jpegCount;
	uint32_t ofaCount;
	uint64_t memorySizeMB;
	char name[96];
	uint32_t capabilities;
} nvmlGpuInstanceProfileInfo_v3_t;

typedef struct {
	nvmlDevice_t device;
	uint32_t id;
	uint32_t profileId;
	nvmlGpuInstancePlacement_t placement;
} nvmlGpuInstanceInfo_t;

typedef struct {
	uint32_t id;
	uint32_t sliceCount;
	uint32_t instanceCount;
	uint32_t multiprocessorCount;
	uint32_t sharedCopyEngineCount;
	uint32_t sharedDecoderCount;
	uint32_t sharedEncoderCount;
	uint32_t sharedJpegCount;
	uint32_t sharedOfaCount;
} nvmlComputeInstanceProfileInfo_t;

typedef struct {
	uint32_t version;
	uint32_t id;
	uint32_t sliceCount;
	uint32_t instanceCount;
	uint32_t multiprocessorCount;
	uint32_t sharedCopyEngineCount;
	uint32_t sharedDecoderCount;
	uint32_t sharedEncoderCount;
	uint32_t sharedJpegCount;
	uint32_t sharedOfaCount;
	char name[96];
} nvmlComputeInstanceProfileInfo_v2_t;

typedef struct {
	uint32_t version;
	uint32_t id;
	uint32_t sliceCount;
	uint32_t instanceCount;
	uint32_t multiprocessorCount;
	uint32_t sharedCopyEngineCount;
	uint32_t sharedDecoderCount;
	uint32_t sharedEncoderCount;
	uint32_t sharedJpegCount;
	uint32_t sharedOfaCount;
	char name[96];
	uint32_t capabilities;
} nvmlComputeInstanceProfileInfo_v3_t;

typedef struct {
	nvmlDevice_t device;
	nvmlGpuInstance_t gpuInstance;
	uint32_t id;
	uint32_t profileId;
	nvmlComputeInstancePlacement_t placement;
} nvmlComputeInstanceInfo_t;

typedef struct {
	uint32_t multiprocessorCount;
	uint32_t sharedCopyEngineCount;
	uint32_t sharedDecoderCount;
	uint32_t sharedEncoderCount;
	uint32_t sharedJpegCount;
	uint32_t sharedOfaCount;
	uint32_t gpuInstanceSliceCount;
	uint32_t computeInstanceSliceCount;
	uint64_t memorySizeMB;
} nvmlDeviceAttributes_t;

typedef struct {
	nvmlDevice_t device;
	uint64_t eventType;
	uint64_t eventData;
} nvmlEventData_v1_t;

typedef struct {
	nvmlDevice_t device;
	uint64_t eventType;
	uint64_t eventData;
	uint32_t gpuInstanceId;
	uint32_t computeInstanceId;
} nvmlEventData_t;

typedef struct {
	uint8_t clusterUuid[16];
	uint32_t status;
	uint32_t cliqueId;
	uint8_t state;
} nvmlGpuFabricInfo_t;

typedef struct {
	uint32_t version;
	uint8_t clusterUuid[16];
	uint32_t status;
	uint32_t cliqueId;
	uint8_t state;
	uint32_t healthMask;
} nvmlGpuFabricInfo_v2_t;

typedef struct {
	uint32_t version;
	uint8_t clusterUuid[16];
	uint32_t status;
	uint32_t cliqueId;
	uint8_t state;
	uint32_t healthMask;
	uint8_t healthSummary;
} nvmlGpuFabricInfo_v3_t;

typedef union {
	double dVal;
	uint32_t uiVal;
	uint64_t ullVal;
} nvmlValue_t;

typedef struct {
	uint32_t fieldId;
	uint32_t scopeId;
	int64_t timestamp;
	int64_t latencyUsec;
	uint32_t valueType;
	nvmlReturn_t nvmlReturn;
	nvmlValue_t value;
} nvmlFieldValue_t;

typedef struct {
	const char *nameSpace;
	uint64_t softLimit;
	uint64_t hardLimit;
} nvmlSetMemoryLimits_v1_t;

typedef struct {
	const char *nameSpace;
	uint64_t softLimit;
	uint64_t hardLimit;
	uint64_t currentUsed;
} nvmlGetMemoryLimits_v1_t;

#define EXPORT __attribute__((visibility("default")))

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned int flags);
EXPORT nvmlReturn_t nvmlInit_v2(void);
EXPORT nvmlReturn_t nvmlInit(void);
EXPORT nvmlReturn_t nvmlShutdown(void);
EXPORT const char *nvmlErrorString(nvmlReturn_t error);

EXPORT nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length);
EXPORT nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length);
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion(int *version);
EXPORT nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int *version);

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count);
EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned int *count);
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device);
EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned int index, nvmlDevice_t *device);
EXPORT nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device);
EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char *bus_id, nvmlDevice_t *device);
EXPORT nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char *bus_id, nvmlDevice_t *device);

EXPORT nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length);
EXPORT nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length);
EXPORT nvmlReturn_t nvmlDeviceGetSerial(nvmlDevice_t device, char *serial, unsigned int length);
EXPORT nvmlReturn_t nvmlDeviceGetIndex(nvmlDevice_t device, unsigned int *index);
EXPORT nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor);
EXPORT nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, unsigned int *brand);
EXPORT nvmlReturn_t nvmlDeviceGetArchitecture(nvmlDevice_t device, unsigned int *architecture);
EXPORT nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int *major, int *minor);
EXPORT nvmlReturn_t nvmlDeviceGetPersistenceMode(nvmlDevice_t device, unsigned int *mode);
EXPORT nvmlReturn_t nvmlDeviceGetVirtualizationMode(nvmlDevice_t device, unsigned int *mode);
EXPORT nvmlReturn_t nvmlDeviceGetAddressingMode(nvmlDevice_t device, nvmlDeviceAddressingMode_t *mode);
EXPORT nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t device, unsigned int *node);

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci);
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v2(nvmlDevice_t device, nvmlPciInfo_t *pci);
EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(nvmlDevice_t device, nvmlPciInfo_t *pci);

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t *memory);
EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t *memory);
EXPORT nvmlReturn_t nvmlDeviceSetMemoryLimits_v1(nvmlDevice_t device, const nvmlSetMemoryLimits_v1_t *limits);
EXPORT nvmlReturn_t nvmlDeviceGetMemoryLimits_v1(nvmlDevice_t device, nvmlGetMemoryLimits_v1_t *limits);

EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(nvmlDevice_t device, unsigned int *mode);
EXPORT nvmlReturn_t nvmlDeviceSetComputeMode(nvmlDevice_t device, unsigned int mode);

EXPORT nvmlReturn_t nvmlDeviceGetEccMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending);
EXPORT nvmlReturn_t nvmlDeviceGetRemappedRows(nvmlDevice_t device, unsigned int *correctable,
					      unsigned int *uncorrectable, unsigned int *pending, unsigned int *failed);
EXPORT nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t *values);

EXPORT nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t one, nvmlDevice_t other, unsigned int *level);
EXPORT nvmlReturn_t nvmlDeviceGetTopologyNearestGpus(nvmlDevice_t device, unsigned int level, unsigned int *count,
						     nvmlDevice_t *devices);
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link, unsigned int *active);
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkVersion(nvmlDevice_t device, unsigned int link, unsigned int *version);
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci);
EXPORT nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo(nvmlDevice_t device, unsigned int link, nvmlPciInfo_t *pci);
EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfo(nvmlDevice_t device, nvmlGpuFabricInfo_t *info);
EXPORT nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, void *info);

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
							    nvmlProcessInfo_t *infos);
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
							    nvmlProcessInfo_t *infos);
EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
							 nvmlProcessInfo_v1_t *infos);
EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
							     nvmlProcessInfo_t *infos);
EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
							     nvmlProcessInfo_t *infos);
EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses(nvmlDevice_t device, unsigned int *count,
							  nvmlProcessInfo_v1_t *infos);
EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count,
							       nvmlProcessInfo_t *infos);
EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count,
							       nvmlProcessInfo_t *infos);
EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses(nvmlDevice_t device, unsigned int *count,
							    nvmlProcessInfo_v1_t *infos);
EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, nvmlProcessUtilizationSample_t *samples,
						    unsigned int *count, unsigned long long last_seen);

EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *set);
EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set);
EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data, unsigned int milliseconds);
EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_v1_t *data, unsigned int milliseconds);
EXPORT nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long *types);
EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types, nvmlEventSet_t set);

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending);
EXPORT nvmlReturn_t nvmlDeviceSetMigMode(nvmlDevice_t device, unsigned int mode, nvmlReturn_t *activation);

EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfo(nvmlDevice_t device, unsigned int profile,
							nvmlGpuInstanceProfileInfo_t *info);
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoV(nvmlDevice_t device, unsigned int profile, void *info);
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceProfileInfoByIdV(nvmlDevice_t device, unsigned int id, void *info);
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements_v2(nvmlDevice_t device, unsigned int id,
								  nvmlGpuInstancePlacement_t *placements,
								  unsigned int *count);
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstancePossiblePlacements(nvmlDevice_t device, unsigned int id,
							       nvmlGpuInstancePlacement_t *placements,
							       unsigned int *count);
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceRemainingCapacity(nvmlDevice_t device, unsigned int id,
							      unsigned int *count);
EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstance(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *gpu_instance);
EXPORT nvmlReturn_t nvmlDeviceCreateGpuInstanceWithPlacement(nvmlDevice_t device, unsigned int id,
							     const nvmlGpuInstancePlacement_t *placement,
							     nvmlGpuInstance_t *gpu_instance);
EXPORT nvmlReturn_t nvmlGpuInstanceDestroy(nvmlGpuInstance_t gpu_instance);
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstances(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *gpu_instances,
					      unsigned int *count);
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceById(nvmlDevice_t device, unsigned int id, nvmlGpuInstance_t *gpu_instance);
EXPORT nvmlReturn_t nvmlGpuInstanceGetInfo(nvmlGpuInstance_t gpu_instance, nvmlGpuInstanceInfo_t *info);

EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfo(nvmlGpuInstance_t gpu_instance, unsigned int profile,
								 unsigned int engine_profile,
								 nvmlComputeInstanceProfileInfo_t *info);
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceProfileInfoV(nvmlGpuInstance_t gpu_instance, unsigned int profile,
								  unsigned int engine_profile, void *info);
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceRemainingCapacity(nvmlGpuInstance_t gpu_instance, unsigned int id,
								       unsigned int *count);
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstancePossiblePlacements(nvmlGpuInstance_t gpu_instance, unsigned int id,
									nvmlComputeInstancePlacement_t *placements,
									unsigned int *count);
EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstance(nvmlGpuInstance_t gpu_instance, unsigned int id,
							 nvmlComputeInstance_t *compute_instance);
EXPORT nvmlReturn_t nvmlGpuInstanceCreateComputeInstanceWithPlacement(nvmlGpuInstance_t gpu_instance, unsigned int id,
								      const nvmlComputeInstancePlacement_t *placement,
								      nvmlComputeInstance_t *compute_instance);
EXPORT nvmlReturn_t nvmlComputeInstanceDestroy(nvmlComputeInstance_t compute_instance);
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstances(nvmlGpuInstance_t gpu_instance, unsigned int id,
						       nvmlComputeInstance_t *compute_instances, unsigned int *count);
EXPORT nvmlReturn_t nvmlGpuInstanceGetComputeInstanceById(nvmlGpuInstance_t gpu_instance, unsigned int id,
							  nvmlComputeInstance_t *compute_instance);
EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo_v2(nvmlComputeInstance_t compute_instance,
						  nvmlComputeInstanceInfo_t *info);
EXPORT nvmlReturn_t nvmlComputeInstanceGetInfo(nvmlComputeInstance_t compute_instance, nvmlComputeInstanceInfo_t *info);

EXPORT nvmlReturn_t nvmlDeviceIsMigDeviceHandle(nvmlDevice_t device, unsigned int *is_mig_device);
EXPORT nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id);
EXPORT nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id);
EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count);
EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig);
EXPORT nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t mig, nvmlDevice_t *device);
EXPORT nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes);
EXPORT nvmlReturn_t nvmlDeviceGetAttributes(nvmlDevice_t device, nvmlDeviceAttributes_t *attributes);

/* NVML has no calls for these: NVIDIA's nvidia-smi has a private way into the driver, ours has them. */
EXPORT nvmlReturn_t gpusharingSimGetTimeslice(nvmlDevice_t device, unsigned int *timeslice);
EXPORT nvmlReturn_t gpusharingSimSetTimeslice(nvmlDevice_t device, unsigned int timeslice);
EXPORT nvmlReturn_t gpusharingSimResetGpu(nvmlDevice_t device);
EXPORT nvmlReturn_t gpusharingSimGetQuirks(unsigned int *quirks);
