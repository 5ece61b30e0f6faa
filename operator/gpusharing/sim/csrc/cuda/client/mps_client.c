#include <stdlib.h>
#include <string.h>

#include "client.h"

static int connection = -1;

/* Without one, or with one that was killed, CUDA goes on as if there were no MPS. */
bool has_mps(void)
{
	connection = mps_connect("control");
	return connection >= 0;
}

int mps_connection(void)
{
	return connection;
}

/* All devices of the server have a name of their own, so which GPU each belongs to is known from the node. */
static void keep_devices_of_server(struct cuda_devices *devices, const struct mps_admission *terms)
{
	char list[sizeof(terms->devices)] = "";

	for (unsigned int i = 0; i < terms->device_count; i++) {
		strcat(list, i ? "," : "");
		strcat(list, terms->devices[i].uuid);
	}
	select_devices(devices, list);
}

/* Waits as long as the daemon does not find a server. */
enum cuda_error connect_to_mps_server(struct cuda_devices *devices, struct mps_admission *terms)
{
	union mps_message message;

	if (!mps_send_notice(connection, MPS_CONNECT, 0, 0) || !mps_receive(connection, &message, NULL))
		return CUDA_ERROR_MPS_CONNECTION_FAILED;
	if (message.type != MPS_ADMISSION)
		return message.notice.number;
	*terms = message.admission;
	keep_devices_of_server(devices, terms);
	return CUDA_SUCCESS;
}

enum cuda_error read_mps_error(void)
{
	union mps_message message;

	if (!mps_receive(connection, &message, NULL))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	return message.notice.number;
}

enum cuda_error create_mps_context(const struct mps_admission *terms, const char *uuid)
{
	uint32_t device = 0;

	while (device < terms->device_count && strcmp(terms->devices[device].uuid, uuid) != 0)
		device++;
	if (!mps_send_notice(connection, MPS_CREATE_CONTEXT, 0, device))
		return CUDA_ERROR_MPS_RPC_FAILURE;
	return read_mps_error();
}

void report_fault_to_mps(void)
{
	mps_send_notice(connection, MPS_FATAL_FAULT, 0, 0);
}
