/* How the functions of the interface begin and what they return. */
#pragma once

#include <stdbool.h>

#include "driver/store.h"
#include "nvml/handles.h"
#include "nvml/nvml.h"

/* One call of one function, which has the state to itself. What it is not about is NULL. */
struct call {
	const char *function;
	struct store store;
	struct node_state *state;
	/* For what GPU, GPU instance and compute instance, as indexes and as such. */
	struct device device;
	struct gpu_state *gpu;
	struct gpu_instance_state *gpu_instance;
	struct compute_instance_state *compute_instance;
};

/* Declares a call that ends when it goes out of scope, whichever way the function ends. */
#define SCOPED_CALL(name) struct call name __attribute__((cleanup(end_call))) = {.function = __func__}

void end_call(struct call *call);

/*
 * Each function begins with one of these, which also let it suffer the faults that are meant for it. An error is what
 * the function is to return. A call on the node: */
nvmlReturn_t begin(struct call *call);
/* On a GPU, and not on a MIG device: */
nvmlReturn_t begin_on_gpu(struct call *call, nvmlDevice_t device);
/* On a GPU or on a MIG device, which then is `compute_instance`: */
nvmlReturn_t begin_on_device(struct call *call, nvmlDevice_t device);
nvmlReturn_t begin_on_mig_device(struct call *call, nvmlDevice_t device);
nvmlReturn_t begin_on_gpu_instance(struct call *call, nvmlGpuInstance_t gpu_instance);
nvmlReturn_t begin_on_compute_instance(struct call *call, nvmlComputeInstance_t compute_instance);
/* On a GPU that the function finds itself: first the one, then, with its index, the other. */
nvmlReturn_t begin_search(struct call *call);
nvmlReturn_t end_search(struct call *call, unsigned int gpu);

/* After a change of the GPU, which had this generation before: the caller's handles of it stay good. */
void keep_own_handles(const struct call *call, unsigned int former_generation);

/* What changes a setting of the driver is for root only. */
bool is_privileged(void);

/* Into the caller's buffer, which may be too small. */
nvmlReturn_t return_text(const char *text, char *buffer, unsigned int length);
