#include <dlfcn.h>
#include <stdlib.h>

#include "driver/location.h"

bool own_file(char path[PATH_MAX])
{
	Dl_info info;

	return dladdr(own_file, &info) && realpath(info.dli_fname, path);
}
