/* Waiting for several files at once. */
#pragma once

#include <stddef.h>

/* Embedded in what the file belongs to. `ready` is called while the file can be read, or is at its end. */
struct watch {
	int file;
	void (*ready)(struct watch *watch);
};

#define OWNER_OF(watch_pointer, type, member) ((type *)((char *)(watch_pointer) - offsetof(type, member)))

void loop_open(void);
void loop_watch(struct watch *watch);
/* Watches it no longer; the second closes it as well. */
void loop_forget(struct watch *watch);
void loop_close(struct watch *watch);
void loop_run_once(void);

/* Has `ready` called after this time: once, unless it restarts the timer. */
void loop_start_timer(struct watch *timer, void (*ready)(struct watch *), unsigned int milliseconds);
void loop_restart_timer(const struct watch *timer, unsigned int milliseconds);
