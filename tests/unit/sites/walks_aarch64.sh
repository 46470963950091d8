#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The unit tests of walks, compiled for aarch64 and run by an emulator: with
# signed return addresses, and without frame pointers.
. "$top_srcdir/tests/lib/harness.sh"
cross=aarch64-linux-gnu
need_command $cross-gcc qemu-aarch64 make
[ "$machine" = x86_64 ] || skip_all "the tests themselves run here"
grep -q -e '-fsanitize' "$top_builddir/config.status" &&
    skip_all "not with sanitizers"
need /usr/$cross/lib/ld-linux-aarch64.so.1
sources=$top_srcdir/src
for flags in "-O2 -mbranch-protection=standard" \
    "-O1 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf+b-key"; do
    # shellcheck disable=SC2046,SC2086
    $cross-gcc $(make_flags AM_) $flags -w -I"$top_builddir" -I"$sources" \
        -I"$test_lib" -c "$sources"/base/*.c "$sources"/base/linux/*.c \
        "$sources"/sites/unwind/*.c "$sources"/sites/site_settings.c \
        "$sources"/sites/site_table.c "$top_srcdir"/tests/unit/sites/test_cfi.c \
        "$top_srcdir"/tests/unit/sites/test_stack.c
    result "$flags: compiled" $?
    for test in test_cfi test_stack; do
        objects=$(echo ./*.o | tr ' ' '\n' | grep -v '/test_')
        # shellcheck disable=SC2086
        $cross-gcc -o $test $objects $test.o -pthread \
            -Wl,--dynamic-linker=/usr/$cross/lib/ld-linux-aarch64.so.1 \
            -Wl,--disable-new-dtags -Wl,-rpath,/usr/$cross/lib
        qemu-aarch64 ./$test >printed
        result "$flags: $test: $(grep -c '^ok' printed) right" $?
        grep -v '^ok' printed | diag
        check "$flags: $test has not skipped" test "$(grep -c '^ok' printed)" -ge 10
    done
done
tap_end
