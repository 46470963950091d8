#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The tables of numbers in the documents of both formats say what the headers
# say: the same numbers with the same names, and a meaning for each.
. "$top_srcdir/tests/lib/lint.sh"

trace_event=src/traceformat/trace_event.h
raw_layout=src/traceformat/raw_layout.h
proc_layout=src/traceformat/proc_layout.h
raw_doc=doc/raw-trace-format.md
proc_doc=doc/processed-trace-format.md

# listed HEADER MACRO: "number name" of the X(NAME, number, "text") of a list.
listed() {
    awk -v macro="#define $2(X)" '
        index($0, macro) == 1 { on = 1 }
        on && /X\([A-Z]/ {
            split($0, quoted, "\"")
            sub(/^[^,]*, */, "")
            print $0 + 0, quoted[2]
        }
        on && !/\\$/ { on = 0 }' "$tree/$1"
}

# enumerated HEADER ENUM PREFIX: "number NAME" of what an enum declares.
enumerated() {
    awk -v enum="enum $2 {" -v prefix="$3" '
        index($0, enum) == 1 { on = 1; next }
        /^}/ { on = 0 }
        on && $1 ~ "^" prefix && $2 == "=" {
            print $3 + 0, substr($1, length(prefix) + 1)
        }' "$tree/$1"
}

# written DOCUMENT HEAD: "number name" of the rows of the table with these heads
# of columns. Rows of several numbers are of what is reserved.
written() {
    awk -F ' *[|] *' -v head="$2" '
        $0 == head { on = 1; next }
        !/^[|]/ { on = 0 }
        { gsub(/`/, "", $3) }
        on && $2 ~ /^[0-9]+$/ { print $2, $4 == "" ? "(no meaning)" : $3 }' \
        "$tree/$1"
}

# compare DOCUMENT HEAD COMMAND HEADER NAME...: prints what is only in the
# document's table, and what only in the command's.
compare() {
    compare_document=$1
    written "$1" "$2" | sort >"$work/written"
    shift 2
    "$@" | sort >"$work/declared"
    [ -s "$work/declared" ] || echo "$2: no $3"
    comm -23 "$work/declared" "$work/written" |
        awk -v where="$compare_document lacks of $3" '{ print where ": " $0 }'
    comm -13 "$work/declared" "$work/written" |
        awk -v where="$compare_document, but not $3" '{ print where ": " $0 }'
}

raw_calls() {
    compare $raw_doc '| call | name | meaning |' \
        listed $trace_event MTF_CALLS
}
raw_accounts() {
    compare $raw_doc '| field | name | meaning |' \
        listed $trace_event MTF_ACCOUNTS
}
raw_extensions() {
    compare $raw_doc '| which | name | argument |' \
        listed $trace_event MTF_EXTENSIONS
}
raw_reasons() {
    compare $raw_doc '| reason | name | meaning |' \
        enumerated $trace_event mtf_end_reason MTF_END_
}
raw_notices() {
    compare $raw_doc '| code | name | meaning |' \
        enumerated $raw_layout mtf_notice MTF_NOTICE_
}
raw_segments() {
    compare $raw_doc '| kind | name | payload |' \
        segment_kinds $raw_layout mtf_segment_kind MTF_SEGMENT_
}
segment_kinds() {
    enumerated "$@" | tr '[:upper:]' '[:lower:]'
}
# kinds COLUMN FORMAT: "number NAME" of the events of one format (RAW or PROC) and
# of the records that serve its coding; COLUMN is that of the numbers of BOTH.
kinds() {
    awk -v column="$1" -v coding="#define MTF_$2_CODING(X)" -v only="$2(" '
        index($0, coding) == 1 { on = 1 }
        on && match($0, /X\([A-Z_]*, [0-9]*\)/) {
            split(substr($0, RSTART + 2, RLENGTH - 3), x, ", ")
            print x[2], x[1]
        }
        on && !/\\$/ { on = 0 }
        /^    (BOTH|RAW|PROC)\([A-Z]/ {
            both = $1 ~ /^BOTH/
            if (!both && index($1, only) != 1)
                next
            split(substr($0, index($0, "(") + 1), x, ", ")
            print x[both ? column : 3], x[1]
        }' "$tree/$trace_event"
}
raw_kinds() {
    compare $raw_doc '| kind | name | argument or bytes |' \
        event_kinds $trace_event MTF_EVENTS
}
event_kinds() { kinds 3 RAW; }
record_kinds() { kinds 4 PROC | grep -v '^MTF_NOTE'; }
proc_kinds() {
    compare $proc_doc '| kind | name | argument or bytes |' \
        record_kinds $trace_event MTF_EVENTS
}
note_kinds() {
    kinds 4 PROC | sed -n 's/^MTF_NOTE(\([0-9]*\))/\1/p'
}
proc_notes() {
    compare $proc_doc '| what | name | bytes |' \
        note_kinds $trace_event MTF_EVENTS
}
proc_accounts() {
    compare $proc_doc '| field | name | meaning |' \
        listed $proc_layout MTF_PROC_ACCOUNTS
}

# The numbers that the recipe of CONTRIBUTING.md gives to the next kind.
next_numbers() {
    awk -v raw="$(event_kinds $trace_event | sort -n | awk 'END { print $1 + 1 }')" \
        -v note="$(note_kinds $trace_event | sort -n | awk 'END { print $1 + 1 }')" '
        { text = text " " $0 }
        END {
            gsub(/ +/, " ", text)
            if (!index(text, ": " raw " in a recording, "))
                print "CONTRIBUTING.md: the next number in a recording is " raw
            if (!index(text, "`MTF_NOTE(" note ")` in a processed trace"))
                print "CONTRIBUTING.md: the next note is " note
        }' "$top_srcdir/CONTRIBUTING.md"
}

clean next_numbers "the next numbers of kinds"
clean raw_calls "calls"
clean raw_accounts "accounts of samples and footers"
clean raw_extensions "extensions"
clean raw_reasons "end reasons"
clean raw_notices "notices"
clean raw_segments "kinds of segments"
clean raw_kinds "kinds of events"
clean proc_kinds "kinds of records"
clean proc_notes "kinds of notes"
clean proc_accounts "fields of the closing block"

# differs COMMAND FILE EDIT WHAT: passes if the command finds the fault that a
# sed script puts into a copy of a file.
differs() {
    rm -rf "$work/copy"
    mkdir -p "$work/copy/src" "$work/copy/doc"
    cp -R "$top_srcdir/src/traceformat" "$work/copy/src"
    cp "$top_srcdir/$raw_doc" "$top_srcdir/$proc_doc" "$work/copy/doc"
    chmod -R u+w "$work/copy"
    sed "$3" "$top_srcdir/$2" >"$work/copy/$2"
    differs_tree=$tree
    tree=$work/copy
    differs_found=$($1)
    tree=$differs_tree
    [ -n "$differs_found" ]
    result "finds $4" $?
}

differs raw_calls $trace_event 's/X(CFREE, 33,/X(CFREE, 48,/' \
    "a call with another number"
differs raw_accounts $trace_event 's/"rounds"/"turns"/' \
    "an account with another name"
differs raw_accounts $raw_doc '/^| 49 |/d' "an account that is not described"
differs raw_extensions $raw_doc 's/^\(| 3 | release_to_system |\).*/\1 |/' \
    "an extension without its argument"
differs raw_notices $raw_layout \
    's/MTF_NOTICE_NO_SPOOL = 1,/&\n    MTF_NOTICE_PLANTED = 4,/' "a new notice"
differs raw_reasons $raw_doc 's/^| 4 | FORCED/| 5 | FORCED/' \
    "an end reason with another number"
differs raw_kinds $trace_event 's/RAW(GAP, "gap", 26,/RAW(GAP, "gap", 29,/' \
    "an event with another number"
differs proc_kinds $trace_event 's/"mark", 24, 23,/"mark", 24, 5,/' \
    "a record with another number"
differs proc_kinds $trace_event 's/X(REALLOC_OLD, 5)/X(REALLOC_OLD, 6)/' \
    "a record of the coding with another number"
differs proc_notes $trace_event 's/MTF_NOTE(1)/MTF_NOTE(2)/' \
    "a note with another number"
differs next_numbers $trace_event 's/RAW(WRONG, "wrong", 28, OWN)/RAW(WRONG, "wrong", 29, OWN)/' \
    "a kind that took the next number"
differs proc_accounts $proc_layout 's/X(SLOTS, 4,/X(SLOTS, 44,/' \
    "a field of the closing block with another number"
tap_end
