/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/core_stats.h"

struct tcm_stats tcm_stats;
struct tcm_page_stats tcm_page_stats;
uint32_t tcm_cache_count;
