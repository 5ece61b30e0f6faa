#ifndef FILES_H
#define FILES_H

#include <stdbool.h>
#include <stddef.h>

/* The whole file as a text, or false with errno: EFBIG if it does not fit. */
bool read_file(int directory, const char *name, char *text, size_t size);

/* Readers see the old text or the new one. */
bool write_file(int directory, const char *name, const char *text);

#endif
