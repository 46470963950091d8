# SPDX-License-Identifier: BSD-3-Clause
# Pages in a headless browser. Sourced after harness.sh.

# The browser; empty: there is none, or LONG is not 1.
browser=
for browser_name in chromium chromium-browser google-chrome; do
    ! have $browser_name || browser=$browser_name
done
if [ "${LONG:-0}" != 1 ]; then
    browser=
    why_no_browser="LONG=1 runs it"
else
    why_no_browser="no chromium"
fi

# browse URL OPTION...: leaves the output of the browser in $out, its messages
# in $err. A URL without a scheme is a file of the work folder.
browse() {
    browse_url=$1
    shift
    case $browse_url in
    *:*) ;;
    *) browse_url=file://$work/$browse_url ;;
    esac
    timeout 60 "$browser" --headless --no-sandbox --disable-gpu \
        --user-data-dir="$work/profile" --enable-logging=stderr \
        --virtual-time-budget="${browse_ms:-3000}" "$@" "$browse_url" \
        >"$out" 2>"$err"
}

# narrow_page NAME: NAME.html on a screen of 380 pixels.
narrow_page() {
    "$python" "$test_lib/page.py" "$1.html" "$1.f.html"
    browse "$1.f.html" --dump-dom
    is "$1: nothing is wider than 380 pixels" \
        "$(grep -o 'data-wide="[^"]*"' "$out")" 'data-wide="0 "'
    result "$1: no message of the script" "$(grep -c 'INFO:CONSOLE' "$err")"
}

# draw_page NAME SCHEME: NAME.html, light (0) or dark (1), to NAME.SCHEME.png.
draw_page() {
    browse "$1.html" --window-size=1600,1200 \
        --blink-settings=preferredColorScheme="$2" \
        --screenshot="$work/$1.$2.png"
}

# draw_both NAME: NAME.html, light and dark.
draw_both() {
    narrow_page "$1"
    draw_page "$1" 0
    draw_page "$1" 1
    [ -s "$1.0.png" ] && [ -s "$1.1.png" ] && ! cmp -s "$1.0.png" "$1.1.png"
    result "$1: is drawn in the light and in the dark" $?
}

# drive_page SCRIPT NAME: to the file "found", what SCRIPT (of Python) has found
# when it used NAME.html.
drive_page() {
    "$python" "$1" --drive "$2.html" drive.html
    browse drive.html --dump-dom
    grep -o 'data-found="[^"]*"' "$out" | sed 's/&quot;/"/g; s/data-found="//
        s/"$//' >found
}

# browsed_text: the text of the page that `browse URL --dump-dom` left, a line
# for each element that has some.
browsed_text() {
    sed 's/<script[^>]*>.*<\/script>//g; s/<style[^>]*>.*<\/style>//g; s/<[^>]*>/\n/g' \
        "$out" | sed 's/^[[:space:]]*//; s/[[:space:]]*$//; /^$/d'
}
