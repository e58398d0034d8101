// The chat room and the echo of server-bun.mjs, on Node.js with ws, for Node has no server of its own.
const { WebSocketServer } = require("ws");
const room = new Set();
const server = new WebSocketServer({
  port: +process.env.PORT, host: process.env.HOST ?? "127.0.0.1", perMessageDeflate: false, clientTracking: false,
});
server.on("connection", (socket, request) => {
  const { pathname, searchParams } = new URL(request.url, "http://x");
  const name = searchParams.get("name") ?? "anon", clients = +(searchParams.get("clients") ?? 0);
  socket.on("error", () => {}); // without a listener one bad frame ends the process
  if (pathname === "/echo") {
    socket.on("message", (text, binary) => socket.send(text, { binary }));
    return;
  }
  room.add(socket);
  if (room.size === clients) setTimeout(() => { for (const member of room) member.send("ready"); }, 100);
  socket.on("message", (message) => {
    const text = `${name}: ${message}`;
    for (const member of room) member.send(text);
  });
  socket.on("close", () => room.delete(socket));
});
