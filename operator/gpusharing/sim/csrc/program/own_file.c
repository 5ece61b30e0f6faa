#include <stdlib.h>

#include "driver/location.h"

bool own_file(char path[PATH_MAX])
{
	return realpath("/proc/self/exe", path) != NULL;
}
