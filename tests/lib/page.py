# SPDX-License-Identifier: BSD-3-Clause
"""Checks of HTML pages: class Page finds faults and collects the texts.
page.py PAGE OUT: writes a page that shows PAGE 380 pixels wide, and lists the
elements that are wider in its body's data-wide.
"""
import html
import html.parser
import sys

FRAME = """<body><iframe width=380 height=900 style="border:0" srcdoc="%s">
</iframe><script>
"use strict";
const frame = document.querySelector("iframe");
frame.addEventListener("load", () => {
  const page = frame.contentDocument, wide = [];
  if (page.documentElement.scrollWidth > 380) wide.push("page");
  for (const e of page.querySelectorAll("body *"))
    if (e.getBoundingClientRect().right > 381 && !e.closest(".scroll"))
      wide.push(e.tagName + " " + e.textContent.slice(0, 40));
  document.body.dataset.wide = wide.length + " " + wide.slice(0, 5).join("; ");
});
</script>"""

VOID = {"area", "base", "br", "col", "hr", "img", "input", "link", "meta",
        "source", "track", "wbr"}


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.stack, self.faults, self.rows, self.cell = [], [], [], None
        self.texts, self.data, self.script = {}, "", ""

    def handle_startendtag(self, tag, attributes):
        self.look(tag, attributes)

    def look(self, tag, attributes):
        for name, value in attributes:
            if name in ("src", "href", "action", "data", "xlink:href") or \
                    name.startswith("on") or "//" in (value or "") and \
                    name not in ("aria-label", "title"):
                self.faults.append(f"{tag} {name}={value}")
        if tag in ("link", "img", "iframe", "object", "embed", "base"):
            self.faults.append(tag)

    def handle_starttag(self, tag, attributes):
        self.look(tag, attributes)
        if tag not in VOID:
            self.stack.append((tag, dict(attributes)))
            self.texts.setdefault(tag, []).append("")
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th") and self.rows:
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if not self.stack or self.stack[-1][0] != tag:
            self.faults.append(f"</{tag}> within {self.stack[-1:]}")
        else:
            self.stack.pop()

    def handle_data(self, text):
        if not self.stack:
            return
        tag, attributes = self.stack[-1]
        if tag == "script":
            if attributes.get("type") == "application/json":
                self.data += text
            else:
                self.script += text
            return
        for open_tag, _ in self.stack:
            self.texts[open_tag][-1] += text
        if any(t in ("td", "th") for t, _ in self.stack):
            self.rows[-1][-1] += text


if __name__ == "__main__":
    inner = open(sys.argv[1], encoding="utf-8").read()
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(FRAME % html.escape(inner, quote=True))
