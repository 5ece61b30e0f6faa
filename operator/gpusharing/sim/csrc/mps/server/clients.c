/* The CUDA processes that use this server. */
#include <stdlib.h>
#include <unistd.h>

#include "mps/log.h"
#include "server.h"

#define NO_DEVICE UINT32_MAX

struct client {
	struct client *next;
	struct watch watch;
	pid_t pid;
	uint32_t device;
	/* Has been told of a fault that was not its own, and has to go before there can be new clients. */
	bool affected;
};

static struct client *clients;
static enum mps_server_status status = MPS_ACTIVE;

bool has_clients(void)
{
	return clients;
}

static void set_status(enum mps_server_status new_status)
{
	if (status == new_status)
		return;
	status = new_status;
	tell_daemon(MPS_STATUS, 0, status);
}

static void recover_if_possible(void)
{
	for (const struct client *client = clients; client; client = client->next)
		if (client->affected)
			return;
	set_status(MPS_ACTIVE);
}

static void remove_client(struct client *client)
{
	struct client **link = &clients;

	while (*link != client)
		link = &(*link)->next;
	*link = client->next;
	loop_close(&client->watch);
	log_line("Client %d disconnected", client->pid);
	tell_daemon(MPS_CLIENT_GONE, client->pid, 0);
	free(client);
	recover_if_possible();
	end_if_unused();
}

static unsigned int count_contexts(uint32_t device)
{
	unsigned int count = 0;

	for (const struct client *client = clients; client; client = client->next)
		count += client->device == device;
	return count;
}

static void create_client_context(struct client *client, uint32_t device)
{
	enum cuda_error error = CUDA_SUCCESS;

	if (device >= server_devices()->count)
		error = CUDA_ERROR_NO_DEVICE;
	else if (count_contexts(device) >= most_clients(device))
		error = CUDA_ERROR_MPS_MAX_CLIENTS_REACHED;
	if (!error) {
		client->device = device;
		/* Before the client knows: who hears of it from the client can ask the daemon about it. */
		tell_daemon(MPS_CLIENT_CONTEXT, client->pid, device);
	}
	mps_send_notice(client->watch.file, MPS_RESULT, client->pid, error);
}

/* Clients share the context of their device, and so its faults. */
static void spread_fault(uint32_t device)
{
	log_line("Fatal fault on device %u", device);
	set_status(MPS_FAULT);
	for (struct client *client = clients; client; client = client->next) {
		if (client->device != device)
			continue;
		client->affected = true;
		mps_send_notice(client->watch.file, MPS_RESULT, client->pid, CUDA_ERROR_LAUNCH_FAILED);
	}
}

static void on_message(struct watch *watch)
{
	struct client *client = OWNER_OF(watch, struct client, watch);
	union mps_message message;

	if (!mps_receive(watch->file, &message, NULL))
		remove_client(client);
	else if (message.type == MPS_CREATE_CONTEXT)
		create_client_context(client, message.notice.number);
	else if (message.type == MPS_FATAL_FAULT)
		spread_fault(client->device);
}

static void refuse(int connection, pid_t pid)
{
	mps_send_notice(connection, MPS_RESULT, pid, CUDA_ERROR_MPS_SERVER_NOT_READY);
	close(connection);
	tell_daemon(MPS_CLIENT_GONE, pid, 0);
}

void add_client(int connection, const struct mps_admission *terms)
{
	struct client *client;

	log_line("Received new client request");
	if (status == MPS_FAULT) {
		refuse(connection, terms->client);
		return;
	}
	client = malloc(sizeof(*client));
	*client = (struct client){
		.next = clients,
		.watch = {.file = connection, .ready = on_message},
		.pid = terms->client,
		.device = NO_DEVICE,
	};
	clients = client;
	loop_watch(&client->watch);
	mps_send(connection, terms, sizeof(*terms), -1);
	log_line("New client %d connected", client->pid);
}

void terminate_client(pid_t pid)
{
	for (struct client *client = clients; client; client = client->next) {
		if (client->pid != pid)
			continue;
		mps_send_notice(client->watch.file, MPS_RESULT, pid, CUDA_ERROR_MPS_CLIENT_TERMINATED);
		remove_client(client);
		return;
	}
}
