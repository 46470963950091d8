// SPDX-License-Identifier: BSD-3-Clause
// malloc-trace compare's CSV as DuckDB reads it.
//
//     node compare_duckdb.js CSV JSON QUERY CONTESTANT TRACE
//
// Prints TAP: the types of the columns, and that QUERY finds the values of JSON,
// which is the comparison of CONTESTANT, one of whose runs failed, with the
// baseline on TRACE.
'use strict';
const fs = require('fs');
const { DuckDBInstance } = require('@duckdb/node-api');

let checks = 0;
function is(what, got, want) {
    const good = JSON.stringify(got) === JSON.stringify(want);
    if (!good)
        console.log(`# got ${JSON.stringify(got)}\n# want ${JSON.stringify(want)}`);
    console.log(`${good ? '' : 'not '}ok ${++checks} - ${what}`);
}

function near(what, got, want) {
    const good = typeof got === 'number' && typeof want === 'number' &&
        Math.abs(got - want) <= 1e-9 * Math.abs(want);
    is(good ? what : `${what}: ${got}, not ${want}`, good, true);
}

async function main() {
    const [csv, json, queryFile, contestant, trace] = process.argv.slice(2);
    const comparison = JSON.parse(fs.readFileSync(json, 'utf8'));
    const query = fs.readFileSync(queryFile, 'utf8');
    const instance = await DuckDBInstance.create(':memory:');
    const db = await instance.connect();
    const rows = async (sql) =>
        (await db.runAndReadAll(sql)).getRowObjectsJson().map((row) => {
            // Whole numbers of 64 bits come as text.
            for (const key of ['rows', 'runs', 'round'])
                if (key in row) row[key] = Number(row[key]);
            return row;
        });

    // --- Types, as DuckDB finds them
    const found = await rows(`DESCRIBE SELECT * FROM '${csv}'`);
    const types = Object.fromEntries(
        found.map((c) => [c.column_name, c.column_type]));
    is('names, round and ok', [types.contestant, types.trace, types.round,
        types.ok], ['VARCHAR', 'VARCHAR', 'BIGINT', 'BOOLEAN']);
    const metrics = found.map((c) => c.column_name).slice(4);
    const verdicts = comparison.verdicts.filter(
        (v) => v.contestant === contestant);
    is('a column for each metric', metrics,
        verdicts.map((v) => v.metric).concat('replayer_ns_per_op'));
    is('metrics are numbers', metrics.filter((m) => types[m] !== 'DOUBLE' &&
        types[m] !== 'BIGINT'), []);
    is('times have fractions', metrics.filter((m) => /_ns/.test(m) &&
        types[m] !== 'DOUBLE'), []);
    const doubles = metrics.map((m) => `'${m}': 'DOUBLE'`).join(', ');
    is('each can be told to be a DOUBLE', (await rows(`DESCRIBE SELECT * FROM
        read_csv('${csv}', types = {${doubles}})`)).slice(4).every(
        (c) => c.column_type === 'DOUBLE'), true);

    // --- Rows
    is('names are whole', await rows(`SELECT DISTINCT contestant, trace
        FROM '${csv}' ORDER BY contestant = '${comparison.baseline}'`),
        [{ contestant, trace }, { contestant: comparison.baseline, trace }]);
    is('a row for each run', await rows(`SELECT count(*) AS rows,
        count(*) FILTER (WHERE ok) AS runs FROM '${csv}'`),
        [{ rows: 2 * comparison.rounds, runs: 2 * comparison.rounds - 1 }]);
    is('a failed run has no figures', await rows(`SELECT contestant, round,
        peak_rss_bytes, cpu_ns_per_op FROM '${csv}' WHERE NOT ok`),
        [{ contestant, round: 1, peak_rss_bytes: null, cpu_ns_per_op: null }]);

    // --- The numbers of the JSON
    is('the statement is one', /^SELECT/.test(query), true);
    const answer = await rows(query);
    is('it has a row for each contestant', answer.length, 2);
    for (const metric of ['peak_rss_bytes', 'cpu_ns_per_op']) {
        const verdict = verdicts.find((v) => v.metric === metric);
        for (const row of answer)
            near(`${metric} of ${row.contestant}`, row[metric],
                row.contestant === contestant ? verdict.value
                    : verdict.baseline_value);
    }
    console.log('# all done');
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
