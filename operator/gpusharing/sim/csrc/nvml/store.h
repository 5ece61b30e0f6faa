/* Access to the node's state, which all processes on the simulated node share. */
#pragma once

#include "nvml.h"
#include "node_state.h"

/* The state while this call holds its lock. */
struct store {
	int file;
	struct node_state *state;
};

/* Declares a store that is closed when it goes out of scope, whichever way the function ends. */
#define SCOPED_STORE(name) struct store name __attribute__((cleanup(store_close))) = {.file = -1}

nvmlReturn_t store_open(struct store *store);
void store_close(struct store *store);
