// Bun's own server, HTTP/1.1 and HTTP/2 without TLS on one port.
const large = 'x'.repeat(65536);

Bun.serve({
    hostname: Bun.env.HOST ?? '127.0.0.1',
    port: Number(Bun.env.PORT ?? 3000),
    http2: true,
    fetch: (request) => new Response(request.url.endsWith('/large') ? large : 'Hello, World!'),
});
