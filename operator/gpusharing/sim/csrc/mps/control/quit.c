#include "mps/log.h"
#include "control.h"

static bool quitting;

bool is_quitting(void)
{
	return quitting;
}

void quit_when_idle(void)
{
	quitting = true;
	refuse_pending_clients();
	for (struct server *server = first_server(); server; server = server->next)
		let_server_leave(server);
	end_if_quitting();
}

static void on_timeout(struct watch *timer)
{
	loop_close(timer);
	for (struct server *server = first_server(); server; server = server->next)
		kill_server(server);
}

void quit_after(unsigned int seconds)
{
	static struct watch timer;

	loop_start_timer(&timer, on_timeout, seconds * 1000);
	quit_when_idle();
}

void end_if_quitting(void)
{
	if (quitting && !first_server())
		end_daemon();
}
