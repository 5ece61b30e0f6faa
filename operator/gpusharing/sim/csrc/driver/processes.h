/* The processes that use a GPU. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "driver/devices.h"
#include "node_state.h"

/*
 * This process uses the GPU from now on: `wanted` is copied into a slot, which the process keeps until it detaches or
 * ends in whatever way. NULL if there is no slot left.
 */
struct process_state *attach_process(struct node_state *state, unsigned int gpu, const struct process_state *wanted);
void detach_process(const struct node_state *state, struct process_state *process);

/* Frees the slots of processes that have died. To be called before looking at the processes of a GPU. */
void reap_processes(struct node_state *state, unsigned int gpu);

/* As this process knows it, which may be in another PID namespace. */
uint32_t process_pid(const struct node_state *state, const struct process_state *process);

/* The same with the node's file `processes`, opened. */
void reap_processes_of(struct node_state *state, unsigned int gpu, int processes);
uint32_t process_pid_of(const struct node_state *state, const struct process_state *process, int processes);

/* To be called once. The file is never closed: with any descriptor of it the locks of this process would go. */
void open_processes_file(const char *directory);

/* The GPU instance, or the compute instance in it, or NONE: the whole GPU. */
bool has_processes(const struct gpu_state *gpu, unsigned int gpu_instance, unsigned int compute_instance);

/* In bytes, of a GPU or of a GPU instance on it; compute instances share it. */
uint64_t memory_of_processes(const struct gpu_state *gpu, unsigned int gpu_instance);
uint64_t free_memory(const struct node_state *state, const struct device *device);
