/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/object_word.h"
#include "core/central_list.h"
#include "core/page_map.h"

uint64_t *tcm_object_word(const void *ptr, bool make) {
    struct tcm_span *span = tcm_object_words ? tcm_page_span(ptr) : NULL;
    if (span == NULL)
        return NULL;
    if (span->state == TCM_SPAN_LARGE)
        return &span->word;
    if (span->state != TCM_SPAN_SMALL)
        return NULL;
    uint64_t *word = tcm_entry_word(tcm_page_entry(ptr), ptr);
    if (word != NULL || !make || !tcm_central_make_words(span))
        return word;
    return tcm_entry_word(tcm_page_entry(ptr), ptr);
}

uint64_t tcm_no_word;

static uint64_t *word_or_none(const void *object) {
    uint64_t *word = tcm_object_word(object, true);
    return word != NULL ? word : &tcm_no_word;
}

uint64_t *tcm_object_word_or_none(const void *object) {
    uint64_t *word = tcm_entry_word(tcm_page_entry(object), object);
    return TCM_LIKELY(word != NULL) ? word : word_or_none(object);
}
