/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any bytes as a packet of the control socket. What is taken for one must be
 * written again as the same bytes.
 */
#include "tests/fuzz/fuzz.h"

#include "traceformat/control_protocol.h"

#include <string.h>

const struct fuzz_target fuzz_target = {.corpus = "control"};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct mtf_control_request request;
    static struct mtf_control_reply reply;
    static uint8_t out[MTF_CONTROL_REPLY_MAX];
    /* A copy of just that size shows a read beyond it. */
    uint8_t *copy = malloc(size == 0 ? 1 : size);
    FUZZ_CHECK(copy != NULL);
    if (size != 0)
        memcpy(copy, data, size);
    if (mtf_control_parse_request(copy, size, &request)) {
        FUZZ_CHECK(strlen(request.text) <= MTF_CONTROL_TEXT_MAX);
        FUZZ_CHECK(mtf_control_put_request(out, &request) == size &&
                   memcmp(out, data, size) == 0);
    }
    if (mtf_control_parse_reply(copy, size, &reply)) {
        FUZZ_CHECK(reply.account_count <= MTF_CONTROL_ACCOUNTS);
        FUZZ_CHECK(mtf_control_put_reply(out, &reply) == size &&
                   memcmp(out, data, size) == 0);
    }
    free(copy);
    return 0;
}
