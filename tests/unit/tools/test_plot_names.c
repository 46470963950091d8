/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Names beside the points of a plot: which side they take, and for random
 * points that none covers another name or another point.
 */
#include "pages/plot.h"

#include "tests/lib/prng.h"
#include "tests/lib/tap.h"

/* A character and a line of the style's labels, in pixels. */
#define CHARACTER 8.0
#define LINE      14.0

enum { MOST = 12 };

struct box {
    double left, top, right, bottom;
};

/* Where the text of N is in a plot of this size. */
static struct box box_of(const struct plot_name *n, double width,
                         double height) {
    double length = CHARACTER * (double)n->characters;
    double x = n->x * width / 100 + n->dx, y = n->y * height / 100 + n->dy + 3;
    double left = strcmp(n->anchor, "start") == 0 ? x
                  : strcmp(n->anchor, "end") == 0 ? x - length
                                                  : x - length / 2;
    return (struct box){left, y - LINE, left + length, y};
}

static bool meets(struct box a, struct box b) {
    return a.left < b.right && b.left < a.right && a.top < b.bottom &&
           b.top < a.bottom;
}

/* Tells whether no name covers another one, or the point of another one, or
   leaves the plot. */
static bool are_apart(const struct plot_name *name, size_t n, double width,
                      double height) {
    for (size_t i = 0; i < n; i++) {
        if (name[i].anchor == NULL)
            continue;
        struct box b = box_of(&name[i], width, height);
        if (b.left < 0 || b.right > width + 9 || b.top < -9 ||
            b.bottom > height + 1)
            return false;
        for (size_t k = 0; k < n; k++) {
            double x = name[k].x * width / 100, y = name[k].y * height / 100;
            struct box point = {x - 6, y - 6, x + 6, y + 6};
            if (k != i && meets(b, point))
                return false;
            if (k < i && name[k].anchor != NULL &&
                meets(b, box_of(&name[k], width, height)))
                return false;
        }
    }
    return true;
}

static void test_random(void) {
    struct prng rng;
    struct plot_name name[MOST];
    size_t wrong = 0, placed = 0, all = 0;
    prng_seed(&rng, 27);
    for (int turn = 0; turn < 2000; turn++) {
        size_t n = 2 + prng_below(&rng, MOST - 1);
        double width = turn % 2 == 0 ? 390 : 270, height = 300;
        /* every third time all points lie in a corner */
        uint64_t spread = turn % 3 == 0 ? 200 : 1000;
        for (size_t i = 0; i < n; i++)
            name[i] =
                (struct plot_name){.x = (double)prng_below(&rng, spread) / 10,
                                   .y = (double)prng_below(&rng, spread) / 10,
                                   .characters = 4 + prng_below(&rng, 12)};
        plot_place_names(name, n, NULL, 0, width, height);
        for (size_t i = 0; i < n; i++)
            placed += name[i].anchor != NULL;
        all += n;
        wrong += !are_apart(name, n, width, height) ||
                 !are_apart(name, n, width * 1.5, height) ||
                 !are_apart(name, n, width * 2, height);
    }
    tap_diag("%zu of %zu names have a place", placed, all);
    tap_ok(wrong == 0, "names cover neither each other nor points (%zu)",
           wrong);
    tap_ok(placed > all / 2, "most have a place");
}

static void test_lines(void) {
    /* through the point, and through all its sides but the lower left one */
    static const struct plot_segment line[] = {
        {0, 50, 100, 50}, {50, 0, 50, 100}, {55, 0, 55, 100}, {0, 45, 100, 45}};
    struct plot_name name = {.x = 50, .y = 50, .characters = 5};
    plot_place_names(&name, 1, NULL, 0, 400, 300);
    tap_ok(name.anchor != NULL && strcmp(name.anchor, "start") == 0 &&
               name.dx > 0 && name.dy < 0,
           "a name stands above its point, on the right");
    plot_place_names(&name, 1, line, 4, 400, 300);
    tap_ok(name.anchor != NULL && strcmp(name.anchor, "end") == 0 &&
               name.dx < 0 && name.dy > 0,
           "or where it crosses no line");
}

static void test_edges(void) {
    struct plot_name name[] = {{.x = 99, .y = 1, .characters = 9},
                               {.x = 1, .y = 99, .characters = 9}};
    plot_place_names(name, 2, NULL, 0, 400, 300);
    tap_ok(name[0].anchor != NULL && name[0].dx < 0 && name[1].anchor != NULL &&
               name[1].dx > 0,
           "names stay in the plot");
    struct plot_name same[MOST];
    for (size_t i = 0; i < MOST; i++)
        same[i] = (struct plot_name){.x = 50, .y = 50, .characters = 9};
    plot_place_names(same, MOST, NULL, 0, 400, 300);
    tap_ok(are_apart(same, MOST, 400, 300), "of many in one place some have "
                                            "no name");
}

int main(void) {
    test_random();
    test_lines();
    test_edges();
    return tap_done();
}
