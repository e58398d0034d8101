// Rows of SQLite by what each runtime has built in, bun:sqlite or node:sqlite, or by DRIVER=turso, which is a
// database of its own for the same language and files; by its synchronous interface, as the others are.
import { createRequire } from 'node:module';
import process from 'node:process';

const drivers = {
    turso: async () => new (createRequire(`${process.env.MODULES}/`)('@tursodatabase/database/compat').Database)(':memory:'),
    bun: async () => new (await import('bun:sqlite')).Database(':memory:'),
    node: async () => new (await import('node:sqlite')).DatabaseSync(':memory:'),
};
const open = drivers[process.env.DRIVER ?? (globalThis.Bun ? 'bun' : 'node')];
let db;

async function row(metric, run) {
    const before = performance.now();
    const checksum = String(await run());

    console.log(JSON.stringify({ metric, value: performance.now() - before, unit: 'ms', checksum }));
}

await row('open', async () => {
    db = await open();
    db.exec('CREATE TABLE t (id INTEGER PRIMARY KEY, a INTEGER, b REAL, s TEXT)');
    return 'open';
});
await row('insert', () => {
    const insert = db.prepare('INSERT INTO t VALUES (?, ?, ?, ?)');

    db.exec('BEGIN');
    for (let i = 0; i < 50000; i++) insert.run(i, (i * 7) % 1000, i / 3, `row ${i}`);
    db.exec('COMMIT');
    return 50000;
});
await row('scan_num', () => db.prepare('SELECT a, id FROM t').all().reduce((sum, r) => (sum + r.a + r.id) % 1e9, 0));
await row('scan_text', () => db.prepare('SELECT s FROM t').all().reduce((sum, r) => sum + r.s.length, 0));
await row('point', () => {
    const get = db.prepare('SELECT s FROM t WHERE id = ?');
    let sum = 0;

    for (let i = 0; i < 5000; i++) sum += get.get((i * 9) % 50000).s.length;
    return sum;
});
await row('stream', () => {
    let count = 0;

    for (let k = 0; k < 4; k++) for (const r of db.prepare('SELECT id FROM t').iterate()) count += r.id >= 0 ? 1 : 0;
    return count;
});
console.log(JSON.stringify({ metric: 'insert_many', not_applicable: 'only esrun has it' }));
process.exit(0);
