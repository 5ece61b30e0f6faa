#include "store.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "location.h"

static nvmlReturn_t refuse(nvmlReturn_t error, const char *reason)
{
	fprintf(stderr, "gpusharing sim: state file %s: %s\n", state_path(), reason);
	return error;
}

static nvmlReturn_t lock(int file)
{
	while (flock(file, LOCK_EX) < 0)
		if (errno != EINTR)
			return refuse(NVML_ERROR_UNKNOWN, strerror(errno));
	return NVML_SUCCESS;
}

static nvmlReturn_t map(struct store *store)
{
	struct stat status;
	void *memory;

	/* Beyond the end of a shorter file memory accesses would be SIGBUS. */
	if (fstat(store->file, &status) < 0 || (size_t)status.st_size < sizeof(struct node_state))
		return refuse(NVML_ERROR_UNKNOWN, "too short, not made for this library; create the node again");
	memory = mmap(NULL, sizeof(struct node_state), PROT_READ | PROT_WRITE, MAP_SHARED, store->file, 0);
	if (memory == MAP_FAILED)
		return refuse(NVML_ERROR_UNKNOWN, strerror(errno));
	store->state = memory;
	return NVML_SUCCESS;
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

/*
 * The file is opened anew for each call: a lock of flock belongs to the open file description, so this excludes other
 * threads as well as other processes, and a forked child shares no lock with its parent. The kernel drops the lock of
 * a killed process.
 */
nvmlReturn_t store_open(struct store *store)
{
	nvmlReturn_t error;

	store->state = NULL;
	store->file = open(state_path(), O_RDWR | O_CLOEXEC);
	if (store->file < 0)
		return refuse(NVML_ERROR_DRIVER_NOT_LOADED, strerror(errno));
	error = lock(store->file);
	if (!error)
		error = map(store);
	return error ? error : check(store->state);
}

void store_close(struct store *store)
{
	if (store->file < 0)
		return;
	if (store->state)
		munmap(store->state, sizeof(struct node_state));
	/* Closing is not enough: a child that another thread forked meanwhile still has the descriptor. */
	flock(store->file, LOCK_UN);
	close(store->file);
}
