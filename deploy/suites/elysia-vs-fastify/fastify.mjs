// The page's Fastify: with its logger (LOG=1) or without, or a worker for each CPU (CLUSTER=1), which
// answers with other words.
import cluster from 'node:cluster';
import { createRequire } from 'node:module';
import { availableParallelism } from 'node:os';

const load = createRequire(`${process.env.MODULES}/`);
const many = process.env.CLUSTER === '1';

if (many && cluster.isPrimary) {
    for (let i = 0; i < availableParallelism(); i++) cluster.fork();
} else {
    const app = load('fastify')({ logger: process.env.LOG === '1' });

    app.get('/', (request, reply) => reply.send(many ? 'Hello world!' : { hello: 'world' }));
    await app.listen({ port: Number(process.env.PORT ?? 3000), host: process.env.HOST });
}
