/* Where the node is. */
#pragma once

#include <limits.h>
#include <stdbool.h>

const char *state_path(void);

/* The directory that has the state, and proc and dev beside it. */
const char *node_directory(void);

/* The file of the library or program that asks. Not part of the driver: each of them has its own way to know. */
bool own_file(char path[PATH_MAX]);
