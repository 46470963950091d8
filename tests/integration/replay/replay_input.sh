#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Bad command lines, inputs and outputs of replay: messages and status.
. "$top_srcdir/tests/lib/harness.sh"

make=$top_builddir/tests/unit/tools/replay_make
key() {
    sed -n "s/^$2=//p" "$1"
}

# refused STATUS WHAT ARGS...: that status, one line on stderr, nothing on
# stdout.
refused() {
    want=$1
    what=$2
    shift 2
    fails_with "$what" "$want" timeout 60 "$replay" "$@"
    is "$what: one line, on stderr" \
        "$(wc -l <"$err" | tr -d ' '),$(wc -c <"$out" | tr -d ' ')" 1,0
}

"$make" python p.p 20000 >p.truth || exit 99
"$make" calls small.p 300 >small.truth || exit 99
"$make" threads big.p 300000 >big.truth || exit 99

# --- Command line -------------------------------------------------------------

check "--help" "$replay" --help
for option in --json --threads --touch --help --version; do
    like "--help names $option" "$out" "$option"
done
check "--version" "$replay" --version
for option in --latency=0 --latency=1/0 --latency=2/3 --timeline=- \
    --timeline-step=10 --timeline=p.p --speed=0 --speed=fast \
    --speed=-1 --speed=1x --speed= --max-threads=2 --skew=1ms \
    --think=recorded --max-idle=1s --threads=some \
    --touch=some --threads= --nonsense -x; do
    refused 2 "$option" "$option" p.p
done
for option in --skew=0 --skew=999us --skew=some --skew= --max-threads=0 \
    --max-threads=-1 --max-threads=1x --think=some; do
    refused 2 "--threads=real $option" --threads=real "$option" p.p
done
refused 2 "--max-idle=0" --speed=1 --max-idle=0 p.p
refused 2 "--json without a name" --json

# --- What is no processed trace -----------------------------------------------

: >empty
refused 1 "an empty file" empty
like "names file and byte" "$err" "empty: byte 0: "
echo "This is a text of more than eight bytes." >text
refused 1 "a text" text
like "names file and byte" "$err" "text: byte 0: "
# named NAME WORDS: every reader says what it is, in one line.
named() {
    refused 1 "$1" "$1"
    like "says what it is" "$err" "$1: byte 0: is $2"
    for tool in "$postprocess" "$malloc_trace info" "$malloc_trace dump"; do
        # shellcheck disable=SC2086
        $tool "$1" >/dev/null 2>named.err
        is "${tool##*/} too" "$?,$(wc -l <named.err | tr -d ' ')" 1,1
        like "in the same words" named.err "$1: byte 0: is $2"
    done
}
# A method that does not exist.
printf '\037\213\007\010 and more' >gzip
named gzip "a gzip file"
printf '\3757zXZ\000\000\004 and more' >xz
named xz "an xz file"
printf '\344\143\275\154\007\006\040\033\005' >foreign
# Formats that malloc-trace convert reads: the others read them, too, and
# postprocess says so.
foreign() {
    fails_with "postprocess of $1" 1 "$postprocess" "$1"
    like "says what it is" "$err" \
        "$1: byte 0: is $2.*, which malloc-trace convert reads"
}
foreign foreign "a raw trace of gperftools"
printf '\005' >foreign2
head -c 47 /dev/zero >>foreign2
foreign foreign2 "a processed trace for gperftools"
printf 'PK\003\004\024\000\000\000 and more' >zip
named zip "a zip file"
# It holds a trace that could be found.
{
    printf 'raw-v1%0251d' 0
    printf 'ustar\00000%0247d' 0
    cat "$top_srcdir/tests/data/raw-v1"
} >tar
named tar "a tar file"
# It holds the bytes that an LZ4 frame begins with.
named "$replay" "an ELF file"
echo '{"a": 1, "b": 2}' >json
named json "JSON"
named text "text"
# Text up to a byte that is far behind the first.
{
    printf '%0200d' 0
    printf '\351\200'
    printf '%0200d' 0
} >bytes
named bytes "no .*trace"
printf '\211MTRAW\r\n and more of it, long enough to be a header' >raw
fails_with "a raw trace that is damaged" 3 timeout 60 "$replay" raw
like "says what of it is lost" "$err" "raw: byte 0: ends in the middle, 51 "
like "in all" "$err" "incomplete: damaged places: 1"
printf '\211MTSPL\r\n and more' >spool
refused 1 "a spool" spool
refused 1 "a missing file" missing.p
like "names it" "$err" "missing.p"
refused 1 "a folder" .
like "says that it is one" "$err" "\\.: byte 0: Is a directory"
refused 1 "a text among traces" p.p text
printf '\211MTP' >short
refused 1 "cut within the magic" short

# --- Good ones ----------------------------------------------------------------

# whole WHAT ARGS...: exit 0 and the operations of p.p, N times if N is set.
whole() {
    what=$1
    shift
    rm -f j
    check "$what" timeout 60 "$replay" --json j "$@"
    is "$what: whole" "$(json j ops)" "$(($(key p.truth ops) * ${n:-1}))"
}
whole "a file" p.p
whole "stdin" <p.p
whole "stdin as -" - <p.p
n=3 whole "three files" p.p p.p p.p
is "have slots of their own" "$(json j end_live_objects)" \
    "$((3 * $(key p.truth end_live_objects)))"
is "and threads" "$(json j threads)" 3
mkfifo fifo
cat p.p >fifo &
whole "a FIFO" fifo
wait
if command -v lz4 >/dev/null 2>&1 && [ "${TCM_HAVE_LZ4:-no}" = yes ]; then
    lz4 -q p.p p.lz4
    whole "an LZ4 file" p.lz4
    whole "LZ4 on stdin" <p.lz4
    n=2 whole "both" p.lz4 p.p
    size=$(wc -c <p.lz4)
    head -c $((size * 2 / 3)) p.lz4 >cut.lz4
    fails_with "LZ4 cut" 3 "$replay" --json j cut.lz4
    lz4 -q text text.lz4
    refused 1 "a text in LZ4" text.lz4
else
    skip "LZ4 files" "no lz4 here"
fi

# packed PROGRAM NAME PACKAGE: the same through what it compresses. Where the
# library is not built in, the message names its package.
packed() {
    if ! have "$1"; then
        skip "$2" "no $1 here"
        return
    fi
    "$1" -q -c p.p >p.packed
    if ! unpacks "$1"; then
        for tool in "$replay" "$malloc_trace info" "$malloc_trace dump" \
            "$malloc_trace report" "$postprocess -q"; do
            # shellcheck disable=SC2086
            fails_with "$2: ${tool##*/} without the library" 1 $tool p.packed
            like "$2: names the package" "$err" \
                "p.packed: .*is a $1.* file, .*built without .*$3\\)"
        done
        return
    fi
    whole "$2: a file" p.packed
    is "$2: its size" "$(json j stored_bytes input_bytes)" \
        "$(wc -c <p.packed) $(wc -c <p.p)"
    whole "$2: stdin" <p.packed
    cat p.packed >fifo &
    whole "$2: a FIFO" fifo
    wait
    cat p.packed p.packed >two.packed
    fails_with "$2: a trace in a trace" 3 "$replay" --json j two.packed
    n=3 whole "$2: beside others" p.p p.packed p.p
    {
        head -c 5000 p.p | "$1" -q -c
        tail -c +5001 p.p | "$1" -q -c
    } >pieces.packed
    whole "$2: in two $2s" pieces.packed
    check "$2: info" "$malloc_trace" info p.packed
    like "$2: says what it is" "$out" "^p.packed: processed trace in $2s,"
    check "$2: dump" "$malloc_trace" dump p.packed
    cp "$out" packed.text
    check "$2: dump of the plain trace" "$malloc_trace" dump p.p
    cmp -s "$out" packed.text
    result "$2: is the same" $?
    "$1" -q -c "$top_srcdir/tests/data/raw-v1" >raw.packed
    check "$2: postprocess" "$postprocess" -q raw.packed r.packed.p
    check "$2: of the plain one" "$postprocess" -q \
        "$top_srcdir/tests/data/raw-v1" r.p
    cmp -s r.p r.packed.p
    result "$2: is the same" $?
    "$1" -q -c text >text.packed
    refused 1 "$2: of a text" text.packed
    like "$2: is a text" "$err" "text.packed: byte 0: is text"
    # More than a block, so that by the middle there is something of it.
    "$1" -q -c big.p >big.packed
    size=$(wc -c <big.packed)
    head -c $((size / 2)) big.packed >cut.packed
    fails_with "$2: cut" 3 "$replay" --json j cut.packed
    like "$2: says so" "$err" "cut.packed: byte $((size / 2)): $2 "
    ops=$(json j ops)
    [ "$ops" -gt 0 ] && [ "$ops" -lt "$(key big.truth ops)" ]
    result "$2: what is there is replayed" $?
    fails_with "$2: info of it" 3 "$malloc_trace" info cut.packed
    like "$2: says so, too" "$err" "cut.packed: byte [0-9]+: $2 "
    head -c 6 p.packed >cut.packed
    fails_with "$2: only its head" 3 "$replay" cut.packed
    {
        head -c $((size / 2)) big.packed
        head -c 64 /dev/zero | tr '\000' '\125'
        tail -c +$((size / 2 + 65)) big.packed
    } >bad.packed
    fails_with "$2: damaged" 3 "$replay" --json j bad.packed
    like "$2: names the place" "$err" "bad.packed: byte [0-9]+: $2 damaged"
    {
        cat p.packed
        echo rest
    } >rest.packed
    fails_with "$2: with a tail" 3 "$replay" --json j rest.packed
    is "$2: all of it is replayed" "$(json j ops)" "$(key p.truth ops)"
}
packed gzip "gzip member" zlib1g-dev
if have lz4 && have gzip && unpacks gzip; then
    lz4 -q -c p.p | gzip >nested
    named nested "an LZ4 file, to be decompressed with lz4 -d"
else
    skip "LZ4 in gzip" "no lz4 or gzip here"
fi
packed zstd "zstd frame" libzstd-dev
BZIP2=-1
export BZIP2 # small blocks
packed bzip2 "bzip2 stream" libbz2-dev

# Zip files: with lengths before or after the bytes, not compressed, in a
# folder, of two files. Their names end in what info says of them.
zipped() {
    "$python" - p.p <<'END'
import sys, zipfile
data = open(sys.argv[1], 'rb').read()
class Pipe:
    def __init__(self, name): self.file = open(name, 'wb')
    def write(self, b): return self.file.write(b)
    def flush(self): self.file.flush()
def put(to, how, folder=False, twice=False):
    with zipfile.ZipFile(to, 'w', how) as z:
        if folder:
            z.mkdir('d') if hasattr(z, 'mkdir') else z.writestr('d/', b'')
        z.writestr('d/p.p', data)
        if twice:
            z.writestr('d/q.p', data)
put('plain.zip', zipfile.ZIP_DEFLATED)
put('folder.zip', zipfile.ZIP_DEFLATED, folder=True)
put('stored.zip', zipfile.ZIP_STORED)
put(Pipe('pipe.zip'), zipfile.ZIP_DEFLATED)
put('two.zip', zipfile.ZIP_DEFLATED, twice=True)
put('bzip2.zip', zipfile.ZIP_BZIP2)
bad = bytearray(open('plain.zip', 'rb').read())
bad[len(bad) // 2] ^= 0x10
open('bad.zip', 'wb').write(bad)
bad = bytearray(open('stored.zip', 'rb').read())
bad[15] ^= 1 # the checksum
open('wrong.zip', 'wb').write(bad)
END
    for kind in plain pipe stored folder; do
        whole "zip: $kind" $kind.zip
    done
    for kind in two bad wrong; do
        fails_with "zip: $kind" 3 "$replay" $kind.zip
    done
    like "zip: names the place" "$err" "wrong.zip: byte [0-9]+: zip file damaged"
    head -c 3000 plain.zip >cut.zip
    fails_with "zip: cut" 3 "$replay" cut.zip
    refused 1 "zip: of another packing" bzip2.zip
    like "zip: says what to do" "$err" "unpacked with unzip"
}
if [ -n "$python" ] && unpacks gzip; then
    zipped
else
    skip "zip files" "no python3, or built without zlib"
fi
"$make" nothing n.p >n.truth || exit 99
check "a trace of nothing" "$replay" --json j n.p
is "has no operations" "$(json j ops)" 0
is "and takes no time for each" "$(json j ns_per_op)" 0

# Messages about a recording are those of postprocess.
check "postprocess" "$postprocess" --quiet --json a \
    "$top_srcdir/tests/data/raw-v1" r.p
check "replay of a recording" "$replay" --json j r.p
for k in ops threads thread_switches recorded_ns peak_live_bytes; do
    is "$k as postprocess has it" "$(json j $k)" "$(json a $k)"
done
[ "$(json j recorded_ns)" -gt 0 ] && [ "$(json j thread_switches)" -gt 0 ]
result "which is not nothing" $?

# One of each, in numbers and words.
"$make" blob one.p 1 >one.truth || exit 99
check "a trace with one block left" "$replay" one.p
like "one thread" "$out" '^operations +3 of 1 thread$'
like "no switches" "$out" '^thread switches +0 \('
like "one block" "$out" 'in 1 block$'

# --- Known to lack something --------------------------------------------------

"$make" incomplete i.p >i.truth || exit 99
fails_with "a recording that lacks something" 3 "$replay" --json j i.p
is "what is there is replayed" "$(json j ops)" "$(key i.truth ops)"
is "and it is told" "$(json j complete)" false
"$make" growing g.p >g.truth || exit 99
fails_with "one that was still going on" 3 "$replay" --json j g.p
fails_with "an incomplete one among good ones" 3 "$replay" p.p i.p p.p

# --- Cut and damaged ----------------------------------------------------------

# damaged FILE: status 3 (1 before the end of the magic), a JSON file, no crash.
damaged() {
    rm -f j
    timeout 60 "$replay" --json j "$1" >"$out" 2>"$err"
    status=$?
    if [ $status -eq 1 ] && [ "$2" -lt 8 ]; then
        [ "$(wc -l <"$err")" -eq 1 ]
        return
    fi
    [ $status -eq 3 ] && [ -s "$err" ] && [ -s j ] &&
        [ "$(json j complete)" = false ]
}
size=$(wc -c <small.p)
bad=
at=1
while [ $at -lt "$size" ]; do
    head -c $at small.p >cut.p
    damaged cut.p $at || bad="$bad $at($status)"
    at=$((at + 17))
done
[ -z "$bad" ] || note "cut at:$bad"
[ -z "$bad" ]
result "cut anywhere: status 3 and an account" $?
bad=
at=0
while [ $at -lt "$size" ]; do
    # One byte flipped, all its bits.
    byte=$(dd if=small.p bs=1 skip=$at count=1 2>/dev/null | od -An -tu1)
    {
        head -c $at small.p
        # shellcheck disable=SC2059
        printf "\\$(printf %o $((255 - byte)))"
        tail -c +$((at + 2)) small.p
    } >flip.p
    damaged flip.p $at || bad="$bad $at($status)"
    at=$((at + 23))
done
[ -z "$bad" ] || note "flipped at:$bad"
[ -z "$bad" ]
result "a byte flipped anywhere: status 3 and an account" $?

# A hole of some blocks: what is before and after is replayed.
size=$(wc -c <big.p)
{
    head -c $((size / 3)) big.p
    tail -c +$((size / 2)) big.p
} >hole.p
fails_with "a hole in the middle" 3 timeout 60 "$replay" --json j hole.p
[ "$(json j ops)" -gt $(($(key big.truth ops) / 3)) ] &&
    [ "$(json j ops)" -lt "$(key big.truth ops)" ]
result "the rest is replayed" $?
like "the place is named" "$err" "hole.p: byte [0-9]+: "
fails_with "a hole, with threads of their own" 3 \
    timeout 60 "$replay" --threads=real --json k hole.p
is "the same operations" "$(json k ops)" "$(json j ops)"
bad=
at=100
size=$(wc -c <small.p)
while [ $at -lt "$size" ]; do
    head -c $at small.p >cut.p
    timeout 60 "$replay" --threads=real --json j cut.p >"$out" 2>"$err"
    status=$?
    [ $status -eq 3 ] && [ -s "$err" ] && [ -s j ] || bad="$bad $at($status)"
    at=$((at + 317))
done
is "cut anywhere, with threads of their own" "$bad" ""
size=$(wc -c <big.p)

# --- The decoding process -----------------------------------------------------

# child PID: the process that replay made.
child() {
    cat /proc/"$1"/task/"$1"/children 2>/dev/null
}
has_child() { [ -n "$(child "$1")" ]; }
mkfifo feed
for mode in none real; do
    "$replay" --threads=$mode --json j feed >"$out" 2>"$err" &
    pid=$!
    exec 9>feed
    head -c $((size / 2)) big.p >&9
    eventually 10 has_child $pid
    decoder=$(child $pid)
    if [ -n "$decoder" ]; then
        # shellcheck disable=SC2086
        kill -9 $decoder
        wait $pid
        is "the decoding process killed ($mode): status 3" $? 3
        like "and that is said ($mode)" "$err" "signal 9"
        [ -s j ]
        result "and an account is written ($mode)" $?
    else
        kill $pid
        skip "the decoding process killed" "no children file in /proc"
    fi
    exec 9>&-
done

"$replay" feed >"$out" 2>"$err" &
pid=$!
exec 9>feed
head -c $((size / 2)) big.p >&9
eventually 10 has_child $pid
decoder=$(child $pid | tr -d ' ')
kill -9 $pid
# Said by the shell when it waits for one that was killed.
wait $pid 2>/dev/null
is_gone() {
    ! kill -0 "$1" || grep -q '^State:.*Z' "/proc/$1/status"
}
[ -z "$decoder" ] || eventually 10 is_gone "$decoder"
result "replay killed: the decoding process goes too" $?
exec 9>&-

# --- More than there is -------------------------------------------------------

# A quarter more than there is, so that only the stop is between it and the
# kernel's killer; the limit is there to be refused, should that fail.
gib=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 838860 +
    $(sed -n 's/^SwapFree: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 838860 + 2))
"$make" huge huge.p $gib >huge.truth || exit 99
cat huge.p >huge.copy
limited() (
    ulimit -v 1500000
    exec timeout 60 "$@"
)
limited "$replay" huge.p >"$out" 2>"$err"
is "more than the memory that is there: status 1" $? 1
like "a warning before it" "$err" "huge.p: the peak of live blocks is $gib"
like "then it stops" "$err" "near operation [0-9]+: live blocks"
is "without figures" "$(wc -c <"$out" | tr -d ' ')" 0
rm -f j
limited "$replay" --json j huge.p >"$out" 2>"$err"
is "and without a JSON file" "$?,$(ls j 2>/dev/null)" 1,
echo old >j
"$replay" --json j text >"$out" 2>"$err"
is "what is no trace replaces none" "$?,$(cat j)" 1,old
limited "$replay" <huge.p >"$out" 2>"$err"
like "a file on stdin" "$err" "standard input: the peak of live blocks"
cat huge.p | limited "$replay" >"$out" 2>"$err"
is "through a pipe: status 1" $? 1
like "it stops" "$err" "standard input: near operation"
is "without a warning before" "$(grep -c "the peak of" "$err")" 0
# An allocator needs more than its live blocks, so that less than all of the memory
# is taken for them.
"$make" large large.p 2000 >large.truth || exit 99
"$replay" -q --json j large.p >"$out" 2>"$err"
peak=$(json j peak_live_bytes)
# with PERCENT: a replay where this much of the peak is available.
with() {
    printf 'MemTotal: 99999999 kB\nMemAvailable: %s kB\n' \
        $((peak / 1024 * $1 / 100)) >meminfo
    unshare -Urm sh -c 'mount --bind "$1" /proc/meminfo && shift && exec "$@"' \
        sh "$work/meminfo" "$replay" -q large.p >"$out" 2>"$err"
}
if unshare -Urm true 2>"$work/.out"; then
    with 105
    is "little more than the live blocks: status 1" $? 1
    like "with a warning" "$err" "overhead need more than the available [^:]*: replay"
    like "and the stop" "$err" "near operation [0-9,]+: live blocks.*; stopped before"
    with 120
    is "with an eighth more it runs: status" "$?,$(cat "$err")" 0,
else
    skip "a little more than the live blocks" "unshare is refused"
fi
if have lz4 && unpacks lz4; then
    lz4 -q -f huge.p huge.lz4
    cat p.p huge.p | lz4 -q >two.lz4
    limited "$replay" huge.lz4 >"$out" 2>"$err"
    like "compressed: a warning" "$err" "huge.lz4: the peak of live blocks"
fi
limited "$replay" --touch=none --json j huge.p >"$out" 2>"$err"
is "written not at all: runs" $? 0
is "and is not warned of" "$(cat "$err" | grep -c 'peak of live')" 0
"$make" blob blob.p 2000 >blob.truth || exit 99
limited "$replay" --json j blob.p >"$out" 2>"$err"
is "more than the limit of address space" "$?,$(json j failed_allocations)" \
    0,1
like "a warning" "$err" "more than the limit of address space"
like "in JSON too" j '"blob.p: the peak of live blocks is 1.95 GiB, more'

# --- Outputs ------------------------------------------------------------------

for name in - /dev/stdout; do
    check "JSON on stdout: $name" "$replay" --json $name p.p
    is "it is alone there" \
        "$(head -c 1 "$out"),$(tail -n 1 "$out"),$(grep -c '"ops":' "$out")" \
        "{,},1"
    like "the text is on stderr" "$err" '^allocator '
done
refused 1 "JSON into a missing folder" --json none/j p.p
if [ -w /dev/full ]; then
    "$replay" p.p >/dev/full 2>"$err"
    is "stdout on a full disk: status 1" $? 1
    [ -s "$err" ]
    result "and a line on stderr" $?
    "$replay" --json /dev/full p.p >"$out" 2>"$err"
    is "JSON on a full disk: status 1" $? 1
fi
tap_end
