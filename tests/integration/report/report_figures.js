// SPDX-License-Identifier: BSD-3-Clause
// report_figures.js PAGE: each row of the table in PAGE has the cells that its
// script would make of its data.
"use strict";
const text = require("fs").readFileSync(process.argv[2], "utf8");
const part = (from, to) => text.split(from)[1].split(to)[0];
const data = JSON.parse(part('id="data">', "</script>"));
const figures = part("/* --- Figures", "/* --- The table").replace(/^.*/, "");
const cells = new Function(figures + `
  return row => [bytes(row[1]), count(row[2]), bytes(row[3]), count(row[4]),
    bytes(row[5]), time(row[9]), percent(share(row))];`)();
const rows = new Map(data.rows.concat([data.total]).map(row => [row[0], row]));
let seen = 0, wrong = 0;
for (const tr of part('id="rows">', "</tbody>").split("</tr>").slice(0, -1)) {
  const cell = [...tr.matchAll(/<td[^>]*>([^<]*)<\/td>/g)].map(m => m[1]);
  const want = cells(rows.get(cell[cell.length - 1]));
  want.forEach((s, i) => {
    seen++;
    if (s === cell[i]) return;
    wrong++;
    console.log(`${cell[cell.length - 1]}: ${cell[i]} is ${s} in the script`);
  });
}
console.log(`${seen} figures, ${wrong} wrong`);
process.exitCode = seen > 300 && wrong === 0 ? 0 : 1;
