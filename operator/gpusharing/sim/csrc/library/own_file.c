#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "driver/location.h"

/* The file of which a part lies where this function is. */
static int note_if_own(struct dl_phdr_info *loaded, size_t size, void *path)
{
	uintptr_t here = (uintptr_t)note_if_own;

	(void)size;
	for (int i = 0; i < loaded->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &loaded->dlpi_phdr[i];

		if (part->p_type == PT_LOAD && here - loaded->dlpi_addr - part->p_vaddr < part->p_memsz)
			return realpath(loaded->dlpi_name, path) ? 1 : -1;
	}
	return 0;
}

/* Not by dladdr, which a C library before 2.34 has in another file. */
bool own_file(char path[PATH_MAX])
{
	return dl_iterate_phdr(note_if_own, path) == 1;
}
