/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/testpoint.h"

void (*tcm_testpoint_hook)(const char *label);
bool (*tcm_testpoint_refuse)(const char *call);
