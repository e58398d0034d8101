// A bare text (/), a file of 64 KiB (/file), and JSON through Hono (/hello), as each runtime serves them
// by itself: a fetch handler for Bun (bun server.mjs), Deno (deno serve server.mjs) and esrun, node:http
// for Node.js.
import { createReadStream, readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import process from 'node:process';

const load = createRequire(`${process.env.MODULES}/`);
const { Hono } = load('hono');
const hostname = process.env.HOST, port = Number(process.env.PORT ?? 3000);
const app = new Hono().get('/hello', (c) => c.json({ message: 'Hello, World!' }));

async function file() {
    if (globalThis.Bun) return new Response(Bun.file('64k.txt'));
    if (globalThis.Deno) return new Response((await Deno.open('64k.txt')).readable);
    return new Response(readFileSync('64k.txt'));
}

function serveNode() {
    const hono = load('@hono/node-server').getRequestListener(app.fetch);

    http.createServer((request, response) => {
        if (request.url === '/') {
            response.setHeader('Content-Type', 'text/plain');
            response.end('Hello, World!');
        } else if (request.url === '/file') {
            createReadStream('64k.txt').pipe(response);
        } else {
            hono(request, response);
        }
    }).listen(port, hostname);
}

if (process.release?.name === 'node' && !globalThis.Bun && !globalThis.Deno) serveNode();

export default {
    hostname,
    port,
    fetch(request) {
        const { pathname } = new URL(request.url);

        if (pathname === '/') return new Response('Hello, World!');
        return pathname === '/file' ? file() : app.fetch(request);
    },
};
