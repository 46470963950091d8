/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A search for the point of least cost, by rounds: the caller asks for the
 * points of a round, runs them, and tells the score of each, the logarithm of
 * its cost as a ratio to that of the default in the same round.
 *
 * First every allocator as it is and single settings are tried; then the worse
 * ones leave, step by step, while the better ones run again; then the best are
 * combined, and changed in one or two settings at a time. The last part tries
 * to leave settings out.
 *
 * Why costs are judged by more than their mean: of many points that differ by
 * noise alone, the one with the luckiest run looks best. A point counts as its
 * mean and two standard errors, and a little more for each setting, so that a
 * setting that does nothing is left out.
 *
 * Invariants: candidate 0 is the default, a part of each round, and its score
 * is 0. Points of candidates differ. With equal scores a seed repeats the
 * search.
 * Threads: one.
 */
#ifndef TOOL_CMD_MALLOC_TRACE_TUNE_TUNE_SEARCH_H
#define TOOL_CMD_MALLOC_TRACE_TUNE_TUNE_SEARCH_H

#include "cmd/malloc_trace/tune/tune_space.h"

enum { TUNE_ROUND = 12 }; /* most points of a round */

struct tune_candidate {
    struct tune_point point;
    unsigned runs;
    double sum, squares; /* of scores */
    bool failed;         /* it left the search */
};

struct tune_search;

/* Begins a search with RUNS runs of points, those of the default included. The
   default is the first allocator of SPACE, with no settings. NULL: out of
   memory, a message was printed. */
struct tune_search *tune_search_new(const struct tune_space *space,
                                    uint64_t runs, uint64_t seed);
void tune_search_free(struct tune_search *s);

/* Puts the candidates of the next round into ROUND, the default first. Returns
   their number; 0: the search is over. */
size_t tune_search_ask(struct tune_search *s, size_t round[TUNE_ROUND]);
/* Takes the score of a run; NAN: it failed, and the candidate is not asked for
   again. */
void tune_search_tell(struct tune_search *s, size_t candidate, double score);

size_t tune_search_count(const struct tune_search *s);
const struct tune_candidate *tune_search_at(const struct tune_search *s,
                                            size_t candidate);
/* Puts the candidates that ran and did not fail into ORDER, an array of
   tune_search_count, the best first. Returns their number. */
size_t tune_search_rank(const struct tune_search *s, size_t *order);

#endif
