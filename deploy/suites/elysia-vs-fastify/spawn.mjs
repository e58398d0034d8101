// The page's spawn.ts: a process of elysia.mjs on each CPU but one, and at least one.
import { availableParallelism } from 'node:os';

const count = Number(process.env.PROCESSES ?? Math.max(1, availableParallelism() - 1));

for (let i = 0; i < count; i++) {
    Bun.spawn([process.execPath, 'elysia.mjs'], {
        stdio: ['ignore', 'inherit', 'inherit'],
        env: { ...process.env, REUSE_PORT: '1' },
    });
}
