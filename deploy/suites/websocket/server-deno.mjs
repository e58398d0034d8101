// The chat room and the echo of server-bun.mjs, on Deno.
const room = new Set();
Deno.serve({ port: +Deno.env.get("PORT"), hostname: Deno.env.get("HOST") ?? "127.0.0.1" }, (request) => {
  if (request.headers.get("upgrade") !== "websocket") return new Response("WebSocket only", { status: 426 });
  const { pathname, searchParams } = new URL(request.url);
  const name = searchParams.get("name") ?? "anon", clients = +(searchParams.get("clients") ?? 0);
  const { socket, response } = Deno.upgradeWebSocket(request);
  if (pathname === "/echo") {
    socket.onmessage = (event) => socket.send(event.data);
    return response;
  }
  socket.onopen = () => {
    room.add(socket);
    if (room.size === clients) setTimeout(() => { for (const member of room) member.send("ready"); }, 100);
  };
  socket.onmessage = (event) => {
    const text = `${name}: ${event.data}`;
    for (const member of room) member.send(text);
  };
  socket.onclose = () => room.delete(socket);
  return response;
});
