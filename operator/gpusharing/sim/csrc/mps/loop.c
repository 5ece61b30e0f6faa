#include "loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int loop;

void loop_open(void)
{
	loop = epoll_create1(EPOLL_CLOEXEC);
	if (loop < 0) {
		perror("gpusharing sim: epoll");
		exit(EXIT_FAILURE);
	}
}

void loop_watch(struct watch *watch)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};

	if (epoll_ctl(loop, EPOLL_CTL_ADD, watch->file, &event) < 0) {
		perror("gpusharing sim: epoll");
		exit(EXIT_FAILURE);
	}
}

void loop_forget(struct watch *watch)
{
	epoll_ctl(loop, EPOLL_CTL_DEL, watch->file, NULL);
}

void loop_close(struct watch *watch)
{
	loop_forget(watch);
	close(watch->file);
}

/* One event at a time: handling it may free the owners of others. */
void loop_run_once(void)
{
	struct epoll_event event;

	if (epoll_wait(loop, &event, 1, -1) == 1) {
		struct watch *watch = event.data.ptr;

		watch->ready(watch);
	}
}

void loop_restart_timer(const struct watch *timer, unsigned int milliseconds)
{
	struct itimerspec time = {
		.it_value = {
			.tv_sec = milliseconds / 1000,
			/* Nothing at all would switch the timer off. */
			.tv_nsec = milliseconds % 1000 * 1000000 + 1,
		},
	};

	timerfd_settime(timer->file, 0, &time, NULL);
}

void loop_start_timer(struct watch *timer, void (*ready)(struct watch *), unsigned int milliseconds)
{
	timer->file = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	timer->ready = ready;
	loop_watch(timer);
	loop_restart_timer(timer, milliseconds);
}
