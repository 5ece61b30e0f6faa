/*
 * The commands of the simulated nvidia-smi. As the real tool it is a client of libnvidia-ml.so.1, writes errors to
 * standard output and exits with the number of the NVML error.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "node_state.h"

#include "../nvml/nvml.h"

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#define MIB (1024 * 1024)

/* NVML's texts are at most this long. */
#define TEXT_LENGTH 96

#define MAX_GPUS ARRAY_LENGTH(((struct node_state *)0)->gpus)
#define MAX_PROCESSES ARRAY_LENGTH(((struct gpu_state *)0)->processes)

struct gpus {
	unsigned int count;
	nvmlDevice_t devices[MAX_GPUS];
};

/* Those that `ids` names (indexes, UUIDs or bus ids with commas between them), or all if it is NULL. */
nvmlReturn_t select_gpus(const char *ids, struct gpus *gpus);

/* Something done with one GPU. */
typedef nvmlReturn_t gpu_action(nvmlDevice_t device, const void *argument);

/* For the GPUs that `ids` names, or for each one if it is NULL; ends at the first error. */
nvmlReturn_t for_gpus(const char *ids, gpu_action *action, const void *argument);

/* What the person at the terminal calls them. */
const char *compute_mode_name(unsigned int mode);
const char *timeslice_name(unsigned int timeslice);
unsigned int gpu_index(nvmlDevice_t device);
const char *bus_id(nvmlDevice_t device, nvmlPciInfo_t *buffer);

/* Of enum quirk. */
bool has_quirk(unsigned int quirk);

/* Commands. */
nvmlReturn_t list_gpus(const char *ids);
nvmlReturn_t show_table(void);
nvmlReturn_t query_gpus(const char *ids, const char *fields, const char *format);
nvmlReturn_t query_compute_apps(const char *ids, const char *fields, const char *format);
nvmlReturn_t set_compute_mode(const char *ids, const char *mode);
nvmlReturn_t set_mig_mode(const char *ids, const char *mode);
nvmlReturn_t reset_gpus(const char *ids);
nvmlReturn_t compute_policy(int argc, char **argv);
nvmlReturn_t mig(int argc, char **argv);
