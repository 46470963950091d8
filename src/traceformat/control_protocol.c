/* SPDX-License-Identifier: BSD-3-Clause */
#include "traceformat/control_protocol.h"

#include "base/bits.h"
#include "base/check.h"
#include "base/fmt.h"

#include <string.h>

#define REQUEST_HEAD 8u
#define REPLY_HEAD   12u

static size_t length_of(const char *text, size_t most) {
    return strnlen(text, most);
}

/* Copies N bytes at P as a text. false: there is a zero byte. */
static bool take_text(char *out, const uint8_t *p, size_t n) {
    if (n != 0 && memchr(p, 0, n) != NULL)
        return false;
    if (n != 0)
        memcpy(out, p, n);
    out[n] = '\0';
    return true;
}

size_t mtf_control_put_request(uint8_t *out,
                               const struct mtf_control_request *r) {
    size_t sites = length_of(r->sites, MTF_CONTROL_SITES_MAX);
    size_t n = length_of(r->text, MTF_CONTROL_TEXT_MAX);
    memset(out, 0, REQUEST_HEAD);
    memcpy(out, "MTC1", 4);
    out[4] = (uint8_t)r->command;
    out[5] = (uint8_t)sites;
    memcpy(out + REQUEST_HEAD, r->sites, sites);
    memcpy(out + REQUEST_HEAD + sites, r->text, n);
    return REQUEST_HEAD + sites + n;
}

bool mtf_control_parse_request(const uint8_t *p, size_t n,
                               struct mtf_control_request *r) {
    if (n < REQUEST_HEAD || n > MTF_CONTROL_REQUEST_MAX ||
        memcmp(p, "MTC1", 4) != 0 || p[4] < MTF_CONTROL_START ||
        p[4] > MTF_CONTROL_MEMORY || (p[6] | p[7]) != 0)
        return false;
    size_t sites = p[5];
    if (sites > MTF_CONTROL_SITES_MAX || sites > n - REQUEST_HEAD ||
        (sites != 0 && p[4] != MTF_CONTROL_START) ||
        n - REQUEST_HEAD - sites > MTF_CONTROL_TEXT_MAX)
        return false;
    r->command = (enum mtf_control_command)p[4];
    bool may_have_text =
        r->command == MTF_CONTROL_START || r->command == MTF_CONTROL_MARK;
    if (!may_have_text && n != REQUEST_HEAD)
        return false;
    p += REQUEST_HEAD;
    return take_text(r->sites, p, sites) &&
           take_text(r->text, p + sites, n - REQUEST_HEAD - sites);
}

static void put_u16(uint8_t *p, size_t v) {
    TCM_ASSERT(v <= UINT16_MAX);
    uint16_t word = (uint16_t)v;
    memcpy(p, &word, sizeof(word));
}

static size_t get_u16(const uint8_t *p) {
    uint16_t word;
    memcpy(&word, p, sizeof(word));
    return word;
}

/* Writes N numbers. Returns the place behind them. */
static uint8_t *put_numbers(uint8_t *p, const uint64_t *number, size_t n) {
    memcpy(p, number, n * sizeof(number[0]));
    return p + n * sizeof(number[0]);
}

/* Writes the table. Returns its length. */
static size_t put_memory(uint8_t *out, const struct mtf_memory *m) {
    uint8_t *p = out + MTF_MEMORY_HEAD;
    size_t cells = (size_t)m->columns * m->rows;
    TCM_ASSERT(m->totals <= MTF_MEMORY_TOTAL_MAX &&
               cells <= MTF_MEMORY_CELL_MAX);
    put_u16(out, m->totals);
    put_u16(out + 2, m->columns);
    put_u16(out + 4, m->rows);
    put_u16(out + 6, 0);
    p = put_numbers(p, m->total, m->totals);
    return (size_t)(put_numbers(p, m->cell, cells) - out);
}

/* Parses the table, which takes all of the N bytes at P. */
static bool take_memory(const uint8_t *p, size_t n, struct mtf_memory *m) {
    if (n < MTF_MEMORY_HEAD || get_u16(p + 6) != 0)
        return false;
    m->totals = (unsigned)get_u16(p);
    m->columns = (unsigned)get_u16(p + 2);
    m->rows = (unsigned)get_u16(p + 4);
    size_t cells = (size_t)m->columns * m->rows;
    if (m->totals > MTF_MEMORY_TOTAL_MAX || cells > MTF_MEMORY_CELL_MAX ||
        n != MTF_MEMORY_HEAD + sizeof(uint64_t) * (m->totals + cells))
        return false;
    p += MTF_MEMORY_HEAD;
    memcpy(m->total, p, m->totals * sizeof(m->total[0]));
    memcpy(m->cell, p + m->totals * sizeof(m->total[0]),
           cells * sizeof(m->cell[0]));
    return true;
}

size_t mtf_control_put_reply(uint8_t *out, const struct mtf_control_reply *r) {
    size_t count = tcm_min_u64(r->account_count, MTF_CONTROL_ACCOUNTS);
    size_t name = length_of(r->name, MTF_CONTROL_TEXT_MAX);
    size_t message = length_of(r->message, MTF_CONTROL_MESSAGE_MAX);
    memcpy(out, "MTR1", 4);
    out[4] = r->result;
    out[5] = r->state;
    put_u16(out + 6, count);
    put_u16(out + 8, name);
    put_u16(out + 10, message);
    uint8_t *p = out + REPLY_HEAD;
    for (size_t i = 0; i < count; i++, p += MTF_ACCOUNT_BYTES)
        mtf_put_account(p, r->account[i]);
    memcpy(p, r->name, name);
    memcpy(p + name, r->message, message);
    p += name + message;
    if (r->has_memory)
        p += put_memory(p, &r->memory);
    TCM_ASSERT((size_t)(p - out) <= MTF_CONTROL_REPLY_MAX);
    return (size_t)(p - out);
}

bool mtf_control_parse_reply(const uint8_t *p, size_t n,
                             struct mtf_control_reply *r) {
    if (n < REPLY_HEAD || memcmp(p, "MTR1", 4) != 0)
        return false;
    size_t count = get_u16(p + 6);
    size_t name = get_u16(p + 8), message = get_u16(p + 10);
    if (count > MTF_CONTROL_ACCOUNTS || name > MTF_CONTROL_TEXT_MAX ||
        message > MTF_CONTROL_MESSAGE_MAX)
        return false;
    size_t used = REPLY_HEAD + count * MTF_ACCOUNT_BYTES + name + message;
    if (n < used)
        return false;
    r->has_memory = n != used;
    if (r->has_memory && !take_memory(p + used, n - used, &r->memory))
        return false;
    r->result = p[4];
    r->state = p[5];
    r->account_count = (unsigned)count;
    p += REPLY_HEAD;
    for (size_t i = 0; i < count; i++, p += MTF_ACCOUNT_BYTES)
        r->account[i] = mtf_get_account(p);
    return take_text(r->name, p, name) &&
           take_text(r->message, p + name, message);
}

size_t mtf_control_address(char *path, uint32_t pid, uint64_t random) {
    struct tcm_fmt f;
    path[0] = '\0';
    tcm_fmt_init(&f, path + 1, MTF_CONTROL_ADDRESS_MAX - 1);
    tcm_fmt_str(&f, "malloc-trace/");
    tcm_fmt_u64(&f, pid);
    tcm_fmt_char(&f, '/');
    for (unsigned i = MTF_CONTROL_DIGITS; i-- > 0;)
        tcm_fmt_char(&f, "0123456789abcdef"[random >> 4 * i & 15]);
    TCM_ASSERT(!f.cut);
    return f.len + 1;
}
