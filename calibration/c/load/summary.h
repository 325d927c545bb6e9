/* The JSON line at the end of a replay. */
#ifndef CALIBRATION_SUMMARY_H
#define CALIBRATION_SUMMARY_H

#include "replay.h"

void summary_print(const struct trace *trace, const struct replay_result *result,
                   const struct outputs *outputs);

#endif
