// Deno's own server, HTTP/1.1 and HTTP/2 without TLS on one port.
const large = 'x'.repeat(65536);

Deno.serve(
    { hostname: Deno.env.get('HOST') ?? '127.0.0.1', port: Number(Deno.env.get('PORT') ?? 3000) },
    (request) => new Response(request.url.endsWith('/large') ? large : 'Hello, World!'),
);
