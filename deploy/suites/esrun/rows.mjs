// Rows that a runtime measures in its own process: `rows.mjs GROUP`. Each is run until it is warm, then
// as often as TIMES says; the shortest counts. What it has computed is its checksum: a runtime that
// computes something else is refused.
import { AsyncLocalStorage } from 'node:async_hooks';
import { spawnSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { channel } from 'node:diagnostics_channel';
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import process from 'node:process';
import { pathToFileURL } from 'node:url';

const load = createRequire(`${process.env.MODULES}/`);
const times = Number(process.env.TIMES ?? 3);

async function row(metric, run, { unit = 'ms', per = 1 } = {}) {
    let best = Infinity, result;

    for (let i = 0; i <= times; i++) {
        const before = performance.now();

        result = await run();
        if (i > 0) best = Math.min(best, performance.now() - before); // the first one is warm-up
    }
    const value = unit === 'req/s' ? (per * 1000) / best : unit === 'ns/op' ? (best * 1e6) / per : best;

    console.log(JSON.stringify({
        metric, value, unit, better: unit === 'req/s' ? 'higher' : 'lower', checksum: String(result),
    }));
}

function lacks(metric, why) {
    console.log(JSON.stringify({ metric, not_applicable: why }));
}

// A row that not every runtime can do whose interface says that it can.
async function attempt(metric, run, how) {
    try {
        await row(metric, run, how);
    } catch (error) {
        lacks(metric, `cannot: ${error.message}`.replace(/[^ -~]/g, ' ').slice(0, 150));
    }
}

async function optional(name) {
    try {
        return await import(pathToFileURL(load.resolve(name)).href);
    } catch {
        return undefined;
    }
}

const records = Array.from({ length: 2000 }, (_, i) => ({ id: i, name: `name ${i}`, tags: ['a', 'b'], ratio: i / 7 }));

// WebAssembly, byte by byte: a number, a section, a list, a name.
const leb = (n) => (n < 128 ? [n] : [(n & 127) | 128, ...leb(n >> 7)]);
const section = (id, content) => [id, ...leb(content.length), ...content];
const list = (...items) => [...leb(items.length), ...items.flat()];
const word = (text) => [...leb(text.length), ...new TextEncoder().encode(text)];
const magic = [0, 97, 115, 109, 1, 0, 0, 0];

// A module of 2000 functions, 250 KB, behind eight bytes of salt, at 13, so that no cache has it.
function large() {
    const body = [0, 0x20, 0, ...Array.from({ length: 40 }, (_, i) => [0x41, i, 0x6a]).flat(), 0x0b];
    const functions = Array.from({ length: 2000 }, () => [...leb(body.length), ...body]);

    return Uint8Array.from([
        ...magic, ...section(0, [...word('ls'), ...Array(8).fill(0)]), ...section(1, list([0x60, 1, 0x7f, 1, 0x7f])),
        ...section(3, list(...functions.map(() => [0]))), ...section(10, list(...functions)),
    ]);
}

// What asks WASI 20,000 times for 16 random bytes, and for the time, when it is started.
function asking() {
    const body = [
        1, 1, 0x7f, 0x41, 0xa0, 0x9c, 1, 0x21, 0, 0x03, 0x40, // one local, counted down from 20,000 in a loop
        0x41, 0, 0x41, 16, 0x10, 0, 0x1a, // random_get(0, 16)
        0x41, 1, 0x42, 1, 0x41, 16, 0x10, 1, 0x1a, // clock_time_get(monotonic, 1, 16)
        0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b, 0x0b,
    ];
    const from = word('wasi_snapshot_preview1');

    return Uint8Array.from([
        ...magic,
        ...section(1, list([0x60, 2, 0x7f, 0x7f, 1, 0x7f], [0x60, 3, 0x7f, 0x7e, 0x7f, 1, 0x7f], [0x60, 0, 0])),
        ...section(2, list([...from, ...word('random_get'), 0, 0], [...from, ...word('clock_time_get'), 0, 1])),
        ...section(3, list([2])), ...section(5, list([0, 1])),
        ...section(7, list([...word('memory'), 2, 0], [...word('_start'), 0, 2])),
        ...section(10, list([...leb(body.length), ...body])),
    ]);
}

// (module (func (export "add") (param i32 i32) (result i32) local.get 0 local.get 1 i32.add))
const add = Uint8Array.from([
    0, 97, 115, 109, 1, 0, 0, 0, 1, 7, 1, 96, 2, 127, 127, 1, 127, 3, 2, 1, 0, 7, 7, 1, 3, 97, 100, 100, 0, 0, 10, 9,
    1, 7, 0, 32, 0, 32, 1, 106, 11,
]);

const loop = (op, count = 1e6) => () => {
    for (let i = 0; i < count; i++) op(i);
    return count;
};

const groups = {
    async engine() {
        const fib = (n) => (n < 2 ? n : fib(n - 1) + fib(n - 2));

        await row('fib_30', () => fib(30));
        await row('json', () => {
            let bytes = 0;

            for (let i = 0; i < 50; i++) bytes += JSON.stringify(JSON.parse(JSON.stringify(records))).length;
            return bytes;
        });
        await row('sort', () => {
            const list = Array.from({ length: 300000 }, (_, i) => (i * 7919) % 300007);

            return list.sort((a, b) => a - b)[1000];
        });
        await row('regex', () => records.map((r) => r.name).join(' ').match(/\b\d+\b/g).length);
    },
    async web() {
        await row('url', () => {
            let bytes = 0;

            for (let i = 0; i < 50000; i++) bytes += new URL(`http://x.test/a/${i}?q=${i}`).searchParams.get('q').length;
            return bytes;
        });
        await row('text_encoding', () => {
            const text = 'äöü'.repeat(1000), encoder = new TextEncoder(), decoder = new TextDecoder();
            let length = 0;

            for (let i = 0; i < 2000; i++) length += decoder.decode(encoder.encode(text)).length;
            return length;
        });
        await row('structured_clone', () => structuredClone(Array.from({ length: 20 }, () => records)).length);
    },
    async crypto() {
        const data = new Uint8Array(4096).fill(7);

        await row('random_uuid', () => {
            for (let i = 0; i < 100000; i++) randomUUID();
            return 100000;
        });
        await row('subtle_sha256', async () => {
            let first = 0;

            for (let i = 0; i < 5000; i++) first = new Uint8Array(await crypto.subtle.digest('SHA-256', data))[0];
            return first;
        });
    },
    async hashing() {
        const data = new Uint8Array(4096).fill(7);

        await row('sha256', () => {
            let digest;

            for (let i = 0; i < 20000; i++) digest = createHash('sha256').update(data).digest();
            return digest[0];
        });
        await row('hash_hex', () => {
            let hex = '';

            for (let i = 0; i < 20000; i++) hex = createHash('sha256').update(data).digest('hex');
            return hex.slice(0, 16);
        });
        if (globalThis.Bun) await row('hash_fast', () => {
            let sum = 0n;

            for (let i = 0; i < 20000; i++) sum += Bun.hash(data);
            return 'fast';
        });
        else lacks('hash_fast', 'has no hash that is not cryptographic');
    },
    async filesystem() {
        const folder = mkdtempSync(`${tmpdir()}/rows-`);

        await row('write_read_stat', () => {
            let bytes = 0;

            for (let i = 0; i < 2000; i++) {
                writeFileSync(`${folder}/${i}`, 'x'.repeat(1024));
                bytes += readFileSync(`${folder}/${i}`).length + statSync(`${folder}/${i}`).size;
            }
            return bytes;
        });
        rmSync(folder, { recursive: true });
    },
    async system() {
        await row('spawn_echo', () => {
            let bytes = 0;

            for (let i = 0; i < 50; i++) bytes += spawnSync('/bin/echo', ['hello']).stdout.length;
            return bytes;
        });
    },
    async parsers() {
        const yaml = load('js-yaml'), toml = load('@iarna/toml'), { XMLParser } = load('fast-xml-parser');
        const { pack, unpack } = load('msgpackr'), { parse } = load('csv-parse/sync');
        const asYaml = yaml.dump(records), asToml = toml.stringify({ records });
        const xml = `<r>${records.map((r) => `<i id="${r.id}">${r.name}</i>`).join('')}</r>`;
        const csv = records.map((r) => `${r.id},${r.name},${r.ratio}`).join('\n');

        await row('yaml', () => yaml.load(asYaml).length);
        await row('toml', () => toml.parse(asToml).records.length);
        await row('xml', () => new XMLParser().parse(xml).r.i.length);
        await row('msgpack', () => unpack(pack(records)).length);
        const cbor = load('cbor-x');

        await row('cbor', () => cbor.decode(cbor.encode(records)).length);
        await row('csv', () => parse(csv).length);
        // Deno's own libraries are on JSR, not on npm: they have rows where somebody has put them there.
        const stdCbor = await optional('@std/cbor'), stdCsv = await optional('@std/csv');

        if (stdCbor) await row('std_cbor', () => stdCbor.decodeCbor(stdCbor.encodeCbor(records)).length);
        else lacks('std_cbor', '@std/cbor is not among the modules: it is on JSR, not on npm');
        if (stdCsv) await row('std_csv', () => stdCsv.parse(csv).length);
        else lacks('std_csv', '@std/csv is not among the modules: it is on JSR, not on npm');
        const { create, fromBinary, toBinary } = load('@bufbuild/protobuf');
        const { ListValueSchema } = load('@bufbuild/protobuf/wkt');
        const list = create(ListValueSchema, {
            values: records.map((r) => ({ kind: { case: 'stringValue', value: r.name } })),
        });

        await row('protobuf', () => fromBinary(ListValueSchema, toBinary(ListValueSchema, list)).values.length);
    },
    async wasm() {
        const bytes = large();
        let salt = 0;

        await row('wasm_compile', async () => {
            for (let i = 0; i < 10; i++) {
                new DataView(bytes.buffer).setUint32(13, salt++);
                await WebAssembly.compile(bytes);
            }
            return `10 of ${bytes.length}`;
        });
        const { instance } = await WebAssembly.instantiate(add);

        await row('wasm_calls_20M', () => {
            let sum = 0;

            for (let i = 0; i < 2e7; i++) sum = instance.exports.add(sum, 1);
            return sum;
        });
        const memory = new Uint8Array(new WebAssembly.Memory({ initial: 1 }).buffer);

        await row('wasm_memory', () => {
            for (let k = 0; k < 200; k++) for (let i = 0; i < memory.length; i++) memory[i] = i + k;
            return memory[100];
        });
    },
    async wasi() {
        const { WASI } = await import('node:wasi').catch(() => ({}));

        if (WASI === undefined) {
            for (const metric of ['wasi_bootstrap', 'wasi_random_clock']) lacks(metric, 'has no node:wasi');
            return;
        }
        const compiled = await WebAssembly.compile(asking());

        await attempt('wasi_bootstrap', async () => {
            for (let i = 0; i < 2000; i++) {
                const { wasiImport } = new WASI({ version: 'preview1', args: [], env: {} });

                await WebAssembly.instantiate(compiled, { wasi_snapshot_preview1: wasiImport });
            }
            return 2000;
        });
        await attempt('wasi_random_clock', async () => {
            const wasi = new WASI({ version: 'preview1', args: [], env: {} });
            const instance = await WebAssembly.instantiate(compiled, { wasi_snapshot_preview1: wasi.wasiImport });

            wasi.start(instance);
            return 20000;
        });
    },
    async network() {
        const server = http.createServer((request, response) => response.end('Hello, World!'));

        await new Promise((done) => server.listen(0, '127.0.0.1', done));
        const url = `http://127.0.0.1:${server.address().port}/`;

        await row('fetch_in_process', async () => {
            let bytes = 0;

            for (let i = 0; i < 500; i++) {
                const answers = await Promise.all([fetch(url), fetch(url), fetch(url), fetch(url)]);

                for (const answer of answers) bytes += (await answer.text()).length;
            }
            return bytes;
        }, { unit: 'req/s', per: 2000 });
        server.close();
        server.closeAllConnections?.();
    },
    async tracing() {
        const storage = new AsyncLocalStorage(), idle = channel('idle'), heard = channel('heard');
        let sum = 0;

        heard.subscribe((message) => { sum += message; });
        await row('async_context', loop((i) => storage.run(i, () => storage.getStore())), { unit: 'ns/op', per: 1e6 });
        await row('channel_idle', loop((i) => { if (idle.hasSubscribers) idle.publish(i); }), { unit: 'ns/op', per: 1e6 });
        await row('channel_subscribed', loop((i) => heard.publish(i)), { unit: 'ns/op', per: 1e6 });
    },
    async otel() {
        const tracer = globalThis.Deno?.telemetry?.tracerProvider?.getTracer('rows');

        if (tracer === undefined) lacks('otel_span', 'has no OpenTelemetry of its own');
        else await attempt('otel_span', loop(() => tracer.startSpan('op').end(), 1e5), { unit: 'ns/op', per: 1e5 });
    },
};

await groups[process.argv[2]]();
process.exit(0);
