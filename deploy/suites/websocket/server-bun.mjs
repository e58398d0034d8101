// A chat room, as the public Bun chat benchmark has it: when ?clients= of them are in, all get "ready";
// what one says goes to all as "name: text", itself included. Behind /echo, an echo.
let left = new Map(); // how many are missing, by the size of the room
const server = Bun.serve({
  port: +Bun.env.PORT, hostname: Bun.env.HOST ?? "127.0.0.1",
  fetch(request, server) {
    const { pathname, searchParams } = new URL(request.url);
    const data = { echo: pathname === "/echo", name: searchParams.get("name") ?? "anon",
                   clients: +(searchParams.get("clients") ?? 0) };
    return server.upgrade(request, { data }) ? undefined : new Response("WebSocket only", { status: 426 });
  },
  websocket: {
    perMessageDeflate: false, publishToSelf: true,
    open(ws) {
      if (ws.data.echo) return;
      ws.subscribe("room");
      const missing = (left.get(ws.data.clients) ?? ws.data.clients) - 1;
      left.set(ws.data.clients, missing);
      if (missing === 0) setTimeout(() => server.publish("room", "ready"), 100);
    },
    message(ws, text) {
      if (ws.data.echo) ws.send(text);
      else server.publish("room", `${ws.data.name}: ${text}`);
    },
    close(ws) {
      if (!ws.data.echo) left.set(ws.data.clients, left.get(ws.data.clients) + 1);
    },
  },
});
console.log(`listening on ${server.port}`);
