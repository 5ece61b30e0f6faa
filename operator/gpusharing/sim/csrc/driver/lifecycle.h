/* What happens to a GPU as a whole. */
#pragma once

#include "driver/result.h"
#include "node_state.h"

/* Answers success also if the mode only stays pending; `activation` says why. */
nvmlReturn_t set_mig_mode(struct node_state *state, unsigned int gpu, unsigned int mode, nvmlReturn_t *activation);

/* Refused while somebody uses the GPU. */
nvmlReturn_t reset_gpu(struct node_state *state, unsigned int gpu);

/* As the kernel module leaves all GPUs when it is loaded anew; whoever used them is gone. */
void reload_driver(struct node_state *state);
