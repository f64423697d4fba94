// The door: everything public but models.h, which includes libtorch's modules (7 to 15 s of
// compiling). Prefer the single headers in files that compile often.
#pragma once

#include "lockstep/amp.h"
#include "lockstep/checkpoint.h"
#include "lockstep/command_line.h"
#include "lockstep/context.h"
#include "lockstep/data.h"
#include "lockstep/data_parallel.h"
#include "lockstep/ddp.h"
#include "lockstep/horovod.h"
#include "lockstep/lr_scheduler.h"
#include "lockstep/optim.h"
#include "lockstep/process_group.h"
#include "lockstep/run_options.h"
#include "lockstep/score.h"
#include "lockstep/spawn.h"
#include "lockstep/state.h"
#include "lockstep/status.h"
#include "lockstep/step.h"
#include "lockstep/trainer.h"
#include "lockstep/transforms.h"
#include "lockstep/vision.h"
