#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# malloc-trace convert: the golden files of other programs' formats, plain, cut
# and packed; what is lost is said; round trips; what other tools make of such
# files without a conversion.
. "$top_srcdir/tests/lib/harness.sh"
need "$malloc_trace" "$replay"
golden=$top_srcdir/tests/data/formats
convert() { "$malloc_trace" convert "$@"; }

# Bytes of a file of hexadecimal digits.
unhex() {
    sed 's/#.*//' "$1" | tr -d ' \n' | sed 's/../\\\\x&/g' |
        xargs printf '%b' 2>/dev/null
}

# fetch NAME: the golden file as the file NAME.
fetch() {
    if [ -e "$golden/$1.hex" ]; then
        unhex "$golden/$1.hex" >"$1"
    else
        cp "$golden/$1" "$1" && chmod u+w "$1"
    fi
}

names=
for file in "$golden"/*.text; do
    name=$(basename "$file" .text)
    names="$names $name"
    format=${name%%.*}
    want=0
    [ ! -e "$golden/$name.status" ] || want=$(cat "$golden/$name.status")
    fetch "$name"
    fails_with "$name: exit status" "$want" "$malloc_trace" convert --to text \
        "$name" got
    cp "$err" said
    check "$name: as by hand" diff "$file" got
    title=$(convert --list | awk -v f="$format" '$1 == f {
        sub(/^[^ ]+ +[^ ]+ +[^ ]+ +[^ ]+ +/, ""); print }')
    grep -qF "from $title" said
    result "$name: its format is found" $?
    fails_with "$name: and told" "$want" "$malloc_trace" convert -q \
        --from "$format" "$name" p
    fails_with "$name: info of what came of it" "$want" "$malloc_trace" info p
    ! grep -Eq 'account|contradict' "$err"
    result "$name: which does not contradict itself" $?
    fails_with "$name: info of itself" "$want" "$malloc_trace" info --timeline \
        "$name"
    like "$name: with memory over time" "$out" '^  live heap  '
    fails_with "$name: dump of itself" "$want" "$malloc_trace" dump "$name"
    fails_with "$name: by a pipe" "$want" sh -c \
        "cat '$name' | '$malloc_trace' convert -q - >p2"
    check "$name: is the same" cmp p p2
    [ "$want" = 0 ] || fails_with "$name: --strict" 1 "$malloc_trace" convert \
        --strict "$name" none
    [ "$want" = 0 ] || like "$name: says where" "$err" \
        "$name: (line|byte) [0-9]+: "
    [ ! -e none ]
    result "$name: and leaves nothing" $?
    rm -f none
done
check "-o" "$malloc_trace" convert -q -o p2 "$name"
cmp p p2
result "is OUT" $?
fails_with "-o and OUT" 2 "$malloc_trace" convert -q -o p2 "$name" p3
at_least "golden files" "$(echo "$names" | wc -w)" 8

# The one list for people is the table of doc/formats.md.
convert --list | awk '{ print $1 }' | sort >listed
sed -n '/^| format | ids /,/^$/s/^| `\([a-z-]*\)` |.*/\1/p' \
    "$top_srcdir/doc/formats.md" | sort >written
at_least "formats are listed" "$(wc -l <listed)" 20
check "the document lists the formats of --list" diff listed written
for name in $names; do
    marked=$(convert --list | awk -v f="${name%%.*}" '$1 == f { print $4 }')
    "$malloc_trace" annotate lifetimes "$name" >"$out" 2>"$err"
    ! grep -q 'is not a text trace with addresses' "$err"
    is "$name: annotate takes what the list says" "$?,$marked" \
        "$(case $marked in annotate) echo 0 ;; *) echo 1 ;; esac),$marked"
done

# Files that are cut anywhere: never a crash, and a loss is never silent.
for name in $names; do
    size=$(wc -c <"$name")
    bad=
    n=0
    while [ $n -lt "$size" ]; do
        head -c $n "$name" >cut
        convert -q --from "${name%%.*}" cut p 2>/dev/null
        [ $? -le 3 ] || bad="$bad $n"
        n=$((n + 7))
    done
    is "$name: cut anywhere" "$bad" ""
done

# Among many calls that are read at once, one that is odd: where it is.
# record TYPE REGISTER SIZE: of gperftools.
record() {
    # shellcheck disable=SC2059
    printf "\\$(printf %03o "$1")\\$(printf %03o "$2")\\0\\0\\0\\0\\0\\0"
    # shellcheck disable=SC2059
    printf "\\$(printf %03o "$3")\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0\\0"
}
{
    record 5 0 1
    n=0
    while [ $n -lt 150 ]; do
        record 0 $n 40
        n=$((n + 1))
    done
    record 1 200 0 # unknown
    record 0 7 48  # there is one
    record 1 149 0
} >many
fails_with "an odd one among many" 3 "$malloc_trace" convert --to text many got
like "says where the first is" "$err" "many: byte 3624: free of 200, "
like "says where the second is" "$err" "many: byte 3648: 7 is allocated"
is "all the others are kept" "$(tail -n 1 got)" "end: 153 operations, 149 live"
fails_with "an odd one among many, --strict" 1 "$malloc_trace" convert --strict \
    many none
like "says where" "$err" "many: byte 3624: "

# Packed.
packs() {
    if have "$1" && unpacks "$1"; then
        "$1" -q -c android.times >packed
        check "android in $1" "$malloc_trace" convert --to text packed got
        check "android in $1: the same" cmp got "$golden/android.times.text"
    else
        skip "android in $1" "no $1 here, or built without its library"
    fi
}
packs gzip
packs bzip2
packs zstd
packs lz4
# same NAME: the file odd is read as the golden text is, and nothing is said.
same() {
    check "$1" "$malloc_trace" convert -q --to text odd got
    check "$1: the same" cmp got "$golden/android.times.text"
    is "$1: nothing is said" "$(cat "$err")" ""
}
if have gzip && unpacks gzip; then
    { head -n 3 android.times | gzip -c; tail -n +4 android.times | gzip -c; } >odd
    same "gzip members"
    { gzip -c android.times; head -c 1000 /dev/zero; } >odd
    same "a gzip member that zeros fill up"
    { gzip -c android.times; echo more; } >odd
    fails_with "behind a gzip member is something else" 3 "$malloc_trace" \
        convert -q odd got
fi
if have zstd && unpacks zstd; then
    { printf 'P*M\030\004\0\0\0size'; zstd -qc android.times; } >odd
    same "a zstd frame behind one to be skipped"
fi
{ printf '\357\273\277'; cat android.times; } >odd
same "a byte order mark and lines of DOS"
check "annotate: a byte order mark" "$malloc_trace" annotate lifetimes odd
printf 'malloc(8) = 0x10\nfree(0x1' >odd
fails_with "a short trace whose last line is cut" 3 "$malloc_trace" convert -q \
    --to text odd got
is "what is there is kept" "$(tail -n 1 got)" "end: 1 operations, 1 live"
printf '1 1 malloc(8)=#1\n2 1 malloc(9)=#1\n1 1 free(#1)\n2 1 free(#1)\n' >odd
check "threads of two processes" "$malloc_trace" convert -q --to text odd got
is "are not one" "$(grep -c '^thread 2 starts, kernel id 1$' got)" 1
printf ' 1 a  USER  0x10 = malloc(8)\n 2 a  USER  free(0x10)\n' >odd
fails_with "a free of another process's block" 3 "$malloc_trace" convert -q odd \
    got
like "names it as the line does" "$err" "line 2: free of 0x10, "
printf '2\n2\na 0 8\nf 1\n' >odd
fails_with "a free of an unknown number" 3 "$malloc_trace" convert -q odd got
like "names it as the line does" "$err" "line 4: free of 1, "
printf '1: realloc 0x10 0x0 7\n1: free 0x10\n' >odd
check "a realloc of NULL as wl" "$malloc_trace" convert -q --to text odd got
check "is written" "$malloc_trace" convert -q --to wl got back
check "and comes back" "$malloc_trace" convert -q --to text back got
like "as one" got '^slot 0 = realloc\(NULL, 7\)$'
if have bzip2 && unpacks bzip2; then
    bzip2 -c android.times | head -c 30 >odd
    fails_with "the first bytes of a bzip2 file" 1 "$malloc_trace" convert odd got
    like "are not an empty file" "$err" "odd: ends in the middle"
fi
printf '1: malloc 0x10 1\n1: memalign 0x20 4611686018427387904 8\n' >odd
fails_with "an impossible alignment" 3 "$malloc_trace" convert -q odd got
like "is said" "$err" "odd: line 2: block aligned to 2\^62 bytes, larger than an"

# A thread that waits for a block that no thread makes keeps others waiting:
# thread 0 frees token 999 and makes token 0, which thread 2 frees.
printf '\344c\275l\007\002 \r\005\002\020\306\371!\047\0020\003\003\037' >odd
fails_with "a free of what was never made" 3 "$malloc_trace" convert -q --to text \
    odd got
is "is the only one" "$(grep -c warning "$err")" 2 # and that something lacks
is "those behind it are kept" "$(tail -n 1 got)" "end: 2 operations, 0 live"

printf 'v 10600 4\nX prog\n+ 18 1 10\n- 10\n' >odd
fails_with "a heaptrack file of a later version" 1 "$malloc_trace" convert odd \
    none
like "is refused" "$err" "odd: line 1: file format later than version 3"
check "and leaves nothing" test ! -e none

# zip_u16 NUMBER, zip_file: android.times as it is, in a zip file.
zip_u16() {
    # shellcheck disable=SC2059
    printf "\\$(printf %03o $(($1 % 256)))\\$(printf %03o $(($1 / 256)))"
}
zip_crc=$(gzip -c android.times 2>/dev/null | tail -c 8 | head -c 4 |
    od -An -v -to1 | sed 's/ /\\/g')
zip_size=$(wc -c <android.times)
zip_fields() { # from the flags to the extra field's length
    printf '\0\0\0\0\0\0\0\0'
    # shellcheck disable=SC2059
    printf "$zip_crc"
    zip_u16 "$zip_size" && zip_u16 0 && zip_u16 "$zip_size" && zip_u16 0
    zip_u16 1 && zip_u16 0
}
zip_file() {
    printf 'PK\003\004\012\0'
    zip_fields
    printf a
    cat android.times
    printf 'PK\001\002\012\0\012\0'
    zip_fields
    printf '\0\0\0\0\0\0\0\0\0\0\0\0\0\0a'
    printf 'PK\005\006\0\0\0\0\001\0\001\0'
    zip_u16 47 && zip_u16 0
    zip_u16 $((zip_size + 31)) && zip_u16 0
    zip_u16 4
    printf note
}
if have gzip && unpacks gzip; then
    zip_file >odd
    same "a zip file"
    { zip_file; head -c 1000 /dev/zero; } >odd
    same "a zip file that zeros fill up"
    { zip_file; echo more; } >odd
    fails_with "behind a zip file is something else" 3 "$malloc_trace" \
        convert -q odd got
    { zip_file; zip_file; } >odd
    fails_with "behind a zip file is another" 3 "$malloc_trace" convert -q odd got
fi

printf '\010\004\011\001\012\002\013\013\013\020\001\007\001\005\002\001\002\002\030\006' >odd
fails_with "a workload that is cut" 3 "$malloc_trace" convert -q odd got
like "where" "$err" "odd: byte 19: the code of a thread is cut"

printf 'malloc-trace text 1\nthread 1\nslot 0 = malloc(8)\nend: 1 operations, 1 live\nfree(slot 0)\n' >odd
fails_with "a line behind the last one" 3 "$malloc_trace" convert -q odd got
like "is said" "$err" "odd: line 5: line behind the end line"
printf 'malloc-trace text 1\nfree(slot 9)\nnonsense\nend: 0 operations, 0 live\n' >odd
fails_with "a text with hardly a line that can be read" 3 "$malloc_trace" \
    convert -q odd got
like "names slots as slots" "$err" "odd: line 2: free of 9, "
printf 'malloc-trace text 1\ntime 73590000000000 ns\nthread 1\nslot 0 = malloc(8)\nend: 1 operations, 1 live\n' >odd
check "a text that begins late" "$malloc_trace" convert -q odd p
check "written again" "$malloc_trace" convert -q --to text p got
check "begins as late" cmp odd got
check "report of it" "$malloc_trace" report --to=objects p
like "counts from there" "$out" "^0,,8,"

# Two threads: the free of the first block is noted late.
le32() { zip_u16 $(($1 % 65536)) && zip_u16 $(($1 / 65536)); }
dj_record() { # THREAD TYPE PTR1 PTR2 SIZE
    le32 "$1" && le32 "$2" && le32 "$3" && le32 0 && le32 "$4" && le32 0
    le32 "$5" && le32 0 && head -c 32 /dev/zero
}
{
    dj_record 0 255 4660 0 8
    dj_record 1 1 0 4096 16
    dj_record 2 1 0 4096 16
    dj_record 1 3 4096 0 0
    dj_record 2 3 4096 0 0
} >odd
check "a free that is noted late, --strict" "$malloc_trace" convert -q --strict \
    odd got
{
    head -c 192 odd
    dj_record 2 3 4096 0 0
} >lost
fails_with "a free that is never noted, --strict" 1 "$malloc_trace" convert -q \
    --strict lost none
like "says where" "$err" "lost: byte 128: 0x1000 is allocated while in use"

for format in gperftools-raw dj; do
    fails_with "--from $format of another" 1 "$malloc_trace" convert \
        --from $format cmt none
    check "--from $format of another: nothing is written" test ! -e none
done
fails_with "--from processed of another" 1 "$malloc_trace" convert \
    --from processed cmt none

printf 'malloc-trace text 1\nslot 0 = malloc(0)\nslot 0 = realloc(slot 0, 9)\nend: 2 operations, 1 live\n' >odd
check "compact text for the stock tools" "$malloc_trace" convert -q --stock \
    --to cmt-text odd got
is "has sizes, and no tag of an old pointer" "$(cat got)" "malloc(1) = 10<1>
realloc(10, 9) = 10<2>"

if [ "${TCM_HAVE_LZ4:-yes}" = yes ]; then
    check "LZ4 out" "$malloc_trace" convert -q -z android android.p.lz4
    check "is read again" "$malloc_trace" info android.p.lz4
fi

# --- Many calls ---------------------------------------------------------------

cat >calls.awk <<'END'
# Calls on 97 places, a block is freed or made; written as OUT says. Varints of
# malloc-bench have 7 bits a byte, low first; those of gperftools-raw, of 2 or 3
# bytes here, end in as many bits 10 or 100.
function hex(n, bytes,  s) {
    for (s = ""; bytes-- > 0; n = int(n / 256))
        s = s sprintf("%02x", n % 256)
    return s
}
function varint(n,  s) {
    for (s = ""; n >= 128; n = int(n / 128))
        s = s sprintf("%02x", n % 128 + 128)
    return s sprintf("%02x", n)
}
function word(n) { return n < 16384 ? hex(n * 4 + 2, 2) : hex(n * 8 + 4, 3) }
function signed(n) { return n < 0 ? -2 * n - 1 : 2 * n }
function bench(kind, text) {
    text = sprintf("%02x%02x", kind * 8 + 2, length(text) / 2) text
    return sprintf("0a%02x", length(text) / 2) text
}
function flush_buffer() {
    if (buffer != "")
        print word(3) word(1024) word(length(buffer) / 2) buffer word(39) word(1024)
    buffer = ""
}
BEGIN {
    state = 1
    made = 0
    if (out == "raw")
        print "e463bd6c"
    else if (out == "rep")
        print "100000\n3100\n6000\n1"
    for (i = 0; i < 6000; i++) {
        state = (state * 16807) % 2147483647
        k = state % 97
        size = 8 * (1 + int(state / 97) % 200)
        if (k in id) {
            if (out == "rep")
                print "f " id[k]
            else if (out == "bench")
                print bench(2, "08" varint(id[k]))
            else
                buffer = buffer word(1 + 8 * signed(id[k] - last_id))
            last_id = id[k]
            delete id[k]
        } else {
            if (out == "rep")
                print "a " made " " size
            else if (out == "bench")
                print bench(1, "08" varint(made) "10" varint(size))
            else {
                if (buffer == "")
                    buffer = word(2 + 8 * made) word(1024)
                buffer = buffer word(8 * signed(size / 8 - last_size))
            }
            last_size = size / 8
            id[k] = made++
        }
        if (length(buffer) > 2000)
            flush_buffer()
    }
    if (out == "raw") {
        flush_buffer()
        print word(15)
    }
}
END
for format in rep bench raw; do
    awk -v out=$format -f calls.awk </dev/null >many
    if [ $format != rep ]; then
        sed 's/../\\\\x&/g' many | xargs printf '%b' >bytes
        mv bytes many
    fi
    check "many calls, $format" "$malloc_trace" convert --strict --to text many \
        text
    grep '(' text >many.$format
done
at_least "are all there" "$(wc -l <many.rep)" 6000
check "malloc-bench: the same calls as rep" diff many.rep many.bench
check "gperftools-raw: the same calls as rep" diff many.rep many.raw

# --- What others say ----------------------------------------------------------

echo 'no trace at all' >nothing
: >empty
for name in nothing empty; do
    fails_with "$name: refused" 1 "$malloc_trace" convert $name p
done
like "and said" "$err" "empty: is empty"
like "an empty input: the likely cause, and the remedy" "$err" \
    "postprocess t\.lz4 - \| lz4'"
fails_with "a processed trace" 1 "$malloc_trace" convert \
    "$top_srcdir/tests/data/processed-v1" p
"$postprocess" -q "$top_srcdir/tests/data/raw-v1" sorted
is "a raw trace: status" "$("$malloc_trace" convert \
    "$top_srcdir/tests/data/raw-v1" converted 2>"$err"; echo $?)" 0
cmp sorted converted >"$err" 2>&1
result "is sorted as by postprocess" $?
fails_with "a file that is not there" 1 "$malloc_trace" convert nowhere p
fails_with "a format that is none" 2 "$malloc_trace" convert --to none android p
"$malloc_trace" convert -q <android >p 2>"$err"
is "standard input" $? 0
"$malloc_trace" convert -q android q
check "is converted as the file" cmp p q
fails_with "onto itself" 2 "$malloc_trace" convert android android
# The converters of some formats take OUT first.
"$malloc_trace" convert -q --to wl android there.wl
cp android keep
fails_with "onto a recording" 1 "$malloc_trace" convert --to wl there.wl keep
check "which stays" cmp android keep
cp -f "$top_srcdir/tests/data/raw-v1" keep
fails_with "onto a raw trace" 1 "$malloc_trace" convert --to wl there.wl keep
check "onto what it made" "$malloc_trace" convert -q --to wl android there.wl
[ ! -e /dev/full ] ||
    fails_with "a full disk" 1 sh -c "'$malloc_trace' convert android >/dev/full"

# --- Without a conversion -----------------------------------------------------

check "replay of a foreign trace" "$replay" --json j --threads=none --check \
    android
is "its operations" "$(json j ops end_live_objects threads)" "10 2 3"
check "report of a foreign trace" "$malloc_trace" report android
like "its calls" "$out" "2.42 KiB in 7 calls; peak .*; 49 B live at the end"
if [ "${TCM_SANITIZED:-no}" = no ] && [ -e "$minimal" ]; then
    check "compare with a foreign trace" "$malloc_trace" compare -n 2 \
        --no-check -a glibc -a ours="$minimal" cmt
    like "its operations" "$out" "^cmt: 7 operations of 1 thread"
fi
check "replay with real threads" "$replay" --json j --threads=real android.times
is "its operations" "$(json j ops end_live_objects)" "4 0"
fails_with "replay of one that lacks something" 3 "$replay" --json j android.odd
is "its operations" "$(json j ops end_live_objects)" "9 3"
like "says what" "$err" "android.odd: line 2: free of 0x999"

# --- Round trips --------------------------------------------------------------

for name in processed-v1 processed-v1-index processed-v1-ends; do
    convert -q --to text "$top_srcdir/tests/data/$name" text1 2>/dev/null
    convert -q text1 p1 2>/dev/null
    convert -q --to text p1 text2 2>/dev/null
    at_least "$name: lines" "$(wc -l <text1)" 50
    check "$name: text, trace, text" cmp text1 text2
done

# back FORMAT [OPTION]: the golden trace in FORMAT and back; the operations that
# are left, named by what they do alone.
plain_ops() {
    sed -nE 's/^[a-z][^=]* = //; /^(malloc|calloc|new|memalign|posix|aligned|valloc|pvalloc|realloc|free|cfree|delete)/p' "$1" |
        grep -v failed |
        sed -E 's/^(calloc|new|memalign|posix_memalign|aligned_alloc|valloc|pvalloc)(\[\])?(\([a-z,]*\))?\(([0-9]+)[^)]*\)/malloc(\4)/
            s/^(delete|cfree|free)[^ ]*\((slot [0-9]+).*/free(\2)/
            s/ moved//; s/realloc\(NULL, ([0-9]+)\)/malloc(\1)/
            s/realloc\((slot [0-9]+), 0\) freed it/free(\1)/'
}
convert -q --to text "$top_srcdir/tests/data/processed-v1-index" ours 2>/dev/null
plain_ops ours >want
at_least "operations" "$(wc -l <want)" 2500
back() {
    check "$1: written" "$malloc_trace" convert -q --to "$@" \
        "$top_srcdir/tests/data/processed-v1-index" out
    check "$1: read" "$malloc_trace" convert -q --to text out back
    plain_ops back >got
    check "$1: the same operations" cmp want got
}
back text
back cmt-text
back cmt
back cmt --stock
back gperftools
back gperftools --stock
# Operations of several threads are in order for each thread only.
unordered() { sed 's/slot [0-9]*//' "$1" | sort; }
check "wl: written" "$malloc_trace" convert -q --to wl \
    "$top_srcdir/tests/data/processed-v1-index" out
check "wl: read" "$malloc_trace" convert -q --to text out back
plain_ops back >ops
unordered ops >got
unordered want >want_any
check "wl: the same operations" cmp want_any got
check "wl: replayed" "$replay" --json j --check out
is "wl: all of it" "$(json j ops threads end_live_objects)" "2590 4 153"
# Those of one thread are all in order.
convert -q --to wl "$golden/cmt-text" out 2>/dev/null
check "wl: of one thread" "$malloc_trace" convert -q --to text out back
check "wl: no failed call" diff - back <<'END'
malloc-trace text 1
thread 1
slot 0 = malloc(8)
slot 0 = realloc(slot 0, 16)
slot 1 = malloc(0)
slot 2 = realloc(NULL, 5)
slot 2 = realloc(slot 2, 7)
free(slot 0)
thread 1 ends, name ""
end: 6 operations, 2 live
END

# --- Written only -------------------------------------------------------------

check "csv" "$malloc_trace" convert -q --to csv android out
check "csv: as by hand" diff - out <<'END'
event,time_ns,thread,call,block,size,alignment,old_block,old_size,age,maker,result
1,0,1,"malloc",1,1024,,,,,,
2,0,1,"free",,,,1,1024,1,1,
3,0,1,"calloc",2,300,,,,,,
4,0,2,"memalign",3,48,64,,,,,
5,0,2,"realloc",4,500,,2,300,2,1,moved
6,0,1,"realloc",5,600,,4,500,1,2,
7,0,1,"realloc",6,10,,,,,,
8,0,1,"malloc",,4096,,,,,,failed
9,0,1,"realloc",,,,6,10,1,1,freed
10,0,2,"free",,,,5,600,3,1,
11,0,3,"malloc",7,1,,,,,,
END
check "minimalloc" "$malloc_trace" convert -q --to minimalloc android out
check "minimalloc: as by hand" diff - out <<'END'
id,lower,upper,size
1,0,1,1024
2,2,4,300
4,4,5,500
6,6,7,10
5,5,8,600
7,9,10,1
3,3,10,48
END

# --- A folder of traces -------------------------------------------------------

if [ -n "$python" ] && [ "${TCM_SANITIZED:-no}" = no ] && [ -e "$minimal" ]; then
    mkdir corpus
    cp android android.odd cmt wl nothing corpus
    check "corpus.sh" "$top_srcdir/bench/corpus.sh" --build "$top_builddir" \
        --rounds 1 --allocators glibc,ours --csv runs.csv --json all.json \
        corpus
    cp "$out" table
    is "corpus.sh: replays" "$(wc -l <runs.csv)" 9
    like "corpus.sh: an Android trace" table \
        '^\| android +\| +Android.* \| +10 \| +3 \| .*ours: (less|same|more) time'
    like "corpus.sh: one that lacks something" table '^\| android.odd \*'
    like "corpus.sh: no trace" table '^no traces: corpus/nothing'
    like "corpus.sh: all traces together" table '^4 traces; 1 round$'
    "$python" - all.json >verdict <<'END'
import json, sys
v = json.load(open(sys.argv[1]))
print(v["baseline"], *sorted({x["contestant"] for x in v["verdicts"]}))
print(*sorted(t["name"][2:] for t in v["traces"]))
END
    is "corpus.sh: the verdict of compare is about all of them" \
        "$(cat verdict)" \
        "$(printf 'glibc ours\nandroid.odd.trace android.trace %s' \
            'cmt.trace wl.trace')"
else
    skip "corpus.sh" "no python3, or no library"
fi
tap_end
