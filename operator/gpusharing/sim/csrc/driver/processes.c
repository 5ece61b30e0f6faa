#include "driver/processes.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#include "driver/limits.h"

#define SLOTS ARRAY_LENGTH(((struct gpu_state *)0)->processes)

/* None in Python, which names one with each call. */
static int processes_file = -1;

void open_processes_file(const char *directory)
{
	char path[PATH_MAX];

	if (processes_file >= 0)
		return;
	snprintf(path, sizeof(path), "%s/processes", directory);
	processes_file = open(path, O_RDWR | O_CLOEXEC);
}

/* Of its lock, in that file. */
static off_t place_of(const struct node_state *state, const struct process_state *process)
{
	unsigned int gpu = ((const char *)process - (const char *)state->gpus) / sizeof(state->gpus[0]);

	return gpu * SLOTS + (process - state->gpus[gpu].processes);
}

static struct flock lock_at(off_t place, short type)
{
	return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = place, .l_len = 1};
}

/* What the kernel says of who holds the lock: its l_type is F_UNLCK if nobody does, for certain. */
static struct flock holder(const struct node_state *state, const struct process_state *process, int processes)
{
	struct flock lock = lock_at(place_of(state, process), F_WRLCK);

	fcntl(processes, F_OFD_GETLK, &lock);
	return lock;
}

struct process_state *attach_process(struct node_state *state, unsigned int gpu, const struct process_state *wanted)
{
	reap_processes(state, gpu);
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct process_state *slot = &state->gpus[gpu].processes[i];
		struct flock lock = lock_at(place_of(state, slot), F_WRLCK);
		uint32_t pid = wanted->pid;

		/* A slot that a reboot has freed stays locked until its process has noticed. */
		if (slot->pid || fcntl(processes_file, F_SETLK, &lock) < 0)
			continue;
		*slot = *wanted;
		slot->pid = 0;
		slot->watched = 1;
		atomic_signal_fence(memory_order_seq_cst);
		slot->pid = pid;
		return slot;
	}
	return NULL;
}

void detach_process(const struct node_state *state, struct process_state *process)
{
	struct flock lock = lock_at(place_of(state, process), F_UNLCK);

	process->pid = 0;
	fcntl(processes_file, F_SETLK, &lock);
}

void reap_processes_of(struct node_state *state, unsigned int gpu, int processes)
{
	for (unsigned int i = 0; i < SLOTS; i++) {
		struct process_state *slot = &state->gpus[gpu].processes[i];

		if (slot->pid && slot->watched && holder(state, slot, processes).l_type == F_UNLCK)
			slot->pid = 0;
	}
}

void reap_processes(struct node_state *state, unsigned int gpu)
{
	reap_processes_of(state, gpu, processes_file);
}

uint32_t process_pid(const struct node_state *state, const struct process_state *process)
{
	return process_pid_of(state, process, processes_file);
}

uint32_t process_pid_of(const struct node_state *state, const struct process_state *process, int processes)
{
	struct flock lock;

	if (!process->watched)
		return process->pid;
	lock = holder(state, process, processes);
	/* Not known of a lock that belongs to an open file rather than to a process. */
	return lock.l_type != F_UNLCK && lock.l_pid > 0 ? (uint32_t)lock.l_pid : process->pid;
}

static bool is_on(const struct process_state *process, unsigned int gpu_instance, unsigned int compute_instance)
{
	return process->pid && (gpu_instance == NONE || process->gpu_instance == gpu_instance) &&
	       (compute_instance == NONE || process->compute_instance == compute_instance);
}

bool has_processes(const struct gpu_state *gpu, unsigned int gpu_instance, unsigned int compute_instance)
{
	for (unsigned int slot = 0; slot < SLOTS; slot++)
		if (is_on(&gpu->processes[slot], gpu_instance, compute_instance))
			return true;
	return false;
}

uint64_t memory_of_processes(const struct gpu_state *gpu, unsigned int gpu_instance)
{
	uint64_t memory = 0;

	for (unsigned int slot = 0; slot < SLOTS; slot++)
		if (is_on(&gpu->processes[slot], gpu_instance, NONE))
			memory += gpu->processes[slot].memory;
	return memory;
}

uint64_t free_memory(const struct node_state *state, const struct device *device)
{
	return device_memory(state, device) - memory_of_processes(&state->gpus[device->gpu], device->gpu_instance);
}
