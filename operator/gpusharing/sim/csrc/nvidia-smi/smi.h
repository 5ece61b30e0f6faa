/*
 * The commands of the simulated nvidia-smi. As the real tool it is a client of libnvidia-ml.so.1, writes errors to
 * standard output and exits with the number of the NVML error.
 */
#pragma once

#include <stdio.h>

#include "../nvml/nvml.h"

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#define MIB (1024 * 1024)

/* NVML's texts are at most this long. */
#define TEXT_LENGTH 96

/* Something done with one GPU. */
typedef nvmlReturn_t gpu_action(nvmlDevice_t device, const void *argument);

/* For the GPU that `id` names (index, UUID or bus id), or for each one if it is NULL; ends at the first error. */
nvmlReturn_t for_gpus(const char *id, gpu_action *action, const void *argument);

/* What the person at the terminal calls them. */
const char *compute_mode_name(unsigned int mode);
const char *timeslice_name(unsigned int timeslice);
unsigned int gpu_index(nvmlDevice_t device);
const char *bus_id(nvmlDevice_t device, nvmlPciInfo_t *buffer);

/* Commands. */
nvmlReturn_t list_gpus(const char *id);
nvmlReturn_t show_table(void);
nvmlReturn_t query_gpus(const char *id, const char *fields, const char *format);
nvmlReturn_t set_compute_mode(const char *id, const char *mode);
nvmlReturn_t compute_policy(int argc, char **argv);
