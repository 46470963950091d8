/* SPDX-License-Identifier: BSD-3-Clause
 * Script of every page (page.h describes it). */
"use strict";
(function () {
  var tip = document.createElement("div"), held = null, lit = null;
  tip.id = "tip";
  tip.hidden = true;
  document.body.appendChild(tip);
  var style = document.createElement("style"), light = document.createElement("style");
  document.head.append(style, light);

  function show(text, e) {
    tip.textContent = text;
    tip.hidden = false;
    var w = tip.offsetWidth, h = tip.offsetHeight, x = e.clientX + 14;
    if (x + w > innerWidth - 8) x = e.clientX - w - 14;
    var y = Math.min(e.clientY + 14, innerHeight - h - 8);
    tip.style.transform = "translate(" + Math.max(4, x) + "px," + y + "px)";
  }
  function thing(at) {
    for (; at && at.classList; at = at.parentNode)
      for (var i = 0; i < at.classList.length; i++)
        if (/^w\d+$/.test(at.classList[i])) return at.classList[i];
    return null;
  }
  function light_up(name) {
    if (name === lit) return;
    lit = name;
    light.textContent = name === null ? "" :
      "svg .w:not(." + name + "), li.w:not(." + name + ") { opacity: .2 }" +
      ".key li.w { opacity: 1 }";
  }
  /* Keeps the browser from showing its own tip over this one. */
  function let_go() {
    if (held) held.parent.appendChild(held.title);
    held = null;
    tip.hidden = true;
  }
  function hold(e) {
    var at = e.target.closest ? e.target.closest("circle, rect, path, line, text") : null;
    if (held && at === held.parent) return show(held.title.textContent, e);
    let_go();
    var title = at && at.querySelector(":scope > title");
    if (!title) return;
    held = { parent: at, title: title };
    title.remove();
    show(title.textContent, e);
  }
  document.addEventListener("pointermove", function (e) {
    light_up(thing(e.target));
    if (!e.target.closest || !e.target.closest("[data-cross]")) hold(e);
  });
  document.documentElement.addEventListener("pointerleave", function () {
    light_up(null);
    let_go();
  });

  /* Names of series that the reader has hidden: they stay hidden when the page
     renews itself. */
  var hidden = {};
  function hide() {
    var rules = [];
    document.querySelectorAll(".key li.w").forEach(function (li) {
      var name = thing(li), off = !!hidden[li.textContent];
      li.setAttribute("aria-pressed", String(off));
      if (off)
        rules.push(".plot ." + name + ", .rows li." + name +
          " { display: none }");
    });
    style.textContent = rules.join("\n");
  }
  function keys() {
    document.querySelectorAll(".key li.w").forEach(function (li) {
      function toggle() {
        hidden[li.textContent] = !hidden[li.textContent];
        hide();
      }
      li.tabIndex = 0;
      li.setAttribute("role", "button");
      li.title = "hide or show in the drawings";
      li.addEventListener("click", toggle);
      li.addEventListener("keydown", function (e) {
        if (e.key === "Enter" || e.key === " ") {
          e.preventDefault();
          toggle();
        }
      });
    });
    hide();
  }
  keys();
  document.addEventListener("renewed", keys);

  /* Tip of a plot whose lines share their x values: the value of each line at
     the pointer. */
  var source = null, data = null, cross = null;
  function figures() {
    var now = document.getElementById("data");
    if (now !== source) data = JSON.parse(now.textContent);
    source = now;
    return data;
  }
  function leave() {
    if (!cross) return;
    cross.remove();
    cross = null;
    tip.hidden = true;
  }
  document.addEventListener("pointermove", function (e) {
    var plot = e.target.closest && e.target.closest("[data-cross]");
    if (!plot) return leave();
    var svg = plot.querySelector("svg"), of = figures()[plot.dataset.cross];
    var box = svg.getBoundingClientRect();
    var part = (e.clientX - box.left) / box.width;
    if (part < 0 || part > 1) return leave();
    if (cross && cross.parentNode !== svg) leave();
    let_go();
    var i = Math.round(part * (of.at.length - 1));
    if (!cross) {
      cross = document.createElementNS(svg.namespaceURI, "line");
      cross.setAttribute("class", "cross");
      cross.setAttribute("y2", "100%");
      svg.appendChild(cross);
    }
    var x = 100 * i / (of.at.length - 1) + "%";
    cross.setAttribute("x1", x);
    cross.setAttribute("x2", x);
    show([of.at[i]].concat(of.series.map(function (s) {
      return s.name + ": " + (s.text[i] === null ? "-" : s.text[i]);
    })).join("\n"), e);
  });

  document.querySelectorAll("pre[data-copy]").forEach(function (pre) {
    if (!navigator.clipboard) return;
    var b = document.createElement("button");
    b.textContent = "Copy";
    b.addEventListener("click", function () {
      navigator.clipboard.writeText(pre.textContent).then(function () {
        b.textContent = "Copied";
      });
    });
    pre.after(b);
  });
  addEventListener("beforeprint", function () {
    document.querySelectorAll("details").forEach(function (d) { d.open = true; });
  });
})();
