/* SPDX-License-Identifier: BSD-3-Clause
 * Script of malloc-trace memory's page: what a square of a map holds, at the
 * pointer, and its pages. All else can be read without it. */
"use strict";
(function () {
  var maps = JSON.parse(document.getElementById("data").textContent).maps;
  var SIDE = 16, PAGES = 512, PAGE = 4096, MOST_CELLS = 8;
  var svgs = "http://www.w3.org/2000/svg";
  var parts = ["alive", "free beside it", "empty", "never used"];

  function bytes(n) {
    var units = ["B", "KiB", "MiB", "GiB", "TiB"], i = 0;
    for (; n >= 1023.5 && i < 4; i++) n /= 1024;
    return (i === 0 || n >= 99.95 ? Math.round(n) : n.toPrecision(3)) + " " +
      units[i];
  }
  function hex(n) { return n.toString(16); }
  function make(tag, attributes, parent) {
    var e = document.createElementNS(svgs, tag);
    for (var name in attributes) e.setAttribute(name, attributes[name]);
    if (parent) parent.appendChild(e);
    return e;
  }
  function length_of(map) { return 2097152 * Math.pow(2, map.shift); }

  function tell(map, square) {
    var lines = [hex(square[0] * length_of(map)) + ", " +
      bytes(length_of(map))];
    var left = length_of(map);
    parts.forEach(function (name, k) {
      left -= square[k + 1];
      if (square[k + 1]) lines.push(name + ": " + bytes(square[k + 1]));
    });
    if (left > 0) lines.push("not resident: " + bytes(left));
    return lines.join("\n");
  }

  /* Letters of the pages of a cell: "12L3.a" becomes 12 L, 3 points, 1 a. */
  function letters(text) {
    var all = "";
    text.replace(/(\d*)([LEN.a-j])/g, function (whole, n, letter) {
      all += letter.repeat(n === "" ? 1 : +n);
      return "";
    });
    return all;
  }
  function page_text(letter) {
    if (letter === "L") return "all alive";
    if (letter === "E") return "empty";
    if (letter === "N") return "never used";
    if (letter === ".") return "not resident";
    var tenths = letter.charCodeAt(0) - 97;
    return tenths * 10 + " to " + (tenths + 1) * 10 + " % free";
  }
  function draw_cell(cell, text, to) {
    var all = letters(text), across = 64, down = PAGES / across;
    var title = document.createElement("p");
    title.className = "note";
    title.textContent = "Pages of 4 KiB from " + hex(cell * 2097152) +
      " on";
    var svg = make("svg", {
      viewBox: "0 0 " + across * SIDE + " " + down * SIDE, role: "img",
      "aria-label": title.textContent
    });
    for (var i = 0; i < all.length; i++) {
      var letter = all[i], is_partly = /[a-j]/.test(letter);
      var x = i % across * SIDE + 1, y = Math.floor(i / across) * SIDE + 1;
      var rect = make("rect", {
        x: x, y: y, width: SIDE - 2, height: SIDE - 2,
        "class": is_partly ? "pF" : letter === "." ? "pO" : "p" + letter
      }, svg);
      make("title", {}, rect).textContent =
        hex(cell * 2097152 + i * PAGE) + ": " + page_text(letter);
      if (!is_partly) continue;
      /* From the bottom, as in the map. */
      var above = (SIDE - 2) * (letter.charCodeAt(0) - 96.5) / 10;
      make("rect", {
        x: x, y: y + above, width: SIDE - 2, height: SIDE - 2 - above,
        "class": "pL inner"
      }, svg);
    }
    to.append(title, svg);
  }
  function zoom(map, square, to) {
    var first = square[0] * Math.pow(2, map.shift), drawn = 0;
    to.textContent = "";
    to.hidden = false;
    for (var k = 0; k < Math.pow(2, map.shift) && drawn < MOST_CELLS; k++)
      if (map.pages[first + k]) {
        draw_cell(first + k, map.pages[first + k], to);
        drawn++;
      }
    if (!drawn) {
      to.textContent = tell(map, square);
      to.className = "zoom note";
    } else {
      to.className = "zoom";
    }
  }

  document.querySelectorAll("svg.map").forEach(function (svg) {
    var map = maps[svg.dataset.map], figure = svg.closest("figure");
    var to = figure.querySelector(".zoom"), at = -1;
    var title = null, cursor = null;
    svg.tabIndex = 0;
    figure.querySelector(".script").hidden = false;
    function mark(i) {
      at = i;
      if (!cursor) cursor = make("rect", {
        "class": "cursor", width: SIDE - 1, height: SIDE - 1
      }, svg);
      if (!title) title = make("title", {}, cursor);
      cursor.setAttribute("x", i % map.columns * SIDE + .5);
      cursor.setAttribute("y", Math.floor(i / map.columns) * SIDE + .5);
      title.textContent = map.squares[i].length === 5 ?
        tell(map, map.squares[i]) : "a hole";
    }
    function find(e) {
      var box = svg.getBoundingClientRect();
      var scale = map.columns * SIDE / box.width;
      var x = Math.floor((e.clientX - box.left) * scale / SIDE);
      var y = Math.floor((e.clientY - box.top) * scale / SIDE);
      var i = y * map.columns + x;
      return x >= 0 && x < map.columns && map.squares[i] &&
        map.squares[i].length ? i : -1;
    }
    function open() {
      if (at >= 0 && map.squares[at].length === 5)
        zoom(map, map.squares[at], to);
    }
    svg.addEventListener("pointermove", function (e) {
      var i = find(e);
      if (i >= 0 && i !== at) mark(i);
    });
    svg.addEventListener("click", function (e) {
      var i = find(e);
      if (i >= 0) mark(i);
      open();
    });
    svg.addEventListener("keydown", function (e) {
      var step = {
        ArrowLeft: -1, ArrowRight: 1, ArrowUp: -map.columns,
        ArrowDown: map.columns
      }[e.key];
      if (e.key === "Enter") open();
      else if (step === undefined) return;
      else if (map.squares[Math.max(at, 0) + (at < 0 ? 0 : step)])
        mark(Math.max(at, 0) + (at < 0 ? 0 : step));
      e.preventDefault();
    });
  });
})();
