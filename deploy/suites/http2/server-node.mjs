// node:http, or with HTTP=2 node:http2 without TLS; Bun and Deno run it, too.
import http from 'node:http';
import http2 from 'node:http2';

const large = 'x'.repeat(65536);
const body = (url) => (url === '/large' ? large : 'Hello, World!');
const server =
    process.env.HTTP === '2'
        ? http2.createServer((request, response) => response.end(body(request.url)))
        : http.createServer((request, response) => response.end(body(request.url)));

server.listen(Number(process.env.PORT ?? 3000), process.env.HOST ?? '127.0.0.1');
