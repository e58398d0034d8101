// Hello, World! by node:http, on HOST and PORT.
import { createServer } from 'node:http';

const body = Buffer.from('Hello, World!');
const headers = { 'content-type': 'text/plain', 'content-length': body.length };

createServer((request, response) => {
  response.writeHead(200, headers);
  response.end(body);
}).listen(Number(process.env.PORT), process.env.HOST);
