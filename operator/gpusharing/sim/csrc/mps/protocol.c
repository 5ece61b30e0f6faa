#include "protocol.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define DEFAULT_PIPE_DIRECTORY "/tmp/nvidia-mps"

/* Room for one file in the ancillary data. */
union control {
	struct cmsghdr header;
	char space[CMSG_SPACE(sizeof(int))];
};

bool mps_send(int socket, const void *message, size_t size, int file)
{
	struct iovec data = {.iov_base = (void *)message, .iov_len = size};
	union control control = {0};
	struct msghdr packet = {.msg_iov = &data, .msg_iovlen = 1};

	if (file >= 0) {
		packet.msg_control = &control;
		packet.msg_controllen = sizeof(control);
		control.header = (struct cmsghdr){
			.cmsg_len = CMSG_LEN(sizeof(int)),
			.cmsg_level = SOL_SOCKET,
			.cmsg_type = SCM_RIGHTS,
		};
		memcpy(CMSG_DATA(&control.header), &file, sizeof(file));
	}
	return sendmsg(socket, &packet, MSG_NOSIGNAL) == (ssize_t)size;
}

bool mps_send_notice(int socket, enum mps_message_type type, pid_t pid, uint32_t number)
{
	struct mps_notice notice = {.type = type, .pid = pid, .number = number};

	return mps_send(socket, &notice, sizeof(notice), -1);
}

bool mps_receive(int socket, union mps_message *message, int *file)
{
	struct iovec data = {.iov_base = message, .iov_len = sizeof(*message)};
	union control control = {0};
	struct msghdr packet = {
		.msg_iov = &data,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t size;

	do {
		size = recvmsg(socket, &packet, MSG_CMSG_CLOEXEC);
	} while (size < 0 && errno == EINTR);
	if (file)
		*file = -1;
	if (file && CMSG_FIRSTHDR(&packet))
		memcpy(file, CMSG_DATA(&control.header), sizeof(*file));
	return size >= (ssize_t)sizeof(message->type);
}

bool mps_has_message(int socket)
{
	struct pollfd question = {.fd = socket, .events = POLLIN};

	return poll(&question, 1, 0) == 1;
}

const char *mps_pipe_directory(void)
{
	const char *configured = getenv("CUDA_MPS_PIPE_DIRECTORY");

	return configured ? configured : DEFAULT_PIPE_DIRECTORY;
}

void mps_pipe_path(const char *name, char *path, size_t size)
{
	snprintf(path, size, "%s/%s", mps_pipe_directory(), name);
}

int mps_connect(const char *name)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char path[2 * sizeof(address.sun_path)];
	int connection;

	mps_pipe_path(name, path, sizeof(path));
	/* The kernel takes no longer path, so there cannot be a daemon either. */
	if (strlen(path) >= sizeof(address.sun_path))
		return -1;
	strcpy(address.sun_path, path);
	connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (connect(connection, (struct sockaddr *)&address, sizeof(address)) == 0)
		return connection;
	close(connection);
	return -1;
}
