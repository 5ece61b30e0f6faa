#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool read_all(int file, char *text, size_t size)
{
	size_t length = 0;
	ssize_t count;

	while ((count = read(file, text + length, size - length)) > 0) {
		length += count;
		if (length == size) {
			errno = EFBIG;
			return false;
		}
	}
	text[length] = '\0';
	return count == 0;
}

/* The descriptor is closed, and errno says why the rest has failed. */
static bool closed(int file, bool succeeded)
{
	int error = errno;

	if (close(file) < 0)
		return false;
	errno = error;
	return succeeded;
}

bool read_file(int directory, const char *name, char *text, size_t size)
{
	int file = openat(directory, name, O_RDONLY | O_CLOEXEC);

	return file >= 0 && closed(file, read_all(file, text, size));
}

static bool write_all(int file, const char *text)
{
	size_t left = strlen(text);

	while (left) {
		ssize_t count = write(file, text, left);

		if (count < 0)
			return false;
		text += count;
		left -= count;
	}
	return true;
}

bool write_file(int directory, const char *name, const char *text)
{
	char aside[NAME_MAX + 1];
	int file;

	if ((size_t)snprintf(aside, sizeof(aside), ".%s", name) >= sizeof(aside)) {
		errno = ENAMETOOLONG;
		return false;
	}
	file = openat(directory, aside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return file >= 0 && closed(file, write_all(file, text)) && renameat(directory, aside, directory, name) == 0;
}
