/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What stands in every page: its style and its script.
 */
#ifndef TOOL_COMMON_PAGE_PARTS_H
#define TOOL_COMMON_PAGE_PARTS_H

extern const char tool_page_style[];
extern const char tool_page_script[];

#endif
