/* SPDX-License-Identifier: BSD-3-Clause
 * Script of malloc-trace report's page: table, flame graph and search. The table
 * can be read without it. */
"use strict";
(function () {
  var measures = [
    { key: "bytes", column: 1, bytes: true },
    { key: "peak", column: 5, bytes: true },
    { key: "live", column: 3, bytes: true },
    { key: "temporary", column: 7, bytes: false }
  ];
  /* Columns of the table: index of a row's figure, and its format. */
  var columns = [
    { of: 1, text: bytes }, { of: 2, text: count },
    { of: 3, text: bytes }, { of: 4, text: count },
    { of: 5, text: bytes }, { of: 9, text: time },
    { of: share, text: percent }, { of: 10, text: change }
  ];
  var page = 100;
  var data, flame, state = {
    measure: 0, column: 0, up: false, words: "", path: [], shown: page
  };

  function $(id) { return document.getElementById(id); }
  function make(tag, name, text) {
    var e = document.createElement(tag);
    if (name) e.className = name;
    if (text !== undefined) e.textContent = text;
    return e;
  }

  /* Isolates a name, which must not reverse the text around it. */
  function plain(text) {
    return text.replace(/[\u202a-\u202e\u2066-\u2069]/g, "\ufffd");
  }

  /* --- Figures, rounded as in text (common/text.h) --- */
  function three(n, unit, name) {
    var hundredths = Math.round(100 * n / unit);
    var tenths = Math.round(10 * n / unit);
    return (hundredths < 1000 ? (hundredths / 100).toFixed(2) :
      tenths < 1000 ? (tenths / 10).toFixed(1) : Math.round(n / unit)) +
      " " + name;
  }
  function bytes(n) {
    var units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], i = 0;
    var unit = 1024, sign = n < 0 ? "-" : "";
    n = Math.round(Math.abs(n));
    if (n < 1024) return sign + n + " B";
    for (; i < 5 && Math.round(n / unit) >= 1024; i++) unit *= 1024;
    return sign + three(n, unit, units[i]);
  }
  function count(n) {
    return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
  }
  function two(n) { return (n < 10 ? "0" : "") + n; }
  function time(ns) {
    if (ns === null) return "-";
    var seconds = Math.round(ns / 1e9), minutes = Math.round(ns / 6e10);
    if (ns < 1e3) return ns + " ns";
    if (Math.round(ns / 1e3) < 1000) return three(ns, 1e3, "us");
    if (Math.round(ns / 1e6) < 1000) return three(ns, 1e6, "ms");
    if (Math.round(ns / 1e8) < 600) return three(ns, 1e9, "s");
    if (seconds < 3600)
      return Math.floor(seconds / 60) + " min " + two(seconds % 60) + " s";
    return Math.floor(minutes / 60) + " h " + two(minutes % 60) + " min";
  }
  function percent(part) {
    return part === null ? "-" : Math.round(part) + " %";
  }
  function change(n) {
    return n === null ? "-" : n === 0 ? "0 B" : (n > 0 ? "+" : "") + bytes(n);
  }
  function share(row) { return row[2] ? 100 * row[7] / row[2] : null; }
  function figure(row, column) {
    return typeof column.of === "function" ? column.of(row) :
      row[column.of];
  }
  function said(n) {
    return measures[state.measure].bytes ? bytes(n) :
      count(n) + (n === 1 ? " block" : " blocks");
  }

  /* --- The table --- */
  function matches(text) {
    return text.toLowerCase().indexOf(state.words) >= 0;
  }
  function cells(tr, row, most, wide) {
    columns.forEach(function (column, i) {
      if (i === 7 && data.growth_ns === undefined) return;
      var n = figure(row, column);
      var td = make("td", wide[i] ? "wide" : "", column.text(n));
      if (i === 7 && n) td.className = n > 0 ? "grows" : "shrinks";
      tr.appendChild(td);
    });
    var td = make("td", "share wide"), gauge = make("span", "gauge");
    var part = figure(row, columns[state.column]);
    if (most > 0 && part > 0) {
      gauge.style.width = 100 * part / most + "%";
      td.appendChild(gauge);
    }
    tr.appendChild(td);
    tr.appendChild(make("td", "place", row[0]));
  }
  function draw_table() {
    var body = $("rows"), column = columns[state.column];
    var heads = document.querySelectorAll(".sites thead th");
    var wide = [].map.call(heads, function (th) {
      return th.classList.contains("wide");
    });
    var rows = data.rows.filter(function (row) {
      return matches(row[0]);
    });
    rows.sort(function (a, b) {
      var d = (figure(b, column) || 0) - (figure(a, column) || 0);
      return (state.up ? -d : d) || b[1] - a[1];
    });
    var most = rows.reduce(function (m, row) {
      return Math.max(m, figure(row, column) || 0);
    }, 0);
    body.textContent = "";
    var all = make("tr", "all");
    cells(all, data.total, 0, wide);
    body.appendChild(all);
    rows.slice(0, state.shown).forEach(function (row) {
      var tr = make("tr");
      cells(tr, row, most, wide);
      body.appendChild(tr);
    });
    if (data.rest[0] && !state.words) {
      var tr = make("tr", "rest");
      cells(tr, data.rest, most, wide);
      body.appendChild(tr);
    }
    [].forEach.call(heads, function (th) {
      if (th.dataset.column === String(state.column))
        th.setAttribute("aria-sort", state.up ? "ascending" : "descending");
      else
        th.removeAttribute("aria-sort");
    });
    var left = rows.length - state.shown;
    $("more").hidden = left <= 0;
    $("how-many").textContent = count(rows.length) +
      (state.words ? " of " + count(data.rows.length) : "") + " rows" +
      (left > 0 ? ", " + count(state.shown) + " shown" : "");
  }

  /* --- The flame graph --- */
  function take_flame() {
    var f = data.flame, nodes = [];
    for (var i = 0; i < f.parent.length; i++) {
      nodes.push({
        text: f.labels[f.label[i]], value: measures.map(function (m) {
          return f[m.key][i];
        }), up: nodes[f.parent[i]], under: [], at: i
      });
      if (i !== 0) nodes[i].up.under.push(nodes[i]);
    }
    flame = nodes;
  }
  function hue(text) {
    var h = 0;
    for (var i = 0; i < text.length; i++)
      h = (h * 31 + text.charCodeAt(i)) % 360;
    return h;
  }
  function path_of(node) {
    var path = [];
    for (; node && node.up; node = node.up) path.unshift(node.text);
    return path;
  }
  function node_at(path) {
    var node = flame[0];
    for (var i = 0; i < path.length; i++) {
      var next = node.under.filter(function (n) {
        return n.text === path[i];
      })[0];
      if (!next) break;
      node = next;
    }
    return node;
  }
  function box(parent, node, left, width, depth, name) {
    var e = make("div", name, node.up ? node.text : "all");
    e.style.left = left + "%";
    e.style.width = width + "%";
    e.style.top = 19 * depth + "px";
    e.style.setProperty("--h", hue(node.text));
    e.tabIndex = -1;
    e.setAttribute("role", "treeitem");
    e.setAttribute("aria-level", depth + 1);
    e.setAttribute("aria-label", say(node));
    if (!node.up) e.classList.add("root");
    e.node = node;
    node.element = e;
    if (state.words && node.up && matches(node.text))
      e.classList.add("found");
    parent.appendChild(e);
  }
  function say(node) {
    var m = state.measure, all = flame[0].value[m], own = node.value[m];
    node.under.forEach(function (n) { own -= n.value[m]; });
    return (node.up ? node.text : "all") + ": " + said(node.value[m]) +
      (all ? ", " + (100 * node.value[m] / all).toFixed(1) + " %" : "") +
      (node.under.length ? ", " + said(own) + " by itself" : "");
  }
  function draw_under(parent, node, left, width, depth) {
    var m = state.measure, all = node.value[m], least = 0.12;
    var deepest = depth;
    if (!all || depth > 500) return deepest;
    node.under.slice().sort(function (a, b) {
      return b.value[m] - a.value[m] || a.at - b.at;
    }).forEach(function (n) {
      var w = width * n.value[m] / all;
      if (w < least) return;
      box(parent, n, left, w, depth, "");
      deepest = Math.max(deepest,
        draw_under(parent, n, left, w, depth + 1));
      left += w;
    });
    return deepest;
  }
  function draw_flame() {
    var parent = $("flame"), active = document.activeElement;
    if (!parent) return;
    var focus = active && active.node && parent.contains(active) ?
      path_of(active.node) : null;
    flame.forEach(function (n) { n.element = null; });
    var fresh = document.createDocumentFragment();
    var zoom = node_at(state.path), above = [];
    for (var n = zoom.up; n; n = n.up) above.unshift(n);
    above.forEach(function (node, depth) {
      box(fresh, node, 0, 100, depth, "over");
    });
    box(fresh, zoom, 0, 100, above.length, "");
    var deepest = draw_under(fresh, zoom, 0, 100, above.length + 1);
    parent.textContent = "";
    parent.appendChild(fresh);
    parent.style.height = 19 * deepest + "px";
    parent.classList.toggle("finds", !!state.words);
    zoom.element.tabIndex = 0;
    if (focus && node_at(focus).element) node_at(focus).element.focus();
    $("reset").disabled = !zoom.up;
    $("says-frame").textContent = flame[0].value[state.measure] ?
      say(zoom) : "nothing of this kind";
    find();
  }
  /* Finds matching frames, but not below another match, so that each stack
     counts once. */
  function find() {
    var m = state.measure, sum = 0;
    (function look(node) {
      if (node.up && matches(node.text)) sum += node.value[m];
      else node.under.forEach(look);
    })(flame[0]);
    var all = flame[0].value[m];
    $("found").textContent = !state.words ? "" : all ?
      "in " + said(sum) + ", " + (100 * sum / all).toFixed(1) + " %" :
      "nothing of this kind";
  }
  function zoom_to(node, focus) {
    state.path = path_of(node);
    draw_flame();
    var now = node_at(state.path);
    if (focus && now.element) now.element.focus();
  }
  function beside(e, step) {
    var same = [].filter.call($("flame").children, function (o) {
      return o.style.top === e.style.top;
    });
    return same[same.indexOf(e) + step];
  }
  function flame_keys(event) {
    var e = event.target, node = e.node, to = null;
    if (!node) return;
    if (event.key === "ArrowDown")
      to = node.under.filter(function (n) { return n.element; })
        .sort(function (a, b) {
          return b.value[state.measure] - a.value[state.measure];
        }).map(function (n) { return n.element; })[0];
    else if (event.key === "ArrowUp") to = node.up && node.up.element;
    else if (event.key === "ArrowLeft") to = beside(e, -1);
    else if (event.key === "ArrowRight") to = beside(e, 1);
    else if (event.key === "Enter" || event.key === " ")
      zoom_to(node, true);
    else if (event.key === "Escape" || event.key === "Home")
      zoom_to(flame[0], true);
    else return;
    event.preventDefault();
    if (to) to.focus();
  }

  /* --- The page --- */
  function draw() {
    draw_table();
    draw_flame();
    [].forEach.call($("measures").children, function (b, i) {
      b.setAttribute("aria-pressed", String(i === state.measure));
    });
  }
  function take() {
    data = JSON.parse(plain($("data").textContent));
    if (data.flame) {
      take_flame();
      $("hidden").textContent = data.flame.hidden ?
        count(data.flame.hidden) + " narrower frames are left out." : "";
    }
    if ($("growth") && data.growth_ns !== undefined) {
      var head = $("growth").querySelector("button") || $("growth");
      head.textContent = "growth in " + time(data.growth_ns);
    }
    [].forEach.call(document.querySelectorAll(".sites thead th"),
      function (th) {
        if (th.dataset.column === undefined || th.querySelector("button"))
          return;
        var b = make("button", "", th.textContent);
        b.addEventListener("click", function () {
          var c = Number(th.dataset.column);
          state.up = c === state.column && !state.up;
          state.column = c;
          draw_table();
        });
        th.textContent = "";
        th.appendChild(b);
      });
    draw();
  }
  function listen() {
    [].forEach.call($("measures").children, function (b, i) {
      b.addEventListener("click", function () {
        state.measure = i;
        columns.forEach(function (c, k) {
          if (c.of === measures[i].column) state.column = k;
        });
        if (i === 3) state.column = 6;
        state.up = false;
        draw();
      });
    });
    $("words").addEventListener("input", function () {
      state.words = this.value.toLowerCase();
      state.shown = page;
      draw();
    });
    $("reset").addEventListener("click", function () {
      zoom_to(flame[0], false);
    });
    $("more").addEventListener("click", function () {
      state.shown += 5 * page;
      draw_table();
    });
    var f = $("flame");
    if (!f) return;
    f.addEventListener("click", function (event) {
      if (event.target.node) zoom_to(event.target.node, true);
    });
    f.addEventListener("keydown", flame_keys);
    ["pointerover", "focusin"].forEach(function (what) {
      f.addEventListener(what, function (event) {
        if (event.target.node)
          $("says-frame").textContent = say(event.target.node);
      });
    });
    document.addEventListener("keydown", function (event) {
      if (event.key === "/" && event.target !== $("words")) {
        event.preventDefault();
        $("words").focus();
      }
    });
  }
  $("controls").hidden = false;
  listen();
  take();
  document.addEventListener("renewed", take);
})();
