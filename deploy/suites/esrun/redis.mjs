// Rows of a Redis client, CLIENT, against the server on REDIS_PORT: redis, ioredis, or Bun's own.
import { createRequire } from 'node:module';
import process from 'node:process';

const load = createRequire(`${process.env.MODULES}/`);
const url = `redis://127.0.0.1:${process.env.REDIS_PORT}`;
const clients = {
    async redis() {
        const c = load('redis').createClient({ url });

        await c.connect();
        return {
            del: (k) => c.del(k),
            set: (k, v) => c.set(k, v),
            get: (k) => c.get(k),
            push: (k, v) => c.rPush(k, v),
            range: (k) => c.lRange(k, 0, -1),
            hset: (k, f, v) => c.hSet(k, f, v),
            hgetall: (k) => c.hGetAll(k),
            pipeline: (pairs) => Promise.all(pairs.map(([k, v]) => c.set(k, v))),
        };
    },
    async ioredis() {
        const c = new (load('ioredis'))(url);

        return {
            del: (k) => c.del(k),
            set: (k, v) => c.set(k, v),
            get: (k) => c.get(k),
            push: (k, v) => c.rpush(k, ...v),
            range: (k) => c.lrange(k, 0, -1),
            hset: (k, f, v) => c.hset(k, f, v),
            hgetall: (k) => c.hgetall(k),
            async pipeline(pairs) {
                const p = c.pipeline();

                for (const [k, v] of pairs) p.set(k, v);
                await p.exec();
            },
        };
    },
    async bun() {
        const c = new Bun.RedisClient(url);

        await c.connect();
        return {
            del: (k) => c.send('DEL', [k]),
            set: (k, v) => c.set(k, v),
            get: (k) => c.get(k),
            push: (k, v) => c.send('RPUSH', [k, ...v]),
            range: (k) => c.send('LRANGE', [k, '0', '-1']),
            hset: (k, f, v) => c.send('HSET', [k, f, v]),
            hgetall: (k) => c.send('HGETALL', [k]),
            pipeline: (pairs) => Promise.all(pairs.map(([k, v]) => c.set(k, v))),
        };
    },
};
const client = await clients[process.env.CLIENT]();

async function row(metric, run) {
    const before = performance.now();
    const checksum = String(await run());

    console.log(JSON.stringify({ metric, value: performance.now() - before, unit: 'ms', checksum }));
}

const words = Array.from({ length: 50000 }, (_, i) => `word ${i}`);

await client.del('list');
for (let i = 0; i < words.length; i += 1000) await client.push('list', words.slice(i, i + 1000));
for (let i = 0; i < 1000; i++) await client.hset('hash', `field ${i}`, `value ${i}`);
await row('serial_set', async () => {
    for (let i = 0; i < 5000; i++) await client.set(`k${i}`, `v${i}`);
    return 5000;
});
await row('serial_get', async () => {
    let sum = 0;

    for (let i = 0; i < 5000; i++) sum += (await client.get(`k${i}`)).length;
    return sum;
});
await row('pipeline', async () => {
    await client.pipeline(Array.from({ length: 20000 }, (_, i) => [`p${i}`, `v${i}`]));
    return 20000;
});
await row('list', async () => (await client.range('list')).length);
await row('hash', async () => {
    let sum = 0;

    for (let i = 0; i < 200; i++) sum += Object.keys(await client.hgetall('hash')).length;
    return sum;
});
process.exit(0);
