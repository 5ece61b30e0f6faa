/* Clients that wait until there is a server for them. */
#include <stdlib.h>
#include <unistd.h>

#include "mps/log.h"
#include "control.h"

#define RETRY_MILLISECONDS 50

struct pending_client {
	struct pending_client *next;
	/* Ready only if the client goes away: it has nothing more to say until it is admitted. */
	struct watch watch;
	pid_t pid;
	uid_t user;
};

static struct pending_client *pending_clients;

static void forget(struct pending_client *client)
{
	struct pending_client **link = &pending_clients;

	while (*link != client)
		link = &(*link)->next;
	*link = client->next;
	free(client);
}

static void on_gone(struct watch *watch)
{
	loop_close(watch);
	forget(OWNER_OF(watch, struct pending_client, watch));
}

static void append(struct pending_client *client)
{
	struct pending_client **link = &pending_clients;

	while (*link)
		link = &(*link)->next;
	*link = client;
}

void add_pending_client(int connection, pid_t pid, uid_t user)
{
	struct pending_client *client = malloc(sizeof(*client));
	const struct server *server = server_for_user(user);
	bool is_ready = server && server->status != MPS_INITIALIZING;

	log_line("NEW CLIENT %d from user %u: %s", pid, user,
		 is_ready ? "Server already exists" : "Server is not ready, push client to pending list");
	*client = (struct pending_client){
		.watch = {.file = connection, .ready = on_gone},
		.pid = pid,
		.user = user,
	};
	append(client);
	loop_watch(&client->watch);
	serve_pending_clients();
}

static void admit_those_with_a_server(void)
{
	struct pending_client *client, *next;

	for (client = pending_clients; client; client = next) {
		struct server *server = server_for_user(client->user);

		next = client->next;
		if (!server || server->status == MPS_INITIALIZING)
			continue;
		loop_forget(&client->watch);
		admit_client(server, client->watch.file, client->pid);
		forget(client);
	}
}

/* One user at a time: the servers of others leave first. */
static void make_way_for(uid_t user)
{
	if (server_for_user(user))
		return;
	if (!first_server())
		start_server(user);
	for (struct server *server = first_server(); server; server = server->next)
		if (server->user != user)
			let_server_leave(server);
}

void serve_pending_clients(void)
{
	admit_those_with_a_server();
	if (pending_clients)
		make_way_for(pending_clients->user);
}

static void on_retry(struct watch *timer)
{
	loop_close(timer);
	free(timer);
	serve_pending_clients();
}

void serve_pending_clients_later(void)
{
	loop_start_timer(malloc(sizeof(struct watch)), on_retry, RETRY_MILLISECONDS);
}

/* They see their connections end. */
void refuse_pending_clients(void)
{
	while (pending_clients)
		on_gone(&pending_clients->watch);
}
