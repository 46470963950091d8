/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Style and script of pages: the files of these names in this folder, which the
 * build embeds (embed.awk).
 */
#ifndef TOOL_PAGES_PAGE_FILES_H
#define TOOL_PAGES_PAGE_FILES_H

extern const char page_css[];
extern const char page_js[];
extern const char report_live_js[];
extern const char report_page_css[];
extern const char report_page_js[];

#endif
