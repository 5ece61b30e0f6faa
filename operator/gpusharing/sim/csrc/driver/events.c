#include "driver/events.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "driver/limits.h"

/* Who posted an event may have been killed before it woke us. */
#define LONGEST_SLEEP 100U

void post_event(struct node_state *state, unsigned int gpu, unsigned int gpu_instance, unsigned int compute_instance,
		uint64_t type, uint64_t data)
{
	state->events[state->events_made % ARRAY_LENGTH(state->events)] = (struct event_state){
		.gpu = gpu,
		.gpu_instance = gpu_instance,
		.compute_instance = compute_instance,
		.type = type,
		.data = data,
	};
	atomic_thread_fence(memory_order_seq_cst);
	state->events_made++;
	syscall(SYS_futex, &state->events_made, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void wait_for_events(const struct node_state *state, uint32_t known, unsigned int milliseconds)
{
	unsigned int sleep = milliseconds < LONGEST_SLEEP ? milliseconds : LONGEST_SLEEP;
	struct timespec timeout = {.tv_sec = sleep / 1000, .tv_nsec = sleep % 1000 * 1000000L};

	syscall(SYS_futex, &state->events_made, FUTEX_WAIT, known, &timeout, NULL, 0);
}
