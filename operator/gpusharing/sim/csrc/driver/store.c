#include "driver/store.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver/change.h"
#include "driver/files.h"
#include "driver/location.h"
#include "driver/processes.h"

/*
 * The file stays open and mapped. A lock of flock belongs to the open file description: it excludes other processes,
 * and the kernel drops it when its process is killed; the mutex excludes the threads of this process.
 */
static pthread_mutex_t threads = PTHREAD_MUTEX_INITIALIZER;
static int file = -1;
static struct node_state *mapping;

static nvmlReturn_t refuse(nvmlReturn_t error, const char *reason)
{
	fprintf(stderr, "gpusharing sim: state file %s: %s\n", state_path(), reason);
	return error;
}

static nvmlReturn_t check(const struct node_state *state)
{
	char reason[128];

	if (state->magic != STATE_MAGIC)
		return refuse(NVML_ERROR_UNKNOWN, "not the state of a simulated node");
	if (state->layout == STATE_LAYOUT)
		return NVML_SUCCESS;
	snprintf(reason, sizeof(reason), "layout version %#x, but this library has %#x; create the node again",
		 state->layout, STATE_LAYOUT);
	return refuse(NVML_ERROR_UNKNOWN, reason);
}

static nvmlReturn_t map(int opened, int sharing, struct node_state **state)
{
	void *memory;

	/* Beyond the end of a shorter file memory accesses would be SIGBUS. */
	if (lseek(opened, 0, SEEK_END) < (off_t)sizeof(struct node_state))
		return refuse(NVML_ERROR_UNKNOWN, "too short, not made for this library; create the node again");
	memory = mmap(NULL, sizeof(struct node_state), PROT_READ | PROT_WRITE, sharing, opened, 0);
	if (memory == MAP_FAILED)
		return refuse(NVML_ERROR_UNKNOWN, strerror(errno));
	*state = memory;
	return NVML_SUCCESS;
}

static nvmlReturn_t open_file(int *opened)
{
	*opened = open(state_path(), O_RDWR | O_CLOEXEC);
	return *opened < 0 ? refuse(NVML_ERROR_DRIVER_NOT_LOADED, strerror(errno)) : NVML_SUCCESS;
}

static void before_fork(void)
{
	pthread_mutex_lock(&threads);
}

static void after_fork_in_parent(void)
{
	pthread_mutex_unlock(&threads);
}

/* A lock that is taken through the inherited descriptor would be the parent's lock too. */
static void after_fork_in_child(void)
{
	if (file >= 0)
		close(file);
	file = -1;
	pthread_mutex_unlock(&threads);
}

static void watch_forks(void)
{
	static bool watched;

	if (watched)
		return;
	watched = true;
	pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static nvmlReturn_t attach(void)
{
	int opened;
	nvmlReturn_t error = open_file(&opened);

	if (error)
		return error;
	if (!mapping)
		error = map(opened, MAP_SHARED, &mapping);
	if (!error)
		error = check(mapping);
	if (error) {
		close(opened);
		return error;
	}
	watch_forks();
	open_processes_file(node_directory());
	file = opened;
	return NVML_SUCCESS;
}

static nvmlReturn_t lock(void)
{
	while (flock(file, LOCK_EX) < 0)
		if (errno != EINTR)
			return refuse(NVML_ERROR_UNKNOWN, strerror(errno));
	return NVML_SUCCESS;
}

nvmlReturn_t store_open(struct store *store)
{
	nvmlReturn_t error = NVML_SUCCESS;

	pthread_mutex_lock(&threads);
	if (file < 0)
		error = attach();
	if (!error)
		error = lock();
	if (error) {
		pthread_mutex_unlock(&threads);
		return error;
	}
	store->state = mapping;
	undo_unfinished_change(mapping);
	write_stale_files(mapping, node_directory());
	return NVML_SUCCESS;
}

void store_close(struct store *store)
{
	if (!store->state)
		return;
	write_stale_files(mapping, node_directory());
	if (store->copy)
		munmap(store->copy, sizeof(struct node_state));
	store->state = store->copy = NULL;
	flock(file, LOCK_UN);
	pthread_mutex_unlock(&threads);
}

nvmlReturn_t store_work_on_copy(struct store *store)
{
	nvmlReturn_t error = store->copy ? NVML_SUCCESS : map(file, MAP_PRIVATE, &store->copy);

	if (!error)
		store->state = store->copy;
	return error;
}
