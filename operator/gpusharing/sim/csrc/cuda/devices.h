/* Which devices CUDA shows to a process. */
#pragma once

#include "driver/devices.h"

/* A GPU, or a MIG device of one. */
struct cuda_device {
	char uuid[96];
	/* By which a list of devices names it. All MIG devices of a GPU have the GPU's number. */
	unsigned int ordinal;
	struct device place;
};

struct cuda_devices {
	unsigned int count;
	/* Each GPU is one, or has at most eight compute instances. */
	struct cuda_device devices[32 * 8];
};

/* The devices of the node whose files are in this directory, as /dev; all of the node if it is NULL. */
void find_devices(const struct node_state *state, const char *device_files, struct cuda_devices *devices);

/*
 * Keeps only those that a list like CUDA_VISIBLE_DEVICES names, in its order: `1,GPU-...,MIG-...`. The first wrong
 * entry ends the list. NULL names all.
 */
void select_devices(struct cuda_devices *devices, const char *list);

/* CUDA shows no more than one MIG device, and beside it no other device. */
void apply_rule_of_mig(struct cuda_devices *devices);
