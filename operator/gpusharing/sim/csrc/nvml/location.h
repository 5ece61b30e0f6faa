/* Where the state of the node is. */
#pragma once

const char *state_path(void);
