/* Access to the node's state, which all processes on the simulated node share. */
#pragma once

#include "driver/result.h"
#include "node_state.h"

/* The state while this one holds its lock. */
struct store {
	struct node_state *state;
	/* A copy in which everything can be done without effect; NULL unless asked for. */
	struct node_state *copy;
};

/* Declares a store that is closed when it goes out of scope, whichever way the function ends. */
#define SCOPED_STORE(name) struct store name __attribute__((cleanup(store_close))) = {.state = NULL}

nvmlReturn_t store_open(struct store *store);
void store_close(struct store *store);

/* From here on `state` is a copy that is forgotten when the store is closed. */
nvmlReturn_t store_work_on_copy(struct store *store);
