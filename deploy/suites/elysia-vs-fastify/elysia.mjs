// The page's Elysia: `bun build --compile` makes a program of it, and spawn.mjs starts it in many
// processes, which share the port.
import { Elysia } from 'elysia';

new Elysia()
    .get('/', () => 'Hello Elysia')
    .listen({ port: Number(process.env.PORT ?? 3000), hostname: process.env.HOST, reusePort: process.env.REUSE_PORT === '1' });
